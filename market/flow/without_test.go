package flow

import (
	"math/rand/v2"
	"testing"
)

// empty is p without some tasks.
func empty(p *Problem, gone map[int32]bool) (out Problem) {
	out.Off, out.Slots = []int32{0}, p.Slots
	for k := range int32(p.Tasks()) {
		if !gone[k] {
			out.Seat = append(out.Seat, p.Seat[p.Off[k]:p.Off[k+1]]...)
			out.Weight = append(out.Weight, p.Weight[p.Off[k]:p.Off[k+1]]...)
		}
		out.Off = append(out.Off, int32(len(out.Seat)))
	}
	return out
}

// What is repaired after tasks have gone is as good as what is solved anew, and its prices prove it: nobody
// would rather have another slot at its price, and no slot of a positive price is free.
func TestWithout(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 5))
	var base, anew Solver
	var less Others
	filled, lowered := 0, 0
	for n := range 6000 {
		f := families[n%len(families)]
		tasks, seats := 1+rng.IntN(40), 1+rng.IntN(12)
		p := f.make(rng, tasks, seats, rng.IntN(seats+1), 1+rng.IntN(2*tasks))
		if err := base.Solve(&p, nil); err != nil {
			t.Fatal(err)
		}
		base.Settle(&p, func(task, seat int32) uint64 { return uint64(task*31+seat) * 0x9e3779b97f4a7c15 })
		less.Of(&base, &p, base.Witnesses(nil))
		for range 3 { // one after another
			checkWithout(t, rng, n, f.name, &base, &less, &anew, &p, &filled, &lowered)
		}
	}
	if filled == 0 || lowered == 0 {
		t.Errorf("%d tasks moved, %d prices fell: the test sees nothing", filled, lowered)
	}
}

func checkWithout(t *testing.T, rng *rand.Rand, n int, family string, base *Solver, less *Others,
	anew *Solver, p *Problem, filled, lowered *int) {
	t.Helper()
	tasks := p.Tasks()
	var gone []int32
	without := map[int32]bool{}
	for k := range int32(tasks) {
		if rng.IntN(tasks) < 1+n%7 {
			gone, without[k] = append(gone, k), true
		}
	}
	q := empty(p, without)
	if err := less.Without(gone, nil); err != nil {
		t.Fatal(err)
	}
	if err := anew.Solve(&q, nil); err != nil {
		t.Fatal(err)
	}
	if less.Welfare() != anew.Welfare() {
		t.Fatalf("round %d, %s: welfare %d without %v, solved anew %d", n, family, less.Welfare(), gone,
			anew.Welfare())
	}
	left := append([]int32(nil), p.Slots...)
	for k, a := range less.Match {
		u := int64(0)
		if a >= 0 {
			u = less.weight[k] - less.Price[a]
		}
		if a >= 0 {
			left[a]--
			if less.weight[k] != q.weightOf(int32(k), a) {
				t.Fatalf("round %d, %s: task %d weighs %d on %d", n, family, k, less.weight[k], a)
			}
			if base.Match[k] != a {
				*filled++
			}
		}
		for e := q.Off[k]; e < q.Off[k+1]; e++ {
			if q.Weight[e]-less.Price[q.Seat[e]] > u {
				t.Fatalf("round %d, %s: task %d would rather have seat %d", n, family, k, q.Seat[e])
			}
		}
		if u < 0 || without[int32(k)] && a >= 0 {
			t.Fatalf("round %d, %s: task %d sits on %d and gains %d", n, family, k, a, u)
		}
	}
	for a, free := range left {
		if free < 0 || less.Price[a] < 0 || free > 0 && less.Price[a] > 0 {
			t.Fatalf("round %d, %s: %d slots of seat %d are free at %d", n, family, free,
				a, less.Price[a])
		}
		if less.Price[a] < base.Price[a] {
			*lowered++
		}
	}
}
