package market

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Free tiers against slots counted one by one.
func TestFreeTiers(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 70))
	for range 2000 {
		tiers := make([]Tier, 1+rng.IntN(5))
		var tolls []Credits // of every slot
		for k := range tiers {
			tiers[k] = Tier{1 + rng.IntN(4), Credits(-3 * k)}
			tolls = append(tolls, slices.Repeat([]Credits{tiers[k].Toll}, tiers[k].Slots)...)
		}
		if n, err := ValidateTiers(tiers); err != nil || n != len(tolls) {
			t.Fatalf("seed %d: %v: %d slots, %v", seed, tiers, n, err)
		}
		taken, least := rng.IntN(len(tolls)+1), rng.IntN(len(tolls)+2)
		free := AppendFree(nil, tiers, taken, least)
		if _, err := ValidateTiers(free); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var got []Credits
		for _, f := range free {
			got = append(got, slices.Repeat([]Credits{f.Toll}, f.Slots)...)
		}
		want := tolls[taken:]
		if len(got) < min(least, len(want)) || len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
			t.Fatalf("seed %d: %v with %d taken and %d wanted: slots at %v, want the first of %v", seed,
				tiers, taken, least, got, want)
		}
		if n := len(free); n > 0 && len(got)-free[n-1].Slots >= least {
			t.Fatalf("seed %d: %v has a tier more than %d tasks can reach", seed, free, least)
		}
	}
}

// keeps is what an award leaves its client.
func keeps(o Outcome, id TaskID) Credits {
	for _, a := range o.Awards {
		if a.Task == id {
			return a.Value - a.Cost - a.Premium
		}
	}
	return 0
}

// Leaving out the tiers that a round's tasks cannot reach changes neither its welfare nor what anybody keeps.
func TestTiersBeyondTheTasksChangeNothing(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 71))
	cut := 0
	for range times(1000) {
		r := randomRound(rng, 5, 3, 30)
		for i := range r.Agents {
			r.Agents[i].Tiers = nil
			for k := range 6 {
				r.Agents[i].Tiers = append(r.Agents[i].Tiers, Tier{1 + rng.IntN(3), Credits(-2 * k)})
			}
		}
		whole, err := Clear(r)
		if err != nil {
			t.Fatal(err)
		}
		short := r
		short.Agents = slices.Clone(r.Agents)
		for i, a := range r.Agents {
			short.Agents[i].Tiers = AppendFree(nil, a.Tiers, 0, len(r.Tasks))
			cut += len(a.Tiers) - len(short.Agents[i].Tiers)
		}
		o, err := Clear(short)
		if err != nil {
			t.Fatal(err)
		}
		if o.Welfare != whole.Welfare {
			t.Fatalf("seed %d: welfare %d, want %d", seed, o.Welfare, whole.Welfare)
		}
		for _, task := range r.Tasks { // ties may fall otherwise, but nobody keeps more or less for it
			if got, want := keeps(o, task.ID), keeps(whole, task.ID); got != want {
				t.Fatalf("seed %d: %s keeps %d, want %d", seed, task.ID, got, want)
			}
		}
	}
	if cut == 0 {
		t.Error("nothing was left out")
	}
}

// The parts of an award's toll.
func TestTolls(t *testing.T) {
	r := Round{Domain: "math", Number: 1, Rule: DefaultRule, Fee: 1,
		Tasks:  []Task{{ID: "p", Client: "c"}, {ID: "q", Client: "d"}},
		Agents: []Supply{{"a", []Tier{{1, 0}, {1, -3}}}},
		Edges:  []Edge{{0, 0, 20, 2, 0}, {1, 0, 30, 2, -9}}, Parts: []Toll{{}, {Load: -1, Beside: -3}}}
	o, err := Clear(r)
	if err != nil || len(o.Awards) != 2 {
		t.Fatalf("%+v, %v", o, err)
	}
	for i, want := range [][2]Credits{{0, 0}, {0, -5}} {
		congestion, regime, parts, fee := r.Tolls(o.Awards[i])
		if want[0] = r.Agents[0].Tiers[o.Awards[i].Tier].Toll; congestion != want[0] || regime != want[1] ||
			fee != -1 || parts != r.Parts[i] ||
			congestion+regime+parts.Load+parts.Age+parts.Beside+fee != o.Awards[i].Toll {
			t.Errorf("%+v: congestion %d, regime %d, parts %v, fee %d", o.Awards[i], congestion, regime,
				parts,
				fee)
		}
	}
	if o.Awards[0].Tier == o.Awards[1].Tier {
		t.Error("both sit in one slot")
	}
	// Who sits in the first tier pays as much for it as the other does in charge: it could have had that
	// slot.
	premium := func(w Award) Credits { return w.SlotPrice - r.Agents[0].Tiers[w.Tier].Toll }
	if premium(o.Awards[0]) != premium(o.Awards[1]) {
		t.Errorf("%+v", o.Awards)
	}
}
