package hub

import (
	"fmt"

	"souk/bus"
	"souk/hub/account"
	"souk/hub/admission"
	"souk/hub/forecast"
	"souk/hub/queue"
	"souk/hub/session"
	"souk/hub/settle"
)

// task is a request from its admission until it is forgotten. First it awaits its client's money
// ([account.Task]); then it waits for a slot ([queue.Entry.Waits]); then an agent has it, or may
// ([settle.State]), and if that hold is void it may await and wait again. It is done with its last word. One
// that ends under a hold is remembered; only then may the rest of its answer be a new task of the same id.
type task struct {
	admission.Request // who asks for what, on which terms, and the last word
	queue.Entry       // since when it waits, until when, and what rounds found
	settle.Task       // what its client was told, and agents that had it
	money             account.Task
	place             session.Task // of its session
	asks              forecast.Task

	hold *hold
	only *agent // that it goes to, of a text that is prewarmed
}

// end ends a task. One that never held money is forgotten, so that its client may try the same id again.
// Others are remembered until their deadline and KeepIDs have passed. tell has a reader of the answer hear of
// the result where the chunks come, as its agent does not.
func (n *Node) end(t *task, r *bus.Result, tell bool) {
	if !t.Open() {
		return
	}
	if t.Waits() {
		t.noteUnserved(n, r.Code)
		n.queue.Remove(t)
	}
	if t.hold == nil {
		r.Receipt = t.FailedHold
		t.hear(n, nil, n.policies.Failed) // else its turn would run for them for ever
	}
	n.settle.Done(&t.Task)
	n.sessions.Gone(&t.place)
	if t.Msg != nil && t.Msg.SessionEnd && r.RetryMS == 0 && !admission.MayGoOn(r.Code) {
		// else its last turn is to come again, or as the rest of this one
		n.sessions.End(t.asks.Source.Session)
		n.policies.Ended(n.turn.Now(), t.asks.Source.Session)
	}
	t.asks = forecast.Task{}
	n.money.End(&t.money)
	if t.only != nil {
		n.prewarms.Over()
	}
	n.turn.Changed = true
	waited := n.admission.Last(&t.Request, r, t.only != nil, t.hold == nil && n.settle.Hears())
	if tell && t.Reply != "" && (!waited || t.Moves > 0) {
		n.turn.Send(t.Reply+"."+n.cfg.Domain,
			&bus.Chunk{Task: t.ID(), Attempt: t.Attempt(), Result: r})
	}
	h := t.hold
	if h == nil {
		n.admission.Forget(t, t.InLine(n.turn.Now()), r)
		return
	}
	t.hold = nil
	if n.admission.Remember(t, r, t.Deadline()); h.Next != nil {
		n.again(t, h.Next)
	}
}

// served describes how agents have served a task so far.
func (n *Node) served(t *task) admission.Served {
	s := admission.Served{Accepted: t.Accepted, Moved: t.Moves > 0, Unsure: t.Told && t.Moves == 0}
	if h := t.hold; h != nil {
		s.Agent, s.Held, s.NoEnd = h.agent.ID(), true, n.settle.HasNoEnd(&h.Hold)
		s.Replayed = h.State == settle.Replayed && n.turn.Now().Before(h.Expires)
	} else if r := t.Final(); r != nil {
		s.Agent = r.Agent
	}
	return s
}

// again takes a request for a task that is known.
func (n *Node) again(t *task, m *bus.Task) {
	switch n.admission.Again(t, m) {
	case admission.TakesUp:
		n.takeUp(t, m)
	case admission.Asks:
		n.settle.Asked(&t.hold.Hold, m)
	case admission.GoesOn:
		n.admitRest(t, m)
	}
}

// cancel ends a task for its client: at once while it waits, through its agent while it runs.
func (n *Node) cancel(m *bus.Cancel) error {
	t := n.admission.Find(m.Client, m.Task)
	if t == nil || !t.Open() {
		return nil // nothing to end; who asks has the answer, or never sent the task here
	}
	if !t.Of(m.Sender) {
		return fmt.Errorf("%s cancels task %s of %s, which it has not sent", m.Sender, m.Task, m.Client)
	}
	if t.hold == nil {
		n.end(t, n.turn.Refusal(t.Msg, bus.CodeCancelled, 0, "cancelled by the client while it waited"), true)
		return nil
	}
	n.settle.Cancel(&t.hold.Hold)
	return nil
}
