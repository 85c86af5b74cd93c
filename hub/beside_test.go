package hub_test

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// On a fleet of which nobody knows yet how long answers are, tasks come faster than they end. While slots
// are free none of them waits long: where one stays free, another would add nothing, whatever keeps tasks
// from it.
func TestNobodyWaitsBesideSlotsOfAColdFleet(t *testing.T) {
	h := newHouse(t, func(c *hub.Config) { c.Silence = time.Hour })
	for i := range 4 {
		h.join(fmt.Sprint("a-", i), "llama", 64, 0.9, card(1, 1, 4))
	}
	h.prepaid["ann"], h.prepaid["bob"] = 100_000*market.Credit, 100_000*market.Credit
	const tasks = 250
	began := 0
	begin := func() {
		for _, d := range h.dispatched {
			h.accept(d)
			began++
		}
		h.dispatched = nil
	}
	for i := range tasks {
		h.must(h.step(h.task([]string{"ann", "bob"}[i%2], fmt.Sprint("t", i), func(m *bus.Task) {
			m.Prompt = bus.Prompt{Bytes: 4000, Messages: 1, Tokens: 1000,
				Prefixes: []bus.PrefixHash{{Bytes: 4000, Hash: uint64(i)}}}
		})))
		h.pass(20 * time.Millisecond)
		begin()
	}
	for range 100 {
		h.pass(50 * time.Millisecond)
		begin()
	}
	if began != tasks {
		t.Errorf("%d of %d tasks have begun, and %d slots are free", began, tasks, 256-began)
	}
}

// An agent that refuses a task is left alone for a moment. The task is not told meanwhile that nobody would
// do better than one who is dearer than it is worth.
func TestAnAgentThatIsLeftAloneForAMomentCounts(t *testing.T) {
	h := newHouse(t, nil)
	h.join("cheap", "llama", 4, 0.9, card(1, 1, 4))
	h.join("dear", "llama", 4, 0.9, card(5000, 5000, 20_000))
	h.must(h.step(h.task("ann", "t1")))
	h.refuse(h.take("ann", "t1"), bus.CodeNoSlot)
	h.pass(time.Second)
	h.want("inbox.ann.t1", "")
	if d := h.take("ann", "t1"); h.agentOf(d) != "cheap" {
		t.Errorf("it went to %s", h.agentOf(d))
	}
}

// Nobody is told that no agent would do better than one which is dearer than the task is worth, while another
// that would do has no engine that answers, is registered as without one, or is silent: it may be back any
// moment. Then the task goes there. Where it does not come back the task is told once it would not be worth
// what it costs there either; where the agent drains or leaves, at once.
func TestAnAgentThatMayComeBackCounts(t *testing.T) {
	sick := func(state string) func(*engines) {
		return func(e *engines) {
			e.sick["cheap"] = state
			e.beats()
		}
	}
	registered := func(state string) func(*engines) {
		return func(e *engines) {
			r := e.agents["cheap"].Registration
			r.State = state
			e.must(e.register(r))
			e.run()
		}
	}
	for _, test := range []struct {
		name string
		away func(*engines)
		back func(*engines) // nil: it does not come back
		told time.Duration  // then: when at the latest
	}{
		{"unhealthy", sick(bus.StateUnhealthy), sick(bus.StateReady), 0},
		{"registered as unhealthy", registered(bus.StateUnhealthy), registered(bus.StateReady), 0},
		{"silent", func(e *engines) {
			e.mute["cheap"] = true
			e.lets(e.n.Config().Silence + time.Second)
		}, func(e *engines) { e.mute["cheap"] = false }, 0},
		{"unhealthy for good", sick(bus.StateUnhealthy), nil, 20 * time.Second},
		{"draining", sick(bus.StateDraining), nil, 0},
		{"registered as draining", registered(bus.StateDraining), nil, 0},
		{"gone", func(e *engines) { e.leave("cheap") }, nil, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := newEngines(t, nil)
			e.join("cheap", "llama", 4, 0.9, card(1, 1, 4))
			e.join("dear", "llama", 4, 0.9, card(500, 500, 2000))
			e.lets(time.Second)
			var to string
			e.began = func(d *bus.Dispatch) { to = e.agentOf(*d) }
			test.away(e)
			// worth 0.002, of which a second costs a tenth, and 0.0003 at cheap; 0.15 at dear
			e.ask("ann", func(m *bus.Task) {
				m.Terms = bus.Terms{Worth: new(market.Credit / 500), Delta: new(0.5),
					PatienceMS: new(int64(5000))}
				m.DeadlineMS = e.now.Add(40 * time.Second).UnixMilli()
			})
			from, answer := e.now, func() string { return e.answerTo("inbox.ann.t1") }
			if test.back != nil {
				e.lets(2 * time.Second)
				if answer() != "" {
					t.Fatalf("after 2 s it is told %s", e.told("ann.t1").Message)
				}
				test.back(e)
				if e.lets(2 * time.Second); to != "cheap" {
					t.Errorf("it went to %q: %v", to, e.told("ann.t1"))
				}
				return
			}
			for answer() == "" && e.now.Sub(from) < 50*time.Second {
				e.lets(100 * time.Millisecond)
			}
			after := e.now.Sub(from)
			if answer() != string(bus.CodeNotWorthIt) || after > test.told+100*time.Millisecond {
				t.Errorf("after %v it is told %q", after, answer())
			}
			if test.told > 0 && after < test.told/10 {
				t.Errorf("it is told after %v, while it was worth its cost at the other", after)
			}
		})
	}
}
