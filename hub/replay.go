package hub

import (
	"slices"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// Replay takes in one stored frame of the hub's own journal, from the first, before the first Lead.
func (n *Node) Replay(f ledger.Frame) error {
	if err := n.book.ApplyFrame(f); err != nil {
		return err
	}
	n.past = false // frames' times never fall
	n.advance(time.Unix(0, f.Time))
	n.past = true
	var round *ledger.Round
	for i := range f.Records {
		switch r := &f.Records[i]; r.Kind {
		case ledger.KindRound:
			round = r.Round
		case ledger.KindHold:
			n.replayHold(r.ID, *r.Hold, round)
		case ledger.KindCapture:
			n.replayCapture(r.Capture)
		case ledger.KindVoid:
			n.replayVoid(r.Void)
		case ledger.KindReturn:
			// Whether the treasury heard of it is not known here: it will say, see resendReturns. It takes returns in order, so one
			// that it never hears of would hold up all that follow.
			t := &n.treasury
			if t.returns = append(t.returns, given(r)); len(t.returns) >= 2*maxReturns {
				t.returns = append(t.returns[:0], t.returns[len(t.returns)-maxReturns:]...)
			}
		}
	}
	n.forgetEnded()
	return nil
}

// replayHold brings back a task that was under way: its agent may still be serving it. What its client sent is
// not in a journal, so it is answered `unknown` until the hold ends, or whoever has the task sends it again.
func (n *Node) replayHold(id string, rec ledger.Hold, round *ledger.Round) {
	a := n.enrol(rec.Agent)
	t := &task{
		key: taskKey{rec.Client, rec.Task}, id: market.TaskID(rec.Client + "/" + rec.Task), digest: rec.Digest, state: running, arrived: n.now,
		deadline: time.Unix(0, rec.Expires), told: true, reply: bus.ReplySubject(rec.Client, rec.Task),
	}
	t.whole, t.tries, t.continued = rec.MaxTokens, rec.Attempt, rec.Attempt > 0
	if old := n.known[t.key]; old != nil && rec.Attempt > 0 && old.final != nil && old.final.Receipt != nil {
		t.earlier = append(slices.Clone(old.earlier), old.final.Receipt.ID)
	}
	t.timer.owner = t
	h := &hold{id: id, rec: rec, task: t, agent: a, sent: n.now, expires: time.Unix(0, rec.Expires), answered: true}
	if round != nil && rec.Slot < len(round.Outcome.Awards) {
		h.recovered, h.award = true, round.Outcome.Awards[rec.Slot]
		h.congestion, _, _ = round.Round.Tolls(h.award)
	}
	h.timer.owner = h
	t.hold = h
	n.known[t.key] = t
	n.openPurse(rec.Client)
	n.holds[id] = h
	a.holds = append(a.holds, h)
	n.timers.set(&h.timer, h.expires)
}

// takeUp hands a recovered hold to its agent once more, as the task has come again: perhaps it never left, since the
// hub died between its journal and its agents. To an agent that has it already it is the same dispatch.
func (n *Node) takeUp(t *task, m *bus.Task) {
	h := t.hold
	t.msg = m
	if m.MaxTokens <= 0 {
		m.MaxTokens = n.cfg.MaxTokens
	}
	if m.Reply == "" {
		m.Reply = bus.ReplySubject(m.Client, m.ID)
	}
	if m.Session != "" {
		t.session = bus.SessionKey(m.Client, m.Session)
	}
	if n.judgeTime(t) != nil || n.setTerms(t) != nil {
		t.msg = nil
		n.refuse(m, bus.CodeUnknown, 0, "an agent may be serving the task, whose deadline has passed")
		return
	}
	need, _ := n.survey(t) // in case its agent refuses
	t.wanted = max(need, h.rec.Amount)
	t.id, t.told, t.reply = market.TaskID(m.Client+"/"+m.ID), false, m.Reply
	t.inboxes = append(t.inboxes, m.Inbox)
	h.recovered, h.answered = false, false
	h.sent, h.timeout = n.now, h.expires.Sub(n.now)
	h.again = 1
	n.handOut(h)
}

// recovered says who has served a task that is known from the journal alone: for a while its agent still has the chunks.
func (n *Node) recovered(h *hold) *bus.Accepted {
	return &bus.Accepted{
		Client: h.rec.Client, Task: h.rec.Task, Hub: n.cfg.Domain, Agent: h.agent.id, Model: h.rec.Model, Reply: h.task.reply, Round: h.rec.Round,
	}
}

func (n *Node) replayCapture(c *ledger.Capture) {
	h := n.holds[c.Hold]
	if h == nil {
		return
	}
	n.close(h)
	n.acks.put(h.id, "")
	r := &bus.Result{
		Client: h.rec.Client, Task: h.rec.Task, Hub: n.cfg.Domain, Agent: h.rec.Agent, Model: h.rec.Model,
		Finish: c.Finish, Usage: c.Usage, Unmetered: c.Unmetered, TTFTUS: c.TTFTUS,
		Cost: c.Cost, Premium: h.rec.Premium, Fee: h.rec.Fee, Receipt: n.receipt(h),
	}
	h.task.accepted = n.recovered(h)
	if c.Outcome == bus.OutcomeCancelled {
		r.Code, r.Message = bus.CodeCancelled, "cancelled: what was served until then is paid"
	}
	n.replayed(h, r)
}

func (n *Node) replayVoid(v *ledger.Void) {
	h := n.holds[v.Hold]
	if h == nil {
		return
	}
	n.close(h)
	code := bus.Code(v.Reason)
	if code == bus.CodeTimeout {
		n.acks.put(h.id, bus.CodeLate)
	} else {
		n.acks.put(h.id, "")
	}
	r := n.refusal(n.identity(h.task), code, 0, "the hold ended without payment")
	r.Agent, r.Model, r.Receipt = h.rec.Agent, h.rec.Model, n.receipt(h)
	n.replayed(h, r)
}

// replayed ends a task as it ended then, and says nothing of it to anyone.
func (n *Node) replayed(h *hold, r *bus.Result) {
	if h.task.state == running {
		n.finish(h.task, r, false)
	}
}
