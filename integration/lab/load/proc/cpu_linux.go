package proc

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// CPU is the processor time, user and system, that all threads of a process have used so far, in nanoseconds:
// the clock that clock_getcpuclockid(3) names. /proc/PID/stat counts hundredths of a second.
func CPU(pid int) (time.Duration, error) {
	const sched = 2 // CPUCLOCK_SCHED
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|sched, &t); err != nil {
		return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}
