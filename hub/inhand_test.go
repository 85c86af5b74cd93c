package hub

import (
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// hasty is a task that finds an answer worth nothing whose first token takes a tenth of a second.
func hasty(m *bus.Task) {
	w, delta, ms := market.Credit, 0.5, int64(100)
	m.Terms = bus.Terms{Worth: &w, Delta: &delta, PatienceMS: &ms}
}

// busyWith is a house where the only agent has slots to spare, and a prompt of so many tokens to compute
// whose answer takes long. It says nothing meanwhile.
func busyWith(t *testing.T, tokens int, change func(*Config)) *house {
	h := newHouse(t, func(c *Config) {
		c.Silence, c.Seed.Every = time.Hour, 0
		change(c)
	})
	h.join("a-1", "llama", 8, 0.9, card(1, 1, 4))
	h.must(h.step(h.task("ann", "t1", func(m *bus.Task) {
		m.Prompt.Tokens, m.Prompt.Bytes, m.MaxTokens = tokens, 4*tokens, 2000
	})))
	h.accept(h.take("ann", "t1"))
	return h
}

// A slot that is free is worth nothing to a task while its agent has much to compute. Once that is done it
// is, and the task has it though nothing else happens: the answer that runs may take minutes.
func TestASlotIsOfferedAgainOnceItsAgentHasLessInHand(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"given however much":     func(c *Config) { c.Seats.Depth = 0 },
		"given little at a time": func(c *Config) { c.Seats.Depth = Default().Seats.Depth },
	} {
		h := busyWith(t, 6000, change)
		takes := h.n.load(h.n.lookup("a-1")).Left
		if takes < 500*time.Millisecond {
			t.Fatalf("the prompt takes %v: the test sees nothing", takes)
		}
		h.must(h.step(h.task("bob", "t2", hasty)))
		came := h.now
		for h.n.waiting > 0 && !h.wake.IsZero() && h.wake.Sub(came) < 20*time.Second {
			h.pass(max(0, h.wake.Sub(h.now)))
		}
		if waited := h.now.Sub(came); h.running() != "bob/t2>a-1" || waited > takes+takes/4 {
			t.Errorf("%s: the agent is through with its prompt after %v, and after %v it is handed %q", name,
				takes, waited, h.running())
		}
		h.audited()
	}
}

// A task came when an agent was cheap enough, and had no slot. That it has slots now, and asks more than they
// are worth to the task, is what the task is told.
func TestAFreeSlotThatIsNotWorthItsCostIsSaidToBeFree(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.Silence, c.Deadline = time.Hour, 10*time.Second })
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	h.must(h.step(h.task("ann", "t1")))
	h.must(h.step(h.task("bob", "t2", worth(market.Credit/100))))
	h.must(h.step(&bus.Summary{Agent: "a-1", Boot: 1, Seq: 1, State: bus.StateReady, Slots: 1, InFlight: 1,
		Price: card(1000, 1000, 4000)}))
	h.serve(h.take("ann", "t1"), market.Usage{Prompt: 100, Output: 10})
	if h.n.waiting != 1 || h.n.lookup("a-1").free(h.n) != 1 {
		t.Fatalf("%d wait, and %d slots are free: the test sees nothing", h.n.waiting,
			h.n.lookup("a-1").free(h.n))
	}
	h.pass(11 * time.Second)
	h.want("inbox.bob.t2", string(bus.CodeNotWorthIt))
}

// How long answers are is asked once a second. Whom a slot was not worth its cost to, by what was known then,
// is looked at again when it has been asked anew.
func TestASlotIsOfferedAgainOnceAnswersAreShorter(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.Silence, c.Seed.Every = time.Hour, 0 })
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 400))
	h.must(h.step(h.task("ann", "t1", worth(market.Credit))))
	h.must(h.step(h.task("bob", "t2", worth(market.Credit/20))))
	a, waits := h.n.lookup("a-1"), h.waiting()
	if len(waits) != 1 {
		t.Fatalf("%d wait, want one", len(waits))
	}
	waits[0].length = length{until: h.n.at(lengthsEvery - 1), n: 1,
		known: [4]known{{a.predictor.Usual(100), 100}}}
	d := h.take("ann", "t1")
	h.accept(d)
	cut := completion("a-1", d, market.Usage{Prompt: 100, Output: 10}) // which says nothing of lengths
	cut.Finish = "length"
	h.must(h.step(cut))
	if h.n.waiting != 1 {
		t.Fatalf("%d wait beside a free slot: the test sees nothing", h.n.waiting)
	}
	came := h.now
	for h.n.waiting > 0 && h.wake.Sub(came) < 20*time.Second {
		h.pass(max(0, h.wake.Sub(h.now)))
	}
	if waited := h.now.Sub(came); h.running() != "bob/t2>a-1" || waited > lengthsEvery+again {
		t.Errorf("after %v it is handed %q", waited, h.running())
	}
}
