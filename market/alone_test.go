package market_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"souk/market"
)

// aloneRound is a round of one task as hubs make them, and odder: few weights, so that many are equal or 0,
// full agents, tiers, tolls, a fee, tariffs, a wait, and now and then amounts as large as may be.
func aloneRound(rng *rand.Rand) market.Round {
	r := market.Round{Domain: "math", Number: 1 + rng.Uint64N(9), Rule: market.DefaultRule,
		Fee:   market.Credits(rng.IntN(3)),
		Tasks: []market.Task{{ID: "ann/t", Client: "ann"}}}
	r.Prev[0] = byte(rng.IntN(256))
	if rng.IntN(2) == 0 {
		r.Rule.Clarke = market.ClarkeTask
	}
	if rng.IntN(4) == 0 {
		r.Rule.Pricing = market.PricingTariff
	}
	unit := market.Credits(1)
	if rng.IntN(8) == 0 {
		unit = market.MaxWorth / 16
	}
	amount := func(most int) market.Credits { return unit * market.Credits(rng.IntN(most+1)) }
	if rng.IntN(3) == 0 {
		w := market.Wait{Agent: "else", Value: amount(12), Cost: amount(3),
			Share: uint32(rng.IntN(1_000_001))}
		if w.Loss = w.Sum(r.Fee); w.Loss > 0 {
			r.Tasks[0].Wait = &w
		}
	}
	tariff := amount(2)
	for i := range 1 + rng.IntN(12) {
		s := market.Supply{Agent: market.AgentID(fmt.Sprintf("a-%02d", i))}
		toll := -amount(rng.IntN(3))
		for range rng.IntN(4) { // none: it is full
			s.Tiers = append(s.Tiers, market.Tier{Slots: 1 + rng.IntN(3), Toll: toll})
			toll -= 1 + amount(2)
		}
		r.Agents = append(r.Agents, s)
		if r.Rule.Pricing == market.PricingTariff {
			r.Sellers = append(r.Sellers, market.Seller{Owner: string(s.Agent), Class: "c", Tariff: tariff})
		}
		if rng.IntN(5) == 0 {
			continue // it may not go there
		}
		e := market.Edge{Agent: i, Value: amount(14), Cost: tariff + amount(6)}
		part := market.Toll{}
		if rng.IntN(2) == 0 {
			part = market.Toll{Load: -amount(1), Age: -amount(1), Beside: -amount(1)}
		}
		e.Toll = part.Load + part.Age + part.Beside - amount(1)
		r.Edges, r.Parts = append(r.Edges, e), append(r.Parts, part)
	}
	if r.Rule.Pricing != market.PricingTariff || rng.IntN(2) == 0 {
		r.Parts = nil
	}
	return r
}

// weight is what serving an edge of a round of one task adds, beyond what waiting would.
func weight(r *market.Round, e market.Edge) (w market.Credits, ok bool) {
	tiers := r.Agents[e.Agent].Tiers
	if len(tiers) == 0 {
		return 0, false
	}
	w = e.Value - e.Cost + e.Toll + tiers[0].Toll - r.Fee
	if wait := r.Tasks[0].Wait; wait != nil {
		w -= wait.Loss
	}
	return w, w >= 0
}

// A task alone goes where it is worth most, to the first tier, for its toll and the fee: whether its round is
// cleared whole or pruned first. By looking at each agent, with nothing of the solver.
func TestATaskAloneGoesWhereItIsWorthMost(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	var pruner market.Pruner
	seen := map[string]int{}
	for n := range 20_000 {
		r := aloneRound(rng)
		where := fmt.Sprintf("seed %d, round %d", seed, n)
		if err := r.Validate(); err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		most, best := market.Credits(-1), []market.Edge(nil)
		for _, e := range r.Edges {
			switch w, ok := weight(&r, e); {
			case ok && w > most:
				most, best = w, []market.Edge{e}
			case ok && w == most:
				best = append(best, e)
			}
		}
		want := func(e market.Edge) market.Outcome {
			toll := e.Toll + r.Agents[e.Agent].Tiers[0].Toll - r.Fee
			return market.Outcome{Welfare: e.Value - e.Cost + toll, Awards: []market.Award{{Task: "ann/t",
				Agent: r.Agents[e.Agent].Agent, Value: e.Value, Cost: e.Cost, Toll: toll, Premium: -toll}}}
		}
		cleared := func(r market.Round, from []market.Edge) {
			t.Helper()
			o, err := market.Clear(r)
			if err == nil {
				err = market.Check(r, o)
			}
			if err != nil {
				t.Fatalf("%s: %v", where, err)
			}
			if both, err := market.ClearChecked(&r, nil); err != nil || !gocmp.Equal(both, o) {
				t.Fatalf("%s: cleared and checked: %v %+v, and cleared %+v", where, err, both, o)
			}
			if len(from) == 0 {
				if !gocmp.Equal(o, market.Outcome{}) {
					t.Fatalf("%s: nothing is worth it, and the outcome is %+v", where, o)
				}
				return
			}
			for _, e := range from {
				if gocmp.Equal(o, want(e)) {
					return
				}
			}
			t.Fatalf("%s: %+v, want one of %+v", where, o, from)
		}
		cleared(r, best)
		// and as a hub does: agents by lot, pruned, and sorted again
		lot := rng.Perm(len(r.Agents))
		mixed, place := r, make([]int, len(lot))
		mixed.Agents, mixed.Sellers, mixed.Edges, mixed.Parts = nil, nil, slices.Clone(r.Edges), nil
		for i, k := range lot {
			mixed.Agents, place[k] = append(mixed.Agents, r.Agents[k]), i
			if len(r.Sellers) > 0 {
				mixed.Sellers = append(mixed.Sellers, r.Sellers[k])
			}
		}
		order := rng.Perm(len(r.Edges))
		for to, from := range order {
			mixed.Edges[to] = r.Edges[from]
			mixed.Edges[to].Agent = place[r.Edges[from].Agent]
			if len(r.Parts) > 0 {
				mixed.Parts = append(mixed.Parts, r.Parts[from])
			}
		}
		show := rng.IntN(5)
		kept := pruner.Prune(&mixed, 1+rng.IntN(3), show)
		mixed.Sort()
		if len(best) == 0 {
			if len(mixed.Tasks)+len(mixed.Edges)+len(mixed.Agents)+len(kept.Tasks) > 0 {
				t.Fatalf("%s: nothing is worth it, and of the round is left %+v", where, mixed)
			}
			seen["none"]++
			continue
		}
		first := slices.MinFunc(best, func(a, b market.Edge) int { return place[a.Agent] - place[b.Agent] })
		cleared(mixed, []market.Edge{first}) // of equals the first by lot
		if len(mixed.Edges) != 1 || len(kept.Edges) != 1 ||
			mixed.Pruned != (market.Pruned{Edges: len(r.Edges) - 1}) {
			t.Fatalf("%s: of one task is left %+v", where, mixed)
		}
		if len(r.Parts) > 0 {
			part := r.Parts[slices.Index(r.Edges, first)]
			none := part == market.Toll{}
			if none != (mixed.Parts == nil) || !none && mixed.Parts[0] != part {
				t.Fatalf("%s: the parts of its toll are %v, want %v", where, mixed.Parts, part)
			}
		}
		// what is shown beside it: of the others none is worth more than the least that is shown
		shown := map[market.AgentID]bool{}
		least := market.MaxCredits
		for _, e := range mixed.Others {
			w, _ := weight(&mixed, e)
			shown[mixed.Agents[e.Agent].Agent], least = true, min(least, w)
		}
		full := 0
		for _, e := range r.Edges {
			w, _ := weight(&r, e)
			switch id := r.Agents[e.Agent].Agent; {
			case len(r.Agents[e.Agent].Tiers) == 0:
				full++
			case e != first && !shown[id] && (w > least || len(shown) < show):
				t.Fatalf("%s: %s at %v is not shown, and what is, is worth %v or more", where, id, w, least)
			}
		}
		if len(shown) != min(show, len(r.Edges)-1-full) || shown[r.Agents[first.Agent].Agent] {
			t.Fatalf("%s: %d are shown, of %d", where, len(shown), len(r.Edges))
		}
		if len(best) > 1 {
			seen["equal"]++
		}
		if most == 0 {
			seen["of no worth"]++
		}
		if r.Tasks[0].Wait != nil {
			seen["waits"]++
		}
		if seen["served"]++; r.Rule.Pricing == market.PricingTariff {
			seen["tariff"]++
		}
	}
	for _, what := range []string{"none", "equal", "of no worth", "waits", "served", "tariff"} {
		if seen[what] < 500 {
			t.Errorf("only %d rounds are %s: the test sees little", seen[what], what)
		}
	}
}
