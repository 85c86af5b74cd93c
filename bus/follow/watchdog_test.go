package follow

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A call that does not come back within seconds is noticed, and named; calls that do, however many, are not.
func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		var w Watchdog
		hung := make(chan string, 1)
		go w.Run(ctx, func(policy string) { hung <- policy })
		for range 100 {
			w.Enters("quick")
			time.Sleep(Hangs - time.Second)
			w.Enters("")
		}
		select {
		case name := <-hung:
			t.Fatalf("%s came back, and is said to hang", name)
		default:
		}
		began := time.Now()
		w.Enters("stuck")
		if name := <-hung; name != "stuck" {
			t.Errorf("%s hangs", name)
		}
		if late := time.Since(began); late > 2*Hangs {
			t.Errorf("noticed after %v", late)
		}
	})
}

// A process that was stopped in the middle of a call, and goes on, has hung in nothing.
func TestAWatchdogThatSleptSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		var w Watchdog
		go w.Run(ctx, func(policy string) { t.Errorf("%s hangs", policy) })
		w.Enters("quick")
		w.since.Store(time.Now().Add(-time.Minute).UnixNano())
		time.Sleep(Hangs/5 + time.Millisecond)
		w.Enters("")
		time.Sleep(Hangs)
	})
}

func TestPoliciesThatHungAreNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hung")
	if names, err := ReadHung(path); err != nil || len(names) > 0 {
		t.Errorf("without a file: %v, %v", names, err)
	}
	for _, name := range []string{"a", "b"} {
		if err := WriteHung(path, name); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := ReadHung(path); err != nil || !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("%v, %v", names, err)
	}
	if _, err := ReadHung(t.TempDir()); err == nil {
		t.Error("a directory is read")
	}
}
