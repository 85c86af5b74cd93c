package market

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// Under posted a task that finds every slot dear stands in nobody's way: where a round has no room for all,
// it is none of those that it has room for. Who would rather wait for another agent is in it all the same.
func TestWhoFindsAllDearTakesNoPlaceUnderPosted(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 74))
	var p Pruner
	left := 0
	for n := range times(1000) {
		r := crowdRound(rng, n)
		r.Rule.Pricing, r.Rule.Instead = PricingPosted, PricingVCG
		for i := range r.Edges {
			if rng.IntN(3) == 0 && r.Parts == nil {
				r.Edges[i].Toll -= 1000
			}
		}
		serves := make([]bool, len(r.Tasks)) // whether some slot is worth it
		for _, e := range r.Edges {
			serves[e.Task] = serves[e.Task] || e.Weight(r.Agents[e.Agent].Tiers[0], r.Fee) >= 0
		}
		able := 0
		for _, x := range serves {
			if x {
				able++
			}
		}
		limit := 1 + rng.IntN(len(r.Tasks))
		want := r // the tasks that come into it, picked by hand
		want.Tasks, want.Edges, want.Parts = nil, nil, nil
		index := make([]int, len(r.Tasks))
		for i, task := range r.Tasks {
			if index[i] = -1; limit < len(r.Tasks) && (!serves[i] || len(want.Tasks) == limit) {
				continue
			}
			task.Wait = nil
			index[i], want.Tasks = len(want.Tasks), append(want.Tasks, task)
		}
		for _, e := range r.Edges {
			if e.Task = index[e.Task]; e.Task >= 0 {
				want.Edges = append(want.Edges, e)
			}
		}
		got := r
		k := p.Prune(&got, limit, 3)
		o, err := Clear(got)
		by, failed := Clear(want)
		if err != nil || failed != nil || !reflect.DeepEqual(o.Awards, by.Awards) {
			t.Fatalf("seed %d, round %d: awards %v, want %v: %v %v", seed, n, o.Awards, by.Awards, err, failed)
		}
		for _, i := range k.Tasks {
			if slices.Contains(k.TooExpensive, i) == serves[i] {
				t.Fatalf("seed %d, round %d: task %d is dear %v, serves %v", seed, n, i,
					slices.Contains(k.TooExpensive, i), serves[i])
			}
		}
		if got.Pruned.Waiting+got.Pruned.Tasks > 0 ||
			limit < len(r.Tasks) && len(k.Tasks) != min(limit, able) {
			t.Fatalf("seed %d, round %d: %d of %d tasks are in a round of %d: %+v", seed, n, len(k.Tasks),
				able, limit, got.Pruned)
		}
		if able < len(serves) {
			left++
		}
	}
	if left < 50 {
		t.Errorf("%d rounds had a task that finds all dear: the test sees little", left)
	}
}
