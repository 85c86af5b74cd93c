package proc_test

import (
	"os"
	"syscall"
	"testing"
	"time"

	"souk/integration/lab/load/proc"
)

// What this process has used lies between what it says of itself before and after.
func TestCPUOfThisProcess(t *testing.T) {
	own := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	for range 20 {
		before := own()
		for end := time.Now().Add(time.Millisecond); time.Now().Before(end); {
		}
		used, err := proc.CPU(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if after := own(); used < before-time.Millisecond || used > after+time.Millisecond {
			t.Errorf("%v, not between %v and %v", used, before, after)
		}
	}
	if _, err := proc.CPU(1 << 22); err == nil {
		t.Error("a process that is not there has used something")
	}
}
