package predict

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// An agent that says of its prompts that they were a hundred times as long as others count such, and of how
// long they took what goes with that or does not, moves what is expected of the others little.
func TestPromptsThatWereAHundredTimesAsLong(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, lie := range []struct {
		took, now float64 // how many times as long they took, and every now and then that many times of it
		period    int
		cached    int // of ten
		often     int // as the others do
	}{
		{10, 30, 1, 0, 1}, {10, 30, 1, 10, 1}, {10, 30, 5, 0, 1}, {10, 3, 1, 9, 4}, {2.9, 30, 5, 0, 4},
		{10, 30, 400, 1, 1}, {1000, 1, 1, 0, 1}, {1, 1, 1, 0, 8},
	} {
		expected := func(lies bool) []time.Duration {
			e := engine{rand.New(rand.NewPCG(seed, 9))}
			_, all := fleet(5)
			var says []time.Duration
			answers := 0
			for step := range 600 {
				e.serve(all[:4], 1, nil)
				for range lie.often {
					f, o := e.task()
					took := lie.took
					if answers++; answers/lie.period%2 == 1 {
						took *= lie.now
					}
					if lies {
						o.Prompt *= 100
						o.Cached = o.Prompt * lie.cached / 10
						o.TTFT = time.Duration(float64(o.TTFT) * took)
					}
					all[4].Learn(f, o)
				}
				if step >= 100 && step%20 == 0 {
					for _, uncached := range []int{100, 2000} {
						f := cold
						f.Cached = all[0].Line().Tokens(f.Prompt) - uncached
						says = append(says, all[0].Forecast(f).TTFT)
					}
				}
			}
			return says
		}
		honest, beside := expected(false), expected(true)
		for i := range honest {
			if by := math.Abs(math.Log(float64(beside[i]) / float64(honest[i]))); by > math.Log(1.4) {
				t.Errorf("%+v: %v is expected of another, and %v without the liar", lie, beside[i], honest[i])
				break
			}
		}
	}
}

// An agent that is alone says how its prompts are counted: nobody knows better. Nor is a short prompt odd
// that a template is put around.
func TestPromptsThatAreNotOdd(t *testing.T) {
	alone := NewMeans()
	for i := range 200 {
		n := 1000 + 40*i
		alone.Learn(Features{Prompt: n / 20, MaxTokens: 100},
			Observation{Prompt: n, Output: 9, TTFT: time.Duration(n) * time.Millisecond})
	}
	if took := alone.Line().Work(5000, 0); took < 4*time.Second || took > 6*time.Second {
		t.Errorf("alone, 5000 tokens are expected to take %v, at a millisecond each", took)
	}
	_, all := fleet(4)
	e := newEngine(t)
	e.serve(all, 50, nil)
	c := all[0].class
	for _, x := range []struct {
		expected, prompt int
		odd              bool
	}{
		{10, 250, false}, {1, 259, false}, {1, 260, true}, {1000, 3256, false}, {1000, 3257, true},
		{100, 1, false}, {771, 1, false}, {772, 1, true}, {0, 5000, false}, {1000, math.MaxInt / 8, true},
	} {
		if odd := c.odd(all[0], x.expected, x.prompt); odd != x.odd {
			t.Errorf("%d tokens where %d are expected: odd %v", x.prompt, x.expected, odd)
		}
	}
}
