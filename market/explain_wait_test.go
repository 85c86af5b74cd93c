package market

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// What is said of waiting, of tolls, of what was pruned and of what is beyond the proof.
func TestExplanationOfACrowdedRound(t *testing.T) {
	r := Round{Domain: "general", Number: 18, Rule: DefaultRule, Fee: 1,
		Tasks:  []Task{{ID: "p/1", Client: "p"}, {ID: "q/1", Client: "q"}, {ID: "s/1", Client: "s"}},
		Agents: []Supply{{"general-1", []Tier{{1, 0}}}, {"general-2", []Tier{{1, -2}}}},
		Edges:  []Edge{{0, 0, 90, 10, -5}, {1, 0, 60, 10, 0}, {2, 0, 5, 10, 0}, {2, 1, 18, 10, 0}},
		Parts:  []Toll{{Load: -2, Age: -1, Beside: -1}, {}, {}, {}}}
	r.Tasks[0].Wait = &Wait{Agent: "general-3", Time: 40_300_000, Value: 30, Cost: 10, Share: FullShare}
	r.Tasks[1].Wait = &Wait{Agent: "general-3", Time: 40_300_000, Value: 80, Cost: 5, Toll: -1, Charge: -2,
		Price: 3, Round: 17, Share: 500_000}
	for _, task := range r.Tasks[:2] {
		task.Wait.Loss = task.Wait.Sum(r.Fee)
	}
	var p Pruner
	p.Prune(&r, 512, 3)
	o, err := Clear(r)
	if err != nil {
		t.Fatal(err)
	}
	x, err := Explain(r, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"left out, by the hub's word and beyond the proof: 0 tasks outbid wherever they could have gone, 0 " +
			"that rather wait, 0 that came after the round was full; 1 edge that could not matter",
		"begins here rather than wait for general-3, first token in 40ms, which would be worth 0.000000019 to it",
		"+ congestion charge 0 + regime toll 0.000000001 + load toll 0.000000002 + age toll 0.000000001 + " +
			"beside toll 0.000000001 + fee 0.000000001",
		"q/1: left out, pays nothing\n  waits for general-3, first token in 40ms, worth 0.000000034 to it, " +
			"rather than begin at general-1 now, worth 0.000000034 at its slot price:\n",
		"value 0.00000008 - cost 0.000000005 - fee 0.000000001 - toll 0.000000001 - congestion charge " +
			"0.000000002 - slot price 0.000000003 of round 17, of which 500000 millionths are left, as it has " +
			"waited long",
		"beyond the proof, general-1: value",
	} {
		if !strings.Contains(x.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, x)
		}
	}
}

// Whoever is left out and has a wait is told of nothing that would be worth more to it at the slot prices.
// What a loser is told it would have had to bid is true where tasks may wait and the round was pruned: with
// one more, in the whole round, it is served.
func TestWhatAWaitingTaskIsTold(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 75))
	var p Pruner
	waiting, losers := 0, 0
	for n := range times(1500) {
		whole := crowdRound(rng, n)
		r := whole
		k := p.Prune(&r, 64, 3)
		kept := slices.Clone(k.Tasks)
		o, err := Clear(r)
		if err != nil {
			t.Fatal(err)
		}
		x, err := Explain(r, o)
		if err != nil || x.String() == "" {
			t.Fatal(err)
		}
		for j, tx := range x.Tasks {
			if tx.Award != nil {
				continue
			}
			for _, op := range slices.Concat(tx.Options, tx.Others) {
				if tx.Wait != nil {
					waiting++
					if op.Utility > tx.Wait.Loss {
						t.Fatalf("seed %d, round %d: %s waits and would keep more at %s\n%s", seed, n,
							tx.Task,
							op.Agent, x)
					}
				}
			}
			for _, op := range tx.Options {
				if op.Needed < op.Value {
					continue // it was as good as one that was served
				}
				losers++
				bid := whole
				bid.Edges = slices.Clone(whole.Edges)
				for i, e := range bid.Edges {
					if e.Task == int(kept[j]) && whole.Agents[e.Agent].Agent == op.Agent {
						bid.Edges[i].Value = op.Needed + 1
					}
				}
				o, err := Clear(bid)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.ContainsFunc(o.Awards, func(a Award) bool { return a.Task == tx.Task }) {
					t.Fatalf("seed %d, round %d: %s bids more than the %d that it needs at %s and is left out\n"+
						"%s", seed, n, tx.Task, op.Needed, op.Agent, x)
				}
			}
		}
	}
	if waiting == 0 || losers == 0 {
		t.Errorf("%d options of waiting tasks, %d losers: the test sees nothing", waiting, losers)
	}
}
