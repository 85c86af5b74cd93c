package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/membus"
	"souk/ledger/treasury/serve"
)

// A seat that cannot be taken, as the registry fails, is named when that begins, once a minute, and when it
// is had.
func TestASeatThatIsAwaitedIsNamedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := &bustest.Failing{Registry: membus.New(1).Registry()}
		registry.Away(true)
		var log bytes.Buffer
		s := &serve.Seat{Registry: registry, TTL: 5 * time.Second, Life: "l",
			Log: slog.New(slog.NewTextHandler(&log, nil))}
		time.AfterFunc(10*time.Minute+5*time.Second, func() { registry.Away(false) })
		if err := s.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := log.String(); strings.Count(got, "waiting to be") != 11 || strings.Count(got, "\n") != 12 ||
			registry.Calls() < 1000 {
			t.Errorf("of %d calls that failed in ten minutes it said\n%s", registry.Calls(), got)
		}
		if err := s.Hold(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
		if kvs, err := registry.Get(t.Context(), bus.TreasuryKey); err != nil || len(kvs) > 0 {
			t.Errorf("the seat was left, and is still there: %v, %v", kvs, err)
		}
	})
}

// The lease of an earlier life is ended at once; that of a treasury that lives is not, whoever asks. A
// treasury whose lease is lost serves on and takes the seat again; when another has it, it is told to end.
func TestWhoseSeatItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := membus.New(1).Registry()
		seat := func(life string, ended ...string) *serve.Seat {
			return &serve.Seat{Registry: registry, TTL: 5 * time.Second, Life: life,
				Log:   slog.New(slog.DiscardHandler),
				Ended: func(l string) bool { return strings.Contains(strings.Join(ended, " "), l) }}
		}
		has := func(life string) {
			t.Helper()
			kvs, err := registry.Get(t.Context(), bus.TreasuryKey)
			var h struct{ Life string }
			if err != nil || len(kvs) != 1 || json.Unmarshal(kvs[0].Value, &h) != nil || h.Life != life {
				t.Fatalf("the seat is %v, %v; want it to be that of %s", kvs, err, life)
			}
		}
		begin := time.Now()
		if err := seat("one").Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		two := seat("two", "one")
		if err := two.Take(t.Context()); err != nil || time.Since(begin) > 0 {
			t.Fatalf("after an earlier life it was had after %v: %v", time.Since(begin), err)
		}
		has("two")
		if err := seat("three").Take(t.Context()); err == nil ||
			!strings.Contains(err.Error(), "has a treasury already, process") {
			t.Fatalf("a second treasury's seat: %v", err)
		}
		has("two")
		err := two.Hold(t.Context(), func(ctx context.Context) error {
			if err := registry.Delete(ctx, bus.TreasuryKey); err != nil { // its lease is lost
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			has("two")
			if ctx.Err() != nil {
				t.Error("a treasury that has its seat again is told to end")
			}
			if err := seat("four", "two").Take(ctx); err != nil {
				t.Fatal(err)
			}
			<-ctx.Done()
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), "has a treasury already, process") {
			t.Errorf("a treasury whose seat another took ended with %v", err)
		}
		has("four")
	})
}
