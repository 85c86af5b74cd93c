package hub_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/ledger"
	"souk/market"
)

// asserted is a house where a-2 got ann's t1 as it said that it holds the prompt.
func asserted(t *testing.T) (*house, bus.Dispatch, *bus.Task) {
	t.Helper()
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 0.9, card(100, 10, 40))
	h.join("a-2", "llama", 1, 0.9, card(100, 10, 40))
	x := h.task("ann", "t1", wide(1, 20), worth(10*market.Credit))
	again := *x
	h.must((&tells{h: h, agent: "a-2"}).say(1, 0.95, x.Prompt.Prefixes, nil))
	h.must(h.step(x))
	d := h.take("ann", "t1")
	if h.agentOf(d) != "a-2" || d.Asserted < 2000 {
		t.Fatalf("it goes to %s, with %d tokens asserted", h.agentOf(d), d.Asserted)
	}
	return h, d, &again
}

// An assertion stands in the journal, so it is billed after the hub has begun anew, also where its agent
// leaves it out of its account, whether or not the task was sent again.
func TestAnAssertionOutlivesItsHub(t *testing.T) {
	for _, again := range []bool{false, true} {
		h, d, x := asserted(t)
		h.restart()
		h.must(h.n.Lead(h.now, 8))
		h.join("a-2", "llama", 1, 0.9, card(100, 10, 40))
		if again {
			h.must(h.step(x))
		}
		u := market.Usage{Prompt: 2560, Output: 50}
		before := h.replica.Balance("agent:a-2:payable")
		c := completion("a-2", d, u) // which says nothing of what was asserted
		h.must(h.step(c))
		due := d.Price.Cost(market.Usage{Prompt: 2560, Cached: d.Asserted, Output: 50})
		if got := h.replica.Balance("agent:a-2:payable") - before; got != due {
			t.Errorf("sent again %v: paid %s, want %s", again, hub.Money(got), hub.Money(due))
		}
		if found := h.findings(ledger.LevelMetering - 1); len(found) > 0 {
			t.Errorf("sent again %v: %v", again, found)
		}
		if found := h.findings(ledger.LevelMetering); len(found) != 1 { // it wanted more
			t.Errorf("sent again %v: %v", again, found)
		}
	}
}

// An agent that never says what its engine found is believed for no more than half of twenty tasks, and pays
// for each of them.
func TestWhoDoesNotSayWhatItFound(t *testing.T) {
	for name, hide := range map[string]func(*bus.Completion){
		"no cached tokens": func(c *bus.Completion) { c.NoCacheReport = true },
		"no usage":         func(c *bus.Completion) { c.Unmetered = true },
	} {
		h := newHouse(t, nil)
		h.join("a-1", "llama", 4, 0.9, card(100, 10, 40))
		h.join("liar", "llama", 4, 0.9, card(100, 10, 40))
		s := &tells{h: h, agent: "liar"}
		lost, paid := 0, market.Credits(0)
		for i := range 20 {
			x := h.task("ann", fmt.Sprint("t", i), wide(uint64(i), 20), worth(10*market.Credit))
			h.must(s.say(1, 0.95, x.Prompt.Prefixes, nil))
			h.must(h.step(x))
			d := h.take("ann", x.ID)
			h.accept(d)
			u := market.Usage{Prompt: 2560, Output: 50}
			c := billed(h.agentOf(d), d, u)
			hide(c)
			h.must(h.step(c))
			if d.Asserted > 0 {
				lost++
				paid += d.Price.Cost(u) - d.Price.Cost(bus.Billed(u, d.Asserted))
			}
			h.pass(time.Second)
			h.hearAll()
		}
		if lost != 11 || paid <= 0 || len(h.faults) > 0 {
			t.Errorf("%s: its lies win %d tasks and cost it %s; %v", name, lost, hub.Money(paid), h.faults)
		}
	}
}

// The rest of an answer that broke off is quoted with what an agent says that it holds of the prompt, so the
// agent is paid for that much as cached, and is judged by it.
func TestTheRestOfAnAnswerIsAsserted(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 4, 0.9, card(100, 10, 40))
	for i := range 3 {
		id := fmt.Sprint("t", i)
		x := h.task("ann", id, wide(uint64(i), 20), worth(10*market.Credit))
		again := *x
		h.must(h.step(x))
		d := h.take("ann", id)
		h.accept(d)
		if i == 0 {
			h.join("liar", "llama", 4, 0.8, card(100, 10, 40))
		}
		h.must((&tells{h: h, agent: "liar", seq: uint64(i)}).say(1, 0.95, x.Prompt.Prefixes, nil))
		failed := completion("a-1", d, market.Usage{})
		failed.Outcome, failed.Code, failed.Relayed = bus.OutcomeFailed, bus.CodeEngineFailed, 40
		again.Attempt, again.Resume = 1, &bus.Resume{Agent: "a-1", Seq: 40, Tokens: make([]uint32, 40),
			Text: "so far"}
		h.must(h.step(failed))
		h.must(h.step(&again))
		d = h.take("ann", id)
		rec, _ := h.replica.Hold(d.Hold)
		if rec.Agent != "liar" || rec.Cached < 2000 || rec.Asserted < 2000 || d.Asserted != rec.Asserted {
			t.Fatalf("the rest goes to %s, which is expected to hold %d tokens and asserts %d (%d)", rec.Agent,
				rec.Cached, rec.Asserted, d.Asserted)
		}
		h.accept(d)
		h.must(h.step(billed("liar", d, market.Usage{Prompt: 2600, Output: 5})))
		h.pass(time.Minute)
		h.hearAll()
	}
	h.audited()
	if _, speaks := h.n.Rules("liar"); speaks {
		t.Error("it is believed after three misses")
	}
}

// A task that is sent again after its hub began anew is, to what the hub learns of it, as it was to the hub
// before: it is in its agent's queue, and its answer teaches what such a task takes.
func TestATaskThatIsTakenUpAgain(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	h.join("a-2", "llama", 1, 0.5, card(1, 1, 4))
	h.must(h.step(h.task("ann", "t1")))
	d := h.take("ann", "t1")
	was := h.n.Stands(d.Hold)
	x := h.task("ann", "t1")
	h.restart()
	h.must(h.n.Lead(h.now, 8))
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	h.join("a-2", "llama", 1, 0.5, card(1, 1, 4))
	h.must(h.step(x))
	is := h.n.Stands(d.Hold)
	if is != was || !strings.HasPrefix(is, "1 in the queue, 1 under way, run true;") {
		t.Errorf("it was\n%s, and is\n%s", was, is)
	}
	h.accept(d)
	h.must(h.step(completion("a-1", d, market.Usage{Prompt: 100, Output: 10})))
	if got := h.n.Depth("a-1", h.task("ann", "t1")); got != 1 || h.n.InQueue("a-1") != 0 {
		t.Errorf("%d prefixes are believed to be held, %d tasks are in the queue", got, h.n.InQueue("a-1"))
	}
	h.audited()
}

// What agents say moves no prewarming: neither one that says it holds more of each prompt than anybody was
// sent, nor one that says it has lost what it was prewarmed with.
func TestALiarMovesNoPrewarming(t *testing.T) {
	h := newHouse(t, func(c *hub.Config) { c.Fee = 10 })
	h.prepaid["probe-math"] = 10 * market.Credit
	price := card(100, 10, 100)
	h.join("a-1", "llama", 4, 0.8, price)
	h.join("liar", "llama", 4, 0.8, card(200, 200, 400)) // dear, so that it gets no task
	s := &tells{h: h, agent: "liar"}
	dialogue := func(i int) *bus.Task {
		return h.task("ann", fmt.Sprint("t", i), worth(market.Credit), func(m *bus.Task) {
			m.Prompt = bus.Prompt{Bytes: 6400, Messages: 2, Tokens: 1600,
				Prefixes: []bus.PrefixHash{{Bytes: 6000, Hash: 1 << 40}, {Bytes: 6400,
					Hash: uint64(100+i) << 40}}}
		})
	}
	prewarmed := map[string]int{}
	ask := func(i int) {
		x := dialogue(i)
		h.must(s.say(1, 0.95, x.Prompt.Prefixes, nil))
		h.must(h.step(x))
		for len(h.dispatched) > 0 {
			d := h.dispatched[0]
			h.dispatched = h.dispatched[1:]
			u := market.Usage{Prompt: 1600, Output: 20}
			if d.Task.Client == "probe-math" {
				prewarmed[h.agentOf(d)]++
				u.Output = 1
			}
			h.accept(d)
			h.must(h.step(billed(h.agentOf(d), d, u)))
		}
		h.pass(100 * time.Millisecond)
	}
	for i := range 6 {
		ask(i)
	}
	h.join("a-2", "llama", 4, 0.7, price)
	h.pass(2 * time.Second)
	ask(6)
	if prewarmed["a-2"] != 1 {
		t.Fatalf("prewarmed: %v", prewarmed)
	}
	empty := &tells{h: h, agent: "a-2"}
	for i := range 40 {
		h.must(empty.say(1, 0.95, nil, nil))
		for range 20 {
			h.pass(500 * time.Millisecond)
			h.hearAll()
		}
		ask(7 + i)
	}
	if rules, _ := h.n.Rules("a-2"); prewarmed["a-2"] != 1 || !rules || len(h.faults) > 0 {
		t.Errorf("prewarmed: %v; its word rules: %v; %v", prewarmed, rules, h.faults)
	}
}

// Of pictures agents do not say what they hold, so what was served stays believed where an agent's word rules
// otherwise.
func TestPicturesStayBelieved(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 0.9, card(100, 10, 40))
	s := &tells{h: h, agent: "a-1"}
	for _, loose := range []int{bus.LooseNone, bus.LooseMedia} {
		expected := 0
		for i := range 3 {
			x := h.task("ann", fmt.Sprintf("t%d-%d", loose, i), wide(uint64(loose), 20),
				worth(10*market.Credit))
			x.Prompt.Loose = loose
			h.must(s.say(1, 0.95, nil, nil))
			h.must(h.step(x))
			d := h.take("ann", x.ID)
			rec, _ := h.replica.Hold(d.Hold)
			expected += rec.Cached
			if rec.Asserted > 0 {
				t.Errorf("%d tokens are asserted", rec.Asserted)
			}
			h.serve(d, market.Usage{Prompt: 2560, Cached: rec.Cached, Output: 50})
			h.pass(5 * time.Second)
			h.must(h.summary("a-1", nil)) // which lists no sessions
		}
		if rules, _ := h.n.Rules("a-1"); !rules || (expected > 2*2400) != (loose == bus.LooseMedia) {
			t.Errorf("loose %d: %d tokens are expected to be cached, its word rules: %v", loose, expected, rules)
		}
	}
}
