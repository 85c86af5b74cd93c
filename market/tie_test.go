package market

import (
	"math/rand/v2"
	"slices"
	"testing"

	"souk/market/flow"
)

// Of all assignments of greatest welfare, Clear takes the one that serves most and then has the greatest sum
// of hash bits: found here by trying every assignment.
func TestTiesAgainstBruteForce(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 60))
	ties := 0
	for n := range times(2000) {
		r := randomRound(rng, 5, 3, []int64{2, 3, 5}[n%3])
		o, err := Clear(r)
		if err != nil {
			t.Fatal(err)
		}
		best, count := bestByHash(&r)
		var got []int32
		var l layout
		l.of(&r)
		for j := range r.Tasks {
			at := int32(-1)
			for _, a := range o.Awards {
				if a.Task == r.Tasks[j].ID {
					i := slices.IndexFunc(r.Agents, func(s Supply) bool { return s.Agent == a.Agent })
					at = l.first[i] + int32(a.Tier)
				}
			}
			got = append(got, at)
		}
		if !slices.Equal(got, best) {
			t.Fatalf("seed %d, round %d: took %v, want %v of %d equally good\n%+v", seed, n, got, best, count,
				r)
		}
		if count > 1 {
			ties++
		}
	}
	if ties == 0 {
		t.Error("no ties: the test sees nothing")
	}
}

// bestByHash tries every assignment; count is how many have the greatest welfare.
func bestByHash(r *Round) (best []int32, count int) {
	var l layout
	l.of(r)
	keys := r.tieKeys(l.seats)
	shift := 64 - flow.TieBits(len(l.seats))
	free := slices.Clone(l.slots)
	at := make([]int32, len(r.Tasks))
	type score struct {
		welfare, served int64
		hash            uint64
	}
	most := score{welfare: -1}
	var try func(t int, s score)
	try = func(t int, s score) {
		if t == len(at) {
			if s.welfare > most.welfare {
				count = 0
			}
			if s.welfare >= most.welfare {
				count++
			}
			if s.welfare > most.welfare || s.welfare == most.welfare &&
				(s.served > most.served || s.served == most.served && s.hash > most.hash) {
				most, best = s, slices.Clone(at)
			}
			return
		}
		at[t] = -1
		try(t+1, s)
		for e := l.off[t]; e < l.off[t+1]; e++ {
			if a := l.seat[e]; free[a] > 0 {
				free[a]--
				at[t] = a
				try(t+1, score{s.welfare + l.weight[e], s.served + 1, s.hash + keys.hash(int32(t), a)>>shift})
				free[a]++
				at[t] = -1
			}
		}
	}
	try(0, score{})
	return best, count
}
