package hub

import (
	"testing"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// A hub that dies when a task has just been served, paid or not yet, before anyone was told, answers it after
// its start: the chunks are with the agent.
func TestATaskThatWasServedBeforeItsHubDied(t *testing.T) {
	for name, paid := range map[string]bool{"paid": true, "not yet paid": false} {
		t.Run(name, func(t *testing.T) {
			h, d := oneRunning(t)
			c := completion(h.agentOf(d), d, market.Usage{Prompt: 100, Output: 10})
			h.accept(d)
			if paid {
				h.must(h.step(c))
			}
			again, err := NewNode(testConfig(), [32]byte{2})
			h.must(err)
			for _, f := range h.frames {
				h.must(again.Replay(f))
			}
			h.n = again
			h.must(again.Lead(h.now, 8))
			h.must(h.step(c))
			repeat := h.task("ann", "t1")
			repeat.Inbox = "repeat"
			h.must(h.step(repeat))
			h.want("repeat", "accepted by a-1")
			h.pass(testConfig().ReplayFor)
			h.must(h.step(repeat))
			h.want("repeat", "answer_gone")
		})
	}
}

// afterBoth is a hub that was started again, with a hold of an agent of which it has heard nothing yet, and
// that agent's registration.
func afterBoth(t *testing.T) (*house, bus.Dispatch, bus.Registration) {
	h, d := oneRunning(t)
	h.accept(d)
	agent := h.agentOf(d)
	again, err := NewNode(testConfig(), [32]byte{2})
	h.must(err)
	for _, f := range h.frames {
		h.must(again.Replay(f))
	}
	h.n = again
	h.now = h.now.Add(time.Second)
	h.must(again.Lead(h.now, 8))
	h.run()
	r := registration(agent, "llama", 1, 0.9, card(1, 1, 4))
	r.Boot = 2
	return h, d, r
}

// An agent that died while its hub was away, with completions that nobody had acknowledged, names its former
// life when it comes back: the holds of that one stay open for them, and are void once the last of them is
// there.
func TestCompletionsOfAFormerLife(t *testing.T) {
	h, d, r := afterBoth(t)
	r.Former = []int64{1}
	h.must(h.n.Join(h.now, r))
	h.run()
	if h.replica.OpenCount() != 1 {
		t.Fatal("its hold is void already")
	}
	c := completion(r.Agent, d, market.Usage{Prompt: 100, Output: 10})
	c.Boot = 2
	if err := h.step(c); err == nil || h.ack(d.Hold) != "none" || h.replica.OpenCount() != 1 {
		t.Errorf("the new life settles what it never had: %v, %s", err, h.ack(d.Hold))
	}
	c.Boot = 1
	h.must(h.step(c))
	if h.ack(d.Hold) != "ack " || h.replica.Ended(d.Hold) != ledger.KindCapture ||
		h.replica.Balance(ledger.Payable(r.Agent)) != c.Cost {
		t.Errorf("%s, %v, %s due", h.ack(d.Hold), h.replica.Ended(d.Hold),
			h.replica.Balance(ledger.Payable(r.Agent)))
	}

	h, d, r = afterBoth(t)
	r.Former = []int64{1}
	h.must(h.n.Join(h.now, r))
	r.Former = nil
	h.must(h.n.Join(h.now, r))
	h.run()
	if h.replica.Ended(d.Hold) != ledger.KindVoid {
		t.Error("a hold of which the former life left nothing is not void")
	}
	c = completion(r.Agent, d, market.Usage{Prompt: 100, Output: 10})
	h.must(h.step(c))
	if h.ack(d.Hold) != "ack late" || h.replica.Balance(ledger.Payable(r.Agent)) != 0 {
		t.Errorf("too late: %s", h.ack(d.Hold))
	}
}

// A reader who asks how its answer goes on does not wait for ever for what a former life may have left.
func TestAReaderOfAFormerLife(t *testing.T) {
	h, d, r := afterBoth(t)
	r.Former = []int64{1}
	h.must(h.n.Join(h.now, r))
	h.join("other", "llama", 1, 0.9, card(1, 1, 4))
	again := h.task("ann", "t1", func(m *bus.Task) {
		m.Inbox, m.Resume, m.Attempt = "again",
			&bus.Resume{Agent: r.Agent, Seq: 1, Tokens: []uint32{7}, Text: "x"}, 1
	})
	h.must(h.step(again))
	h.pass(lookEvery)
	if h.replica.Ended(d.Hold) != 0 {
		t.Fatal("its word has no time to come")
	}
	for range 20 {
		h.pass(lookEvery)
	}
	if h.replica.Ended(d.Hold) != ledger.KindVoid {
		t.Error("it waits on", h.answerTo("again"))
	}
	next := h.take("ann", "t1")
	if h.agentOf(next) != "other" && h.agentOf(next) != r.Agent {
		t.Errorf("it goes to %s", h.agentOf(next))
	}
}

// A hub and its agents that die together start afresh: what ran on an agent's earlier process will never be
// completed, and must not keep its slots from the new one until it expires.
func TestAnAgentsNewLifeEndsWhatTheOldOneRan(t *testing.T) {
	t.Run("a later boot", func(t *testing.T) { newLife(t, 2) })
	t.Run("a clock that was set back", func(t *testing.T) { newLife(t, 0) })
}

func newLife(t *testing.T, boot int64) {
	h, d := oneRunning(t)
	h.accept(d)
	again, err := NewNode(testConfig(), [32]byte{2})
	h.must(err)
	for _, f := range h.frames {
		h.must(again.Replay(f))
	}
	h.n = again
	h.now = h.now.Add(time.Second)
	h.must(again.Lead(h.now, 8))
	h.run()

	agent := again.Book().OpenHolds()[0].Agent
	h.join(agent, "llama", 1, 0.9, card(1, 1, 4)) // the old life's registration still stands
	if n := h.replica.OpenCount(); n != 1 {
		t.Fatalf("%d holds are open; the old process may still complete one", n)
	}
	r := registration(agent, "llama", 1, 0.9, card(1, 1, 4))
	r.Boot = boot
	h.must(again.Join(h.now, r))
	h.run()
	if n := h.replica.OpenCount(); n != 0 {
		t.Fatalf("%d holds are open after the agent's restart", n)
	}
	if got := h.replica.Balance(ledger.Payable(agent)); got != 0 {
		t.Errorf("%s is due %s for what nobody served", agent, got)
	}
	h.must(h.step(h.task("ann", "t9")))
	if got := h.take("ann", "t9"); got.Hold == d.Hold {
		t.Error("the same hold again")
	}
}

// What a node of a former life still says is counted and means nothing: its holds ended when the next life
// began.
func TestWordsOfAFormerLife(t *testing.T) {
	h, d := oneRunning(t)
	agent := h.agentOf(d)
	h.accept(d)
	r := registration(agent, "llama", 1, 0.9, card(1, 1, 4))
	r.Boot = 2
	h.must(h.n.Join(h.now, r))
	h.run()
	before := h.n.Stats().Rejected
	if err := h.step(&bus.Summary{Agent: agent, Boot: 1, Seq: 99, State: bus.StateDraining, Slots: 7,
		Price: card(9, 9, 9)}); err == nil || h.n.Stats().Rejected != before+1 {
		t.Errorf("a former life's summary: %v", err)
	}
	if a := h.n.lookup(agent); a.state != bus.StateReady || a.slots != 1 || a.price != card(1, 1, 4) {
		t.Errorf("it changed %+v", a)
	}
	h.must(h.step(completion(agent, d, market.Usage{Prompt: 100, Output: 10})))
	if got := h.ack(d.Hold); got != "ack late" || h.replica.Balance(ledger.Payable(agent)) != 0 {
		t.Errorf("%s: a former life is paid %s", got, h.replica.Balance(ledger.Payable(agent)))
	}
}
