package hub_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// tells is an agent of a house that says what its engine holds.
type tells struct {
	h         *house
	agent     string
	seq, base uint64
}

func (s *tells) say(parts int, coverage float64, add, drop []bus.PrefixHash) error {
	s.seq++
	if parts > 0 {
		s.base = s.seq
	}
	m := &bus.Holdings{Agent: s.agent, Boot: 1, Seq: s.seq, Base: s.base, Parts: parts, Coverage: coverage,
		Evidence: bus.EvidenceEvents}
	for _, x := range add {
		m.Add = bus.AppendShortHash(m.Add, bus.ShortHash(x.Hash))
	}
	for _, x := range drop {
		m.Drop = bus.AppendShortHash(m.Drop, bus.ShortHash(x.Hash))
	}
	return s.h.step(m)
}

// wide is a prompt of so many prefixes, 128 tokens each by its estimate.
func wide(seed uint64, prefixes int) func(*bus.Task) {
	return func(m *bus.Task) {
		r := rand.New(rand.NewPCG(seed, 1))
		m.Prompt = bus.Prompt{Messages: 1}
		for range prefixes {
			m.Prompt.Bytes += 512
			m.Prompt.Prefixes = append(m.Prompt.Prefixes, bus.PrefixHash{Bytes: m.Prompt.Bytes,
				Hash: r.Uint64()})
		}
		m.Prompt.Tokens = m.Prompt.Bytes / 4
	}
}

// billed is an honest account of an agent that was told what it asserted.
func billed(agent string, d bus.Dispatch, u market.Usage) *bus.Completion {
	c := completion(agent, d, u)
	c.Asserted = d.Asserted
	c.Cost = market.Settle(d.Settle, d.Price, d.Tariff, d.Quoted, bus.Billed(u, d.Asserted), d.CostCap)
	return c
}

// A task that an agent got because it said that it holds the prompt is paid for as if it did, whatever its
// engine found: by the agent, in all that is recorded, and to a hub that began anew meanwhile, too.
func TestAnAssertionIsBilled(t *testing.T) {
	for _, again := range []bool{false, true} {
		h := newHouse(t, nil)
		h.join("a-1", "llama", 1, 0.9, card(100, 10, 40))
		h.join("a-2", "llama", 1, 0.9, card(100, 10, 40))
		mark := wide(1, 20)
		x := h.task("ann", "t1", mark, worth(10*market.Credit))
		s := &tells{h: h, agent: "a-2"}
		h.must(s.say(1, 0.95, x.Prompt.Prefixes, nil))
		h.must(h.step(x))
		d := h.take("ann", "t1")
		if h.agentOf(d) != "a-2" || d.Asserted < 2000 || d.Asserted > 2560 || d.Cached != 0 {
			t.Fatalf("it goes to %s, with %d tokens asserted of %d", h.agentOf(d), d.Asserted, x.Prompt.Tokens)
		}
		if again {
			h.restart()
			h.must(h.n.Lead(h.now, 8))
			h.join("a-2", "llama", 1, 0.9, card(100, 10, 40))
		} else {
			h.accept(d)
		}
		u := market.Usage{Prompt: 2560, Cached: 0, Output: 50}
		before := h.replica.Balance("agent:a-2:payable")
		c := billed("a-2", d, u)
		h.must(h.step(c))
		due := d.Price.Cost(market.Usage{Prompt: 2560, Cached: d.Asserted, Output: 50})
		if got := h.replica.Balance("agent:a-2:payable") - before; got != due || due != c.Cost {
			t.Errorf("hub began anew %v: paid %s, want %s", again, hub.Money(got), hub.Money(due))
		}
		if len(h.faults) > 0 {
			t.Errorf("hub began anew %v: %v", again, h.faults)
		}
		for _, l := range h.messages {
			if a, ok := l.Body.(*bus.Answer); ok && a.Result != nil && a.Result.Usage.Cached != d.Asserted {
				t.Errorf("its client is told %+v", a.Result.Usage)
			}
		}
	}
}

// Whoever lies pays for it: three times, and then nothing is believed because it says so.
func TestALyingAgentPays(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 4, 0.9, card(100, 10, 40))
	h.join("liar", "llama", 4, 0.9, card(100, 10, 40))
	s := &tells{h: h, agent: "liar"}
	lost, paid := 0, market.Credits(0)
	for i := range 12 {
		x := h.task("ann", fmt.Sprint("t", i), wide(uint64(i), 20), worth(10*market.Credit))
		h.must(s.say(1, 0.95, x.Prompt.Prefixes, nil))
		h.must(h.step(x))
		d := h.take("ann", x.ID)
		h.accept(d)
		u := market.Usage{Prompt: 2560, Output: 50}
		h.must(h.step(billed(h.agentOf(d), d, u)))
		if d.Asserted > 0 {
			lost++
			paid += d.Price.Cost(u) - d.Price.Cost(bus.Billed(u, d.Asserted))
		}
		h.pass(time.Second)
		h.hearAll()
	}
	if lost != 3 || paid <= 0 || len(h.faults) > 0 {
		t.Errorf("its lies win %d tasks and cost it %s; %v", lost, hub.Money(paid), h.faults)
	}
}

// Whatever one agent says, no other is quoted with another cost, value or time.
func TestALyingAgentMovesNoOther(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	h := newHouse(t, nil)
	for _, id := range []string{"a-1", "a-2", "liar"} {
		h.join(id, "llama", 4, 0.9, card(100, 10, 40))
	}
	var probes []*bus.Task
	for i := range 12 {
		x := h.task("ann", fmt.Sprint("t", i), wide(uint64(i/2), 20), worth(10*market.Credit))
		probes = append(probes, x)
		h.must(h.step(x))
		d := h.take("ann", x.ID)
		h.serve(d, market.Usage{Prompt: 2560, Cached: d.Cached, Output: 50})
		h.pass(time.Second)
		h.hearAll()
	}
	look := func() (all []string) {
		for _, id := range []string{"a-1", "a-2"} {
			for _, x := range probes {
				all = append(all, fmt.Sprintf("%+v", h.n.IdleEstimate(id, x)))
			}
		}
		return all
	}
	s := &tells{h: h, agent: "liar"}
	before, moved := look(), 0
	for range 100 {
		var lie []bus.PrefixHash
		for range r.IntN(8) {
			lie = append(lie, probes[r.IntN(len(probes))].Prompt.Prefixes[:1+r.IntN(19)]...)
		}
		s.say(r.IntN(2), r.Float64(), lie, nil)
		for i, q := range look() {
			if q != before[i] {
				t.Fatalf("another is quoted %s, and was %s before an agent spoke", q, before[i])
			}
		}
		for _, x := range probes {
			moved += h.n.Believed("liar", x)
		}
	}
	if moved == 0 {
		t.Error("it is not believed itself: nothing is shown")
	}
}

// A hub that missed something of what an agent said asks for all of it: at once, and not again for a while.
func TestAHubThatMissedSomethingAsks(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	s := &tells{h: h, agent: "a-1"}
	asked := func() (n int) {
		for _, l := range h.messages {
			if c, ok := l.Body.(*bus.HoldControl); ok && c.Holdings {
				if l.Subject != bus.ControlSubject("a-1", "math") {
					t.Errorf("asked on %s", l.Subject)
				}
				n++
			}
		}
		h.messages = nil
		return n
	}
	s.base = 1
	h.must(s.say(0, 0.95, nil, nil)) // what was said before went to another hub
	if asked() != 1 {
		t.Error("it is not asked")
	}
	h.must(s.say(0, 0.95, nil, nil))
	if asked() != 0 {
		t.Error("it is asked twice")
	}
	h.must(s.say(1, 0.95, nil, nil))
	s.seq++
	h.must(s.say(0, 0.95, nil, nil))
	if asked() != 0 {
		t.Error("it is asked again within seconds")
	}
	h.pass(hub.AskAgain)
	h.must(s.say(0, 0.95, nil, nil))
	if asked() != 1 {
		t.Error("it is not asked again")
	}
	s.agent = "a-9"
	if s.say(1, 1, nil, nil) == nil {
		t.Error("an agent that is not sold here is heard")
	}
	if h.step(&bus.Holdings{Agent: "a-1", Boot: 2, Seq: 1, Base: 1, Parts: 1,
		Evidence: bus.EvidenceEvents}) == nil {
		t.Error("another start of the agent is heard")
	}
	if h.step(&bus.Holdings{Agent: "a-1", Boot: 1, Seq: 90, Base: 90, Parts: 1, Add: []byte{1},
		Evidence: bus.EvidenceEvents}) == nil {
		t.Error("what cannot be read is heard")
	}
}

// An agent sees that it is claimed as soon as the hub that claims it, and what it says then may come before
// it is sold: the hub asks for it again when it is. Of agents that it does not sell it remembers so many.
func TestAHubAsksWhoSpokeTooSoon(t *testing.T) {
	h := newHouse(t, nil)
	early := &tells{h: h, agent: "a-1"}
	if early.say(1, 0.95, nil, nil) == nil {
		t.Error("an agent that is not sold yet is heard")
	}
	for i := range 2 * h.n.Config().MaxAgents {
		(&tells{h: h, agent: fmt.Sprint("other-", i)}).say(1, 0.95, nil, nil)
	}
	asked := map[string]int{}
	for range 2 { // its registration changes, too
		h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
		h.join("a-2", "llama", 1, 0.9, card(1, 1, 4))
	}
	for _, l := range h.messages {
		if c, ok := l.Body.(*bus.HoldControl); ok && c.Holdings {
			asked[l.Subject]++
		}
	}
	if subject := bus.ControlSubject("a-1", "math"); len(asked) != 1 || asked[subject] != 1 {
		t.Errorf("asked are %v, want %s once", asked, subject)
	}
}
