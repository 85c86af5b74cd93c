package hub_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// One client keeps to its quarter of the waiting room, by default and whatever the room is set to, and is
// told which bound it met; the others are served as before. What comes to free slots does not wait, and is
// taken however many come at once.
func TestOneClientDoesNotFillTheRoom(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*hub.Config)
		waiting int // the most of one client
	}{
		"by default":              {nil, 512},
		"a smaller room":          {func(c *hub.Config) { c.MaxWaiting = 100 }, 25},
		"a room for three":        {func(c *hub.Config) { c.MaxWaiting = 3 }, 1},
		"as it is set":            {func(c *hub.Config) { c.MaxWaitingPerClient = 60 }, 60},
		"the money is on its way": {func(c *hub.Config) { c.MaxWaiting = 80 }, 20},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, c.change)
			h.join("a-1", "llama", 4, 0.8, card(1, 1, 4))
			h.join("b-1", "qwen", 1000, 0.8, card(1, 1, 4)) // for another model: its free slots are no use
			h.silent = name == "the money is on its way"
			free := 4
			if h.silent {
				free = 0
			}
			llama := func(m *bus.Task) { m.Model = "llama" }
			most := c.waiting + free
			for i := range most {
				h.must(h.step(h.task("ann", fmt.Sprint("t", i), llama)))
			}
			if h.n.Stats().Open != most {
				t.Fatalf("%d of %d tasks are taken", h.n.Stats().Open, most)
			}
			h.must(h.step(h.task("ann", "more", llama)))
			h.want("inbox.ann.more", "too_many_tasks")
			last := h.messages[len(h.messages)-1].Body.(*bus.Answer).Result
			if !strings.Contains(last.Message, "(max_waiting_per_client)") {
				t.Errorf("it is told %q", last.Message)
			}
			h.must(h.step(h.task("bob", "t", llama)))
			h.want("inbox.bob.t", "")
			if most < 100 { // what waits no more makes room
				h.must(h.step(&bus.Cancel{Client: "ann", Sender: "ann", Task: fmt.Sprint("t", most-1)}))
				h.must(h.step(h.task("ann", "again", llama)))
				h.want("inbox.ann.again", "")
			}
		})
	}
}

// A thousand tasks of one client that come at once to a thousand free slots are all served, the last of them
// once the prompts of the others are nearly computed.
func TestABurstToFreeSlotsIsTaken(t *testing.T) {
	h := newHouse(t, nil)
	for i := range 4 {
		h.join(fmt.Sprint("a-", i), "llama", 250, 0.8, card(1, 1, 4))
	}
	for i := range 1000 {
		h.must(h.n.Step(h.now, h.task("ann", fmt.Sprint("t", i), worth(market.Credit/100))))
	}
	h.run()
	if len(h.dispatched) < 990 {
		t.Errorf("%d are served at once", len(h.dispatched))
	}
	for h.now.Sub(start) < 500*time.Millisecond {
		h.pass(20 * time.Millisecond)
	}
	if len(h.dispatched) != 1000 {
		t.Errorf("%d are served", len(h.dispatched))
	}
	h.must(h.step(h.task("ann", "one-more")))
	h.want("inbox.ann.one-more", "")
	for i := range 600 {
		h.must(h.step(h.task("ann", fmt.Sprint("u", i))))
	}
	if h.n.Stats().Waiting != 512 {
		t.Errorf("%d wait", h.n.Stats().Waiting)
	}
}

// An answer without max_tokens ends where its engine ends it, unless it comes to cost as many cards as one
// task may take of an account. One that names max_tokens is held for in full.
func TestAnAnswerWithoutMaxTokens(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 4, 0.8, card(3, 1, 15))
	for _, size := range []int{10, 1000, 6000} {
		id := fmt.Sprint("t", size)
		h.must(h.step(h.task("ann", id, func(m *bus.Task) { m.Prompt.Tokens = size; m.MaxTokens = 0 })))
		d := h.take("ann", id)
		if !d.Open || size+d.MaxTokens > 8192 || size+d.MaxTokens < 8192*9/10-64 {
			t.Errorf("%d tokens: %d tokens of answer, open: %v; want what a context of 8192 leaves", size,
				d.MaxTokens, d.Open)
		}
		usual := d.Price.Cost(market.Usage{Prompt: 500, Output: 256}) // before a task was paid
		if most := 32 * max(d.Quoted, usual); d.CostCap > most {
			t.Errorf("%d tokens: %v is held beside the premium, %v at most", size, d.CostCap, most)
		}
		if d.CostCap < min(8*d.Quoted, d.Price.Cost(market.Usage{Prompt: size, Output: d.MaxTokens})) {
			t.Errorf("%d tokens: an answer is cut at %v, and %v is expected", size, d.CostCap, d.Quoted)
		}
	}
	h.must(h.step(h.task("ann", "named", func(m *bus.Task) { m.MaxTokens = 8000 })))
	d := h.take("ann", "named")
	if worst := d.Price.Cost(market.Usage{Prompt: 100, Output: d.MaxTokens}); d.Open || d.CostCap < worst {
		t.Errorf("an answer that may have %d tokens is cut at %v, a whole one costs up to %v", d.MaxTokens,
			d.CostCap, worst)
	}
}

// What is expected is covered, however little an operator lets one task take.
func TestAHoldCoversItsQuote(t *testing.T) {
	h := newHouse(t, func(c *hub.Config) { c.Terms.Hold = 1e-6 })
	h.join("a-1", "llama", 4, 0.8, card(3, 1, 15))
	h.must(h.step(h.task("ann", "least", func(m *bus.Task) { m.MaxTokens = 0 })))
	if d := h.take("ann", "least"); d.CostCap < d.Quoted {
		t.Errorf("%v is held for what is quoted at %v", d.CostCap, d.Quoted)
	}
}

func TestNoMoreIsHeldThanTheContextAllows(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 4, 0.8, card(3, 1, 15))
	whole := map[string]bus.Dispatch{}
	for id, tokens := range map[string]int{"context": 8192, "absurd": 1 << 24} {
		h.must(h.step(h.task("bob", id, func(m *bus.Task) { m.MaxTokens = tokens })))
		whole[id] = h.take("bob", id)
		h.serve(whole[id], market.Usage{Prompt: 100, Output: 1})
		h.pass(20 * time.Millisecond)
	}
	if a, b := whole["context"], whole["absurd"]; a.CostCap != b.CostCap || a.MaxTokens != b.MaxTokens {
		t.Errorf("for 8192 tokens %v is held, for %d %v", a.CostCap, 1<<24, b.CostCap)
	}
}

// An answer that may take longer than any message can say is given the longest.
func TestTheLongestAnswer(t *testing.T) {
	h := newHouse(t, nil)
	r := registration("a-1", "llama", 1, 0.9, card(1, 1, 4))
	r.MaxModelLen = 0
	h.must(h.register(r))
	h.must(h.step(h.task("ann", "t1", func(m *bus.Task) { m.MaxTokens = 1_000_000 })))
	if d := h.take("ann", "t1"); d.TimeoutMS != bus.MaxPatient || d.MaxTokens != 1_000_000 {
		t.Errorf("%d ms for %d tokens", d.TimeoutMS, d.MaxTokens)
	}
}
