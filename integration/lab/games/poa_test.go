package games

import (
	"math"
	"math/rand/v2"
	"testing"
)

// drawn is a window by chance.
func drawn(rng *rand.Rand, tasks, agents int) Window {
	w := Window{}
	for range agents {
		w.Slots = append(w.Slots, 64)
	}
	for range tasks {
		d := Done{Agent: rng.IntN(agents), Seconds: 1 + rng.Float64(), Beside: rng.IntN(50)}
		for k := range rng.IntN(MostShares + 1) {
			d.Shares[k] = Share{int32(rng.IntN(agents)), rng.Float32()}
		}
		w.Done = append(w.Done, d)
	}
	return w
}

// The least is that of trying everything.
func TestPoAAgainstTryingEverything(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		tasks, agents := 1+rng.IntN(6), 1+rng.IntN(3)
		w := drawn(rng, tasks, agents)
		c := Theirs
		if rng.IntN(2) == 0 {
			c = Constants{PerTask: rng.Float64(), Least: rng.Float64(), Pole: rng.Float64(),
				Overlap: 3 * rng.Float64()}
		}
		n, most := w.besides(), (tasks+agents-1)/agents
		least, used := math.Inf(1), make([]int, agents)
		var try func(i int, sum float64)
		try = func(i int, sum float64) {
			if i == tasks {
				least = min(least, sum)
				return
			}
			for k := range agents {
				if used[k] < most {
					used[k]++
					try(i+1, sum+c.takes(c.terms(n[k], float64(w.Slots[k]), w.Done[i].share(k))))
					used[k]--
				}
			}
		}
		try(0, 0)
		took := 0.0
		for _, d := range w.Done {
			took += d.Seconds
		}
		if got, want := w.PoA(c), took/least; math.Abs(got/want-1) > 1e-6 {
			t.Fatalf("%d tasks on %d agents: %v, want %v", tasks, agents, got, want)
		}
	}
	if got := (&Window{Slots: []int{1}}).PoA(Theirs); !math.IsNaN(got) {
		t.Errorf("%v of nothing", got)
	}
}

// By hand, with the paper's constants and its 64 slots: 0.005 + 0.020 + 0.010/63^2 s for one that runs alone,
// 0.015 s less where all of its prompt is held.
func TestPoAByHand(t *testing.T) {
	alone := Window{Slots: []int{8}, Done: []Done{{Seconds: 1}}}
	if got, want := alone.PoA(Theirs), 1/0.02500251952632905; math.Abs(got/want-1) > 1e-9 {
		t.Errorf("%v, want %v", got, want)
	}
	alone.Done[0].Shares[0] = Share{Agent: 0, Of: 1}
	if got, want := alone.PoA(Theirs), 1/0.01000251952632905; math.Abs(got/want-1) > 1e-9 {
		t.Errorf("of a prompt that is held %v, want %v", got, want)
	}
}

// Tasks that take what the constants say give the constants, and a price of one where nothing could be
// better.
func TestFit(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	want := Constants{PerTask: 0.02, Least: 1.5, Pole: 3, Overlap: 0.4}
	w := drawn(rng, MostDone, 4)
	for i := range w.Done {
		d := &w.Done[i]
		d.Seconds = want.takes(want.terms(float64(d.Beside+1), 64, d.share(d.Agent)))
	}
	got := w.Fit()
	for _, x := range [][2]float64{{got.PerTask, want.PerTask}, {got.Least, want.Least},
		{got.Overlap, want.Overlap}} {
		if math.Abs(x[0]/x[1]-1) > 0.05 {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	for i := range w.Done {
		w.Done[i].Shares = [MostShares]Share{}
		w.Done[i].Agent, w.Done[i].Beside = i%4, 7
		w.Done[i].Seconds = want.takes(want.terms(8, 64, 0))
	}
	if got := w.PoA(w.Fit()); math.Abs(got-1) > 1e-3 {
		t.Errorf("%v where nothing could be better", got)
	}
}

// BenchmarkPoA bounds a full window on eight agents, by both constants.
func BenchmarkPoA(b *testing.B) {
	w := drawn(rand.New(rand.NewPCG(1, 1)), MostDone, 8)
	for b.Loop() {
		w.PoA(Theirs)
		w.PoA(w.Fit())
	}
}
