package market

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"souk/bus/bustest/golden"
)

// weighedRound is a crowded round as it is recorded, some with what no hub writes.
func weighedRound(rng *rand.Rand, n int) Round {
	r := crowdRound(rng, n)
	var p Pruner
	p.Prune(&r, 1+rng.IntN(8), rng.IntN(4))
	if len(r.Tasks) == 0 || rng.IntN(2) == 0 {
		return r
	}
	t := &r.Tasks[rng.IntN(len(r.Tasks))]
	switch rng.IntN(5) {
	case 0:
		t.Client = []string{"", "c", "c0/t", string(t.ID)}[rng.IntN(4)]
	case 1:
		t.Wait = &Wait{Loss: math.MinInt64, Agent: r.Agents[0].Agent, Time: -1, Value: math.MaxInt64,
			Cost: math.MinInt64, Round: r.Number + 7, Share: math.MaxUint32}
	case 2:
		r.Rule.Settle, r.Rule.Instead = "x", "y"
	case 3:
		r.Sellers = []Seller{{"o", "h200", 3}}
	case 4:
		r.Parts = append(r.Parts, Toll{Load: math.MinInt64, Age: 3})
		r.Others = append(r.Others, Edge{Task: -3, Agent: math.MaxInt, Value: math.MinInt64})
	}
	return r
}

// Whatever a crowded round says comes back as it was, and there is one encoding of it.
func TestEncodingOfCrowdedRounds(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 80))
	crowded := map[bool]int{}
	for n := range times(3000) {
		r := weighedRound(rng, n)
		data := r.AppendCanonical(nil)
		if o, err := Clear(r); err == nil {
			got := Crowded(data, o.AppendCanonical(nil))
			if got != (len(o.Prices) > 0 || r.waits()) {
				t.Fatalf("seed %d, round %d: crowded is %v", seed, n, got)
			}
			crowded[got]++
		}
		got, err := DecodeRound(data)
		if err != nil || !cmp.Equal(got, r) || !bytes.Equal(got.AppendCanonical(nil), data) {
			t.Fatalf("seed %d, round %d: %v\n%s", seed, n, err, cmp.Diff(r, got))
		}
		if got.Hash() != r.Hash() {
			t.Fatalf("seed %d, round %d: another hash", seed, n)
		}
		cut := rng.IntN(len(data))
		if _, err := DecodeRound(data[:cut]); !errors.Is(err, ErrEncoding) {
			t.Fatalf("seed %d, round %d: %d of %d bytes: %v", seed, n, cut, len(data), err)
		}
		spoilt := slices.Clone(data)
		spoilt[rng.IntN(len(spoilt))] ^= 1 << rng.IntN(8)
		if got, err := DecodeRound(spoilt); err == nil && !bytes.Equal(got.AppendCanonical(nil), spoilt) {
			t.Fatalf("seed %d, round %d: a second encoding of the same round", seed, n)
		}
	}
	if crowded[true] == 0 || crowded[false] == 0 {
		t.Errorf("crowded %v: the test sees nothing", crowded)
	}
}

// The bytes of a small crowded round.
func TestBytesOfACrowdedRound(t *testing.T) {
	r := Round{Domain: "math", Number: 300, Prev: [32]byte{31: 7}, Rule: DefaultRule, Fee: 2,
		Tasks: []Task{{ID: "c/1", Client: "c", Wait: &Wait{Loss: 29, Agent: "f", Time: 40, Value: 100,
			Cost: 30, Toll: -3, Charge: -5, Price: 1, Round: 298, Share: 500_000}}, {ID: "q", Client: "d"}},
		Agents: []Supply{{"a", []Tier{{1, 0}, {2, -5}}}, {"b", []Tier{{1, 0}}}},
		Edges:  []Edge{{0, 0, 100, 30, -1}, {1, 0, 90, 30, 0}}, Others: []Edge{{0, 1, 90, 30, 0}},
		Pruned: Pruned{Tasks: 1, Edges: 3, Waiting: 2, Beyond: 4}, Parts: []Toll{{Age: -1}, {}}}
	golden.Check(t, "crowded-round", hex.EncodeToString(r.AppendCanonical(nil)))
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
}

// A round of one task is recorded in no more bytes than without pruning, and in as many whether 16 agents
// could have served it or 1,000. One that waits costs some 30 bytes more.
func TestBytesOfOneTask(t *testing.T) {
	var p Pruner
	size := func(agents int, wait *Wait) (pruned, whole int) {
		r := hubRound(1, agents, 8*agents, agents, 1)
		r.Tasks[0].Wait = wait
		before := r
		before.Tasks = slices.Clone(r.Tasks)
		before.Tasks[0].Wait = nil
		p.Prune(&r, 512, 3)
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		return len(r.AppendCanonical(nil)), len(before.AppendCanonical(nil))
	}
	sizes := map[int]int{}
	for _, agents := range []int{1, 2, 4, 16, 200, 1000} {
		n, whole := size(agents, nil)
		t.Logf("%4d agents: %d bytes, %d whole", agents, n, whole)
		if sizes[agents] = n; n > whole {
			t.Errorf("%d agents: %d bytes, and %d without pruning", agents, n, whole)
		}
	}
	if sizes[1000] > sizes[16]+sizes[16]/20 {
		t.Errorf("%d bytes on 16 agents and %d on 1,000", sizes[16], sizes[1000])
	}
	w := &Wait{Agent: "agent-007", Time: 40_000_000, Value: 9_000_000, Cost: 800_000, Toll: -3000,
		Charge: -900, Price: 20_000, Round: 40, Share: FullShare}
	w.Loss = w.Sum(1000)
	with, _ := size(1, w)
	without, _ := size(1, nil)
	if with > without+40 {
		t.Errorf("%d bytes with a wait and %d without", with, without)
	}
}

// Waits of every kind that is wrong are refused with what is wrong.
func TestBadWaits(t *testing.T) {
	good := func() (Round, *Wait) {
		w := &Wait{Loss: 20, Agent: "f", Time: 1, Value: 30, Cost: 5, Toll: -1, Charge: -1, Price: 2,
			Round: 1, Share: FullShare}
		return Round{Domain: "math", Number: 2, Rule: DefaultRule, Fee: 1,
			Tasks:  []Task{{ID: "p", Client: "c", Wait: w}},
			Agents: []Supply{{"a", []Tier{{1, 0}}}, {"b", []Tier{{1, 0}}}},
			Edges:  []Edge{{0, 0, 90, 2, 0}}, Others: []Edge{{0, 1, 9, 2, 0}}}, w
	}
	if r, _ := good(); r.Validate() != nil {
		t.Fatal(r.Validate())
	}
	for want, spoil := range map[string]func(*Round, *Wait){
		"under pricing \"posted\"": func(r *Round, w *Wait) {
			r.Rule.Pricing, r.Others = PricingPosted, nil
		},
		"agent has 0 bytes":                    func(r *Round, w *Wait) { w.Agent = "" },
		"time is -1ns":                         func(r *Round, w *Wait) { w.Time = -1 },
		"value is 1000000000.000000001":        func(r *Round, w *Wait) { w.Value = MaxCredits + 1 },
		"cost is -0.000000001":                 func(r *Round, w *Wait) { w.Cost = -1 },
		"price -0.000000001":                   func(r *Round, w *Wait) { w.Price = -1 },
		"toll is 0.000000001":                  func(r *Round, w *Wait) { w.Toll = 1 },
		"charge 0.000000001":                   func(r *Round, w *Wait) { w.Charge = 1 },
		"of round 2, want one before":          func(r *Round, w *Wait) { w.Round = 2 },
		"its price is 0.000000002 of no round": func(r *Round, w *Wait) { w.Round = 0 },
		"share is 1000001":                     func(r *Round, w *Wait) { w.Share++ },
		"loss is 0.000000021":                  func(r *Round, w *Wait) { w.Loss++ },
		"loss is 0, and its parts sum to 0":    func(r *Round, w *Wait) { w.Loss, w.Share = 0, 0 },
		"loss is 0.00000002, and its parts":    func(r *Round, w *Wait) { w.Share = FullShare / 2 },
		"other edge 0: agent index is 2":       func(r *Round, w *Wait) { r.Others[0].Agent = 2 },
		"other edge p > b: toll is":            func(r *Round, w *Wait) { r.Others[0].Toll = 1 },
		"other edge p > b: listed twice": func(r *Round,
			w *Wait) {
			r.Others = append(r.Others, r.Others[0])
		},
		"other edge p > a: is an edge too":        func(r *Round, w *Wait) { r.Others[0].Agent = 0 },
		"pruned: a count of -1":                   func(r *Round, w *Wait) { r.Pruned.Waiting = -1 },
		"1 tasks and 0 edges pruned under posted": nil,
		"what 2 tolls are for, of 1 edges":        func(r *Round, w *Wait) { r.Parts = make([]Toll, 2) },
		"a part of its toll is 0.000000001":       func(r *Round, w *Wait) { r.Parts = []Toll{{Beside: 1}} },
		"parts of its toll are -0.000000002": func(r *Round,
			w *Wait) {
			r.Parts = []Toll{{Load: -1, Age: -1}}
		},
	} {
		r, w := good()
		if spoil == nil {
			r.Tasks[0].Wait, r.Others, r.Rule.Pricing, r.Pruned.Tasks = nil, nil, PricingPosted, 1
			want = "1 tasks and 0 edges pruned under pricing"
		} else {
			spoil(&r, w)
		}
		if err := r.Validate(); err == nil || !bytes.Contains([]byte(err.Error()), []byte(want)) {
			t.Errorf("%v, want an error with %q", err, want)
		}
		if _, err := Clear(r); err == nil {
			t.Errorf("%s: cleared all the same", want)
		}
	}
	// the most others of a task
	r, _ := good()
	r.Agents, r.Others = nil, nil
	for i := range MaxShown + 2 {
		r.Agents = append(r.Agents, Supply{AgentID(fmt.Sprintf("a%02d", i)), []Tier{{1, 0}}})
		if i > 0 {
			r.Others = append(r.Others, Edge{0, i, 9, 2, 0})
		}
	}
	if err := r.Validate(); err == nil {
		t.Errorf("%d others of one task pass", len(r.Others))
	}
}

// A wait's sum at every edge: rounded down, never below nothing.
func TestSumOfAWait(t *testing.T) {
	for _, c := range []struct {
		w    Wait
		fee  Credits
		want Credits
	}{
		{Wait{Value: 10, Share: FullShare}, 3, 7},
		{Wait{Value: 10, Cost: 2, Toll: -1, Charge: -1, Price: 1, Share: FullShare}, 1, 4},
		{Wait{Value: 10, Share: FullShare - 1}, 0, 9},
		{Wait{Value: 1, Share: 1}, 0, 0},
		{Wait{Value: 1_000_001, Share: 1}, 0, 1},
		{Wait{Value: 5, Cost: 9, Share: FullShare}, 0, 0},
		{Wait{Value: MaxCredits, Share: FullShare}, 0, MaxCredits},
		{Wait{Value: MaxCredits, Share: FullShare / 2}, 0, MaxCredits / 2},
		{Wait{Value: -MaxCredits, Cost: MaxCredits, Toll: -MaxCredits, Charge: -MaxCredits, Price: MaxCredits,
			Share: FullShare}, MaxWorth, 0},
	} {
		if got := c.w.Sum(c.fee); got != c.want {
			t.Errorf("%+v with fee %d is %d, want %d", c.w, c.fee, got, c.want)
		}
	}
}
