package settle

import (
	"fmt"
	"sort"
	"time"

	"souk/bus"
	"souk/market"
)

const (
	// A dispatch without a reply is sent again dispatchAgain times, one dispatch timeout apart. The agent
	// serves a hold once, and gives the same reply each time. Then it is withdrawn, and again until the agent
	// replies. toldAfter timeouts after it was sent the client is told that nobody knows.
	dispatchAgain = 2
	toldAfter     = 4
	withdrawEvery = time.Second

	endAgain = time.Second // how soon it is looked at again whether a hold can end that could not

	// repeatWithin is the time within which an agent has sent its completions again: it pauses for five
	// seconds at most, after two in which nobody answered.
	repeatWithin = 8 * time.Second
)

// handOut dispatches the task of a hold to its agent.
func (r *Room) handOut(h *Hold) {
	c, out := &h.Rec, &r.turn.Out
	out.Dispatches = append(out.Dispatches, bus.Dispatch{Kind: c.Kind, Domain: r.turn.Domain,
		Epoch: r.turn.Epoch, Journal: r.turn.Journal, Round: c.Round, Hold: h.ID, Index: h.Index,
		Boot: c.Boot, Task: *h.Msg, Earlier: h.Task.Earlier, Model: c.Model, MaxTokens: c.MaxTokens,
		Asserted: c.Asserted, Price: c.Price, Tariff: c.Tariff, Settle: c.Settle, Quoted: c.Quoted,
		Premium: c.Premium, Fee: c.Fee,
		CostCap: c.Amount - c.Premium, Cached: h.Verified, SlotPrice: h.Award.SlotPrice, Toll: h.Award.Toll,
		Own: h.Own, TimeoutMS: min(max(1, h.Timeout.Milliseconds()), bus.MaxPatient)})
	d := &out.Dispatches[len(out.Dispatches)-1]
	d.FirstMS, d.WatchMS = min(h.First.Milliseconds(), d.TimeoutMS), min(h.Watch.Milliseconds(), d.TimeoutMS)
	d.LimitMS = min(h.Limit.Milliseconds(), d.TimeoutMS)
	if d.Task.Inbox, d.Task.Voucher, d.Task.Tags = "", nil, ""; h.Msg.Carried() > 0 {
		d.Whole = h.Task.Whole
	}
	placed := r.hub.HandOut(h, d)
	placed.Free = placed.Free && !h.Repeated()
	out.Placed = append(out.Placed, placed)
}

// Covers returns how many of so many prompt tokens the hold has room for, beside a first token.
func (h *Hold) Covers(most int) int {
	if h.Rec.Settle == market.SettleQuoted {
		return most
	}
	room := h.Rec.Amount - h.Rec.Premium - h.Rec.Tariff
	if market.WorstCase(h.Rec.Price, most, 1) <= room { // as nearly always
		return most
	}
	short := sort.Search(most, func(k int) bool { return market.WorstCase(h.Rec.Price, k+1, 1) > room })
	return short // one more would not fit
}

// Believed returns an agent's account with its prompt tokens bounded by those that the hold covers. Otherwise
// the session's next turn would pay for the excess.
func (h *Hold) Believed(c *bus.Completion) *bus.Completion {
	most := h.Covers(h.Most)
	if h.Most == 0 || c.Usage.Prompt <= most {
		return c
	}
	capped := *c
	capped.Usage.Prompt, capped.Usage.Cached = most, min(c.Usage.Cached, most)
	return &capped
}

// Replied takes an agent's answer to a dispatch.
func (r *Room) Replied(m *bus.DispatchReply) error {
	h := r.holds[m.Hold]
	if h == nil {
		return fmt.Errorf("reply of %s on hold %s, which is not open", m.Agent, m.Hold)
	}
	if m.Agent != h.Rec.Agent {
		return fmt.Errorf("reply of %s on hold %s of %s", m.Agent, m.Hold, h.Rec.Agent)
	}
	if m.Code != bus.CodeUnavailable { // which the bus says, or we do
		if m.Boot != h.Rec.Boot { // that start serves it, or what becomes of it is told by a registration
			return fmt.Errorf("reply of %s, boot %d, on hold %s, which was handed to boot %d", m.Agent, m.Boot,
				m.Hold, h.Rec.Boot)
		}
		r.hub.Spoke(h, m)
	}
	switch {
	case m.Code == "":
		r.happens(h, Accepts)
	case !h.State.May(Refuses):
		return fmt.Errorf("%s refuses hold %s after it had accepted it", m.Agent, m.Hold)
	case m.Code == bus.CodeUnavailable && h.Repeated():
		// nobody heard it this time; an agent that is cut off now may have the one before
	default:
		r.refused(h, m)
	}
	return nil
}

// accepted tells the client which agent serves the task, so that its reader listens there. The body is kept,
// within limits, in case another agent has to serve it.
func (r *Room) accepted(h *Hold) {
	t, m := h.Task, h.Msg
	t.Reply = m.Reply
	t.Accepted = r.acceptance(h)
	switch {
	case t.body > 0: // kept since an earlier agent took it
	case m.Failover == "off" || r.bodies+len(m.Body) > r.limits.KeepBodies:
		m.Body, m.Large = nil, nil
	default:
		t.body = len(m.Body)
		r.bodies += t.body
	}
	t.Told = true
	r.hub.Answer(h, &bus.Answer{Accepted: t.Accepted})
}

// served replaces a late or lost reply to a dispatch: chunks of the answer show that the agent took the task.
func (r *Room) served(h *Hold) {
	if h.Task.Accepted == nil && h.Msg != nil {
		r.accepted(h)
	}
}

// refused ends a dispatch that an agent did not take. If the reason lies with the agent, the task goes back
// to the batch, with its first arrival. If it lies with the task, the task ends.
func (r *Room) refused(h *Hold, m *bus.DispatchReply) {
	switch m.Code {
	case bus.CodeBadRequest, bus.CodeUnsupportedField, bus.CodeTooLarge, bus.CodeEmptyPrompt,
		bus.CodePromptTooLong, bus.CodeEngineRefused:
		r.void(h, Rejects, unpaid{reason: m.Code, code: m.Code, why: m.Message})
		return
	}
	r.hub.Avoid(h, Refuses)
	r.void(h, Refuses, unpaid{reason: m.Code, code: bus.CodeNoRoom,
		why: fmt.Sprintf("agents refused it %s, the last %s: %s", market.Some(h.Task.Refusals+1, "time"),
			h.Rec.Agent, m.Code)})
}

// due is called by a hold's timer: the reply, or the agent's account, has not come in time.
func (r *Room) due(h *Hold) {
	now, a := r.turn.Now(), r.hub.Agent(h)
	over := !now.Before(h.Expires)
	switch {
	case over && (r.cut || r.turn.Doubt != ""): // its agent is not heard, or not believed
		r.turn.Set(&h.timer, now.Add(repeatWithin))
	case over && now.Before(r.hears):
		r.turn.Set(&h.timer, r.hears)
	case over:
		r.void(h, Expired, unpaid{reason: bus.CodeTimeout, code: bus.CodeTimeout,
			why: "the agent did not report an end in time; nothing was charged"})
	case h.State.May(NoReply) && h.again < dispatchAgain && !h.Cancelled:
		if !h.Repeated() {
			r.hub.Avoid(h, NoReply)
		}
		r.happens(h, NoReply)
	case h.State == Withdrawn && (a.Silent || a.former(h)) && r.Hears():
		// If it wakes up it finds the withdrawal next to the dispatch, and whatever it says belongs to an
		// attempt that was given up. An agent that was started again has said by now what it had served.
		u := agentFailed(fmt.Sprintf("agent %s did not answer, and says nothing", h.Rec.Agent))
		u.wait = r.elsewhere(h)
		r.void(h, Silent, u)
	default:
		// Nobody knows whether the agent has the task. It is told to end it, or to refuse it if it comes yet,
		// and the task goes nowhere else before this hold has ended.
		r.happens(h, Unanswered)
	}
	if !h.State.Ended() && !h.timer.IsSet() { // its end could not be recorded, or its agent may fall silent
		r.turn.Set(&h.timer, now.Add(endAgain))
	}
}

// Repeated reports whether the hold was dispatched again, so that its agent may have had it before.
func (h *Hold) Repeated() bool { return h.again > 0 }
