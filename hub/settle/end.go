package settle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"souk/bus"
	"souk/ledger"
)

// unpaid describes a hold's end without payment.
type unpaid struct {
	reason bus.Code // on record
	code   bus.Code // and why: to the client, if the task ends by it
	why    string
	served bool   // its reader may have heard of its agent, before the hub had the agent's reply
	again  int64  // ms, after which the client may ask again; 0: not said
	wait   func() // how the task waits again, if it does; nil: as it did before
}

// agentFailed is the end of a hold whose agent cannot have served it.
func agentFailed(why string) unpaid {
	return unpaid{reason: bus.CodeAgentFailed, code: bus.CodeAgentFailed, why: why}
}

const (
	agentDead      = "the agent is dead"
	agentRestarted = "the agent was restarted"
)

// void ends a hold without payment by an event. Its task takes the first way that the table names for it and
// that is possible. Where the end cannot be recorded nothing changes.
func (r *Room) void(h *Hold, e Event, u unpaid) {
	from := h.State
	for _, then := range from.On(e).Then {
		switch then {
		case Move:
			if r.moved(h, e, u.reason) {
				return
			}
		case Again:
			if r.tried(h, e, u) {
				return
			}
		case End:
			if !r.voided(h, e, u.reason, then) {
				return
			}
			said := from.Said(e)
			if said && u.served {
				r.served(h)
			}
			if h.Cancelled && !said {
				u.code, u.why, u.again = bus.CodeCancelled, from.Stopped(), 0
			}
			r.hub.Done(h, r.unpaid(h, u.code, u.why, u.again), !said)
		}
	}
}

// tried puts a task into a round again whose hold ends through no fault of its own; false: it may not.
func (r *Room) tried(h *Hold, e Event, u unpaid) bool {
	if !r.mayTryAgain(h) {
		return false
	}
	if r.voided(h, e, u.reason, Again) {
		if u.reason == bus.CodeAgentFailed { // it may have begun, and be given the task again
			h.Msg.Attempt++
		}
		h.Task.Refusals++
		if u.wait == nil {
			u.wait = r.hub.Wait(h, false)
		} else {
			h.Task.FailedAt = append(h.Task.FailedAt, h.Rec.Agent)
		}
		u.wait()
	}
	return true
}

// voided records the void of a hold. On a fault nothing changes.
func (r *Room) voided(h *Hold, e Event, reason bus.Code, then Effect) bool {
	return r.end(h, Void, then, ledger.NewVoid(r.turn.Journal, h.Rec, string(reason), r.turn.Salt()),
		Ending{Event: e, Reason: reason, Had: h.State.Taken()})
}

func (r *Room) end(h *Hold, to State, then Effect, rec ledger.Record, how Ending) bool {
	e := how.Event
	if rule := h.State.On(e); rule.To != to || !slices.Contains(rule.Then, then) {
		r.turn.Fault(fmt.Errorf("hold %s: %s, then %s, while it is %s: %s", h.ID, e, then, h.State, rule.Not))
		return false
	}
	if err := r.turn.Commit(rec); err != nil {
		r.turn.Fault(fmt.Errorf("%s of hold %s: %w", rec.Kind, h.ID, err))
		return false
	}
	ack := bus.CodeLate
	switch {
	case then == Move, then == Again && (e == Silent || e == Unsaid):
		ack = bus.CodeMoved // else its agent would tell the reader that it failed
	case e == Served || e == Unused || e == Unsaid || e == Failed:
		ack = ""
	}
	r.close(h, to, ack, how)
	return true
}

// close forgets a hold that has ended.
func (r *Room) close(h *Hold, to State, ack bus.Code, how Ending) {
	r.acks.Put(h.Rec.Client, h.ID, ack, 1)
	h.State = to
	r.turn.Set(&h.timer, time.Time{})
	r.turn.Set(&h.look, time.Time{})
	delete(r.holds, h.ID)
	if h.Repeated() { // this turn may be about to dispatch it again
		out := &r.turn.Out
		i := slices.IndexFunc(out.Dispatches, func(d bus.Dispatch) bool { return d.Hold == h.ID })
		if i >= 0 {
			out.Dispatches = slices.Delete(out.Dispatches, i, i+1)
			out.Placed = slices.Delete(out.Placed, i, i+1)
		}
	}
	r.hub.Ended(h, how)
}

// Past ends a hold as the journal says, without any message. Of a hold that is not open only the answer to
// its agent is remembered.
func (r *Room) Past(p *ledger.Past) {
	id, ack := ledger.HoldID(r.turn.Journal, p.Hold.Round, p.Hold.Slot), bus.Code("")
	if p.Void != nil && (bus.Code(p.Void.Reason) == bus.CodeTimeout ||
		bus.Code(p.Void.Reason) == bus.CodeBadRequest) {
		ack = bus.CodeLate // its agent's account came too late, or was none
	}
	switch h := r.holds[id]; {
	case h == nil:
		r.acks.Put(p.Hold.Client, id, ack, 1)
	case p.Capture != nil:
		r.close(h, Captured, ack, Ending{Had: true})
		h.Task.Accepted = r.acceptance(h)
		r.hub.Done(h, r.paid(h, p.Capture), false)
	default:
		r.close(h, Void, ack, Ending{})
		code := bus.Code(p.Void.Reason)
		if code == bus.CodeLateFirst { // the hub ended before another agent had it
			code = bus.CodeAgentFailed
		}
		r.hub.Done(h, r.unpaid(h, code, "the hold ended without payment", 0), false)
	}
}

// acknowledge answers an agent's account of a hold that has ended. Every repeat gets the same.
func (r *Room) acknowledge(c *bus.Completion) {
	ack := bus.CompletionAck{Hold: c.Hold}
	known := r.acks.Peek(c.Hold)
	if known != nil {
		ack.Code = *known
	}
	if known == nil && r.turn.Book.Ended(c.Hold) != ledger.KindCapture ||
		ack.Code == bus.CodeMoved && c.Outcome != bus.OutcomeFailed { // it was served, and nothing is due
		ack.Code = bus.CodeLate
	}
	r.turn.Send(c.Inbox, &ack)
}

// Completed settles a hold by its agent's account of it. The acknowledgement leaves once that is durable. An
// invalid account would be no better if repeated, so there is nothing to wait for: nothing is due, and the
// acknowledgement tells the agent so.
func (r *Room) Completed(c *bus.Completion, invalid error) error {
	h := r.holds[c.Hold]
	switch {
	case h == nil && invalid != nil && (&bus.CompletionAck{Hold: c.Hold}).Validate() != nil:
		return invalid
	case !strings.HasPrefix(c.Hold, r.turn.Journal+"/"):
		return fmt.Errorf("completion of %s on hold %s, which its own hub settles", c.Agent, c.Hold)
	case h == nil: // it has ended: a repeat gets the same answer
		r.counts.Late++
		r.acknowledge(c)
		return nil
	case c.Agent != h.Rec.Agent:
		return fmt.Errorf("completion of %s on hold %s of %s", c.Agent, c.Hold, h.Rec.Agent)
	case c.Boot != h.Rec.Boot:
		return fmt.Errorf("completion of %s, boot %d, on hold %s, which was handed to boot %d", c.Agent,
			c.Boot, c.Hold, h.Rec.Boot)
	case invalid != nil:
		r.hub.Spoke(h, nil)
		r.void(h, Unfit, unpaid{reason: bus.CodeBadRequest, code: bus.CodeAgentFailed,
			why: fmt.Sprintf("agent %s: its account of the task is none: %v", h.Rec.Agent, invalid)})
	case c.Outcome == bus.OutcomeFailed:
		r.hub.Spoke(h, c)
		r.failed(h, c)
	case c.Unused():
		r.hub.Spoke(h, c)
		r.void(h, Unused, unpaid{reason: bus.CodeCancelled, code: bus.CodeCancelled,
			why: "cancelled before the engine had said anything: nothing is due"})
	default:
		r.hub.Spoke(h, c)
		r.capture(h, c)
	}
	if h.State.Ended() {
		r.acknowledge(c)
	}
	return invalid
}

// failed handles a task that its agent could not serve. If nothing of it reached its client, and nothing was
// promised, another agent is tried.
func (r *Room) failed(h *Hold, c *bus.Completion) {
	code := cmp.Or(c.Code, bus.CodeAgentFailed)
	u := unpaid{reason: code, code: code, why: string(code), served: c.Relayed > 0}
	switch code {
	case bus.CodeEngineRefused, bus.CodePromptTooLong: // its agent tells the reader what the engine said
		u.served, u.why = true, "its engine refused the task; what it said went to whoever asked first: take a "+
			"new id to read it"
	case bus.CodeNoSlot: // a word between agents and hubs
		u.code, u.again, u.why = bus.CodeNoRoom, 1000, "its engine has no room"
	case bus.CodeUnavailable, bus.CodeUnknownModel: // as doors say it of a model that was served of late
		u.code, u.again, u.why = bus.CodeUnavailable, 1000, "its engine is out of reach, or lost the model"
	}
	u.why = "agent " + h.Rec.Agent + ": " + u.why
	e := Failed
	if c.Unsaid {
		e = Unsaid
	}
	if !h.State.Said(e) {
		u.why = "the agent stopped before it began"
	}
	r.void(h, e, u)
}

// capture ends a hold in payment. The cost follows the rule, whatever the agent claims.
func (r *Room) capture(h *Hold, c *bus.Completion) {
	fair, rec := r.account(h, c)
	if !r.end(h, Captured, End, ledger.NewCapture(r.turn.Journal, h.Rec, rec, r.turn.Salt()),
		Ending{Event: Served, Had: true, Capture: &rec, Account: fair}) {
		return
	}
	x := r.paid(h, &rec)
	x.ITLUS = fair.ITLUS
	if c.Outcome == bus.OutcomeDone {
		r.served(h)
	}
	if h.Msg == nil && h.Task.Accepted == nil {
		h.Task.Accepted = r.acceptance(h)
	}
	r.hub.Done(h, x, false)
}
