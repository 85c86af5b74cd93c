package market

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"souk/bus/bustest/golden"
)

// What Explain tells a loser is true to the nano-credit: with one more it is served, with one less it is not
// served there.
func TestWhatALoserWouldHaveHadToBid(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 50))
	losers := 0
	for n := range times(1500) {
		r := randomRound(rng, 7, 3, []int64{6, 30, 1000}[n%3])
		o, err := Clear(r)
		if err != nil {
			t.Fatal(err)
		}
		x, err := Explain(r, o)
		if err != nil {
			t.Fatal(err)
		}
		for j, tx := range x.Tasks {
			for _, op := range tx.Options {
				if tx.Award != nil || tx.Planned != nil {
					continue
				}
				losers++
				for _, step := range []Credits{1, -1} {
					raise := op.Needed - op.Value + step
					if raise < 0 {
						continue // it says so already, and the tie-break left it out
					}
					bid := r
					bid.Edges = slices.Clone(r.Edges)
					for i, e := range bid.Edges {
						if e.Task == j && r.Agents[e.Agent].Agent == op.Agent {
							bid.Edges[i].Value += raise
						}
					}
					o, err := Clear(bid)
					if err != nil {
						t.Fatal(err)
					}
					at := AgentID("")
					for _, p := range placesOf(&bid, &o) {
						if p.task == j {
							at = bid.Agents[p.agent].Agent
						}
					}
					if step > 0 && at == "" || step < 0 && at == op.Agent {
						t.Fatalf("seed %d, round %d: %s at %s needs %d, bids %d: awards %+v\n%+v", seed, n,
							tx.Task, op.Agent, op.Needed, op.Needed+step, o.Awards, r)
					}
				}
			}
		}
	}
	if losers == 0 {
		t.Error("nobody lost: the test sees nothing")
	}
}

func TestExplanation(t *testing.T) {
	r := Round{Domain: "math", Number: 42,
		Rule: Rule{Pricing: PricingVCG, Settle: SettleMetered, Clarke: ClarkeClient}, Fee: Credit,
		Tasks: []Task{{ID: "alice/1", Client: "alice", Second: 50 * Credit}, {ID: "alice/2", Client: "alice"},
			{ID: "bob/1", Client: "bob"}, {ID: "bob/2", Client: "bob"}},
		Agents: []Supply{{"a", []Seat{{Slots: 1}, {1, 40 * time.Millisecond, true}}},
			{"b", []Seat{{1, 12 * time.Millisecond, false}}}, {"c", nil}},
		Others: []Edge{{0, 2, 15 * Credit, 2 * Credit, -Credit, 0}},
		Edges: []Edge{
			{0, 0, 20 * Credit, 2 * Credit, -2 * Credit, Credit},
			{0, 1, 14*Credit + 600_000_000, 2 * Credit, 0, 0},
			{1, 0, 12 * Credit, 2 * Credit, -2 * Credit, Credit},
			{2, 0, 10 * Credit, 2 * Credit, 0, 0}, {3, 0, 7 * Credit, 2 * Credit, 0, 0},
		}}
	o, err := Clear(r)
	if err != nil {
		t.Fatal(err)
	}
	x, err := Explain(r, o)
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "explanation", x.String())
	o.Welfare++
	if _, err := Explain(r, o); !errors.Is(err, ErrOutcome) {
		t.Errorf("a false outcome is explained: %v", err)
	}
}
