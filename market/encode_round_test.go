package market

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"souk/bus/bustest/golden"
)

// oddRound is a round as it is recorded, some with what no hub writes.
func oddRound(rng *rand.Rand, n int) Round {
	r := crowdRound(rng, n)
	var c Cutter
	if _, err := c.Cut(&r, keepsOf(nil, &r), FullShare/2, nil, rng.IntN(4), nil); err != nil {
		panic(err)
	}
	if len(r.Tasks) == 0 || rng.IntN(2) == 0 {
		return r
	}
	t := &r.Tasks[rng.IntN(len(r.Tasks))]
	switch rng.IntN(5) {
	case 0:
		t.Client = []string{"", "c", "c0/t", string(t.ID)}[rng.IntN(4)]
	case 1:
		t.Second = []Credits{-1, math.MaxInt64, math.MinInt64}[rng.IntN(3)]
		t.Within = []time.Duration{-1, math.MaxInt64, math.MinInt64}[rng.IntN(3)]
		r.Agents[0].Seats = append(r.Agents[0].Seats, Seat{-1, math.MinInt64, false}, Seat{1 << 40, -1, true})
	case 2:
		r.Rule.Settle, r.Rule.Instead = "x", "y"
	case 3:
		r.Sellers = []Seller{{"o", "h200", 3}}
	case 4:
		r.Pruned = Pruned{Tasks: -1, Beyond: math.MaxInt}
		r.Others = append(r.Others, Edge{Task: -3, Agent: math.MaxInt, Value: math.MinInt64, Own: -1})
	}
	return r
}

// Whatever a round that was cut says comes back as it was, and there is one encoding of it.
func TestEncodingOfCutRounds(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 80))
	for n := range times(3000) {
		r := oddRound(rng, n)
		data := r.AppendCanonical(nil)
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
}

// The bytes of a small round that was cut.
func TestBytesOfACutRound(t *testing.T) {
	r := Round{Domain: "math", Number: 300, Prev: [32]byte{31: 7}, Rule: DefaultRule, Fee: 2,
		Tasks:  []Task{{ID: "c/1", Client: "c", Second: 700, Within: 90}, {ID: "q", Client: "d"}},
		Agents: []Supply{{"a", []Seat{{Slots: 1}, {2, 40 * time.Millisecond, true}}}, {"b", nil}},
		Edges:  []Edge{{0, 0, 100, 30, -3, 1}, {1, 0, 90, 30, 0, 0}}, Others: []Edge{{0, 1, 90, 30, 0, 0}},
		Pruned: Pruned{Tasks: 1, Edges: 3, Planned: 2, Beyond: 4}}
	golden.Check(t, "cut-round", hex.EncodeToString(r.AppendCanonical(nil)))
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
}

// A round of one task is recorded in no more bytes than without the cut, and in as many whether 16 agents
// could have served it or 1,000.
func TestBytesOfOneTask(t *testing.T) {
	var c Cutter
	sizes := map[int]int{}
	for _, agents := range []int{1, 2, 4, 16, 200, 1000} {
		r := hubRound(1, agents, 8*agents, agents, 1)
		whole := len(r.AppendCanonical(nil))
		if _, err := c.Cut(&r, keepsOf(nil, &r), FullShare, nil, 3, nil); err != nil {
			t.Fatal(err)
		}
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		n := len(r.AppendCanonical(nil))
		t.Logf("%4d agents: %d bytes, %d whole", agents, n, whole)
		if sizes[agents] = n; n > whole {
			t.Errorf("%d agents: %d bytes, and %d without the cut", agents, n, whole)
		}
	}
	if sizes[1000] > sizes[16]+sizes[16]/20 {
		t.Errorf("%d bytes on 16 agents and %d on 1,000", sizes[16], sizes[1000])
	}
}

// What the proof does not cover is refused with what is wrong.
func TestBadOthers(t *testing.T) {
	good := func() Round {
		return Round{Domain: "math", Number: 2, Rule: DefaultRule, Fee: 1,
			Tasks:  []Task{{ID: "p", Client: "c"}},
			Agents: []Supply{{"a", open(1)}, {"b", nil}},
			Edges:  []Edge{{0, 0, 90, 2, 0, 0}}, Others: []Edge{{0, 1, 9, 2, 0, 0}}}
	}
	if r := good(); r.Validate() != nil {
		t.Fatal(r.Validate())
	}
	for want, spoil := range map[string]func(*Round){
		"other edge 0: agent index is 2":   func(r *Round) { r.Others[0].Agent = 2 },
		"other edge p > b: toll is":        func(r *Round) { r.Others[0].Toll = 1 },
		"other edge p > b: listed twice":   func(r *Round) { r.Others = append(r.Others, r.Others[0]) },
		"other edge p > a: is an edge too": func(r *Round) { r.Others[0].Agent = 0 },
		"pruned: a count of -1":            func(r *Round) { r.Pruned.Planned = -1 },
		"1 tasks and 0 edges pruned under pricing": func(r *Round) {
			r.Others, r.Rule.Pricing, r.Pruned.Tasks = nil, PricingPosted, 1
		},
		"beyond 8 of its task": func(r *Round) { // the most others of a task
			r.Agents, r.Others = nil, nil
			for i := range MaxShown + 2 {
				r.Agents = append(r.Agents, Supply{AgentID(fmt.Sprintf("a%02d", i)), open(1)})
				if i > 0 {
					r.Others = append(r.Others, Edge{Agent: i, Value: 9})
				}
			}
		},
	} {
		r := good()
		spoil(&r)
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
		if _, err := Clear(r); err == nil {
			t.Errorf("%s: cleared all the same", want)
		}
	}
}
