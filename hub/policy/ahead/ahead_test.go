package ahead

import (
	"math/rand/v2"
	"testing"
	"time"

	"souk/bus/policy"
	"souk/market"
)

var start = time.Unix(1_800_000_000, 0)

func served(session policy.ID, prompt, output, thought int) policy.Event {
	return policy.Event{Kind: policy.Served, At: start, Agent: 5, Client: 1, Session: session,
		Usage: market.Usage{Prompt: prompt, Output: output}, Thought: thought, Stop: policy.StopEnd}
}

func room() policy.Room { return policy.Room{Effects: 8, Tokens: 10_000, Work: policy.NewWork(100)} }

// A turn that reasoned is computed ahead once, without its reasoning; one that did not, that was cut, that is
// followed by the next, or of a session that has ended, is not.
func TestTurnsThatReasonedAreComputedAhead(t *testing.T) {
	a := New(100)
	a.Observe(served(1, 1000, 300, 200))
	a.Observe(served(2, 1000, 300, 0))
	cut := served(3, 1000, 300, 200)
	cut.Stop = policy.StopCut
	a.Observe(cut)
	a.Observe(served(4, 1000, 300, 300)) // it said nothing
	a.Observe(served(5, 1000, 300, 200))
	a.Observe(policy.Event{Kind: policy.Arrived, At: start, Client: 1, Session: 5})
	a.Observe(served(6, 1000, 300, 200))
	a.Observe(policy.Event{Kind: policy.Ended, At: start, Session: 6})
	all := a.Act(start.Add(time.Second), room(), nil)
	want := policy.Effect{Kind: policy.Warm, Agent: 5, Session: 1, Tokens: 1100, Until: start.Add(expects)}
	if len(all) != 1 || all[0].Kind != want.Kind || all[0].Session != 1 || all[0].Tokens != want.Tokens ||
		all[0].Agent != 5 || !all[0].Until.Equal(want.Until) {
		t.Errorf("%+v", all)
	}
	if all := a.Act(start.Add(2*time.Second), room(), nil); len(all) > 0 {
		t.Errorf("again: %+v", all)
	}
	a.Observe(served(7, 1000, 300, 200))
	if all := a.Act(start.Add(time.Minute), room(), nil); len(all) > 0 {
		t.Errorf("too late: %+v", all)
	}
}

// However many turns end, what is remembered and asked for is bounded.
func TestAFloodOfTurns(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	g := policy.NewGuard("ahead", New(1000))
	for i := range 100_000 {
		g.Observe(served(rng.Uint64N(1<<40), rng.IntN(4000), rng.IntN(500), rng.IntN(600)))
		if i%100 == 0 {
			g.Act(start, room())
		}
	}
	if s := g.State("keep", start); s.Overruns+s.Panics > 0 || s.Wanted == 0 {
		t.Errorf("%+v", s)
	}
}
