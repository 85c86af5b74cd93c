package market

import (
	"fmt"
	"math/rand/v2"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"souk/market/flow"
)

// Rounds of one task are pruned and cleared by a short way. The long one, which all others go, gives the same
// to the last field.
func TestLoneTasksGoTheShortWay(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 5))
	var short, long Pruner
	ways := map[string]int{}
	for n := range times(5_000) {
		r := crowdRound(rng, n)
		task := rng.IntN(len(r.Tasks))
		lone := r
		lone.Tasks, lone.Edges, lone.Parts = r.Tasks[task:task+1:task+1], nil, nil
		for i, e := range r.Edges {
			if e.Task == task {
				e.Task = 0
				lone.Edges = append(lone.Edges, e)
				if r.Parts != nil {
					lone.Parts = append(lone.Parts, r.Parts[i])
				}
			}
		}
		if rng.IntN(8) == 0 && len(lone.Agents) > 1 { // full
			lone.Agents[rng.IntN(len(lone.Agents))].Tiers = nil
		}
		limit, show := 1+rng.IntN(2), rng.IntN(4)
		got, want := lone, lone
		kept := *short.Prune(&got, limit, show)
		long.round = &want
		long.weigh()
		if live := long.lone(limit, show); live {
			ways["pruned"]++
		}
		want = lone
		long.number()
		long.within(1)
		long.finish(1, show)
		where := fmt.Sprintf("seed %d, round %d", seed, n)
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Fatalf("%s: pruned:\n%s", where, diff)
		}
		for i, lists := range [][2][]int32{{long.kept.Tasks, kept.Tasks}, {long.kept.Agents, kept.Agents},
			{long.kept.Edges, kept.Edges}, {long.kept.TooExpensive, kept.TooExpensive}, {long.kept.Outbid,
				kept.Outbid},
			{long.kept.Waiting, kept.Waiting}, {long.kept.OverLimit, kept.OverLimit}} {
			if fmt.Sprint(lists[0]) != fmt.Sprint(lists[1]) {
				t.Fatalf("%s: list %d of what was kept is %v, want %v", where, i, lists[1], lists[0])
			}
		}
		for _, r := range []Round{lone, got} {
			if len(r.Edges) == 0 || r.Validate() != nil {
				continue
			}
			o, err := Clear(r)
			if err != nil {
				t.Fatalf("%s: %v", where, err)
			}
			var ws workspace
			ws.layout.of(&r)
			l := &ws.layout
			if len(l.seat) == 1 {
				ways["cleared"]++
			}
			p := flow.Problem{Off: l.off, Seat: l.seat, Weight: l.weight, Slots: l.slots}
			if err := ws.solver.Solve(&p, nil); err != nil {
				t.Fatalf("%s: %v", where, err)
			}
			keys := r.tieKeys(l.seats)
			second := ws.solver.Settle(&p, keys.hash)
			ws.proof = ws.solver.Witnesses(ws.proof)
			if diff := gocmp.Diff(ws.outcome(&r, second), o); diff != "" {
				t.Fatalf("%s: outcome:\n%s", where, diff)
			}
			checked, err := ClearChecked(&r, nil)
			if err != nil || !gocmp.Equal(checked, o) {
				t.Fatalf("%s: cleared and checked: %v", where, err)
			}
		}
	}
	if ways["pruned"] < times(5_000)/4 || ways["cleared"] < times(5_000)/4 {
		t.Errorf("seed %d: too few rounds went the short way: %v", seed, ways)
	}
}
