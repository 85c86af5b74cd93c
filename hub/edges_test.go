package hub

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// lastWords counts the last words on tasks, by code; "" is who was accepted.
func (h *house) lastWords() map[bus.Code]int {
	last, codes := map[string]bus.Code{}, map[bus.Code]int{}
	for _, l := range h.messages {
		if a, ok := l.Body.(*bus.Answer); ok {
			if last[l.Subject] = ""; a.Result != nil {
				last[l.Subject] = a.Result.Code
			}
		}
	}
	for _, c := range last {
		codes[c]++
	}
	return codes
}

// 2,048 tasks wait, of one client or each of another, and are served as slots come free, each once; whoever
// is not by its deadline is told so. Nobody is left, and the journal is sound.
func TestTwoThousandTasksHaveAnEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	const tasks = 2048
	for _, clients := range []int{1, tasks} {
		h := crowdHouse(t, tasks, func(c *Config) { c.Crowd, c.Silence = Default().Crowd, time.Hour })
		for k := range 4 {
			h.join(fmt.Sprint("a-", k), "llama", 8, 0.9, card(1, 1, 4))
		}
		for i := range tasks {
			client := fmt.Sprint("c", i%clients)
			if h.prepaid[client] == 0 {
				h.prepaid[client] = 10_000 * market.Credit
			}
			h.now = h.now.Add(time.Microsecond)
			h.must(h.n.Step(h.now, h.task(client, fmt.Sprint("t", i))))
		}
		h.run()
		served := 0
		for i := 0; i < 200 && h.n.waiting+len(h.dispatched) > 0; i++ {
			for _, d := range slices.Clone(h.dispatched) {
				d = h.take(d.Task.Client, d.Task.ID)
				h.accept(d)
				h.must(h.n.Step(h.now, completion(h.agentOf(d), d, market.Usage{Prompt: 100, Output: 10})))
				served++
			}
			h.pass(time.Second)
		}
		late := h.lastWords()
		if h.n.waiting != 0 || len(h.faults) > 0 || served+late[bus.CodeOutbid]+late[bus.CodeNoRoom]+
			late[bus.CodeNotWorthIt] != tasks || served < tasks/2 {
			t.Errorf("%d clients: %d served, %d wait, others have %v; faults %v", clients, served, h.n.waiting,
				late, h.faults)
		}
		h.audited()
	}
}

// All agents are full and say nothing more, and what runs there should have ended long ago. Nobody waits for
// them beyond its deadline, and each is told that no slot came free; who comes after that is told at once
// that no agent is there, or waits like the others.
func TestEveryAgentFullAndSilent(t *testing.T) {
	h := crowdHouse(t, 2048, func(c *Config) { c.Crowd = Default().Crowd })
	for k := range 4 {
		h.busy(fmt.Sprint("a-", k), "llama", 2)
	}
	for i := range 300 {
		client := fmt.Sprint("c", i%20)
		h.prepaid[client] = 100 * market.Credit
		h.must(h.n.Step(h.now, h.task(client, fmt.Sprint("t", i))))
	}
	h.run()
	if h.n.waiting != 300 {
		t.Fatalf("%d wait, want all", h.n.waiting)
	}
	for range 40 { // waits that are forecast of ends in the past are amounts of time, and rounds can be made
		h.pass(time.Second)
	}
	h.pass(21 * time.Second)
	codes := h.lastWords()
	if h.n.waiting != 0 || codes[bus.CodeNoRoom] != 300 || len(h.dispatched) > 0 || len(h.faults) > 0 {
		t.Errorf("%d wait, last words %v, faults %v", h.n.waiting, codes, h.faults)
	}
	h.must(h.step(h.task("bob", "later")))
	h.pass(61 * time.Second)
	if got := h.answerTo("inbox.bob.later"); h.n.waiting != 0 || got == "" || strings.HasPrefix(got, "acc") {
		t.Errorf("who comes later is told %q, %d wait", got, h.n.waiting)
	}
	h.audited()
}

// What runs on an agent should have ended long ago: whoever waits for it is forecast a finite wait, and is
// served when the slot does come free, though other agents have no room.
func TestEndsInThePast(t *testing.T) {
	h := crowdHouse(t, 2048, func(c *Config) { c.Crowd, c.Silence = Default().Crowd, time.Hour })
	running := h.busy("a-1", "llama", 2)
	h.pass(30 * time.Second)
	for i := range 20 {
		h.must(h.n.Step(h.now, h.task("bob", fmt.Sprint("t", i), inNoHurry)))
	}
	h.run()
	h.n.collect()
	h.n.lineUp()
	e := h.n.endsAt(&h.n.crowd.stands[h.n.lookup("a-1").seat])
	for n := 1; n < 40; n++ {
		if wait, ok := e.Nth(n); !ok || wait < time.Second || wait > time.Hour {
			t.Errorf("slot %d is expected in %v", n, wait)
		}
	}
	for _, x := range h.n.round.tasks {
		h.n.batch.Add(x, x.arrived)
	}
	h.ends(running[0])
	h.pass(h.n.cfg.Batch.MaxWait)
	if len(h.dispatched) != 1 || h.n.waiting != 19 {
		t.Errorf("%d are dispatched, %d wait", len(h.dispatched), h.n.waiting)
	}
	h.audited()
}

// Agents of which each is a class of its own share no forecast, and none is charged for taking longer than
// another. A crowd is served by them all the same.
func TestClassesOfOne(t *testing.T) {
	h := crowdHouse(t, 2048, func(c *Config) { c.Crowd, c.Silence = Default().Crowd, time.Hour })
	for k := range 4 {
		reg := registration(fmt.Sprint("a-", k), "llama", 2, 0.9, card(1, 1, market.Credits(4+k)))
		reg.Class = fmt.Sprint("class-", k)
		h.must(h.n.Join(h.now, reg))
	}
	for i := range 200 {
		client := fmt.Sprint("c", i%10)
		h.prepaid[client] = 100 * market.Credit
		h.must(h.n.Step(h.now, h.task(client, fmt.Sprint("t", i))))
	}
	h.run()
	by := map[string]int{}
	for i := 0; i < 200 && h.n.waiting+len(h.dispatched) > 0; i++ {
		for _, d := range slices.Clone(h.dispatched) {
			d = h.take(d.Task.Client, d.Task.ID)
			if d.Crowd != nil && d.Crowd.Load != 0 {
				t.Fatalf("%s pays %s for time that no other of the class would save", d.Task.ID, d.Crowd.Load)
			}
			by[h.agentOf(d)]++
			h.accept(d)
			c := completion(h.agentOf(d), d, market.Usage{Prompt: 100, Output: 10})
			c.TTFTUS, c.ITLUS = int64(1000*len(by)), 0
			h.must(h.n.Step(h.now, c))
		}
		h.pass(100 * time.Millisecond)
	}
	if h.n.classes.Len() != 4 || len(by) != 4 || by["a-0"]+by["a-1"]+by["a-2"]+by["a-3"] != 200 ||
		len(h.faults) > 0 {
		t.Errorf("%d classes; served %v; faults %v", h.n.classes.Len(), by, h.faults)
	}
	h.audited()
}
