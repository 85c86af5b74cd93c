package main

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// processor begins to count the processor time of the thread that the goroutine at hand has from now on, and
// alone: what else wants a processor has no part in it.
func processor() func() time.Duration {
	runtime.LockOSThread()
	return func() time.Duration {
		var t unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
			return 0
		}
		return time.Duration(t.Nano())
	}
}
