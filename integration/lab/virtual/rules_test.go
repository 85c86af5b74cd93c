package virtual

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/market"
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

// withRule has a rule in the table while a test runs.
func withRule(t *testing.T, r Rule) {
	t.Helper()
	Add(r)
	t.Cleanup(func() { rules = slices.DeleteFunc(rules, func(x Rule) bool { return x.Name == r.Name }) })
}

// always sends every task to one engine.
type always struct {
	Plain
	engine int
}

func (a always) Arrive(time.Time, *Request, *View) int { return a.engine }

// A rule that sends a task where it cannot go, or nowhere, is told so by its name.
func TestRulesThatGoWrong(t *testing.T) {
	for says, r := range map[string]Rule{
		"sends task 0 to engine 3 of 3":                {New: func(uint64, float64) Policy { return always{engine: 3} }},
		"sends task 0 to engine -2 of 3":               {New: func(uint64, float64) Policy { return always{engine: -2} }},
		"to engine 1, whose 4 slots are taken":         {New: func(uint64, float64) Policy { return always{engine: 1} }, Holds: true},
		"wait, and none of them was sent anywhere for": {New: func(uint64, float64) Policy { return always{engine: Wait} }},
		" tokens, to engine 0, which takes 50":         {New: func(uint64, float64) Policy { return always{engine: 0} }},
	} {
		t.Run(says, func(t *testing.T) {
			r.Name = "wrong"
			withRule(t, r)
			s := small(t, 1)
			if strings.Contains(says, "which") {
				s.Fleet = []FleetEngine{s.offer(0), s.offer(1), s.offer(2)}
				s.Fleet[0].Context = 50
			}
			_, err := play(s, "wrong", false)
			if err == nil || !strings.HasPrefix(err.Error(), `rule "wrong": `) ||
				!strings.Contains(err.Error(), says) {
				t.Errorf("%v, want %q", err, says)
			}
		})
	}
}

// spy looks at what a rule is shown.
type spy struct {
	Plain
	t    *testing.T
	done map[int]int // tokens of answers, by request
}

func (s *spy) Arrive(_ time.Time, r *Request, v *View) int {
	if r.Output != 0 || r.Cached != 0 || r.script != nil || r.lots != nil ||
		len(r.Hashes) > r.Prompt/v.Block() {
		s.t.Errorf("before it is answered a request shows %+v", r)
	}
	return r.ID % len(v.Engines)
}

func (s *spy) Done(_ time.Time, r *Request, u market.Usage, _ *View) {
	if u.Output < 1 || r.Output != u.Output || r.Engine != r.ID%3 {
		s.t.Errorf("when it is answered a request shows %+v", r)
	}
	s.done[r.ID]++
}

// Rules see of a request what its caller sent, and of its answer nothing before it is there.
func TestRulesSeeNoAnswers(t *testing.T) {
	s := &spy{t: t, done: map[int]int{}}
	withRule(t, Rule{Name: "spy", New: func(uint64, float64) Policy { return s }})
	all, _ := routed(t, small(t, 1), "spy")
	if len(s.done) != len(all) || len(all) != 300 {
		t.Errorf("%d requests, %d were done", len(all), len(s.done))
	}
}

// Knobs have the values of the table, or the one that stands behind the name.
func TestKnobs(t *testing.T) {
	for name, want := range map[string][]string{"posted:1.25": {"posted:1.25"}, "random": {"random"},
		"greedy-first": {"greedy-first:2", "greedy-first:4", "greedy-first:8"}} {
		if _, names, err := turned(name); err != nil || !slices.Equal(names, want) {
			t.Errorf("%s is played as %v, %v", name, names, err)
		}
	}
	for _, name := range []string{"posted:", "posted:-1", "posted:NaN", "posted:Inf", "posted:dear",
		"random:1", "luck"} {
		if _, err := NewRule(name, 1); err == nil || !strings.Contains(err.Error(), `rule "`+name+`"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	made := func(uint64, float64) Policy { return always{} }
	for _, r := range []Rule{{New: made}, {Name: "a b", New: made}, {Name: "a:b", New: made},
		{Name: "market", New: made},
		{Name: "random", New: made}, {Name: "x"}, {Name: "x", New: made, Knob: "k"},
		{Name: "x", New: made, Values: []float64{1}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v is a rule", r)
				}
			}()
			Add(r)
		}()
	}
}

// asker is a request of some terms that comes at a time.
func asker(id int, at time.Duration, worth market.Credits, patience time.Duration) *Request {
	r := prompt(id, 9)
	r.ID, r.Caller, r.Play, r.Arrived = id, id, id, at
	r.Terms.Terms = market.Terms{Worth: worth, Delta: 0.5, Patience: patience}
	return r
}

// fleetView is a view of engines of one slot each, with these cards and scores.
func fleetView(of ...FleetEngine) *View {
	s := Setting{Engines: len(of), Engine: EngineConfig{Slots: 1, Blocks: 1000, BlockSize: 16}, Fleet: of}
	for i := range of {
		s.Fleet[i].Slots, s.Fleet[i].Blocks = 1, 1000
	}
	return NewView(&s)
}

// Rivals choose by what tasks say and engines ask; they refuse what is not worth its cost, when it comes or
// when it has waited.
func TestRivals(t *testing.T) {
	good, poor := FleetEngine{Score: 0.9, Card: card(10, 10)}, FleetEngine{Score: 0.3, Card: card(1, 1)}
	cost := fleetView(poor).Cost(0, prompt(1, 9))
	for _, c := range []struct {
		rule  string
		worth market.Credits
		want  int
	}{
		{"best", 100 * cost, 0}, {"cheapest", 100 * cost, 1},
		// 0.6/2 more of the worth for nine times the cost
		{"greedy", 100 * cost, 0}, {"greedy", 10 * cost, 1},
		{"posted:1", 100 * cost, 0}, {"posted:5", 100 * cost, 1},
		{"greedy", cost, Wait}, {"best", 10 * cost, Wait}, {"posted:8", 10 * cost, Wait},
		{"two-block-first:2", cost, Wait},
	} {
		p, err := NewRule(c.rule, 1)
		if err != nil {
			t.Fatal(err)
		}
		v := fleetView(good, poor)
		got := p.Arrive(Start, asker(1, 0, c.worth, time.Hour), v)
		if place, _ := p.Wake(Start); got != c.want || (c.want == Wait) != (len(place) == 1) {
			t.Errorf("%s, worth %d times its least cost: engine %d, then %v; want %d", c.rule, c.worth/cost, got,
				place, c.want)
		}
	}
}

// In a line the one that loses most by a second goes first, or who has waited longer than the rule lets
// anybody; who is worth nothing any more is told.
func TestLines(t *testing.T) {
	one := FleetEngine{Score: 0.9, Card: card(0.01, 0.01)}
	for rule, want := range map[string][]int{"greedy": {2, 3, 4}, "greedy-first:60": {4, 2, 3},
		"two-block-first:60": {4, 2, 3}, "greedy-first:1": {2, 3, 4}} {
		p, err := NewRule(rule, 1)
		if err != nil {
			t.Fatal(err)
		}
		v := fleetView(one)
		first := asker(1, 0, market.Credit, time.Minute)
		if first.Engine = p.Arrive(Start, first, v); first.Engine != 0 {
			t.Fatalf("%s: the first waits", rule)
		}
		v.Sent(first)
		for i, patience := range []time.Duration{100 * time.Second, 200 * time.Second, 50 * time.Second} {
			at := time.Duration(i) * time.Millisecond
			if p.Arrive(Start.Add(at), asker(2+i, at, market.Credit, patience), v) != Wait {
				t.Errorf("%s: %d does not wait", rule, 2+i)
			}
		}
		lost := asker(5, 0, market.Credit/100, time.Millisecond)
		lost.Terms.Delta = 0.001
		p.Arrive(Start, lost, v)
		now, gone := Start.Add(5*time.Second), 0
		var order []int
		for range 3 {
			v.Engines[0].InFlight = 0
			place, _ := p.Wake(now)
			for _, x := range place {
				if x.Engine == Wait {
					gone++
					continue
				}
				order = append(order, x.Request.ID)
				v.Sent(x.Request)
			}
		}
		if !slices.Equal(order, want) || gone != 1 {
			t.Errorf("%s: served %v, want %v; %d are told", rule, order, want, gone)
		}
	}
}

// Sessions have places by the blocks that they need, and keep them for the idle time.
func TestCapped(t *testing.T) {
	p, err := NewRule("capped:10", 1)
	if err != nil {
		t.Fatal(err)
	}
	v := fleetView(FleetEngine{Score: 0.9, Card: card(0.01, 0.01)})
	v.Engines[0].Room = 50 // 22 blocks are needed for 9 and an answer of 200 tokens
	worth := market.Credit
	a, b, c := asker(1, 0, worth, time.Hour), asker(2, 0, worth, time.Hour), asker(3, 0, worth, time.Hour)
	lost := asker(4, 0, 1, time.Second)
	for _, r := range []*Request{a, lost, b, c} {
		p.Arrive(Start, r, v)
	}
	if place, next := p.Wake(Start); len(place) != 3 || place[0].Request != a || place[1].Engine != Wait ||
		place[2].Request != b || !next.After(Start) {
		t.Errorf("%v: there is room for two, and one is not worth its cost", place)
	}
	again := asker(1, 0, worth, time.Hour)
	p.Arrive(Start, again, v)
	if place, _ := p.Wake(Start); len(place) != 1 || place[0].Request != again {
		t.Errorf("%v: who has a place goes on, before one who waits for a place", place)
	}
	for _, r := range []*Request{a, again} {
		p.Done(Start.Add(time.Second), r, market.Usage{Output: 9}, v)
	}
	if place, _ := p.Wake(Start.Add(5 * time.Second)); len(place) != 0 {
		t.Errorf("%v: a place was free before its session was silent for ten seconds", place)
	}
	place, _ := p.Wake(Start.Add(12 * time.Second))
	if len(place) != 1 || place[0].Request != c || place[0].Engine != 0 {
		t.Errorf("%v has the place that became free, want %v", place, c)
	}
}

// A rule's file has fewer lines than a hundred, and says where the rule is from.
func TestRulesAreShort(t *testing.T) {
	files, err := filepath.Glob("rules_*.go")
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(data, []byte("\n")); n >= 100 && file != "rules_test.go" {
			t.Errorf("%s has %d lines", file, n)
		}
	}
}
