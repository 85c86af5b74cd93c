package virtual

import (
	"testing"
	"time"
)

// engines is a view of as many as are given, whose profile computes 1,000 prompt tokens a second.
func engines(of ...EngineView) *View {
	s := Setting{Engines: len(of), Engine: EngineConfig{Slots: 8, Blocks: 1000, BlockSize: 16}}
	s.Engine.Profile.Prefill = 1000
	v := NewView(&s)
	for i, e := range of {
		w := &v.Engines[i]
		w.InFlight, w.Tokens, w.Ahead, w.Blocks = e.InFlight, e.Tokens, e.Ahead, e.Blocks
	}
	return v
}

func busy(of ...int) *View {
	var all []EngineView
	for _, n := range of {
		all = append(all, EngineView{InFlight: n})
	}
	return engines(all...)
}

// prompt is a request of so many full blocks and a token; those of one text begin alike.
func prompt(text, blocks int) *Request {
	r := &Request{Job: Job{Prompt: 16*blocks + 1, Output: 16}, Play: text}
	for i := range blocks + 1 {
		r.Hashes = append(r.Hashes, mix(uint64(text)<<32|uint64(i)))
	}
	return r
}

// holds has an engine's index know so many blocks of a text.
func (v *View) holds(engine, text, blocks int) *View {
	v.Engines[engine].index.Put(prompt(text, blocks).Hashes[:blocks])
	return v
}

func chosen(t *testing.T, name string, r *Request, v *View) (out map[int]int) {
	t.Helper()
	p, err := NewRule(name, 1)
	if err != nil {
		t.Fatal(err)
	}
	out = map[int]int{}
	for range 300 {
		out[p.Arrive(Start, r, v)]++
	}
	return out
}

// Each rule does what its definition says.
func TestRules(t *testing.T) {
	warm := func(in0, in1 int) *View { return busy(in0, in1, 0).holds(0, 1, 10).holds(1, 1, 3) }
	for _, c := range []struct {
		name, what string
		r          *Request
		v          *View
		want       []int // engines that may be chosen, all of which are
	}{
		{"random", "any", prompt(1, 9), busy(9, 0, 4), []int{0, 1, 2}},
		{"round-robin", "each in turn", prompt(1, 9), busy(9, 0, 4), []int{0, 1, 2}},
		{"least-loaded", "the fewest", prompt(1, 9), busy(9, 3, 4), []int{1}},
		{"least-loaded", "of equals any", prompt(1, 9), busy(3, 9, 3), []int{0, 2}},
		{"power-of-two", "never the most loaded", prompt(1, 9), busy(9, 3, 4), []int{1, 2}},
		{"two-block", "the longest, however loaded", prompt(1, 12), warm(50, 0), []int{0}},
		{"two-block", "one block is none", prompt(1, 12), busy(50, 4, 5).holds(0, 1, 1), []int{1}},
		{"two-block", "two are some", prompt(1, 12), busy(50, 4, 5).holds(0, 1, 2), []int{0}},
		{"two-block", "of equally long the less loaded", prompt(1, 12),
			busy(5, 4, 0).holds(0, 1, 9).holds(1, 1, 9), []int{1}},
		{"sglang", "beyond 0.3 of the prompt the longest", prompt(1, 12), warm(50, 0), []int{0}},
		{"sglang", "up to that the smallest tree", prompt(1, 40), warm(5, 0), []int{2}},
		{"sglang", "out of balance the least loaded", prompt(1, 12), warm(65, 10), []int{2}},
		{"sglang", "a gap of 64 is balance", prompt(1, 12), warm(64, 10), []int{0}},
		{"lmetric", "uncached x (in flight + 1)", prompt(1, 12), warm(2, 0), []int{0}}, // 33*3 < 145, 193
		{"lmetric", "a long queue outweighs a cache", prompt(1, 12), warm(5, 0), []int{1}},
		{"dynamo", "prefill and decode blocks", prompt(1, 12), engines(
			EngineView{Blocks: 9}, EngineView{}, EngineView{Ahead: 16 * 8}).holds(0, 1, 10), []int{0}},
		{"dynamo", "decode blocks outweigh a cache", prompt(1, 12), engines(
			EngineView{Blocks: 11}, EngineView{}, EngineView{Ahead: 16 * 8}).holds(0, 1, 10), []int{1}},
		{"sticky-until-saturated", "four fifths of the prompt", prompt(1, 10), engines(
			EngineView{Tokens: 18_000}, EngineView{Tokens: 1}).holds(0, 1, 8), []int{0}},
		{"sticky-until-saturated", "less is nothing", prompt(1, 10), engines(
			EngineView{Tokens: 18_000}, EngineView{Tokens: 1}).holds(0, 1, 7), []int{1}},
		{"sticky-until-saturated", "18 s behind are too much", prompt(1, 10), engines(
			EngineView{Tokens: 18_002}, EngineView{Tokens: 1}).holds(0, 1, 8), []int{1}},
	} {
		got := chosen(t, c.name, c.r, c.v)
		for _, i := range c.want {
			if got[i] == 0 {
				t.Errorf("%s, %s: engine %d was never chosen: %v", c.name, c.what, i, got)
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%s, %s: chosen %v, want %v", c.name, c.what, got, c.want)
		}
	}
}

// A session stays where it was first, whatever happens there.
func TestSticky(t *testing.T) {
	p, err := NewRule("sticky", 1)
	if err != nil {
		t.Fatal(err)
	}
	if first := p.Arrive(Start, prompt(1, 9), busy(3, 2, 1)); first != 2 {
		t.Errorf("a new session goes to engine %d, want the least loaded", first)
	}
	if again := p.Arrive(Start.Add(time.Second), prompt(1, 12), busy(0, 0, 50)); again != 2 {
		t.Errorf("it goes on at engine %d, want 2", again)
	}
}

// Of 300 requests round-robin gives each of three engines a hundred.
func TestRoundRobin(t *testing.T) {
	if got := chosen(t, "round-robin", prompt(1, 9), busy(5, 0, 0)); got[0] != 100 || got[1] != 100 {
		t.Errorf("chosen %v", got)
	}
}

// What a rule sees follows what it sent and heard.
func TestView(t *testing.T) {
	v := busy(0, 0)
	r := prompt(1, 4)
	r.Engine = 1
	v.Sent(r)
	if e := v.Engines[1]; e.InFlight != 1 || e.Tokens != 65 || e.Ahead != 65 || e.Blocks != 4 ||
		v.Match(1, r) != 0 {
		t.Errorf("after it was sent: %+v, %d blocks", e, v.Match(1, r))
	}
	v.Began(r)
	if e := v.Engines[1]; e.Ahead != 0 || e.InFlight != 1 || v.Match(1, r) != 4 {
		t.Errorf("after its first token: %+v", e)
	}
	v.Ended(r)
	if e := v.Engines[1]; e.InFlight != 0 || e.Tokens != 0 || e.Blocks != 0 || v.Tree(1) != 5 {
		t.Errorf("after its end: %+v, %d blocks", e, v.Tree(1))
	}
	if v.Match(0, r) != 0 || v.Tree(0) != 0 {
		t.Error("the other engine has some of it")
	}
}
