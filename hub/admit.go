package hub

import (
	"time"

	"souk/bus"
	"souk/hub/admission"
	"souk/hub/estimate"
	"souk/hub/meeting"
)

// requests is the hub as it takes requests: it has no state of its own.
type requests struct{ *Node }

// admit takes a task in, or refuses it truthfully. Money is reserved before a round is built: a winner that
// its client cannot fund would change everyone's prices. It came then, perhaps a little before now.
func (n requests) admit(m *bus.Task, came time.Time) error {
	t, what, err := n.admission.Come(m, n.status.Last(), n.status.Unsure(m.LastStatus, came))
	if what == admission.Answered {
		return err
	}
	if n.money.Vouched(m); what == admission.Repeats {
		n.again(t, m)
		return nil
	}
	t = n.meeting.NewTask(admission.New(m.Client, m.ID, m.Content(), 0), came)
	t.Before = n.admission.Waited(&t.Request)
	n.meeting.Read(t, m)
	r := n.judge(n.meeting, t, n.turn.Now(), true)
	if r != nil && r.Code == bus.CodeNoRoom {
		n.regimes.Came(n.turn.Nano())
		n.regimes.Turned()
	}
	var need estimate.Need
	if r == nil {
		need, r = n.meeting.Survey(t)
	}
	if r != nil {
		n.admission.Answer(m, r)
		return nil
	}
	n.hear(t, nil, n.Policies.Arrived)
	n.take(t, m, need)
	return nil
}

// take counts a task in that is admitted, and has what it needs reserved.
func (n requests) take(t *task, m *bus.Task, need estimate.Need) {
	n.admission.Take(t)
	n.money.Open(t.Client, t.ID)
	n.money.Vouched(m)
	t.Wait(m.Inbox)
	n.money.Fund(t.Client, t.ID, need)
}

// judge says why a task that meets agents at x is not admitted; own: its client's limit counts, too.
func (n requests) judge(x *meeting.Room, t *task, now time.Time, own bool) (no *bus.Result) {
	if t.Deadline, no = n.admission.Deadline(now, t.Msg); no == nil {
		no = n.judgeRoom(t, own)
	}
	if no == nil {
		no = x.SetTerms(t)
	}
	return no
}

// judgeRoom keeps to the hub's limits. That of a task's client does not count if the task would hardly wait:
// no round has left one of its client, and a slot is free for it and for all that rounds take before it.
func (n requests) judgeRoom(t *task, own bool) *bus.Result {
	awaits := n.money.Awaiting(t.Client)
	l := admission.Load{Waiting: n.Queue.Waiting(), Has: n.Queue.Of(t.Client) + awaits}
	l.Closed, l.Again = n.Refuses()
	l.Full = n.Queue.Spare(n.fleet.Slots(), n.admission.Open()) <= 0 && !n.Queue.Squeezes(l.Has)
	if own && l.Has >= n.cfg.WaitingPerClient() {
		l.TooMany = n.Queue.Left(t.Client) || n.Queue.Next()+awaits >= n.meeting.Free(t)
	}
	return n.admission.Judge(t.Msg, l)
}

// Quote says what a task would be given if it came now, and changes nothing. The task is as a door sends it;
// it need not have an id, nor its client any money. Limits of its client do not count.
func (n *Node) Quote(now time.Time, m *bus.Task) *bus.HubQuote {
	last, _ := n.turn.Book.LastRound()
	out := &bus.HubQuote{Hub: n.cfg.Domain, Round: last, ValidMS: n.cfg.StatusEvery.Milliseconds()}
	n.meeting.Aside(now, func(own *meeting.Room, now time.Time) {
		copied := *m
		t := own.NewTask(admission.New(m.Client, m.ID, [16]byte{}, 0), now)
		no := n.admission.Asked(&copied)
		if no == nil {
			own.Read(t, &copied)
			no = requests{n}.judge(own, t, now, false)
		}
		if no == nil {
			out.Models, no = own.Quote(t, n.Queue.Waiting())
		}
		if no != nil {
			out.Code, out.Message, out.RetryMS = no.Code, no.Message, no.RetryMS
		}
	})
	return out
}
