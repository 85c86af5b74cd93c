package hub

import (
	"slices"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/market"
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
			n.past = true
			n.advance(time.Unix(0, p.Held))
			n.replayHold(p)
			n.past = true
			n.advance(time.Unix(0, p.Ended))
			n.replayEnd(p)
		}
		code := bus.Code("")
		if p.Void != nil && (bus.Code(p.Void.Reason) == bus.CodeTimeout ||
			bus.Code(p.Void.Reason) == bus.CodeBadRequest) {
			code = bus.CodeLate // its agent's account came too late, or was none
		}
		n.acks.Put(p.Hold.Client, ledger.HoldID(n.cfg.Journal, p.Hold.Round, p.Hold.Slot), code, 1)
	}
	open, err := h.Open()
	if err != nil {
		return err
	}
	for i := range open {
		n.past = true
		n.advance(time.Unix(0, open[i].Held))
		n.replayHold(&open[i])
	}
	for _, r := range h.Returns() {
		// Whether the treasury heard of it is not known here: it will say, see resendReturns. It takes
		// returns in order, so one that it never hears of would hold up all that follow.
		n.treasury.returns = append(n.treasury.returns, giveBack{r.Number, r.Client, r.Amount})
	}
	if seq, _, last := n.book.Last(); seq > 0 {
		n.past = true
		n.advance(time.Unix(0, last))
		n.past = true
	}
	return nil
}

// replayHold brings back a task that was under way: its agent may still be serving it. What its client sent
// is not in a journal, so it is answered `unknown` until the hold ends, or whoever has the task sends it
// again.
func (n *Node) replayHold(p *ledger.Past) {
	rec := *p.Hold
	a := n.enrol(rec.Agent)
	t := &task{
		key: taskKey{rec.Client, rec.Task}, id: market.TaskID(rec.Client + "/" + rec.Task),
		digest: rec.Digest, state: running, arrived: n.now,
		deadline: time.Unix(0, rec.Expires), told: true, reply: replyOf(&rec),
		earlier: p.Earlier,
	}
	t.whole, t.tries, t.continued = rec.MaxTokens, rec.Attempt, rec.Attempt > 0
	t.timer.owner = t
	id := ledger.HoldID(n.cfg.Journal, rec.Round, rec.Slot)
	h := &hold{id: id, rec: rec, task: t, agent: a, sent: n.now,
		expires: time.Unix(0, rec.Expires), state: replayed}
	if p.Award != nil {
		h.award, h.own = *p.Award, p.Own
	}
	h.timer.owner = h
	t.hold = h
	n.known[t.key] = t
	n.openAccount(rec.Client)
	n.holds[id] = h
	a.holds = append(a.holds, h)
	n.timers.set(&h.timer, h.expires)
}

// takeUp hands a recovered hold to its agent once more, as the task has come again: perhaps it never left,
// since the hub died between its journal and its agents. To an agent that has it already it is the same
// dispatch. One that this hub has not claimed yet would refuse it, so that waits for the claim, as long as a
// reply is waited for. So would one that was started again, which may still say what it had served before.
func (n *Node) takeUp(t *task, m *bus.Task) {
	h := t.hold
	n.read(t, m)
	if n.judgeTime(t) != nil || n.setTerms(t) != nil {
		t.msg = nil
		n.refuse(m, bus.CodeUnknown, 0, "an agent may be serving the task, whose deadline has passed")
		return
	}
	need, _ := n.survey(t) // in case its agent refuses
	t.wanted = max(need, h.rec.Amount)
	t.told, t.reply = false, m.Reply
	t.inboxes = append(t.inboxes, m.Inbox)
	a := h.agent
	a.holds = slices.DeleteFunc(a.holds, func(o *hold) bool { return o == h }) // it is not beside itself
	q := n.quoted(t, a, n.backlog(a))
	h.features, h.ttft, h.first = q.features, q.forecast.TTFT, a.worstFirst(t, &q)
	h.watch = n.watchOf(a, h)
	h.state = dispatched
	h.sent, h.timeout = n.now, h.expires.Sub(n.now)
	h.again, h.inquired = 1, time.Time{}
	n.come(t)
	n.takes(t, h)
	if h.kept = !a.joined || h.former(); h.kept {
		n.timers.set(&h.timer, n.now.Add(n.cfg.DispatchTimeout))
		return
	}
	n.handOut(h)
}

// handKept hands out what waited for the claim on an agent.
func (n *Node) handKept(a *agent) {
	for _, h := range a.holds {
		if h.kept && !h.cancelled && !h.former() { // else it is withdrawn, or ended, in its time
			n.handOut(h)
		}
	}
}

// former reports whether a hold is of an earlier life of its agent, which is known to have another.
func (h *hold) former() bool { return h.agent.reg.Agent != "" && h.rec.Boot != h.agent.reg.Boot }

// replayEnd ends a hold as it ended then, and says nothing of it to anyone.
func (n *Node) replayEnd(p *ledger.Past) {
	h := n.holds[ledger.HoldID(n.cfg.Journal, p.Hold.Round, p.Hold.Slot)]
	n.close(h, p.Capture != nil)
	var r *bus.Result
	if p.Capture != nil {
		r = n.paid(h, p.Capture)
		h.task.accepted = n.acceptance(h)
	} else {
		code := bus.Code(p.Void.Reason)
		if code == bus.CodeLateFirst { // the hub ended before another agent had it
			code = bus.CodeAgentFailed
		}
		r = n.unpaid(h, code, "the hold ended without payment")
	}
	n.finish(h.task, r, false)
}
