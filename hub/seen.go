package hub

// The hub as its rooms see it, where they tell it or ask it something.

import (
	"slices"
	"time"

	"souk/bus"
	"souk/hub/forecast"
	"souk/hub/policy"
	"souk/hub/settle"
	"souk/hub/status"
	"souk/market"
)

// holding is the hub as package settle sees it: see [settle.Hub].
type holding struct{ *Node }

func (x holding) of(h *settle.Hold) *hold { return x.admission.Find(h.Rec.Client, h.Rec.Task).Hold }

func (x holding) Agent(h *settle.Hold) settle.Agent {
	a := x.of(h).Agent
	return settle.Agent{Known: a.Reg().Agent != "", Boot: a.Reg().Boot, Dead: a.Dead(),
		Silent: x.fleet.Silent(&a.Agent)}
}

func (x holding) Spoke(s *settle.Hold, m bus.Message) {
	h := x.of(s)
	x.fleet.Alive(&h.Agent.Agent)
	switch m := m.(type) {
	case *bus.Completion:
		y := forecast.Answered{Completion: m, Expected: &h.Expected, Hold: &h.Rec, Cold: h.Agent.Answered,
			Ran: x.turn.Now().Sub(h.Sent)}
		if first, ok := x.Forecasts.Answered(x.turn.Nano(), &h.Whose.Asks, &h.Agent.Forecast, &y); ok {
			h.Agent.Computed(h.Rec.Client, h.Rec.Task, first)
			h.Agent.Service().Computed(h.Expected.Computes)
		}
	case *bus.DispatchReply:
		if m.Code == bus.CodeDraining {
			h.Agent.Unready()
		}
	}
}

func (x holding) Avoid(s *settle.Hold, e settle.Event) {
	h := x.of(s)
	a := h.Agent
	if e == settle.Refuses && h.Beyond {
		a.Unqueues()
		return
	}
	if e == settle.NoReply {
		x.stats.Agent(a.ID()).Unanswered++
	}
	x.fleet.Avoid(&a.Agent)
}

func (x holding) Answer(s *settle.Hold, a *bus.Answer) bool {
	h := x.of(s)
	if a.Accepted != nil {
		h.Agent.Accepts()
	}
	return x.admission.Tell(&h.Whose.Request, a)
}

func (x holding) Refuse(m *bus.Task, code bus.Code, retry time.Duration, why string) {
	x.admission.Refuse(m, code, retry, "%s", why)
}

func (x holding) Others(s *settle.Hold) (largest, free int) {
	h := x.of(s)
	for _, a := range x.fleet.All() {
		if a.Joined() {
			largest = max(largest, a.Reg().Slots)
		}
		if a != h.Agent && x.settle.Late(a.ID()) == 0 &&
			x.Forecasts.Goes(&h.Whose.Asks, &a.Forecast) {
			free += a.Vacant(x.turn.Nano())
		}
	}
	return largest, free
}

func (x holding) HandOut(s *settle.Hold, d *bus.Dispatch) Placed {
	h := x.of(s)
	t := h.Whose
	most, _ := x.Forecasts.Of(&h.Agent.Forecast).Bound(&t.Asks)
	d.Fence, d.PromptMost = h.Agent.Reg().Fence, h.Covers(most)
	d.Open = t.Asks.Open() && t.Msg.Carried() == 0
	d.Tight = bus.AnswerRoom(h.Agent.Reg().MaxModelLen, h.Rec.Prompt) < d.MaxTokens
	return Placed{Agent: h.Agent.ID(), Arrived: t.Arrived, Free: t.AtOnce() && t.Refusals+t.Moves == 0}
}

func (x holding) Wait(s *settle.Hold, elsewhere bool) func() {
	h := x.of(s)
	t := h.Whose
	need, bid := x.money.Need(t.Client, t.ID), t.Bid
	var no *bus.Result
	if elsewhere {
		need, no = x.meeting.Survey(t)
	}
	if no != nil { // its client may have more by now
		t.Bound(0)
		x.meeting.SetTerms(t)
		need, no = x.meeting.Survey(t)
	}
	then := t.Bid
	t.Bid = bid
	if no != nil {
		return nil
	}
	return func() {
		t.Bid = then
		t.Hold = nil
		if h.Next != nil { // who asked for the rest waits, too: the task goes elsewhere anyway
			t.Wait(h.Next.Inbox)
		}
		x.hear(t, nil, x.Policies.Again)
		x.money.Fund(t.Client, t.ID, need)
		x.Queue.News()
	}
}

// Ended teaches by an ended hold, and frees its agent's slot, which it had unless its agent never took it.
func (x holding) Ended(s *settle.Hold, how settle.Ending) {
	h := x.of(s)
	a, t, ran := h.Agent, h.Whose, x.turn.Now().Sub(h.Sent)
	first, queued := h.Expected.Times(how.Account, ran)
	x.stats.Ended(&h.Rec, how)
	switch c := how.Capture; {
	case how.Event == "": // it was heard when it ended
	case c == nil:
		x.hear(t, a, x.Policies.Failed)
	default:
		x.money.Charged(h.Rec.Client)
		x.hear(t, a, func(now time.Time, turn *policy.Turn) {
			x.Policies.Served(now, turn, h.Believed(how.Account))
		})
		if t.Msg == nil || t.Own() {
			break
		}
		if t.Msg.Carried() == 0 {
			x.regimes.Served(max(0, h.Sent.Sub(t.Arrived))+queued, max(0, first-queued), h.Expected.First)
		}
		if h.Rec.Boot == a.Reg().Boot &&
			x.Forecasts.Paid(&a.Forecast, &t.Domain, t.Msg.Domain, t.Client, c.Cost) {
			x.Queue.News()
		}
	}
	if how.Reason == bus.CodeNoSlot && h.Beyond {
		a.Unqueues()
	}
	if kept := ran - queued; !t.Own() && how.Had && kept > 0 {
		x.regimes.Ended(kept)
		a.Kept(h.Rec.Client, h.Rec.Task, kept)
	}
	x.meeting.Shares.Ended(x.turn.Nano(), h.Rec.Client, ran)
	a.Forecast.Cache.Ended(h.Expected.Run)
	x.fleet.End(&a.Agent, h.Rec.Client, h.Rec.Task)
	for _, next := range x.holds(a) {
		if next != nil && next.Expected.Queued > 0 && next.Expected.Waited == 0 { // it has the slot
			next.Expected.Waited = max(1, x.turn.Now().Sub(next.Sent))
			break
		}
	}
}

// Done ends the task of a hold. It is remembered until its deadline and KeepIDs have passed.
func (x holding) Done(s *settle.Hold, r *bus.Result, tell bool) {
	h := x.of(s)
	t := h.Whose
	x.end(t, r, tell)
	t.Hold = nil
	if x.admission.Remember(t, r, t.Deadline); h.Next != nil {
		requests{x.Node}.again(t, h.Next)
	}
	x.Queue.News()
}

// waiters are the tasks, as package queue sees them: see [queue.Tasks].
type waiters struct{ *Node }

func (w waiters) Beat(t *task) { w.settle.Beat(t.Msg, "") }

// Overdue tells a task that waited until its deadline what stood in its way.
func (w waiters) Overdue(t *task) {
	w.meeting.Kept.End(w.turn.Nano(), t.Worth, 0)
	w.refuse(t, bus.CodeNoRoom, time.Second, "%s", w.unplaced(t))
}

// unplaced is the truth about a task whose deadline passed while it waited.
func (w waiters) unplaced(t *task) string {
	return w.Queue.Missed(t, t.Refusals, func() bool { return w.meeting.Free(t) > 0 }, func() bool {
		return slices.ContainsFunc(w.fleet.All(), func(a *agent) bool {
			return a.Open(w.turn.Nano()) && w.Forecasts.Goes(&t.Asks, &a.Forecast)
		})
	})
}

func (w waiters) Spent(all []*task) {
	w.meeting.Open()
	w.meeting.Agree(all)
	for _, t := range all {
		if t.Waits { // what the one before leaves may have had others take its room
			// no round may be held for long
			rounds{w.Node}.worthless(t, w.meeting.Best(t, true), !t.Outpriced.IsZero())
		}
	}
}

// payers are the tasks, as package account sees them: see account.Tasks.
type payers struct{ *Node }

func (p payers) Cleared() { p.settle.Deaf() }
func (p payers) Ended()   { p.Close(p.turn.Now()) }
func (p payers) Doubted() {
	p.refuseWaiting(bus.CodeUnavailable, p.turn.Doubt, status.AgainStale)
}

func (p payers) Refused(client, id string, code bus.Code, retry time.Duration, why string) {
	p.refuse(p.admission.Find(client, id), code, retry, "%s", why)
}

func (p payers) Bounded(client, id string, most market.Credits) market.Credits {
	t := p.admission.Find(client, id)
	t.Bound(most)
	p.meeting.SetTerms(t) // what was said of terms is as good as before
	return t.Terms.Cap()
}

// Funded lets a task wait for a slot.
func (n payers) Funded(client, id string, reserved market.Credits, waited bool) {
	t := n.admission.Find(client, id)
	t.Most = reserved
	if !t.Own() && t.Moves == 0 && t.Refusals == 0 {
		n.regimes.Came(n.turn.Nano())
	}
	free := !waited && n.Queue.Waiting() < n.fleet.Free(n.Queue.Waiting()+1)
	beat := time.Duration(0)
	if t.Moves > 0 {
		beat = settle.BeatEvery // its reader waits for chunks
	}
	n.Queue.Add(t, free, beat)
	n.Queue.Lasts(t, t.Lasts())
	for {
		last, why := n.Queue.Excess(n.fleet.Slots(), n.admission.Open())
		if last == nil {
			return
		}
		n.refuse(last, bus.CodeNoRoom, time.Second, "%s", why)
	}
}
