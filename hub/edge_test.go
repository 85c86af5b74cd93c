package hub_test

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// A client that is alone with a mixed fleet pays the price card, however many callers it has: what its tasks
// keep from each other is charged to nobody.
func TestOneClientAlonePaysTheCard(t *testing.T) {
	h := newHouse(t, func(c *hub.Config) { c.Prewarm.Every, c.Silence = 0, time.Hour })
	h.join("a-1", "llama", 4, 0.9, card(1, 1, 4))
	h.join("a-2", "llama", 4, 0.85, card(1, 1, 4))
	h.join("a-3", "qwen", 2, 0.8, card(2, 1, 8))
	var running []bus.Dispatch
	next, tolled, paid := 0, 0, 0
	for range 300 {
		for ; next < 40 || h.n.Stats().Open < 40; next++ {
			worth := worth(market.Credits(1+next%7) * market.Credit / 100)
			h.must(h.step(h.task("ann", fmt.Sprint("t", next), worth,
				func(m *bus.Task) { m.DeadlineMS = h.now.Add(time.Hour).UnixMilli() })))
		}
		h.pass(50 * time.Millisecond)
		for _, d := range h.dispatched {
			if d.Premium != 0 {
				t.Fatalf("task %s pays %v beside the card, slot price %v, toll %v, of it its client's own %v",
					d.Task.ID, d.Premium, d.SlotPrice, d.Toll, d.Own)
			}
			if d.Toll < 0 {
				tolled++
			}
			paid++
			h.accept(d)
			running = append(running, d)
		}
		h.dispatched = nil
		if len(running) > 9 {
			d := running[0]
			running = running[1:]
			h.must(h.step(completion(h.agentOf(d), d, market.Usage{Prompt: 100, Output: 40})))
		}
	}
	if paid < 100 || tolled == 0 {
		t.Errorf("%d tasks, %d with a toll: the test sees little", paid, tolled)
	}
	h.audited()
}

// Whatever a task says it is worth, and whether agents are full, silent or draining, it is answered by its
// deadline, and nothing that should never happen does.
func TestTermsAtEveryEdgeAreAnswered(t *testing.T) {
	edges := map[string]func(*bus.Terms){
		"worth 0":           func(m *bus.Terms) { m.Worth = new(market.Credits(0)) },
		"worth 1":           func(m *bus.Terms) { m.Worth = new(market.Credits(1)) },
		"the largest worth": func(m *bus.Terms) { m.Worth = new(market.MaxWorth) },
		"worth 2^62":        func(m *bus.Terms) { m.Worth = new(market.Credits(1 << 62)) },
		"delta 0":           func(m *bus.Terms) { m.Delta = new(0.0) },
		"the least delta":   func(m *bus.Terms) { m.Delta = new(5e-324) },
		"delta 1":           func(m *bus.Terms) { m.Delta = new(1.0) },
		"patience 1 ms":     func(m *bus.Terms) { m.PatienceMS = new(int64(1)) },
		"patience a day":    func(m *bus.Terms) { m.PatienceMS = new(int64(24 * 3600 * 1000)) },
		"patience a year":   func(m *bus.Terms) { m.PatienceMS = new(int64(365 * 24 * 3600 * 1000)) },
		"max_price 0":       func(m *bus.Terms) { m.MaxPrice = new(market.Credits(0)) },
		"max_price 1":       func(m *bus.Terms) { m.MaxPrice = new(market.Credits(1)) },
		"max_price 2^62":    func(m *bus.Terms) { m.MaxPrice = new(market.Credits(1 << 62)) },
	}
	for _, fleet := range []string{"free", "full", "silent", "draining"} {
		for name, edge := range edges {
			h := newHouse(t, func(c *hub.Config) {
				if c.Prewarm.Every = 0; fleet != "silent" {
					c.Silence = time.Hour
				}
			})
			h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
			switch fleet {
			case "full":
				h.must(h.step(h.task("ann", "runs")))
				h.accept(h.take("ann", "runs"))
			case "silent":
				h.pass(time.Minute)
			case "draining":
				h.must(h.summary("a-1", func(m *bus.Summary) { m.State = bus.StateDraining }))
			}
			for _, who := range []string{"ann", "bob"} {
				_ = h.step(h.task(who, "t", func(m *bus.Task) {
					edge(&m.Terms)
					m.DeadlineMS = h.now.Add(5 * time.Second).UnixMilli()
				}))
			}
			for _, d := range h.dispatched {
				h.accept(d)
			}
			for range 60 {
				h.pass(100 * time.Millisecond)
			}
			for _, who := range []string{"ann", "bob"} {
				if h.answerTo("inbox."+who+".t") == "" {
					t.Errorf("%s, agents %s: the task of %s has no answer", name, fleet, who)
				}
			}
			if st := h.n.Stats(); len(h.faults) > 0 || st.Open != st.Holds {
				t.Errorf("%s, agents %s: faults %v, %d tasks wait", name, fleet, h.faults, st.Open-st.Holds)
			}
		}
	}
}
