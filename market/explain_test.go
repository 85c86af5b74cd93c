package market

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
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
				if tx.Award != nil {
					continue
				}
				losers++
				for _, step := range []Credits{1, -1} {
					if op.Needed+step < op.Value {
						continue // it says so already, and the tie-break left it out
					}
					bid := r
					bid.Edges = slices.Clone(r.Edges)
					for i, e := range bid.Edges {
						if e.Task == j && r.Agents[e.Agent].Agent == op.Agent {
							bid.Edges[i].Value = op.Needed + step
						}
					}
					o, err := Clear(bid)
					if err != nil {
						t.Fatal(err)
					}
					i := slices.IndexFunc(o.Awards, func(a Award) bool { return a.Task == tx.Task })
					if step > 0 && i < 0 || step < 0 && i >= 0 && o.Awards[i].Agent == op.Agent {
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
		Tasks: []Task{{ID: "alice/1", Client: "alice"}, {ID: "alice/2", Client: "alice"},
			{ID: "bob/1", Client: "bob"}, {ID: "bob/2", Client: "bob"}},
		Agents: []Supply{{"a", []Tier{{1, 0}, {1, -2 * Credit}}}, {"b", []Tier{{1, 0}}}},
		Edges: []Edge{
			{0, 0, 20 * Credit, 2 * Credit, -Credit}, {0, 1, 14 * Credit, 2 * Credit, 0},
			{1, 0, 12 * Credit, 2 * Credit, 0},
			{2, 0, 10 * Credit, 2 * Credit, 0}, {3, 0, 7 * Credit, 2 * Credit, 0},
		}}
	o, err := Clear(r)
	if err != nil {
		t.Fatal(err)
	}
	x, err := Explain(r, o)
	if err != nil {
		t.Fatal(err)
	}
	const want = `round math-42: welfare 25 (pricing vcg, settle metered, clarke client)

alice/1: served by b, tier 0
  premium 1 = slot price 0 + congestion charge 0 + regime toll 0 + fee 1
  as quoted it pays 3 = cost 2 + premium 1, of a value of 14, and keeps 11 (the paper's p_j, Eq. 8: 2)
  a: value 20 - cost 2 - toll 2 - slot price 5 = 11; at these prices as good
  b: value 14 - cost 2 - toll 1 - slot price 0 = 11  < here

alice/2: served by a, tier 0
  premium 5 = slot price 5 - 1, priced with the client's other tasks + congestion charge 0 + regime toll 0 + fee 1
  as quoted it pays 7 = cost 2 + premium 5, of a value of 12, and keeps 5 (the paper's p_j, Eq. 8: 7)
  a: value 12 - cost 2 - toll 1 - slot price 5 = 4  < here

bob/1: served by a, tier 1
  premium 6 = slot price 3 + congestion charge 2 + regime toll 0 + fee 1
  as quoted it pays 8 = cost 2 + premium 6, of a value of 10, and keeps 2 (the paper's p_j, Eq. 8: 5)
  a: value 10 - cost 2 - toll 3 - slot price 3 = 2  < here

bob/2: left out, pays nothing
  a: value 7 - cost 2 - toll 1 - slot price 5 = -1; a value above 10 would have won it

clients with several tasks, priced together
  alice: its tasks together cost the others 4, one by one they would have paid 5 for their slots
  bob: its tasks together cost the others 3, one by one they would have paid 3 for their slots

slots
  a tier 0: 1 of 1 used, slot price 5: alice/1 would move here from b tier 0 (slot price 0): one more slot here adds that price and what the move gains
  a tier 1: 1 of 1 used, slot price 3: alice/1 would move here from b tier 0 (slot price 0): one more slot here adds that price and what the move gains
  b tier 0: 1 of 1 used, slot price 0: it is full, and one more slot would add nothing
`
	if d := cmp.Diff(want, x.String()); d != "" {
		t.Error(d)
	}
	o.Welfare++
	if _, err := Explain(r, o); !errors.Is(err, ErrOutcome) {
		t.Errorf("a false outcome is explained: %v", err)
	}
}
