package hub

import (
	"slices"
	"time"

	"souk/bus"
	"souk/bus/openai"
	"souk/ledger"
)

// An agent that fails does not fail its client's task. As long as nothing was delivered, the hub gives the
// task to another agent by itself. What was delivered only the reader has, so the reader sends the task again
// together with it, and the rest is a new award. In both cases the failed hold is void: an agent that fails
// earns nothing.

const (
	// of one task before anything was delivered, also where its reader has asked for another agent meanwhile:
	// it may be the task that kills engines
	maxMoves     = 2
	mostMoves    = 16                      // with those after which it was not begun
	beatEvery    = 1500 * time.Millisecond // to the reader of a task that waits for its next agent
	lookEvery    = 200 * time.Millisecond  // whether an agent that a reader gives up on has said anything
	maxLook      = 10 * time.Second        // after which the reader is told that it still serves
	backOffBound = 3                       // tokens that the next agent may take back, for a whole character
)

// moved gives a task that its agent failed to another, with its first arrival. It returns false if there is
// none, or the task is not to go anywhere.
func (n *Node) moved(h *hold, c *bus.Completion) bool {
	t := h.task
	if !c.Unsaid || !n.movable(h, c.Code) {
		return false
	}
	code := c.Code
	if h.given && code.Broken() {
		code = bus.CodeLateFirst
	}
	t.failedAt = append(t.failedAt, h.agent.id)
	terms, second, most := t.terms, t.second, t.most
	need, r := n.survey(t)
	if r != nil && most > 0 { // its client may have more by now
		if t.most = 0; n.setTerms(t) == nil {
			need, r = n.survey(t)
		}
	}
	if r != nil || !n.voided(h, code) {
		t.failedAt = t.failedAt[:len(t.failedAt)-1]
		t.terms, t.second, t.most = terms, second, most
		return false
	}
	if code == bus.CodeLateFirst {
		n.hedged(h)
	}
	n.acks.Put(h.task.key.client, h.id, bus.CodeMoved, 1)
	n.stats.Moved++
	t.failedHold = n.receipt(h)
	t.earlier = append(t.earlier, h.id)
	t.moves++
	t.msg.Attempt++
	t.hold, t.accepted = nil, nil
	t.join()
	n.hearAgain(t)
	n.fund(t, need)
	n.news()
	return true
}

// movable reports whether a task may go to another agent, as long as nothing was delivered, where its agent
// gives it up with such a code.
func (n *Node) movable(h *hold, code bus.Code) bool {
	t := h.task
	switch {
	case !n.leading || t.msg == nil || len(t.msg.Body) == 0 || t.msg.Failover == "off" ||
		h.cancelled || t.told && t.moves == 0 && !h.state.taken() || n.draining:
		return false
	case !code.Broken() && code != bus.CodeNoSlot || !n.now.Before(t.deadline):
		return false
	case len(t.earlier) >= maxMoves && code.Broken() || t.moves >= min(n.cfg.MaxRefusals, mostMoves):
		return false
	case t.carried() > 0 && code.Broken():
		return false // one continuation a task
	}
	return true
}

// failed deals with a task that its agent could not serve. One of which nothing reached its client, and whose
// client was promised nothing, is tried elsewhere.
func (n *Node) failed(h *hold, c *bus.Completion) {
	code := c.Code
	if code == "" {
		code = bus.CodeAgentFailed
	}
	t := h.task
	n.stats.agent(h.agent.id).Failed++
	if n.moved(h, c) {
		return
	}
	if h.state == withdrawn && c.Unsaid {
		if n.void(h, code, code, "the agent stopped before it began"); t.state != done {
			// else it would tell the reader that it failed
			n.acks.Put(h.task.key.client, h.id, bus.CodeMoved, 1)
		}
		return
	}
	if !n.voided(h, code) {
		return
	}
	refused := code == bus.CodeEngineRefused || code == bus.CodePromptTooLong
	if c.Relayed > 0 || refused { // the agent tells the reader what the engine said, which is not known here
		n.served(h)
	}
	why := string(code)
	if refused {
		why = "its engine refused the task; what it said went to whoever asked first: take a new id to read it"
	}
	n.finish(h.task, n.unpaid(h, code, "agent %s: %s", h.agent.id, why), false)
	n.news()
}

// died deals with what ran on an agent that is no longer there. What nobody can have heard of ends. A reader
// that was told of the agent may have the end of its answer, of which the hub has no account yet: it is
// asked, and the hold stays open until the reader says that it has not, by asking for the rest; until the
// account comes after all; or until the hold's time is over. While the agent stays away its readers are asked
// again, as the question may be lost.
func (n *Node) died(a *agent) {
	times := a.watch.deaths
	if times == 0 {
		n.stats.agent(a.id).Dead++
	}
	a.silentFrom = 0
	n.news() // who waits for it may do better now
	for _, h := range slices.Clone(a.holds) {
		switch t := h.task; {
		case t.only != nil || t.accepted == nil && h.state != replayed:
			n.void(h, bus.CodeAgentFailed, bus.CodeAgentFailed, agentDead)
		case t.next != nil:
			n.givenUp(h)
		default:
			h.inquired = n.now
			n.sendReader(t.reply, &bus.Chunk{Task: t.key.id, Attempt: t.attempt(), Agent: a.id, Dead: true})
		}
	}
	n.listen(a)
	a.watch.deaths = times + 1
	n.timers.set(&a.watch.timer, n.now.Add(min(n.cfg.Suspect<<min(times, 10), deadAgain)))
}

const (
	agentDead = "the agent is dead"
	// after which a reader that asks for the rest answers that question no more, where its agent is back: a
	// door may have died with the answer, and the reader asks another after six seconds
	deadFor = 15 * time.Second
)

// left reports whether a reader that asks for the rest of what a hold is for says by that that it has not had
// the end.
func (n *Node) left(h *hold) bool {
	return !h.inquired.IsZero() && (h.agent.watch.deaths > 0 || n.now.Sub(h.inquired) < deadFor)
}

// givenUp ends what ran on an agent that is dead, as its reader has not had the end. Of which nothing was
// delivered, the task goes to another agent.
func (n *Node) givenUp(h *hold) {
	t := h.task
	if m := t.next.Resume; t.next.Failover != "off" && m.Seq == 0 && t.msg != nil && t.msg.Resume == nil &&
		n.moved(h, &bus.Completion{Code: bus.CodeAgentFailed, Unsaid: true}) {
		return
	}
	if n.fail(h, bus.CodeAgentFailed, bus.CodeAgentFailed, agentDead); t.state != done { // it is not recorded
		n.timers.set(&t.timer, n.now.Add(lookEvery))
	}
}

// join lets a reader that asked for the rest wait with the others: the task goes to another agent anyway.
func (t *task) join() {
	if t.next != nil {
		t.inboxes = append(t.inboxes, t.next.Inbox)
		t.next = nil
	}
}

// beat keeps a reader patient.
func (n *Node) beat(t *task, agent string) {
	c := &bus.Chunk{Task: t.key.id, Attempt: t.msg.Attempt, Heartbeat: true, Agent: agent}
	if t.msg.Resume != nil {
		c.Seq = t.msg.Resume.Seq
	}
	n.sendReader(t.msg.Reply, c)
}

// carried is how many tokens of the answer come from an agent that failed.
func (t *task) carried() int {
	if t.msg == nil || t.msg.Resume == nil {
		return 0
	}
	return len(t.msg.Resume.Tokens)
}

// goOn takes a request for the rest of an answer. The agent's word decides whether it failed, not the
// reader's: a hold that was served to its end stays paid.
func (n *Node) goOn(t *task, m *bus.Task, digest [16]byte) {
	switch {
	case !n.leading:
		n.refuse(m, bus.CodeUnavailable, time.Second, "the hub has lost its leadership; try again")
	case t.digest != digest:
		n.refuse(m, bus.CodeIDConflict, 0, "task %s was sent before with other content: take a new id", m.ID)
	case m.Failover == "off" && t.state == done:
		r := *t.final
		if r.Code == "" {
			r.Code, r.Message = bus.CodeAnswerGone, "served and paid once; the text is not kept here"
		}
		n.send(m.Inbox, &bus.Answer{Result: &r})
	case t.state != done && t.moves > 0 && t.server() != m.Resume.Agent && t.accepted != nil:
		n.send(m.Inbox, &bus.Answer{Accepted: t.accepted}) // the reader missed that it was moved
	case t.state != done && t.moves > 0 && t.server() != m.Resume.Agent && len(t.inboxes) < moreInboxes:
		t.inboxes = append(t.inboxes, m.Inbox)
	case t.continued && m.Attempt <= t.attempt() && m.Resume.Agent != t.server():
		n.repeat(t, m, digest) // the reader asked already, and missed the answer
	case t.continued && m.Failover != "off" && (t.state != running || !n.left(t.hold)):
		n.refuse(m, bus.CodeAgentFailed, 0, "the answer went on elsewhere once, and no answer does so twice")
	case t.state == running && t.hold.agent.id == m.Resume.Agent:
		if t.next != nil {
			n.refuse(t.next, bus.CodeDuplicate, time.Second,
				"the same was asked again: that question is answered")
			t.next = m
			return
		}
		t.next, t.asked = m, n.now
		if n.left(t.hold) {
			n.givenUp(t.hold)
			return
		}
		n.timers.set(&t.timer, n.now.Add(lookEvery))
	case t.state != done:
		n.refuse(m, bus.CodeDuplicate, time.Second, "the task is in hand")
	case t.final.Code == "" || t.final.Code == bus.CodeCancelled && t.final.Receipt != nil &&
		n.book.Ended(t.final.Receipt.ID) == ledger.KindCapture:
		n.refuse(m, bus.CodeAnswerGone, 0,
			"agent %s served the task to its end, and it is paid; what was lost on the way is not "+
				"served again", t.final.Agent)
	case t.final.Agent != m.Resume.Agent || t.final.Receipt == nil ||
		n.book.Ended(t.final.Receipt.ID) != ledger.KindVoid || !mayGoOn(t.final.Code):
		r := n.refusal(m, t.final.Code, 0, "%s", t.final.Message)
		r.Receipt = t.final.Receipt
		n.refuseWith(m, r)
	case t.noRest != nil:
		n.refuseWith(m, t.noRest)
	default:
		n.admitRest(t, m)
	}
}

// server is the agent that has the task, or had it when it ended; "" while it waits.
func (t *task) server() string {
	switch {
	case t.hold != nil:
		return t.hold.agent.id
	case t.final != nil:
		return t.final.Agent
	}
	return ""
}

// mayGoOn reports whether a hold ended with c because its agent failed, so that another may go on.
func mayGoOn(c bus.Code) bool {
	return c.Broken() || c == bus.CodeNoSlot || c == bus.CodeTimeout || c == bus.CodeUnavailable
}

// refuseRest refuses the rest of an answer. Where that is its reader's last word, whoever asks later hears
// the same: the reader has asked by another door, too, and what comes by it would be served to nobody.
func (n *Node) refuseRest(t *task, m *bus.Task, r *bus.Result) {
	if r.Code != bus.CodeUnavailable && r.Code != bus.CodeDraining {
		r.Receipt = t.final.Receipt
	}
	if !asksAgain(r) {
		t.noRest = r
	}
	n.refuseWith(m, r)
}

// asksAgain reports whether the reader of an answer asks again for its rest where that is refused so.
func asksAgain(r *bus.Result) bool { return r.Code.Unsaid() || r.NotNow() }

// admitRest admits the rest of an answer as the same task: the same model where some of it was delivered,
// what is left of max_tokens, and all of max_price, since nothing was charged yet.
func (n *Node) admitRest(old *task, m *bus.Task) {
	t := &task{
		key: old.key, id: old.id, digest: old.digest, arrived: old.arrived, restOf: old,
		deadline: n.now.Add(n.cfg.Deadline), continued: true, whole: old.whole,
		failedAt: append(slices.Clone(old.failedAt), m.Resume.Agent), failedHold: old.final.Receipt,
		earlier: append(slices.Clone(old.earlier), old.final.Receipt.ID),
	}
	t.timer.owner = t
	n.read(t, m)
	// the reader may know of moves that a hub which was started again has no record of
	m.Attempt = max(old.tries+1, min(m.Attempt, old.tries+1+mostMoves))
	if r := n.judgeRoom(t); r != nil {
		n.refuseRest(old, m, r)
		return
	}
	if err := n.setTerms(t); err != nil {
		n.refuseRest(old, m, n.refusal(m, bus.CodeBadTerms, 0, "%v", err))
		return
	}
	if k := len(m.Resume.Tokens); k > 0 {
		parses, err := openai.CanContinue(m.Resume, m.Body)
		if err != nil {
			n.refuseRest(old, m, n.refusal(m, bus.CodeUnsupportedField, 0, "%s", bus.MessageOf(err)))
			return
		}
		t.parses, t.broke = parses, n.now
		m.Model = old.final.Model
		m.MaxTokens = min(t.whole, max(0, t.whole-k)+backOffBound)
	}
	need, r := n.survey(t)
	if r != nil {
		n.refuseRest(old, m, r)
		return
	}
	n.stats.Continued++
	n.known[t.key] = t
	n.come(t)
	n.openAccount(t.key.client)
	n.hearVoucher(m)
	t.inboxes = append(t.inboxes, m.Inbox)
	n.fund(t, need)
}

// waits is since when a task has waited for what it lacks: its first token, or the rest of its answer.
func (t *task) waits() time.Time {
	if t.broke.IsZero() {
		return t.arrived
	}
	return t.broke
}

// silent reports whether an agent has said nothing for too long. A hub that has just come hears agents late.
func (n *Node) silent(a *agent) bool {
	return n.nano > a.silentFrom && n.now.After(n.led.Add(2*n.cfg.Silence))
}

// look is for a running task whose reader hears nothing of its agent. If the hub hears nothing either, the
// agent has failed; else the reader is told to wait for it.
func (n *Node) look(t *task) {
	m, a := t.next, t.hold.agent
	switch {
	case n.left(t.hold):
		n.givenUp(t.hold)
	// its process has ended, and left no completion of this hold
	case a.reg.Agent != "" && t.hold.rec.Boot != a.reg.Boot && n.now.Sub(t.asked) >= n.cfg.Settling:
		n.fail(t.hold, bus.CodeAgentFailed, bus.CodeAgentFailed, "the agent was restarted")
	case n.silent(a):
		n.avoid(a)
		n.fail(t.hold, bus.CodeAgentFailed, bus.CodeAgentFailed, "the agent fell silent")
	case n.now.Sub(t.asked) >= maxLook:
		t.next = nil
		n.refuse(m, bus.CodeUnknown, time.Second,
			"agent %s says that it serves the task: the way from it to you is cut", a.id)
	default:
		n.timers.set(&t.timer, n.now.Add(lookEvery))
	}
}
