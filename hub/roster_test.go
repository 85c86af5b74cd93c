package hub

import (
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

func (h *house) summary(id string, seq uint64, change func(*bus.Summary)) error {
	h.t.Helper()
	a := h.n.lookup(id)
	s := &bus.Summary{Agent: id, Boot: 1, Seq: seq, State: bus.StateReady, Slots: a.slots,
		InFlight: len(a.holds), Price: a.price}
	if change != nil {
		change(s)
	}
	return h.step(s)
}

func TestWhoIsSold(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.MaxAgents = 2 })
	bad := registration("liar", "llama", 1, 0.9, card(1, 2, 4))
	if h.n.Join(h.now, bad) == nil {
		t.Error("a card where a hit costs more than a miss is sold under")
	}
	stranger := registration("stranger", "llama", 1, 0.9, card(1, 1, 4))
	stranger.Domains = []bus.DomainScore{{Domain: "code", Score: 1}, {Domain: "math", Score: 1}}
	if h.n.Join(h.now, stranger) == nil {
		t.Error("an agent of another domain joins")
	}
	label := registration("label", "llama", 1, 0.9, card(1, 1, 4))
	label.Domains[0].Domain = "gsm8k"
	h.must(h.n.Join(h.now, label))
	h.must(h.n.Join(h.now, registration("a-1", "llama", 1, 0.9, card(1, 1, 4))))
	if h.n.Join(h.now, registration("a-2", "llama", 1, 0.9, card(1, 1, 4))) == nil {
		t.Error("more agents than MaxAgents")
	}
	if s := h.n.Stats(); s.BadAgents != 3 {
		t.Errorf("%d counted, want 3", s.BadAgents)
	}
}

// What was learnt of an agent outlives a new registration, but not another model.
func TestAnUpgradedEngine(t *testing.T) {
	h := newHouse(t, nil)
	reg := registration("a-1", "llama", 1, 0.9, card(1, 1, 4))
	h.must(h.n.Join(h.now, reg))
	before := *h.n.lookup("a-1")
	h.must(h.n.Join(h.now, reg))
	if a := h.n.lookup("a-1"); a.belief != before.belief || a.predictor != before.predictor {
		t.Error("registering again made the hub forget the agent")
	}
	reg.Model = "qwen"
	h.must(h.n.Join(h.now, reg))
	if a := h.n.lookup("a-1"); a.belief == before.belief || a.predictor == before.predictor ||
		a.reg.Model != "qwen" {
		t.Errorf("of %s the hub still believes what it learnt of llama", a.reg.Model)
	}
	h.must(h.step(h.task("ann", "t1")))
	if d := h.take("ann", "t1"); d.Model != "qwen" {
		t.Errorf("dispatched for %s", d.Model)
	}
}

func TestSummaries(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	h.must(h.summary("a-1", 1, func(s *bus.Summary) { s.State = bus.StateDraining }))
	h.must(h.step(h.task("ann", "t1")))
	if h.running() != "" {
		t.Fatal("a draining agent got a task")
	}
	h.must(h.summary("a-1", 2, nil))
	d := h.take("ann", "t1") // at once: the slot is news
	h.accept(d)

	if h.summary("a-1", 2, nil) == nil {
		t.Error("an old summary is taken")
	}
	h.must(h.summary("a-1", 3, func(s *bus.Summary) { s.Price = card(2, 2, 8) }))
	if d.Price != card(1, 1, 4) {
		t.Error("a card changed after the award")
	}
	h.serve(d, market.Usage{Prompt: 100, Output: 10})
	if got := h.replica.Balance("agent:a-1:payable"); got != 140_000 {
		t.Errorf("settled at %v: not at the card of the hold", got)
	}
	h.must(h.step(h.task("ann", "t2")))
	if d := h.take("ann", "t2"); d.Price != card(2, 2, 8) {
		t.Errorf("the next round uses %v", d.Price)
	}

	// Silence: five seconds without a word.
	h.join("a-2", "llama", 1, 0.9, card(1, 1, 4))
	h.pass(6 * time.Second)
	h.must(h.step(h.task("ann", "t3")))
	if h.running() != "" {
		t.Error("a silent agent got a task")
	}
	h.must(h.summary("a-2", 1, nil))
	if got := h.running(); got != "ann/t3>a-2" {
		t.Errorf("running %q", got)
	}
}

// An agent that goes on counting more than the hub is believed after a while.
func TestSlotsThatTheHubHasGivenUp(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 2, 0.9, card(1, 1, 4))
	h.must(h.summary("a-1", 1, nil))
	for i := range uint64(4) {
		h.must(h.summary("a-1", i+2, func(s *bus.Summary) { s.InFlight = 2 }))
		if want := []int{2, 2, 0, 0}[i]; h.n.freeSlots() != want {
			t.Errorf("summary %d: %d free, want %d", i+2, h.n.freeSlots(), want)
		}
		h.pass(time.Second)
	}
	h.must(h.summary("a-1", 6, nil))
	if h.n.freeSlots() != 2 {
		t.Error("the correction stays")
	}
}

// An agent that comes from another hub still serves that one's tasks: its first summary is believed, and
// slots come free as it says so.
func TestSlotsBusyWithAnothersWork(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 4, 0.9, card(1, 1, 4))
	for i, running := range []int{3, 3, 1, 2, 0} { // 2: a task of ours, say, whose reply is under way
		h.must(h.summary("a-1", uint64(i+500), func(s *bus.Summary) { s.InFlight = running }))
		if want := []int{1, 1, 3, 3, 4}[i]; h.n.freeSlots() != want {
			t.Errorf("it says that it runs %d: %d free, want %d", running, h.n.freeSlots(), want)
		}
		h.pass(time.Second)
	}
	h.n.Leave(h.now, "a-1")
	h.must(h.n.Join(h.now, h.n.lookup("a-1").reg))
	h.must(h.summary("a-1", 600, func(s *bus.Summary) { s.InFlight = 2 }))
	if h.n.freeSlots() != 2 {
		t.Errorf("come back, it says that it runs 2: %d free, want 2", h.n.freeSlots())
	}
}

// A second turn goes where the first was served, although the other agent is a little cheaper.
func TestSessionsStayWhereTheirPrefixIs(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 2, 0.8, card(10, 1, 10))
	first := bus.Prompt{Bytes: 8000, Messages: 2, Tokens: 2000,
		Marks: []bus.Mark{{Bytes: 4000, Hash: 1}, {Bytes: 8000, Hash: 2}}}
	second := bus.Prompt{Bytes: 8800, Messages: 4, Tokens: 2200,
		Marks: []bus.Mark{{Bytes: 4000, Hash: 1}, {Bytes: 8000, Hash: 2}, {Bytes: 8400, Hash: 3},
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
	h.serve(d, market.Usage{Prompt: 2200, Cached: 2096, Output: 10})

	// The agent's own complete list no longer names the session: it is not counted on.
	h.pass(3 * time.Second)
	h.must(h.summary("a-1", 1, func(s *bus.Summary) { s.Coverage = 1 }))
	h.must(h.summary("a-2", 1, func(s *bus.Summary) { s.Coverage = 1 }))
	h.must(h.step(turn("three", second)))
	if got := h.agentOf(h.take("ann", "three")); got != "a-2" {
		t.Errorf("the third turn went to %s, which has dropped the session", got)
	}
}

// The paper's fixed window, and the batch that closes when it is full.
func TestTheWindow(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.Batch.Eager, c.Batch.MaxBatch = false, 3 })
	h.join("a-1", "llama", 8, 0.9, card(1, 1, 4))
	h.must(h.step(h.task("ann", "t1")))
	h.must(h.step(h.task("ann", "t2")))
	h.pass(9 * time.Millisecond)
	if h.running() != "" {
		t.Fatal("a round before the window closed")
	}
	if want := start.Add(10 * time.Millisecond); !h.wake.Equal(want) {
		t.Errorf("wake at %v, want %v", h.wake.Sub(start), want.Sub(start))
	}
	h.pass(time.Millisecond)
	if got := h.running(); got != "ann/t1>a-1 ann/t2>a-1" {
		t.Errorf("running %q", got)
	}
	for _, id := range []string{"t3", "t4", "t5"} {
		h.must(h.step(h.task("ann", id)))
	}
	if s := h.n.Stats(); s.RoundSize[2] != 1 || s.RoundSize[3] != 1 {
		t.Errorf("rounds %v", s.RoundSize)
	}
}

func TestStatus(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "small", 2, 0.6, card(1, 1, 4))
	h.join("a-2", "large", 3, 0.9, card(2, 1, 8))
	h.pass(50 * time.Millisecond)
	s := h.status
	if s.Agents != 2 || s.Slots != 5 || s.Free != 5 || s.Room != 2048 || len(s.Models) != 2 || s.Epoch != 7 ||
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
