package hub

import (
	"souk/bus"
	"souk/hub/admission"
	"souk/hub/forecast"
	"souk/ledger"
)

// Restore makes of what was replayed what the hub knows of it: before the first Step.
func (n *Node) Restore() error {
	h := n.history
	if h == nil {
		return nil
	}
	n.history = nil
	for p, known := range h.Ended() {
		if known {
			n.turn.Replay(p.Held)
			n.replayHold(p)
			n.turn.Replay(p.Ended)
		}
		n.settle.Past(p)
	}
	open, err := h.Open()
	if err != nil {
		return err
	}
	for i := range open {
		n.turn.Replay(open[i].Held)
		n.replayHold(&open[i])
	}
	n.money.Restore(h.Returns())
	if seq, _, last := n.turn.Book.Last(); seq > 0 {
		n.turn.Replay(last)
		n.plan.kept.Resume(last, n.turn.Book.Rates().Lost)
	}
	return nil
}

// replayHold brings back a task that was under way: its agent may still be serving it. What its client sent
// is not in a journal, so it is answered `unknown` until the hold ends, or whoever has the task sends it
// again.
func (n *Node) replayHold(p *ledger.Past) {
	x, state := n.settle.Replayed(p)
	rec, a := &x.Rec, n.fleet.Enrol(x.Rec.Agent)
	t := n.newTask(admission.New(rec.Client, rec.Task, rec.Digest, rec.Attempt), n.turn.Now())
	t.Until(x.Deadline)
	t.Task, x.Task = state, &t.Task
	t.hold = &hold{Hold: x, task: t, agent: a}
	t.To(t.Reply)
	n.admission.Take(t)
	n.money.Open(rec.Client)
	a.Begin(rec.Client, rec.Task, x.Sent)
	n.settle.Found(&t.hold.Hold)
}

// takeUp has a recovered hold go to its agent once more, as the task has come again.
func (n *Node) takeUp(t *task, m *bus.Task) {
	h := t.hold
	n.read(t, m)
	deadline, no := n.admission.Deadline(n.turn.Now(), m)
	if t.Until(deadline); no != nil || n.setTerms(t) != nil {
		t.Msg, t.asks = nil, forecast.Task{}
		n.admission.Refuse(m, bus.CodeUnknown, 0, "an agent may be serving the task, whose deadline has passed")
		return
	}
	need, no := n.survey(t)
	if no != nil { // in case its agent refuses: nothing is known of others
		need.Worst, need.Least = 0, 0
	}
	need.Wanted = max(need.Wanted, h.Rec.Amount)
	t.money.Needs(need)
	t.Wait(m.Inbox)
	h.agent.End(h.Rec.Client, h.Rec.Task) // it is not beside itself
	_, first, within := n.expects(h)
	n.sessions.Come(&t.place, t.Client(), t.asks.Source.Session)
	n.takes(t, h)
	n.settle.TakeUp(&h.Hold, m, t.Deadline(), first, n.settle.WatchFor(h.Rec.Agent, within))
}
