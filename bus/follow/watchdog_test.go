package follow

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
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
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	var off []string
	turnsOff := func(name string) bool { off = append(off, name); return name == "b" }
	for _, h := range []Hung{"", Hung(filepath.Join(t.TempDir(), "hung"))} {
		if err := h.Without(log, turnsOff); err != nil || len(off) > 0 {
			t.Errorf("without a file: %v, %v", off, err)
		}
		code := 0
		for _, name := range []string{"a", "b"} {
			if h.End(log, name, func(c int) { code = c }); code != ExitHung {
				t.Errorf("%s ends it with status %d", name, code)
			}
		}
		if h == "" {
			continue
		}
		if err := h.Without(log, turnsOff); err != nil || !slices.Equal(off, []string{"a", "b"}) {
			t.Errorf("%v, %v", off, err)
		}
	}
	if got := text.String(); strings.Count(got, "does not come back") != 4 ||
		strings.Count(got, "is off") != 1 {
		t.Errorf("it said\n%s", got)
	}
	if err := Hung(t.TempDir()).Without(log, turnsOff); err == nil {
		t.Error("a directory is read")
	}
}
