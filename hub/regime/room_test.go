package regime

import (
	"slices"
	"testing"
	"time"

	"souk/hub/estimate"
	"souk/hub/turn"
	"souk/ledger"
	"souk/market"
)

// flat is a toll by what stands in its arguments.
type flat struct{}

func (flat) Draw(seed [32]byte, task, agent string) float64 { return float64(len(task) + len(agent)) }
func (flat) Of(p Params, scale market.Credits, draw, most float64, saved market.Credits) market.Credits {
	return -scale*market.Credits(most-draw) - market.Credits((1-p.Overlap)*float64(saved))
}

func newTestRoom(c Control, below Params) (*Room, *turn.Turn) {
	t := turn.New("hub-math", "math", ledger.NewBook(), [32]byte{1})
	t.Advance(time.Unix(1_800_000_000, 0))
	return New(&t, c, below, flat{}), &t
}

// busy has many tasks wait ten minutes each in a domain of four slots while readings are taken for so long,
// and returns how often charges changed.
func busy(r *Room, x *turn.Turn, length time.Duration) int {
	charged := 0
	for end := x.Now().Add(length); x.Now().Before(end); x.Advance(x.Now().Add(time.Second)) {
		r.Served(time.Minute, 30*time.Millisecond, 20*time.Millisecond)
		if r.Observe(func() int { return 4 }, func(tell *Watch) {
			for range 40 {
				tell.Waits(10*time.Minute, 0, 20*time.Millisecond, 1)
			}
		}) {
			charged++
		}
	}
	return charged
}

// Below the knee, or where nothing follows, a round is charged by the parameters that hold always; above it
// by the regime's, where that is to be, and only then does the round name what was charged.
func TestARoomCharges(t *testing.T) {
	control := DefaultControl()
	r, x := newTestRoom(control, Default())
	if got := charged(r, 1); !slices.Equal(got, []market.Credits{0, -7}) {
		t.Errorf("parameters that charge nothing charge %v", got)
	}
	if busy(r, x, time.Minute) > 0 || r.State() == Below || !x.Changed || charged(r, 2)[0] != 0 {
		t.Errorf("%s, and a round is charged though nothing follows", r.State())
	}
	r, _ = newTestRoom(control, Params{Overlap: 0.5})
	// the mean costs 20; two letters less are drawn for the first, of which the cache saves 40
	got, want := charged(r, 1), []ledger.Set{{Policy: "regime", Task: "t", Agent: "a", Toll: -60}}
	if !slices.Equal(got, []market.Credits{-60, -7}) || !slices.Equal(r.Sets(), want) {
		t.Errorf("charged %v, named %v", got, r.Sets())
	}
	control.Adapt, control.Transition, control.Saturated = true, Params{Overlap: 0}, Params{Overlap: 0}
	r, x = newTestRoom(control, Default())
	changed := busy(r, x, time.Minute)
	got = charged(r, 1)
	if changed != 1 || r.Params().Overlap != 0 || got[0] == 0 {
		t.Fatalf("%s: the charge has changed %d times", r.State(), changed)
	}
	want = []ledger.Set{{Policy: "regime-" + r.State().String(), Task: "t", Agent: "a", Toll: -80}}
	if !slices.Equal(got, []market.Credits{-80, -7}) || !slices.Equal(r.Sets(), want) {
		t.Errorf("charged %v, named %v", got, r.Sets())
	}
	if r.Charge(2, [32]byte{}, nil, nil, nil); len(r.Sets()) > 0 {
		t.Error("a round names what the last one charged")
	}
}

// charged returns the charges of a task for each of two agents in a round, the second of which charges it 7
// already.
func charged(r *Room, number uint64) (all []market.Credits) {
	from := estimate.Snapshot{Agents: []estimate.Agent{{ID: "a"}, {ID: "none"}, {ID: "abc"}}}
	offers := []estimate.Offer{{Estimate: &estimate.Estimate{Cost: 10}},
		{Estimate: &estimate.Estimate{Cost: 30}, Agent: 2, Extra: -7}}
	r.Charge(number, [32]byte{}, &from, []estimate.Waiter{{ID: "t", Offers: offers}, {ID: "nowhere"}},
		func(o *estimate.Offer) market.Credits {
			if o.Agent == 0 {
				return 40
			}
			return 0
		})
	for _, o := range offers {
		all = append(all, o.Extra)
	}
	return all
}

// However many end unserved at once, as many are spoken for, and few are looked at.
func TestUnservedAreSampled(t *testing.T) {
	r, x := newTestRoom(DefaultControl(), Default())
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

// Stats say what is charged, and how full caches are of what runs and waits.
func TestStats(t *testing.T) {
	r, _ := newTestRoom(DefaultControl(), Params{Temperature: 2, Overlap: 0.5})
	if s := r.Stats(50, 200); s.State != "below" || s.Level != 0 || s.Temperature != 2 || s.Overlap != 0.5 ||
		s.Rho != 0.25 || s.Slowdown != 1 || s.Serves != 0 {
		t.Errorf("%+v", s)
	}
	if s := r.Stats(50, 0); s.Rho != 0 {
		t.Errorf("nobody says what caches hold, and they are full to %v", s.Rho)
	}
}
