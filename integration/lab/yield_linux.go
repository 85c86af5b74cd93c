package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// yield has this process run where no other wants to: each of its threads, and those that they start, by
// SCHED_IDLE of sched(7). A nice value would bind the calling thread alone, and let it keep a processor for
// some milliseconds that others wait for.
func yield() error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			return fmt.Errorf("thread %q: %w", t.Name(), err)
		}
		err = unix.SchedSetAttr(id, &unix.SchedAttr{Policy: unix.SCHED_IDLE}, 0)
		if err != nil && !errors.Is(err, unix.ESRCH) { // it has ended
			return fmt.Errorf("thread %d: %w", id, err)
		}
	}
	return nil
}
