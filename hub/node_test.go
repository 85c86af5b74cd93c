package hub_test

import (
	"testing"

	"souk/bus"
	"souk/hub/settle"
	"souk/market"
)

// A client's judgement of an answer is kept with the agent that gave it.
func TestFeedback(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 1, card(1, 1, 1))
	h.must(h.step(h.task("ann", "t1")))
	h.serve(h.take("ann", "t1"), market.Usage{Prompt: 100, Output: 9})
	h.must(h.step(&bus.Feedback{Client: "ann", Sender: "ann", Task: "t1", Quality: 0.25}))
	if h.step(&bus.Feedback{Client: "bob", Sender: "bob", Task: "t1", Quality: 1}) == nil {
		t.Error("bob judges ann's task")
	}
	if said := h.scored("a-1").Heard; len(said) != 1 || said[0].Count != 1 || said[0].Mean != 0.25 {
		t.Errorf("said %+v", said)
	}
}

// A hold that ends in the turn in which its dispatch would be sent again is not sent.
func TestAHoldThatEndsIsNotDispatchedAgain(t *testing.T) {
	h, d := oneRunning(t)
	h.now = h.now.Add(settle.DispatchTimeout)
	other, od := oneRunning(t)
	other.pass(settle.DispatchTimeout)
	if len(other.again) != 1 || other.again[0].Hold != od.Hold {
		t.Fatal("nothing would be sent again, which tests nothing")
	}
	h.n.Tick(h.now)
	h.refuse(d, bus.CodeNoSlot)
	if got := h.running(); len(h.again) != 0 || got != "ann/t1>a-2" {
		t.Errorf("dispatched again: %v, running %q", h.again, got)
	}
}

// An earlier start of an agent, which has lost its registration and has not noticed yet, hears a dispatch to
// the one that has it, refuses it, and is heard first. The task stays with the one that serves it. What the
// bus says, that nobody heard it, ends the hold as before.
func TestARefusalOfAnotherStart(t *testing.T) {
	h := newHouse(t, nil)
	for _, id := range []string{"a-1", "a-2"} {
		r := registration(id, "llama", 1, 0.9, card(1, 1, 1))
		h.must(h.register(r))
		r.Boot = 2
		h.must(h.register(r))
	}
	h.must(h.step(h.task("ann", "t1")))
	d := h.take("ann", "t1")
	agent := h.agentOf(d)
	for _, code := range []bus.Code{bus.CodeStaleEpoch, bus.CodeEngineRefused, bus.CodeDraining, ""} {
		if h.step(&bus.DispatchReply{Agent: agent, Boot: 1, Hold: d.Hold, Code: code}) == nil {
			t.Errorf("%q of another start is taken for the answer", code)
		}
		if s := h.n.Stats(); s.Holds != 1 || h.running() != "" || h.answerTo("inbox.ann.t1") != "" {
			t.Errorf("after %q of another start %d holds, %q", code, s.Holds, h.running())
		}
	}
	h.accept(d)
	h.want("inbox.ann.t1", "accepted by "+agent)
	h.must(h.step(h.task("ann", "t2")))
	d = h.take("ann", "t2")
	h.must(h.step(&bus.DispatchReply{Agent: h.agentOf(d), Hold: d.Hold, Code: bus.CodeUnavailable}))
	if s := h.n.Stats(); s.Holds != 1 {
		t.Errorf("%d holds, where nobody heard a dispatch", s.Holds)
	}
}
