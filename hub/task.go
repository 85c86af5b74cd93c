package hub

import (
	"fmt"
	"slices"
	"time"

	"souk/bus"
	"souk/hub/admission"
	"souk/hub/estimate"
	"souk/hub/forecast"
	"souk/hub/settle"
)

// refuse ends a task without a hold, and says why. It is forgotten, so that its client may try the same id
// again. One that has ended is left as it is.
func (n *Node) refuse(t *task, code bus.Code, retry time.Duration, format string, args ...any) {
	if !t.Open {
		return
	}
	if t.Waits {
		if !t.Own() && (code == bus.CodeNoRoom || code == bus.CodeNotWorthIt) {
			n.regimes.Unserved(n.turn.Now().Sub(t.Arrived),
				func() (time.Duration, bool) { return n.meeting.Blocked(t) })
		}
		n.Queue.Remove(t)
	}
	r := n.turn.Refusal(t.Msg, code, retry, format, args...)
	r.Receipt = t.FailedHold
	n.hear(t, nil, n.Policies.Failed) // else its turn would run for them for ever
	n.end(t, r, true)
	n.admission.Forget(t, t.InLine(n.turn.Now()), r)
}

// end tells the last word on a task. tell has a reader of the answer hear of it where the chunks come, as its
// agent does not.
func (n *Node) end(t *task, r *bus.Result, tell bool) {
	n.settle.Done(&t.Task)
	if t.Msg != nil && t.Msg.SessionEnd && r.RetryMS == 0 && !admission.MayGoOn(r.Code) {
		// else its last turn is to come again, or as the rest of this one
		n.Policies.Ended(n.turn.Now(), t.Asks.Source.Session)
	}
	own := t.Own()
	t.Asks = forecast.Task{}
	n.money.End(t.Client, t.ID)
	if own {
		n.prewarms.Over()
	}
	n.turn.Changed = true
	waited := n.admission.Last(&t.Request, r, own, t.Hold == nil && n.settle.Hears())
	if tell && t.Reply != "" && (!waited || t.Moves > 0) {
		n.turn.Send(t.Reply+"."+n.cfg.Domain, &bus.Chunk{Task: t.ID, Attempt: t.Attempt(), Result: r})
	}
}

// again takes a request for a task that is known.
func (n requests) again(t *task, m *bus.Task) {
	switch n.admission.Again(t, m) {
	case admission.TakesUp:
		n.takeUp(t, m)
	case admission.Asks:
		n.settle.Asked(&t.Hold.Hold, m)
	case admission.GoesOn:
		n.admitRest(t, m)
	}
}

// cancel ends a task for its client: at once while it waits, through its agent while it runs.
func (n requests) cancel(m *bus.Cancel) error {
	switch t := n.admission.Find(m.Client, m.Task); {
	case t == nil, !t.Open: // nothing to end; who asks has the answer, or never sent the task here
	case !t.Of(m.Sender):
		return fmt.Errorf("%s cancels task %s of %s, which it has not sent", m.Sender, m.Task, m.Client)
	case t.Hold == nil:
		n.refuse(t, bus.CodeCancelled, 0, "cancelled by the client while it waited")
	default:
		n.settle.Cancel(&t.Hold.Hold)
	}
	return nil
}

// judged takes a client's judgement of an answer.
func (n requests) judged(m *bus.Feedback) error {
	q, err := n.admission.Judged(m)
	if err != nil {
		return err
	}
	if a := n.fleet.Find(q.Final.Agent); a != nil && a.Reg().Model == q.Final.Model && q.Domain != "" &&
		n.Forecasts.Judged(&a.Forecast, q.Domain, m) { // else of what it was then nothing is left
		n.Queue.News()
	}
	return nil
}

// takeUp asks the agent of a hold that the journal alone tells of for its task, which has come again.
func (n requests) takeUp(t *task, m *bus.Task) {
	h := t.Hold
	n.meeting.Read(t, m)
	deadline, no := n.admission.Deadline(n.turn.Now(), m)
	if t.Deadline = deadline; no != nil || n.meeting.SetTerms(t) != nil ||
		n.meeting.Rest(t, h.Rec.Model) != nil {
		t.Msg, t.Asks = nil, forecast.Task{}
		n.admission.Refuse(m, bus.CodeUnknown, 0, "an agent may be serving the task, whose deadline has passed")
		return
	}
	if m.Resume != nil {
		t.FailedAt = append(t.FailedAt, m.Resume.Agent)
	}
	need, no := n.meeting.Survey(t)
	if no != nil { // in case its agent refuses: nothing is known of others
		need.Worst, need.Least = 0, 0
	}
	need.Wanted = max(need.Wanted, h.Rec.Amount)
	n.money.Needs(t.Client, t.ID, need)
	t.Wait(m.Inbox)
	h.Agent.End(h.Rec.Client, h.Rec.Task) // it is not beside itself
	now := n.turn.Nano()
	h.Expected, h.First, h.Watch = n.Forecasts.Expect(now, &t.Asks, &h.Agent.Forecast, h.Agent.Backlog(now))
	h.Expected.Estimate = estimate.Estimate{}
	n.takes(h)
	n.settle.TakeUp(&h.Hold, m, t.Deadline)
}

// admitRest admits the rest of an answer as the same task: the same model where some of it was delivered,
// what is left of max_tokens, and all of max_price, since nothing was charged yet.
func (n requests) admitRest(old *task, m *bus.Task) {
	attempt := old.Attempt() + 1
	t := n.meeting.NewTask(admission.New(old.Client, old.ID, old.Digest, 0), old.Arrived)
	t.Task = settle.Task{
		FailedAt: append(slices.Clone(old.FailedAt), m.Resume.Agent), FailedHold: old.Final.Receipt,
		Earlier: append(slices.Clone(old.Earlier), old.Final.Receipt.ID), Whole: old.Whole,
	}
	n.meeting.Read(t, m)
	// the reader may know of moves that a hub which was started again has no record of
	m.Attempt = max(attempt, min(m.Attempt, attempt+settle.MostMoves))
	no := n.judgeRoom(t, true)
	if no == nil {
		no = n.meeting.SetTerms(t)
	}
	if no == nil {
		no = n.meeting.Rest(t, old.Final.Model)
	}
	var need estimate.Need
	if no == nil {
		need, no = n.meeting.Survey(t)
	}
	if no != nil {
		n.admission.RefuseRest(&old.Request, m, no)
		return
	}
	n.take(t, m, need)
}
