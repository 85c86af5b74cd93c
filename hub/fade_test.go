package hub

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// A charge for those who wait falls as they go, and by time alone. Whom it kept from a free slot is looked at
// again then, though nothing else happens.
func TestWhomTheCrowdKeptOutIsLookedAtAgain(t *testing.T) {
	h := crowdHouse(t, 2048, func(c *Config) { c.Silence, c.Crowd.Compute = time.Hour, 24 })
	for _, a := range [][2]string{{"fast", "llama"}, {"slow", "qwen"}} {
		reg := registration(a[0], a[1], 1, 0.9, card(1, 1, 4))
		reg.Class = "h200" // slower agents of other classes are not charged for being slow
		h.must(h.n.Join(h.now, reg))
		h.run()
	}
	of := func(model string) func(*bus.Task) { return func(m *bus.Task) { m.Model = model } }
	for i := range 20 { // what a prompt takes there is seen
		for model, itl := range map[string]int64{"llama": 1_000, "qwen": 50_000} {
			id := fmt.Sprint(model, i)
			h.must(h.step(h.task("ann", id, of(model))))
			d := h.take("ann", id)
			c := completion(h.agentOf(d), d, market.Usage{Prompt: 100, Output: 40})
			c.TTFTUS, c.ITLUS = 100*itl, itl
			h.accept(d)
			h.must(h.step(c))
			h.pass(time.Second)
		}
	}
	for _, model := range []string{"llama", "qwen"} {
		h.must(h.step(h.task("ann", "runs-"+model, of(model), worth(100*market.Credit))))
	}
	fast, slow := h.take("ann", "runs-llama"), h.take("ann", "runs-qwen")
	h.accept(fast)
	h.accept(slow)
	for i := range 40 {
		client := fmt.Sprint("c", i)
		h.prepaid[client] = 1000 * market.Credit
		h.must(h.step(h.task(client, fmt.Sprint("rich", i), of("qwen"), worth(10*market.Credit))))
	}
	h.must(h.step(h.task("ann", "poor", worth(market.Credit/1000))))
	h.pass(time.Second)
	h.ends(slow)
	slow = h.dispatched[0]
	h.dispatched = nil
	h.accept(slow)
	h.pass(time.Second)
	for i := range 40 {
		if id := fmt.Sprint("rich", i); id != slow.Task.ID {
			who := fmt.Sprint("c", i)
			h.must(h.n.Step(h.now, &bus.Cancel{Client: who, Sender: who, Task: id}))
		}
	}
	h.run()
	h.ends(slow)
	if h.n.waiting != 1 || len(h.dispatched) > 0 {
		t.Fatalf("%d wait, dispatched are %s: the charge keeps nobody out", h.n.waiting, h.running())
	}
	for end := h.now.Add(40 * time.Second); !h.wake.IsZero() && h.wake.Before(end) && h.n.waiting > 0; {
		h.now = h.wake
		h.n.Tick(h.now)
		h.run()
	}
	if h.running() != "ann/poor>slow" {
		t.Errorf("a slot is free, and nobody else waits: the task has %q", h.answerTo("inbox.ann.poor"))
	}
}
