package admission

import (
	"fmt"
	"time"

	"souk/bus"
	"souk/ledger"
)

// Served describes how agents have served a task so far.
type Served struct {
	Agent    string        // that has it, or had it when it ended; "": none
	Held     bool          // the agent has it, or may
	Accepted *bus.Accepted // says who serves or served it
	Moved    bool          // an earlier agent failed it
	Unsure   bool          // its agent may serve it, and has not said so
	Replayed bool          // its hold is open, and known from the journal alone
	NoEnd    bool          // its agent is dead, and its reader, asked whether it has the end, has not
}

// Again answers a request for a task that is known, as far as that takes neither agents nor money.
func (r *Room[T]) Again(t T, m *bus.Task) What {
	s := r.served(t)
	if m.Resume != nil {
		return r.resumes(t.Asked(), m, &s)
	}
	return r.repeats(t.Asked(), m, &s)
}

// repeats answers a request for the same task. The same content is the same task, whoever asks again.
func (r *Room[T]) repeats(q *Request, m *bus.Task, s *Served) What {
	switch same := q.Digest == m.Content(); {
	case same && s.Replayed:
		return TakesUp
	case !same:
		r.Refuse(m, bus.CodeIDConflict, 0, "task %s was sent before with other content: take a new id", m.ID)
	case q.Open && s.Accepted != nil,
		s.Accepted != nil && m.Stream && m.Reply == q.reply && q.Final.Code == "" &&
			r.turn.Now().Before(q.ended.Add(replayFor)): // the agent still has the chunks
		r.turn.Send(m.Inbox, &bus.Answer{Accepted: s.Accepted})
	case q.Open && s.Unsure:
		r.turn.Send(m.Inbox, &bus.Answer{Result: r.turn.Refusal(m, bus.CodeUnknown, time.Second,
			"an agent may be serving the task: it said nothing")})
	case q.Open && len(q.inboxes) < MoreInboxes:
		q.inboxes = append(q.inboxes, m.Inbox)
	case q.Open:
		r.Refuse(m, bus.CodeDuplicate, time.Second, "%d requests wait for the task already", len(q.inboxes))
	default:
		r.turn.Send(m.Inbox, q.lastWord())
	}
	return Answered
}

// resumes answers a request for the rest of an answer. A hold that was served to its end stays paid.
func (r *Room[T]) resumes(q *Request, m *bus.Task, s *Served) What {
	same, final := q.Digest == m.Content(), q.Final
	ended := func(kind ledger.Kind) bool {
		return final.Receipt != nil && r.turn.Book.Ended(final.Receipt.ID) == kind
	}
	switch {
	case !r.turn.Leading:
		r.Refuse(m, bus.CodeUnavailable, time.Second, "the hub has lost its leadership; try again")
	case same && m.Failover == "off" && !q.Open:
		r.turn.Send(m.Inbox, q.lastWord())
	case !same,
		// the reader missed that it was moved, or asked already, and missed the answer
		q.Open && s.Moved && s.Agent != m.Resume.Agent &&
			(s.Accepted != nil || len(q.inboxes) < MoreInboxes),
		q.rest && m.Attempt <= q.Attempt() && m.Resume.Agent != s.Agent:
		return r.repeats(q, m, s)
	case q.rest && m.Failover != "off" && !s.NoEnd:
		r.Refuse(m, bus.CodeAgentFailed, 0, "the answer went on elsewhere once, and no answer does so twice")
	case s.Held && s.Agent == m.Resume.Agent:
		return Asks
	case q.Open:
		r.Refuse(m, bus.CodeDuplicate, time.Second, "the task is in hand")
	case final.Code == "" || final.Code == bus.CodeCancelled && ended(ledger.KindCapture):
		r.Refuse(m, bus.CodeAnswerGone, 0,
			"agent %s served the task to its end, and it is paid; what was lost on the way is not "+
				"served again", final.Agent)
	case final.Agent != m.Resume.Agent || !ended(ledger.KindVoid) || !MayGoOn(final.Code):
		x := r.turn.Refusal(m, final.Code, 0, "%s", final.Message)
		x.Receipt = final.Receipt
		r.Answer(m, x)
	case q.noRest != nil:
		r.Answer(m, q.noRest)
	default:
		return GoesOn
	}
	return Answered
}

// MayGoOn reports whether a hold ended with c because its agent failed, so that another may go on.
func MayGoOn(c bus.Code) bool {
	return c.Broken() || c.Unbegun() || c == bus.CodeTimeout
}

// RefuseRest refuses the rest of an answer that broke off.
func (r *Room[T]) RefuseRest(q *Request, m *bus.Task, x *bus.Result) {
	if x.Code != bus.CodeUnavailable && x.Code != bus.CodeDraining {
		x.Receipt = q.Final.Receipt
	}
	q.refused(x)
	r.Answer(m, x)
}

// Judged takes a client's judgement of the answer to a task, once.
func (r *Room[T]) Judged(m *bus.Feedback) (q *Request, err error) {
	if t := r.Find(m.Client, m.Task); t != *new(T) {
		q = t.Asked()
	}
	switch {
	case q == nil || q.Final == nil || q.Final.Agent == "" || q.Final.Code != "" || !q.Of(m.Sender):
		return nil, fmt.Errorf("feedback of %s on task %s, which was not served here lately", m.Client, m.Task)
	case q.judged:
		return nil, fmt.Errorf("feedback of %s on task %s, which was judged before", m.Client, m.Task)
	}
	q.judged = true
	return q, nil
}
