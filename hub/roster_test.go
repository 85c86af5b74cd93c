package hub_test

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// What was learnt of an agent outlives a new registration, but not another model.
func TestAnUpgradedEngine(t *testing.T) {
	h := newHouse(t, nil)
	reg := registration("a-1", "llama", 1, 0.9, card(1, 1, 4))
	h.must(h.register(reg))
	h.must(h.step(h.task("ann", "t0", wide(1, 20), worth(10*market.Credit))))
	h.serve(h.take("ann", "t0"), market.Usage{Prompt: 2560, Output: 50})
	next := h.task("ann", "next", wide(1, 20))
	held, expected := h.n.Believed("a-1", next), h.n.Forecast("a-1", hub.Typical)
	h.must(h.register(reg))
	if held < 2000 || h.n.Believed("a-1", next) != held || h.n.Forecast("a-1", hub.Typical) != expected {
		t.Errorf("registering again made the hub forget the agent: it held %d tokens", held)
	}
	reg.Model = "qwen"
	h.must(h.register(reg))
	if h.n.Believed("a-1", next) != 0 || h.n.Forecast("a-1", hub.Typical) == expected {
		t.Error("of qwen the hub still believes what it learnt of llama")
	}
	h.must(h.step(h.task("ann", "t1")))
	if d := h.take("ann", "t1"); d.Model != "qwen" {
		t.Errorf("dispatched for %s", d.Model)
	}
}

// A second turn goes where the first was served, although the other agent is a little cheaper.
func TestSessionsStayWhereTheirPrefixIs(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 2, 0.8, card(10, 1, 10))
	first := bus.Prompt{Bytes: 8000, Messages: 2, Tokens: 2000,
		Prefixes: []bus.PrefixHash{{Bytes: 4000, Hash: 1}, {Bytes: 8000, Hash: 2}}}
	second := bus.Prompt{Bytes: 8800, Messages: 4, Tokens: 2200,
		Prefixes: []bus.PrefixHash{{Bytes: 4000, Hash: 1}, {Bytes: 8000, Hash: 2}, {Bytes: 8400, Hash: 3},
			{Bytes: 8800, Hash: 4}}}
	turn := func(id string, p bus.Prompt) *bus.Task {
		return h.task("ann", id, worth(market.Credit/20), func(m *bus.Task) { m.Session, m.Prompt = "s", p })
	}
	h.must(h.step(turn("one", first)))
	h.serve(h.take("ann", "one"), market.Usage{Prompt: 2000, Output: 100})
	h.join("a-2", "llama", 2, 0.8, card(9, 1, 9))
	h.must(h.step(turn("two", second)))
	d := h.take("ann", "two")
	if got := h.agentOf(d); got != "a-1" {
		t.Fatalf("the second turn went to %s", got)
	}
	rec, _ := h.replica.Hold(d.Hold)
	if rec.Cached != 2096 { // 2000 of the prompt and 100 of the answer, in whole blocks of 16
		t.Errorf("%d tokens expected in the cache, want 2096", rec.Cached)
	}
}

// Whoever has a task for a hub that takes none is told why, not that too many wait.
func TestStatusSaysWhyAHubTakesNoTask(t *testing.T) {
	h := newHouse(t, nil)
	if s := h.n.Status(); s.Closed != "" || s.Room == 0 {
		t.Errorf("a hub with room for %d: %q", s.Room, s.Closed)
	}
	refused := 0
	asked := func() (again int64) { // who comes all the same is told the same
		t.Helper()
		refused++
		id := fmt.Sprint("late-", refused)
		h.must(h.step(h.task("ann", id)))
		if r := h.told("ann." + id); r != nil {
			again = r.RetryMS
		}
		return again
	}
	h.n.Room(false)
	if s := h.n.Status(); s.Closed != hub.DiskFull || s.Room != 0 || s.ClosedMS != 10_000 ||
		s.Validate() != nil {
		t.Errorf("a full disk: room for %d, %q, again in %d ms", s.Room, s.Closed, s.ClosedMS)
	} else if again := asked(); again != s.ClosedMS {
		t.Errorf("a full disk: a task is to come again in %d ms, the status says %d", again, s.ClosedMS)
	}
	h.n.Room(true)
	if s := h.n.Status(); s.Closed != "" || s.ClosedMS != 0 || s.Room == 0 {
		t.Errorf("room again: room for %d, %q", s.Room, s.Closed)
	}
	h.n.Drain(h.now)
	if s := h.n.Status(); s.Closed == "" || s.Room != 0 || s.Validate() != nil {
		t.Errorf("a hub that stops: room for %d, %q", s.Room, s.Closed)
	} else if again := asked(); again != s.ClosedMS || again == 0 {
		t.Errorf("a hub that stops: a task is to come again in %d ms, the status says %d", again, s.ClosedMS)
	}
}

func TestStatus(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "small", 2, 0.6, card(1, 1, 4))
	h.join("a-2", "large", 3, 0.9, card(2, 1, 8))
	h.pass(50 * time.Millisecond)
	s := h.status
	if s.Agents != 2 || s.Slots != 5 || s.Free != 5 || s.Room != 2048+5 || len(s.Models) != 2 ||
		s.Epoch != 7 ||
		s.Models[0].Model != "large" || s.Models[0].Quality != 0.9 || s.Models[0].Price != card(2, 1, 8) {
		t.Errorf("status %+v", s)
	}
	seq := s.Seq
	h.pass(100 * time.Millisecond)
	if h.status.Seq != seq {
		t.Error("a status without news before its time")
	}
	h.must(h.step(h.task("ann", "t1")))
	if h.status.Seq != seq+1 || h.status.Free != 4 {
		t.Errorf("after a change: %+v", h.status)
	}
	h.pass(time.Second)
	if h.status.Seq < seq+2 {
		t.Error("no status for a second")
	}
}

// An agent whose first answer was slow is asked again: agents of one class share what was seen of them.
func TestAnUnluckyAgentIsAskedAgain(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 4, 0.9, card(1, 1, 4))
	h.join("a-2", "llama", 4, 0.9, card(1, 1, 4))
	var open []bus.Dispatch
	ask := func(id string) string {
		h.must(h.step(h.task("ann", id, worth(market.Credit/20))))
		open = append(open, h.take("ann", id))
		return h.agentOf(open[len(open)-1])
	}
	served := func(ttft time.Duration) {
		for _, d := range open {
			h.accept(d)
			c := completion(h.agentOf(d), d, market.Usage{Prompt: 100, Output: 10})
			if c.TTFTUS = ttft.Microseconds(); c.Agent == "a-1" {
				c.TTFTUS = 20_000
			}
			h.pass(ttft)
			h.must(h.step(c))
			for _, id := range []string{"a-1", "a-2"} {
				h.must(h.summary(id, nil))
			}
		}
		open = nil
	}
	ask("t1")
	ask("t2")
	served(5 * time.Second)
	count := map[string]int{}
	for i := range 10 {
		for j := range 2 {
			count[ask(fmt.Sprintf("u%d%d", i, j))]++
		}
		served(20 * time.Millisecond)
	}
	if count["a-1"] != 10 || count["a-2"] != 10 {
		t.Errorf("equal agents, of which one was slow once, were given %v, want ten each", count)
	}
}

// Agents form a class by what they register and by the price card of their last summary.
func TestAgentsOfAClass(t *testing.T) {
	h := newHouse(t, nil)
	join := func(id string, change func(*bus.Registration)) {
		reg := registration(id, "llama", 2, 0.9, card(1, 1, 4))
		if change != nil {
			change(&reg)
		}
		h.must(h.register(reg))
	}
	classes := func(why string, want int) {
		t.Helper()
		if got := h.n.Classes(); got != want {
			t.Errorf("%s: %d classes, want %d", why, got, want)
		}
	}
	join("a-1", nil)
	join("a-2", nil)
	classes("equal", 1)
	join("a-2", func(r *bus.Registration) { r.Class = "llama h100" })
	classes("other hardware", 2)
	join("a-2", func(r *bus.Registration) { r.MaxModelLen = 4096 })
	classes("another context", 2)
	join("a-2", func(r *bus.Registration) { r.Model = "qwen" })
	classes("another model", 2)
	join("a-2", nil)
	classes("equal again", 1)
	for seq, out := range []market.Credits{5, 6, 4} {
		h.must(h.summary("a-2", func(s *bus.Summary) { s.Price = card(1, 1, out) }))
		classes(fmt.Sprint("price ", out), []int{2, 2, 1}[seq])
	}
}

// The hub forgets agents that have left, and their classes.
func TestClassesOfAgentsThatLeft(t *testing.T) {
	h := newHouse(t, func(c *hub.Config) { c.MaxAgents = 4 })
	for i := range 100 {
		reg := registration(fmt.Sprint("a-", i), "llama", 1, 0.9, card(1, 1, market.Credits(1+i)))
		h.must(h.register(reg))
		h.leave(reg.Agent)
	}
	if got := h.n.Classes(); got > 8 {
		t.Errorf("%d classes of agents that have left", got)
	}
}
