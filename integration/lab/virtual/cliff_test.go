package virtual

import (
	"slices"
	"testing"
	"time"

	"souk/bus"
	"souk/integration/lab/traces"
)

// runCliff plays a trace under a rule for a while.
func runCliff(t *testing.T, trace, rule string, engines int, length time.Duration) ([]*Request, *Market) {
	t.Helper()
	of, cliff, err := traceNamed(trace)
	if err != nil || !cliff {
		t.Fatalf("no trace %s", trace)
	}
	s, err := of.setting(engines)
	if err != nil {
		t.Fatal(err)
	}
	s.Seed, s.Warm, s.Length = 3, 0, length
	if s.Tasks > 0 {
		s.Tasks, s.Length = 0, length
	}
	like, ok, err := variant(rule)
	if err != nil || !ok {
		t.Fatal(rule, err)
	}
	o := NewMarketOptions(s)
	o.Hub, o.Ends, o.Quiet = like.Hub, like.Ends, s.Quiet
	m, err := NewMarket(o)
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := Run(s, m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Close(); err != nil {
		t.Fatal(err)
	}
	return all, m
}

// The longest prompts of a trace fit into a message. One that does not reaches no hub; it is a fault of the
// market, and its caller is told.
func TestThePromptsOfChainsAreSaid(t *testing.T) {
	for _, trace := range []string{"agents", "mooncake"} {
		of, _, _ := traceNamed(trace)
		s, err := of.setting(8)
		if err != nil {
			t.Fatal(err)
		}
		most := &Request{}
		for _, x := range s.Scripts {
			for turn, at := range x.turns {
				if at.prompt > most.Prompt {
					most = &Request{Play: 1, Turn: turn, script: x, Job: Job{Prompt: at.prompt}}
				}
			}
		}
		task := bus.Task{Prompt: most.prompt(s.Engine.BlockSize)}
		if err := task.Validate(); err != nil || most.Prompt < 100_000 {
			t.Errorf("%s: a prompt of %d tokens: %v", trace, most.Prompt, err)
		}
	}
	of, _, _ := traceNamed("agents")
	s, err := of.setting(1)
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewMarket(NewMarketOptions(s))
	if err != nil {
		t.Fatal(err)
	}
	long := traces.Chain{Block: largeBlock, Turns: [][]int{{0, bus.MaxCanonical, 1, 1,
		bus.MaxCanonical / largeBlock}}}
	r := &Request{script: chained(&long, largeBlock), Job: Job{Prompt: bus.MaxCanonical}}
	m.Arrive(Start, r, nil)
	if place, _ := m.Wake(Start); len(place) != 1 || place[0].Engine != Wait {
		t.Errorf("of a prompt that is too long to be said the market makes %+v", place)
	}
	if _, err := m.Close(); err == nil {
		t.Error("and says nothing of it")
	}
}

// A chain's turn has the blocks of the turn before as far as the trace says, and its answer's are nobody's.
func TestChains(t *testing.T) {
	c := traces.Chain{Block: 64, Turns: [][]int{
		{0, 1100, 100, 1, 18},
		{5000, 1700, 50, 1, 26},
		{90_000, 1100, 9000, 1, 8, 50, 10},
	}}
	s := chained(&c, 512)
	if got := []int{len(s.chains[0]), len(s.chains[1]), len(s.chains[2])}; !slices.Equal(got,
		[]int{2, 3, 2}) {
		t.Errorf("full blocks of 512: %v, want 2, 3, 2", got)
	}
	if s.turns[2].think != 90*time.Second || s.turns[2].output != 9000 {
		t.Errorf("turns as recorded: %+v", s.turns)
	}
	if s.cut(); s.turns[1].think != 5*time.Second || s.turns[2].think != longestIdle ||
		s.turns[2].output != longestSaid {
		t.Errorf("turns %+v", s.turns)
	}
	a, b := s.blocksOf(1, 0, 512, 0, nil), s.blocksOf(1, 1, 512, 0, nil)
	if len(a) != 2 || len(b) != 3 || a[0] != b[0] || a[1] != b[1] ||
		s.blocksOf(2, 0, 512, 0, nil)[0] == a[0] {
		t.Errorf("blocks of a play %v, %v: want the same, and others of another play", a, b)
	}
}
