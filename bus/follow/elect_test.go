package follow_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/bus/life"
	"souk/bus/membus"
)

// A leadership is ended for a life that is proven to have ended, and for nothing else that may stand there:
// that is waited for, named once with the reason, counted, and left as it is.
func TestWhatALeadershipIsEndedFor(t *testing.T) {
	dir := t.TempDir()
	had, err := life.Take(dir)
	if err != nil {
		t.Fatal(err)
	}
	had.Begin("0", true)
	before := had.Life()
	had.Close()
	if had, err = life.Take(dir); err != nil {
		t.Fatal(err)
	}
	defer had.Close()
	strange := strings.Split(before, ".")
	strange[1] = strings.Repeat("A", len(strange[1]))
	for name, c := range map[string]struct {
		value, why string
		ended      bool
	}{
		"an earlier life": {fmt.Sprintf(`{"life":%q}`, before), "", true},
		"its own":         {fmt.Sprintf(`{"life":%q}`, had.Life()), "", true},
		"of another machine": {fmt.Sprintf(`{"life":%q}`, strings.Join(strange, ".")), "none of the last",
			false},
		"of no name":   {`{"life":""}`, "says nothing of itself", false},
		"no life":      {`{}`, "says nothing of itself", false},
		"slashes":      {`{"life":"../../LIVES"}`, "no name of a run", false},
		"too long":     {`{"life":"` + strings.Repeat("A", 1<<15) + `"}`, "no name of a run", false},
		"bytes":        {"{\"life\":\"\xff\x00\x1b[2J\"}", "says nothing of itself", false},
		"another type": {`{"life":["` + before + `"],"pid":"x"}`, "says nothing of itself", false},
		"no JSON":      {before, "says nothing of itself", false},
		"nothing":      {"", "says nothing of itself", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				world := membus.New(1)
				there, err := world.Registry().Elect(t.Context(), "k", []byte(c.value), time.Hour)
				if err != nil {
					t.Fatal(err)
				}
				var log bytes.Buffer
				stands := &follow.Candidate{Registry: world.Registry(), Key: "k", TTL: 5 * time.Second,
					Who: "hub", Value: []byte(`{"journal":"j"}`), Life: had.Life(), Ended: had.Ended,
					Moved: had.Moved,
					Log:   slog.New(slog.NewTextHandler(&log, nil))}
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				begun := time.Now()
				l, err := stands.Elect(ctx)
				if c.ended {
					if err != nil || time.Since(begun) > time.Second || stands.Awaited() != 0 ||
						l.Epoch() <= there.Epoch() {
						t.Errorf("after %v: %v\n%s", time.Since(begun), err, &log)
					}
					return
				}
				got := log.String()
				if err == nil || stands.Awaited() != 1 || strings.Count(got, "\n") != 1 ||
					!strings.Contains(got, "standing by: another hub leads") || !strings.Contains(got, c.why) ||
					!strings.Contains(got, "within=5s") {
					t.Errorf("%v, %d counted\n%s", err, stands.Awaited(), got)
				}
				kvs, err := world.Registry().Get(t.Context(), "k")
				if err != nil || len(kvs) != 1 || string(kvs[0].Value) != c.value ||
					kvs[0].Rev != there.Epoch() {
					t.Errorf("the key is %+v, %v", kvs, err)
				}
			})
		})
	}
}

// One that stood by on another journal, or on what may be a copy, gives way to who led, whether that one's
// lease ends or it ends that itself, as it was started again: its journal knows the tasks. Where it does not
// come back the other leads after half a second. The original gives way to no copy of it.
func TestWhoStoodByGivesWay(t *testing.T) {
	for _, c := range []struct {
		journal     string
		moved       bool
		ends, again bool // its lease ends by itself; it is started again
		first       string
	}{
		{"another", false, true, true, "led"},
		{"another", false, false, true, "led"},
		{"another", false, true, false, "stood by"},
		{"j", true, true, true, "led"},
		{"j", false, true, true, "stood by"},
	} {
		synctest.Test(t, func(t *testing.T) {
			world := membus.New(1)
			value := []byte(`{"life":"first","journal":"j"}`)
			old, err := world.Registry().Elect(t.Context(), "k", value, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			won := make(chan string, 2)
			stand := func(name, journal, earlier string) {
				c := &follow.Candidate{Registry: world.Registry(), Key: "k", TTL: 5 * time.Second, Who: "hub",
					Value: fmt.Appendf(nil, `{"journal":%q}`, journal), Life: name,
					Moved: func() bool { return c.moved },
					Ended: func(life string) (bool, string) { return life == earlier, "it lives" },
					Log:   slog.New(slog.DiscardHandler)}
				if _, err := c.Elect(t.Context()); err == nil {
					won <- name
				}
			}
			go stand("stood by", c.journal, "")
			time.Sleep(time.Minute)
			begun := time.Now()
			if c.ends {
				if err := old.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(100 * time.Millisecond) // it is there a moment later
			}
			if c.again {
				go stand("led", "j", "first")
			}
			if got := <-won; got != c.first || time.Since(begun) > time.Second {
				t.Errorf("%+v: after %v the one that %s leads", c, time.Since(begun), got)
			}
			if c.again {
				if err := bus.Registry(world.Registry()).Delete(t.Context(), "k"); err != nil {
					t.Fatal(err)
				}
				<-won
			}
		})
	}
}
