package follow_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/bus/membus"
)

// A seat that cannot be taken, as the registry fails, is named when that begins, once a minute, and when it
// is had.
func TestASeatThatIsAwaitedIsNamedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := membus.New(1).Registry()
		registry.Away(true)
		var log bytes.Buffer
		s := &follow.Seat{Registry: registry, Key: bus.TreasuryKey, Who: "treasury", TTL: 5 * time.Second,
			Log: slog.New(slog.NewTextHandler(&log, nil))}
		time.AfterFunc(10*time.Minute+5*time.Second, func() { registry.Away(false) })
		if err := s.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := log.String(); strings.Count(got, "waiting to be") != 11 || strings.Count(got, "\n") != 12 ||
			registry.Failed() < 1000 {
			t.Errorf("of %d calls that failed in ten minutes it said\n%s", registry.Failed(), got)
		}
		if err := s.Hold(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
		if kvs, err := registry.Get(t.Context(), bus.TreasuryKey); err != nil || len(kvs) > 0 {
			t.Errorf("the seat was left, and is still there: %v, %v", kvs, err)
		}
	})
}

// A second treasury is refused beside one that lives. One whose lease is lost serves on and takes the seat
// again; when another has it, it is told to end.
func TestWhoseSeatItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := membus.New(1)
		registry := world.Registry()
		seat := func(r bus.Registry) *follow.Seat {
			time.Sleep(time.Millisecond) // no two processes begin at once
			return &follow.Seat{Registry: r, Key: bus.TreasuryKey, Who: "treasury",
				TTL: 5 * time.Second, Log: slog.New(slog.DiscardHandler)}
		}
		is := func() string {
			t.Helper()
			kvs, err := registry.Get(t.Context(), bus.TreasuryKey)
			if err != nil || len(kvs) != 1 {
				t.Fatalf("the seat is %v, %v", kvs, err)
			}
			return string(kvs[0].Value)
		}
		one := seat(registry)
		if err := one.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		own := is()
		if err := seat(world.Registry()).Take(t.Context()); err == nil || is() != own ||
			!strings.Contains(err.Error(), "has a treasury already, process") {
			t.Fatalf("a second treasury's seat: %v", err)
		}
		err := one.Hold(t.Context(), func(ctx context.Context) error {
			if err := registry.Delete(ctx, bus.TreasuryKey); err != nil { // its lease is lost
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if is() != own || ctx.Err() != nil {
				t.Error("a treasury that has its seat again is told to end")
			}
			reached := world.Registry()
			registry.Away(true) // whoever lost the seat comes after the other one
			if err := reached.Delete(ctx, bus.TreasuryKey); err != nil {
				t.Fatal(err)
			}
			if err := seat(reached).Take(ctx); err != nil {
				t.Fatalf("another took it: %v", err)
			}
			registry.Away(false)
			if is() == own {
				t.Fatal("another did not take it")
			}
			<-ctx.Done()
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), "has a treasury already, process") {
			t.Errorf("a treasury whose seat another took ended with %v", err)
		}
		if is() == own {
			t.Error("it took the seat back")
		}
	})
}

// The lease of one that has died is waited for, and the log says so; one that lives is not waited for long,
// and the error says what to do.
func TestASeatIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := membus.New(1)
		var log bytes.Buffer
		seat := func(r bus.Registry) *follow.Seat {
			time.Sleep(time.Millisecond) // no two processes begin at once
			return &follow.Seat{Registry: r, Key: bus.DoorKey("d"), Who: "door d", Else: "stop that one",
				TTL: 3 * time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))}
		}
		first := world.Registry()
		if err := seat(first).Take(t.Context()); err != nil || log.Len() > 0 {
			t.Fatalf("%v: %s", err, &log)
		}
		begin := time.Now()
		err := seat(world.Registry()).Take(t.Context())
		if err == nil || !strings.HasPrefix(err.Error(), "the market has a door d already, process ") ||
			!strings.HasSuffix(err.Error(), ": stop that one") || time.Since(begin) > 7*time.Second {
			t.Errorf("beside one that lives, after %v: %v", time.Since(begin), err)
		}
		first.Cut() // it dies, and its lease runs out
		log.Reset()
		begin = time.Now()
		err = seat(world.Registry()).Take(t.Context())
		if got := log.String(); err != nil || time.Since(begin) > 4*time.Second ||
			strings.Count(got, "waiting to be the market's only door d: ") != 1 ||
			strings.Count(got, "the market's only door d\"") != 1 {
			t.Errorf("after one that died it was had after %v: %v\n%s", time.Since(begin), err, got)
		}
	})
}

// forbidding is a registry that does not know a key's user to be one who may write it.
type forbidding struct {
	bus.Registry
	until, from time.Time
}

func (f forbidding) Register(ctx context.Context, key string, value []byte, ttl time.Duration) (bus.Lease,
	error) {
	if now := time.Now(); now.Before(f.until) || !f.from.IsZero() && now.After(f.from) {
		return nil, bus.ErrForbidden
	}
	return f.Registry.Register(ctx, key, value, ttl)
}

// Whom the registry does not let hold its key runs without the seat, and says so; a user that is new there is
// let in a moment later, and has it.
func TestASeatThatIsNotPermitted(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration // it is permitted
		took  time.Duration
		has   int
	}{
		"a new user":     {time.Second, time.Second, 1},
		"one never told": {time.Hour, 3 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				registry := forbidding{Registry: membus.New(1).Registry(), until: time.Now().Add(c.after)}
				s := &follow.Seat{Registry: registry, Key: "k", Who: "door d", TTL: 3 * time.Second,
					Log: slog.New(slog.NewTextHandler(&log, nil))}
				begin := time.Now()
				if err := s.Take(t.Context()); err != nil || time.Since(begin) < c.took ||
					time.Since(begin) > c.took+time.Second {
					t.Fatalf("it was taken after %v: %v", time.Since(begin), err)
				}
				if said := strings.Contains(log.String(), "a second door d would not be noticed"); said != (c.has == 0) {
					t.Errorf("it says\n%s", &log)
				}
				err := s.Hold(t.Context(), func(ctx context.Context) error {
					if kvs, err := registry.Get(ctx, "k"); err != nil || len(kvs) != c.has {
						t.Errorf("the key is %v, %v", kvs, err)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Whoever lost its seat for good, since its user was taken from the registry, says so once and goes on.
func TestASeatThatIsPermittedNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		registry := forbidding{Registry: membus.New(1).Registry(), from: time.Now().Add(time.Second)}
		s := &follow.Seat{Registry: registry, Key: "k", Who: "door d", TTL: 3 * time.Second,
			Log: slog.New(slog.NewTextHandler(&log, nil))}
		if err := s.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := s.Hold(t.Context(), func(ctx context.Context) error {
			time.Sleep(2 * time.Second)
			if err := registry.Delete(ctx, "k"); err != nil { // its lease is lost
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			return ctx.Err()
		})
		if got := log.String(); err != nil || strings.Count(got, "lease lost") != 1 ||
			strings.Count(got, "would not be noticed") != 1 {
			t.Errorf("%v\n%s", err, got)
		}
	})
}

// A lease of its own that the registry still has keeps nobody out of its seat. That of another is waited for
// anew after an outage, which may have prolonged it.
func TestASeatAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := membus.New(1)
		seat := func(r bus.Registry) *follow.Seat {
			time.Sleep(time.Millisecond)
			return &follow.Seat{Registry: r, Key: "k", Who: "door d", TTL: 3 * time.Second,
				Log: slog.New(slog.DiscardHandler)}
		}
		first, begin := seat(world.Registry()), time.Now()
		for range 2 {
			if err := first.Take(t.Context()); err != nil || time.Since(begin) > time.Millisecond {
				t.Fatalf("after %v: %v", time.Since(begin), err)
			}
		}
		failing := world.Registry()
		time.AfterFunc(2*time.Second, func() { failing.Away(true) })
		time.AfterFunc(20*time.Second, func() { failing.Away(false) })
		time.AfterFunc(22*time.Second, func() {
			if err := first.Registry.Delete(t.Context(), "k"); err != nil {
				t.Error(err)
			}
		})
		if err := seat(failing).Take(t.Context()); err != nil {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
	})
}
