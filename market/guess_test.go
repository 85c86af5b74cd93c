package market

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// What a cutter remembers of the plan before saves it time and decides nothing: who begins where, what slots
// cost and what one more would add are what a cutter finds that remembers nothing. Of equals who wait it may
// have others at a seat to come.
func TestCutsDoNotHangOnThoseBefore(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 75))
	var c Cutter
	begun, pivots, anew := 0, 0, 0
	for n := range times(60) {
		agents := 1 + rng.IntN(8)
		base := bigCrowd(rng, 30+rng.IntN(60), agents, agents*(1+rng.IntN(3)), 1+rng.IntN(40),
			[]int64{0, 3, 20, 20_000}[n%4])
		in := make([]bool, len(base.Tasks))
		for i := range in {
			in[i] = rng.IntN(3) > 0
		}
		for range 8 {
			r := partOf(rng, &base, in)
			warm, cold := r, r
			k, err := c.Cut(&warm, keepsOf(nil, &warm), FullShare/2, nil, 0, nil)
			if err != nil {
				t.Fatal(err)
			}
			var other Cutter
			want, err := other.Cut(&cold, keepsOf(nil, &cold), FullShare/2, nil, 0, nil)
			if err != nil {
				t.Fatal(err)
			}
			pivots, anew = pivots+c.ws.solver.Pivots, anew+other.ws.solver.Pivots
			if !slices.Equal(k.Wants, want.Wants) {
				t.Fatalf("round %d: one more slot adds %v; want %v", n, k.Wants, want.Wants)
			}
			welfare := Credits(0)
			for j, at := range k.At {
				as := want.At[j]
				if (at.Agent >= 0 && !at.Later || as.Agent >= 0 && !as.Later) && at != as {
					t.Fatalf("round %d: task %d is at %+v, want %+v", n, j, at, as)
				}
				if at.Weight-at.Price != as.Weight-as.Price {
					t.Fatalf("round %d: task %d gains %d, want %d", n, j, at.Weight-at.Price, as.Weight-as.Price)
				}
				if welfare += at.Weight - as.Weight; at.Agent >= 0 && !at.Later {
					begun++
				}
			}
			if welfare != 0 {
				t.Fatalf("round %d: the plan is worth %d less", n, -welfare)
			}
			for i := range agents {
				if !slices.Equal(c.Prices(i), other.Prices(i)) {
					t.Fatalf("round %d: slots of agent %d cost %d, want %d", n, i, c.Prices(i), other.Prices(i))
				}
			}
			for j, at := range k.At {
				if in[j] && rng.IntN(12) == 0 || !in[j] && rng.IntN(6) == 0 || at.Agent >= 0 && !at.Later {
					in[j] = !in[j] && at.Agent < 0
				}
			}
		}
	}
	if begun == 0 || pivots >= anew {
		t.Errorf("%d begin; %d pivots, %d by those that remember nothing", begun, pivots, anew)
	}
	t.Logf("%d begin; %d pivots, %d by those that remember nothing", begun, pivots, anew)
}

// partOf is a round of those who wait, without the edges of the others, in which each agent has as many slots
// free as it happens to have.
func partOf(rng *rand.Rand, base *Round, in []bool) Round {
	r := *base
	r.Edges, r.Agents = nil, slices.Clone(base.Agents)
	for _, e := range base.Edges {
		if in[e.Task] {
			e.Value += Credits(rng.Int64N(40))
			r.Edges = append(r.Edges, e)
		}
	}
	for i := range r.Agents {
		r.Agents[i].Seats = slices.Clone(r.Agents[i].Seats)
		for k := range r.Agents[i].Seats {
			s := &r.Agents[i].Seats[k]
			s.Later = s.Later || k > 0 && rng.IntN(4) == 0
			if k > 0 && r.Agents[i].Seats[k-1].Later {
				s.Later = true
			}
			if k > 0 && s.Later == r.Agents[i].Seats[k-1].Later {
				s.In = max(s.In, r.Agents[i].Seats[k-1].In)
			}
		}
	}
	return r
}
