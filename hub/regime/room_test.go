package regime

import (
	"testing"
	"time"

	"souk/hub/turn"
	"souk/ledger"
)

func newTestRoom() (*Room, *turn.Turn) {
	t := turn.New("hub-math", "math", ledger.NewBook(), [32]byte{1})
	t.Advance(time.Unix(1_800_000_000, 0))
	return New(&t), &t
}

// A room sees that its domain is full, and says once that this has changed.
func TestARoomSeesItsDomain(t *testing.T) {
	r, x := newTestRoom()
	said := 0
	for range 60 {
		r.Served(time.Minute, 30*time.Millisecond, 20*time.Millisecond)
		r.Observe(func() int { return 4 }, func(tell *Watch) {
			for range 40 {
				tell.Waits(10*time.Minute, 0, 20*time.Millisecond, 1)
			}
		})
		if x.Changed {
			said, x.Changed = said+1, false
		}
		x.Advance(x.Now().Add(time.Second))
	}
	if r.State() != Saturated || said != int(Saturated) {
		t.Errorf("%s, said %d times", r.State(), said)
	}
}

// However many end unserved at once, as many are spoken for, and few are looked at.
func TestUnservedAreSampled(t *testing.T) {
	r, x := newTestRoom()
	for _, many := range []int{1, mostMissed, 10_000} {
		looked, spoken := 0, 0
		for range many {
			before := r.past[r.at].turned
			r.Unserved(time.Second, func() (time.Duration, bool) { looked++; return time.Second, true })
			spoken += r.past[r.at].turned - before
		}
		if spoken < many-many/8 || spoken > many || many > mostMissed && looked > many/4 {
			t.Errorf("of %d that end %d are looked at, for %d", many, looked, spoken)
		}
		x.Advance(x.Now().Add(1))
	}
}

// Stats say how full caches are of what runs and waits.
func TestStats(t *testing.T) {
	r, _ := newTestRoom()
	if s := r.Stats(50, 200); s.State != "below" || s.Level != 0 || s.Rho != 0.25 || s.Slowdown != 1 ||
		s.Serves != 0 {
		t.Errorf("%+v", s)
	}
	if s := r.Stats(50, 0); s.Rho != 0 {
		t.Errorf("nobody says what caches hold, and they are full to %v", s.Rho)
	}
}
