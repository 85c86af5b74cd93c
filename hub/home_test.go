package hub

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// homes are the agents in whose lines those stand who wait, by arrival.
func (h *house) homes(clients ...string) (at []string) {
	for _, client := range clients {
		x := h.n.known[taskKey{client, "t"}]
		if x == nil || x.state != waiting || x.home == nil {
			at = append(at, "-")
			continue
		}
		at = append(at, x.home.id)
	}
	return at
}

// engage gives an agent's only slot a long answer.
func (h *house) engage(client, agent string) {
	h.prepaid[client] = 100 * market.Credit
	h.must(h.step(h.task(client, "busy", inNoHurry, func(m *bus.Task) { m.MaxTokens = 4000 })))
	d := h.take(client, "busy")
	if h.agentOf(d) != agent {
		h.t.Fatalf("%s is at %s, want %s", client, h.agentOf(d), agent)
	}
	h.accept(d)
}

// Who finds its prompt nowhere stands where fewest stand, also when a line becomes shorter than its own. Who
// finds it at home stays there. Nobody is told of a later time for it, and what is bid decides nothing.
func TestWhoFindsItsPromptNowhereLeavesALongLine(t *testing.T) {
	for _, factor := range []market.Credits{1, 1000} {
		h := newHouse(t, func(c *Config) { c.Silence = time.Hour })
		h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
		h.must(h.step(h.task("ann", "warm", on(7))))
		h.serve(h.take("ann", "warm"), market.Usage{Prompt: 400, Output: 10})
		h.engage("b-1", "a-1")
		h.join("a-2", "llama", 1, 0.9, card(1, 1, 4))
		h.engage("b-2", "a-2")
		h.join("q-0", "qwen", 1, 0.9, card(1, 1, 4)) // a slot is free, so there are rounds
		var clients []string
		for i := range 8 {
			client := fmt.Sprint("c-", i)
			clients = append(clients, client)
			h.prepaid[client] = 100_000 * market.Credit
			text := func(*bus.Task) {}
			if i == 6 {
				text = on(7)
			}
			bid := func(m *bus.Task) {
				w, ms := factor*market.Credit/100*market.Credits(1+i%3), int64(600_000)
				m.Terms.Worth, m.Terms.PatienceMS = &w, &ms
			}
			h.must(h.step(h.task(client, "t", text, bid, func(m *bus.Task) { m.Model = "llama" })))
		}
		before := h.homes(clients...)
		if got, want := fmt.Sprint(before), "[a-1 a-2 a-1 a-2 a-1 a-2 a-1 a-2]"; got != want {
			t.Fatalf("at worths of %d they are at home at %s, want %s", factor, got, want)
		}
		at := h.n.known[taskKey{"c-4", "t"}].expected
		for _, client := range []string{"c-1", "c-3", "c-5", "c-7"} {
			h.must(h.step(&bus.Cancel{Client: client, Sender: client, Task: "t"}))
		}
		h.pass(10 * time.Millisecond)
		h.join("q-1", "qwen", 1, 0.9, card(1, 1, 4)) // which is news: all are in the round
		after := h.homes("c-0", "c-2", "c-4", "c-6")
		if got, want := fmt.Sprint(after), "[a-1 a-1 a-2 a-1]"; got != want {
			t.Errorf("at worths of %d they are at home at %s when a line is empty, want %s", factor, got, want)
		}
		if now := h.n.known[taskKey{"c-4", "t"}].expected; now > at {
			t.Errorf("the task that moved was told of %v, and now of %v", at, now)
		}
	}
}

// How long those will take that run is forecast by what is known of answers now, not by what was known when
// they were sent.
func TestRunningAnswersAreForecastByWhatIsKnownNow(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.Silence = time.Hour })
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	h.engage("b-1", "a-1")
	first := h.n.endsOf("a-1")
	h.join("a-2", "llama", 1, 0.9, card(1, 1, 4))
	for i := range 30 {
		id := fmt.Sprint("t-", i)
		h.must(h.step(h.task("b-1", id, func(m *bus.Task) { m.MaxTokens = 4000 })))
		h.serve(h.take("b-1", id), market.Usage{Prompt: 100, Output: 10})
		h.pass(100 * time.Millisecond)
	}
	if last := h.n.endsOf("a-1"); last > first/4 {
		t.Errorf("it was to end after %v at first; now that 30 answers were short it has yet %v to go", first, last)
	}
}

// endsOf is when the slot of an agent comes free.
func (n *Node) endsOf(agent string) time.Duration {
	n.standUp()
	d, _ := n.endsAt(&n.crowd.stands[n.lookup(agent).seat]).Nth(1)
	return d
}
