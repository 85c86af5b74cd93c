package virtual

import (
	"testing"
	"time"

	"souk/integration/lab/traces"
)

// timedTrace is requests that came a second apart, each alone.
func timedTrace(n int) []*Script {
	var all []traces.Chain
	for i := range n {
		all = append(all, traces.Chain{Block: 16, Timed: true, Turns: [][]int{{1000 * i, 100 + i, 10}}})
	}
	return NewChains(all, 16)
}

// What is too long for an engine is left out and counted: of blocks the request alone, of a dialogue the
// rest.
func TestTrim(t *testing.T) {
	c := traces.Chain{Block: 16, Turns: [][]int{{0, 100, 10, 1, 6}, {5, 900, 10, 1, 56}, {5, 120, 10, 1, 7}}}
	kept, left := Trim(NewChains([]traces.Chain{c}, 16), 500, 1000)
	if left != 1 || len(kept) != 1 || Requests(kept) != 2 || len(kept[0].chains[1]) != 7 {
		t.Errorf("%d left out, kept %+v", left, kept)
	}
	said := &Script{turns: []turn{{prompt: 10, output: 1}, {prompt: 600, output: 1}, {prompt: 20, output: 1}}}
	kept, left = Trim([]*Script{said, {turns: []turn{{prompt: 600, output: 1}}}}, 500, 1000)
	if left != 3 || len(kept) != 1 || Requests(kept) != 1 {
		t.Errorf("%d left out, kept %+v", left, kept)
	}
	// a hub keeps a sixteenth of the prompt free
	c = traces.Chain{Block: 16, Turns: [][]int{{0, 950, 10}}}
	if _, left := Trim(NewChains([]traces.Chain{c}, 16), 5000, 1000); left != 1 {
		t.Error("a prompt that a hub leaves no room for its answer was kept")
	}
}

// A timed trace is asked at its times, faster if it is told so, and from where the seed says.
func TestTimedTrace(t *testing.T) {
	s := small(t, 1)
	s.Scripts, s.Callers, s.Timed, s.Anywhere, s.Tasks = timedTrace(50), 0, 2, true, 20
	begins := map[int]bool{}
	for seed := range uint64(8) {
		p, err := NewRule("round-robin", seed)
		if err != nil {
			t.Fatal(err)
		}
		s.Seed = seed
		all, _, err := Run(s, p)
		if err != nil || len(all) != 20 {
			t.Fatalf("%d requests, %v", len(all), err)
		}
		for i, r := range all {
			if want := all[0].Prompt + i; r.Prompt != want || r.Arrived != time.Duration(i)*time.Second/2 {
				t.Fatalf("request %d has %d tokens at %v, want %d at %v", i, r.Prompt, r.Arrived, want,
					time.Duration(i)*time.Second/2)
			}
		}
		begins[all[0].Prompt] = true
	}
	if len(begins) < 4 {
		t.Errorf("eight seeds begin at %d places", len(begins))
	}
}

// Of requests without blocks nothing is found in a cache, and none of it could be.
func TestRequestsWithoutBlocksShareNothing(t *testing.T) {
	s := small(t, 1)
	s.Scripts, s.Callers, s.Timed, s.Tasks = timedTrace(30), 0, 1, 30
	p, err := NewRule("two-block", 1)
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := Run(s, p)
	if err != nil {
		t.Fatal(err)
	}
	if m := s.Measure(all); m.Share != 0 || m.Bound != 0 {
		t.Errorf("%v of it was found, and %v could be", m.Share, m.Bound)
	}
}
