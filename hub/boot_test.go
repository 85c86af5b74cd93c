package hub

import (
	"testing"
	"time"

	"souk/ledger"
	"souk/market"
)

// A hub that dies when a task has just been served, paid or not yet, before anyone was told, answers it after its start: the chunks
// are with the agent.
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
