package hub

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/likeness"
	"souk/hub/quality"
	"souk/market"
)

// explored is a house of agents of owners of their own, that answer as says has it.
type explored struct {
	*house
	says  map[string]string // by agent
	seq   uint64
	asked []bus.Dispatch // of the hub's own
	went  []string       // the agents of these
}

func newExplored(t *testing.T, shadow float64, change func(*Config)) *explored {
	h := &explored{house: newHouse(t, change), says: map[string]string{}}
	h.n.cfg.Quality.Shadow = shadow
	h.prepaid[h.n.cfg.Prober()] = market.Credit
	return h
}

func (h *explored) agent(id, model, owner, says string) {
	h.t.Helper()
	r := registration(id, model, 2, 0.8, card(1, 1, 4))
	r.Owner, h.says[id] = owner, says
	h.must(h.n.Join(h.now, r))
	h.run()
}

// answer has all that was dispatched answered, also what follows on that.
func (h *explored) answer() {
	h.t.Helper()
	for len(h.dispatched) > 0 {
		d := h.dispatched[0]
		h.dispatched = h.dispatched[1:]
		id := h.agentOf(d)
		if d.Task.Client == h.n.cfg.Prober() {
			h.asked, h.went = append(h.asked, d), append(h.went, id)
		}
		c := completion(id, d, market.Usage{Prompt: 100, Output: 9})
		if d.Sketch != 0 {
			c.Sketch = likeness.NewSketch(h.says[id], d.Sketch)
		}
		h.accept(d)
		h.must(h.step(c))
		h.wait(2 * time.Second)
	}
}

// wait lets time pass, in which the agents say that they are there.
func (h *explored) wait(d time.Duration) {
	h.t.Helper()
	h.now = h.now.Add(d)
	h.n.Tick(h.now)
	for _, a := range h.n.roster {
		h.seq++
		h.must(h.summary(a.id, h.seq, nil))
	}
}

func (h *explored) heard(agent, source string) quality.Heard {
	for _, x := range h.n.lookup(agent).heard(0) {
		if x.Source == source {
			return x
		}
	}
	return quality.Heard{}
}

// A task is asked again of two other agents, of other owners, once it was answered, in rounds that are its
// alone, for the hub's own money; and the agent that two others contradict loses by it, and nobody else.
func TestTasksAreAskedAgain(t *testing.T) {
	h := newExplored(t, 1, nil)
	h.agent("a-1", "llama", "o-1", "Paris, the capital of France")
	h.agent("a-2", "llama", "o-2", "the capital of France is Paris")
	h.agent("a-3", "llama", "o-3", "seven sheep")
	h.agent("a-4", "llama", "o-3", "seven sheep") // of the same owner: the two have one word
	for i := range 40 {
		h.must(h.step(h.task("ann", fmt.Sprint("t", i), worth(market.Credit))))
		h.answer()
	}
	if len(h.asked) < 40 {
		t.Fatalf("%d tasks were asked again", len(h.asked))
	}
	for _, d := range h.asked {
		if d.Sketch == 0 || d.Kind != bus.DispatchTask || d.Task.Session != "" || d.Task.Terms.Worth != nil {
			t.Fatalf("asked again: %+v", d)
		}
	}
	own := 0
	for _, f := range h.frames {
		for _, r := range f.Records {
			if r.Round == nil {
				continue
			}
			probes := 0
			for _, x := range r.Round.Round.Tasks {
				if x.Client == h.n.cfg.Prober() {
					probes++
				}
			}
			if own += probes; probes > 0 && len(r.Round.Round.Tasks) > 1 {
				t.Fatalf("a task of the hub's own is in a round of others: %+v", r.Round.Round.Tasks)
			}
		}
	}
	if own != len(h.asked) || h.prepaid[h.n.cfg.Prober()] >= market.Credit {
		t.Errorf("%d rounds of the hub's own for %d tasks, and it has %s left", own, len(h.asked),
			h.prepaid[h.n.cfg.Prober()])
	}
	for id, honest := range map[string]bool{"a-1": true, "a-2": true, "a-3": false} {
		x, q := h.heard(id, "shadow"), h.n.lookup(id).quality("")
		if x.Count < 3 || (x.Mean == 1) != honest || (q == 0.8) != honest {
			t.Errorf("%s: %+v, quality %v", id, x, q)
		}
	}
}

// A text goes to no agent that its task could not have gone to, and where the client wants it to go nowhere
// else, or the hub's client has nothing, it is not asked again; nor while anybody is in the way.
func TestWhatIsNotAskedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		task   func(*bus.Task)
		broke  bool
		busy   bool
		share  float64
		asked  bool
		agents string // that may have been asked
	}{
		"of one model":    {func(m *bus.Task) { m.Model = "llama" }, false, false, 1, true, "a-1 a-2 a-3"},
		"of any":          {func(*bus.Task) {}, false, false, 1, true, "a-1 a-2 a-3 b-1 b-2"},
		"with no failing": {func(m *bus.Task) { m.Failover = "off" }, false, false, 1, false, ""},
		"of no money":     {func(*bus.Task) {}, true, false, 1, false, ""},
		"in the way":      {func(*bus.Task) {}, false, true, 1, false, ""},
		"not drawn":       {func(*bus.Task) {}, false, false, 0, false, ""},
	} {
		h := newExplored(t, c.share, nil)
		for i, id := range []string{"a-1", "a-2", "a-3"} {
			h.agent(id, "llama", fmt.Sprint("o-", i), "Paris")
		}
		h.agent("b-1", "qwen", "o-4", "Paris")
		h.agent("b-2", "qwen", "o-5", "Paris")
		if c.broke {
			h.prepaid[h.n.cfg.Prober()] = 0
		}
		if c.busy { // six of ten slots are taken
			for i := range 6 {
				h.must(h.step(h.task("bob", fmt.Sprint("busy", i), worth(market.Credit))))
			}
			for _, d := range h.dispatched {
				h.accept(d)
			}
			h.dispatched = nil
		}
		for i := range 10 {
			h.must(h.step(h.task("ann", fmt.Sprint("t", i), worth(market.Credit), c.task)))
			h.answer()
		}
		if (len(h.asked) > 0) != c.asked {
			t.Errorf("%s: %d were asked again", name, len(h.asked))
		}
		for i, id := range h.went {
			if !slices.Contains(strings.Fields(c.agents), id) {
				t.Errorf("%s: %s was asked %+v", name, id, h.asked[i].Task)
			}
		}
	}
}

// An agent whose answer cannot be compared is paid for it once, and not asked the same again and again.
func TestNoAgentIsAskedTheSameTwice(t *testing.T) {
	h := newExplored(t, 1, nil)
	h.agent("a-1", "llama", "o-1", "Paris")
	h.agent("a-2", "llama", "o-2", "Paris")
	h.must(h.step(h.task("ann", "t", worth(market.Credit))))
	asked := 0
	for range 30 {
		for ; len(h.dispatched) > 0; h.dispatched = h.dispatched[1:] {
			d := h.dispatched[0]
			c := completion(h.agentOf(d), d, market.Usage{Prompt: 100, Output: 9})
			if c.Sketch = likeness.NewSketch("Paris", d.Sketch); d.Task.Client == h.n.cfg.Prober() {
				c.Finish = "length"
				asked++
			}
			h.accept(d)
			h.must(h.step(c))
		}
		h.wait(2 * time.Second)
	}
	if asked != 1 {
		t.Errorf("it is asked, and paid, %d times", asked)
	}
}

// What is asked again is drawn by the hub's seed, and by nothing that a task bids.
func TestWhatIsDrawn(t *testing.T) {
	h := newExplored(t, 0.1, nil)
	h.agent("a-1", "llama", "o-1", "Paris")
	drawn, all := 0, 2000
	for i := range all {
		a := &task{id: market.TaskID(fmt.Sprint("ann/t", i)), msg: h.task("ann", "t")}
		b := &task{id: a.id, msg: h.task("ann", "t", worth(1)), terms: market.Terms{Worth: 7}}
		h.n.draws(a)
		h.n.draws(b)
		if a.sketch != b.sketch {
			t.Fatalf("task %d is drawn by what it bids", i)
		}
		if a.sketch != 0 {
			drawn++
		}
	}
	if drawn < all/20 || drawn > all/5 {
		t.Errorf("%d of %d are drawn, want a tenth", drawn, all)
	}
	other, err := NewNode(testConfig(), [32]byte{2})
	h.must(err)
	if other.explore.key == h.n.explore.key {
		t.Error("another seed draws the same")
	}
}

// Agents are asked what the operator knows the answer of, and judged by it.
func TestCanaries(t *testing.T) {
	h := newExplored(t, 0,
		func(c *Config) { c.Quality.Canaries, c.Quality.Questions = time.Second, "a file" })
	m := h.task("nobody", "x")
	m.MaxTokens, m.Domain = 64, "math"
	h.n.SetCanaries([]Canary{{Task: *m, Answer: "forty two"}})
	h.agent("a-1", "llama", "o-1", "It is forty two.")
	h.agent("a-2", "qwen", "o-2", "It is forty-one.")
	for range 60 {
		h.wait(time.Second)
		h.answer()
	}
	good, bad := h.heard("a-1", "canary"), h.heard("a-2", "canary")
	if good.Mean != 1 || bad.Mean != 0 || good.Count < 10 || bad.Count < 10 {
		t.Errorf("the one that knows: %+v, the other: %+v", good, bad)
	}
	if p, q := h.n.lookup("a-1").quality(""), h.n.lookup("a-2").quality(""); p <= 0.85 || q >= 0.6 {
		t.Errorf("qualities %v and %v of 0.8", p, q)
	}
	for _, d := range h.asked {
		if d.MaxTokens > 64 || d.Task.Client != h.n.cfg.Prober() {
			t.Fatalf("asked: %+v", d)
		}
	}
}

// An agent that does not know the answer gains nothing by saying nothing of it: no sketch, one of no answer
// that long, or an answer cut short by itself, is no answer. One that the question's bound cuts short is not
// judged.
func TestCanariesAreNotEvaded(t *testing.T) {
	h := newExplored(t, 0,
		func(c *Config) { c.Quality.Canaries, c.Quality.Questions = time.Second, "a file" })
	m := h.task("nobody", "x")
	m.MaxTokens, m.Domain = 64, "math"
	h.n.SetCanaries([]Canary{{Task: *m, Answer: "forty two"}})
	ways := map[string]func(c *bus.Completion, key uint64){
		"none":    func(c *bus.Completion, _ uint64) { c.Sketch = nil },
		"made-up": func(c *bus.Completion, _ uint64) { c.Sketch = []uint32{}; fill(&c.Sketch) },
		"short": func(c *bus.Completion, key uint64) {
			c.Sketch, c.Finish = likeness.NewSketch("It is", key), "length"
		},
		"bounded": func(c *bus.Completion, key uint64) {
			c.Sketch, c.Finish, c.Usage.Output = likeness.NewSketch("It is", key), "length", 64
		},
		"knows": func(c *bus.Completion, key uint64) {
			c.Sketch = likeness.NewSketch("forty two it is", key)
		},
	}
	for id := range ways {
		h.agent(id, "llama", id, "")
	}
	for range 120 {
		h.wait(time.Second)
		for len(h.dispatched) > 0 {
			d := h.dispatched[0]
			h.dispatched = h.dispatched[1:]
			id := h.agentOf(d)
			c := completion(id, d, market.Usage{Prompt: 100, Output: 9})
			ways[id](c, d.Sketch)
			h.accept(d)
			h.must(h.step(c))
		}
	}
	for id := range ways {
		x, judged := h.heard(id, "canary"), id != "bounded"
		if (x.Count >= 3) != judged || judged && (x.Mean == 1) != (id == "knows") {
			t.Errorf("%s: %+v", id, x)
		}
	}
}

// fill is a sketch that hides every word: all of its hashes are less.
func fill(s *[]uint32) {
	for i := range uint32(likeness.SketchWords) {
		*s = append(*s, i)
	}
}

// An agent is not asked what it could not be paid for: it would cut its answer short, and be judged by that.
func TestTheLastOfTheHubsOwnMoneyAsksNobody(t *testing.T) {
	h := newExplored(t, 0,
		func(c *Config) { c.Quality.Canaries, c.Quality.Questions = time.Second, "a file" })
	m := h.task("nobody", "x")
	m.MaxTokens, m.Domain = 2000, "math"
	h.n.SetCanaries([]Canary{{Task: *m, Answer: "forty two"}})
	h.prepaid[h.n.cfg.Prober()] = market.Credit / 200
	h.agent("a-1", "llama", "o-1", "It is forty two.")
	for range 20 {
		h.wait(time.Second)
		for _, d := range h.dispatched {
			if most := market.WorstCase(d.Price, d.PromptMost, d.MaxTokens); d.CostCap < most {
				t.Fatalf("an answer of %d tokens may cost %s, and no more than %s is paid", d.MaxTokens, most,
					d.CostCap)
			}
		}
		h.answer()
	}
}

// Nobody bids against an agent that the hub asks on its own account, so its card is held against those of the
// others of its model: one that is far above is not paid at all, whoever pays for what: questions, tasks that
// are asked again, seeds. Where that bound is off, it is.
func TestWhoAsksTooMuchIsNotAsked(t *testing.T) {
	for _, dearest := range []float64{2, 0} {
		h := newExplored(t, 0, func(c *Config) {
			c.Quality.Canaries, c.Quality.Questions = 5*time.Second, "a file"
			c.Seed.Dearest = dearest
		})
		h.prepaid[h.n.cfg.Prober()] = 1000 * market.Credit
		m := h.task("nobody", "x")
		m.MaxTokens, m.Domain = 64, "math"
		h.n.SetCanaries([]Canary{{Task: *m, Answer: "forty two"}})
		for _, id := range []string{"a-1", "a-2", "a-3"} {
			h.agent(id, "llama", id, "It is forty two.")
		}
		dear := registration("dear", "llama", 2, 0.8, card(3000, 3000, 12000))
		dear.Owner, h.says["dear"] = "dear", "It is forty two."
		h.must(h.n.Join(h.now, dear))
		h.run()
		for range 60 {
			h.wait(5 * time.Second)
			h.answer()
		}
		paid := map[string]int{}
		for _, id := range h.went {
			paid[id]++
		}
		if len(h.asked) < 20 || (paid["dear"] > 0) != (dearest == 0) || paid["a-1"] == 0 {
			t.Errorf("at most %v times the median: %d are asked, %v", dearest, len(h.asked), paid)
		}
	}
}

// The next question is due a period after the last: not a period after that had its slot, and not when an
// empty purse would be asked again.
func TestQuestionsComeByTheirPeriod(t *testing.T) {
	h := newExplored(t, 0, func(c *Config) {
		c.Quality.Canaries, c.Quality.Questions, c.Quality.Every = 3*time.Second, "a file", 3*time.Second
	})
	m := h.task("nobody", "x")
	m.MaxTokens, m.Domain = 64, "math"
	h.n.SetCanaries([]Canary{{Task: *m, Answer: "forty two"}})
	h.wait(time.Second) // nobody is there to be asked
	h.agent("a-1", "llama", "o-1", "It is forty two.")
	for range 120 {
		h.wait(500 * time.Millisecond)
		for len(h.dispatched) > 0 {
			d := h.dispatched[0]
			h.dispatched = h.dispatched[1:]
			h.asked = append(h.asked, d)
			c := completion("a-1", d, market.Usage{Prompt: 100, Output: 9})
			c.Sketch = likeness.NewSketch(h.says["a-1"], d.Sketch)
			h.accept(d)
			h.must(h.step(c))
		}
	}
	if n := len(h.asked); n < 15 || n > 21 {
		t.Errorf("in a minute %d questions are asked, one is due each 3 s", n)
	}
}
