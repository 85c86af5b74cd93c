package hub

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"souk/bus"
	"souk/hub/predict"
	"souk/ledger"
	"souk/market"
)

// hold is money set aside for a task that was handed to an agent, until a Completion or its own time ends it.
type hold struct {
	id       string
	rec      ledger.Hold
	task     *task
	agent    *agent
	sent     time.Time
	timeout  time.Duration // what the agent was given
	expires  time.Time
	features predict.Features
	most     int           // prompt tokens that it covers; 0: it is known from the journal alone
	implied  int           // tokens that the agent is believed to hold, as far as the same text implies it
	first    time.Duration // the latest that the first token was quoted to come, from dispatch

	congestion market.Credits // the tier's part of its toll, <= 0

	award     market.Award
	state     holdState
	again     int    // times it was dispatched again, for want of a reply
	secret    uint64 // of its dispatch; 0: it is known from the journal alone
	cancelled bool   // by its client, which may be in every state, and stays so in the next
	timer     timer
}

// holdState is what is known of an agent and a hold. A hold that has ended has none: it is no longer in
// Node.holds. A completion ends it in every state, and so does its own time.
//
//	state       what is known                        what comes next
//	dispatched  the agent was handed the task        accepted: it says so
//	                                                 recalled: it says nothing, asked three times
//	                                                 ended: it refuses
//	recalled    it was told to stop                  late: it says that it serves
//	                                                 ended: it refuses, or it is silent and another takes the task
//	accepted    it serves the task
//	late        it serves, though told to stop: what the hub has stopped nobody pays, unless its client
//	            cancelled it, too
//	replayed    the journal alone tells of it: the   dispatched: its client sends the task again
//	            agent may be serving it
type holdState uint8

const (
	dispatched holdState = iota
	recalled
	accepted
	late
	replayed
)

// taken reports whether the agent has said that it serves the hold, or may have said so before this hub began.
func (s holdState) taken() bool { return s >= accepted }

// A dispatch that nobody answered is sent again so many times, one dispatch timeout apart: its agent serves a
// hold once, and gives the same reply each time. After toldAfter timeouts the client hears that there is no
// word.
const (
	dispatchAgain = 2
	toldAfter     = 4
)

// replied takes an agent's answer to a dispatch.
func (n *Node) replied(m *bus.DispatchReply) error {
	h := n.holds[m.Hold]
	if h == nil {
		return fmt.Errorf("reply of %s on hold %s, which is not open", m.Agent, m.Hold)
	}
	if m.Agent != h.agent.id {
		return fmt.Errorf("reply of %s on hold %s of %s", m.Agent, m.Hold, h.agent.id)
	}
	t := h.task
	if m.Code != bus.CodeUnavailable { // which the bus says, or we do
		h.agent.speaks(n)
	}
	if m.Code == "" {
		switch h.state {
		case dispatched:
			h.state = accepted
		case recalled:
			h.state = late
		default:
			return nil
		}
		h.agent.refusals = 0
		n.timers.set(&h.timer, h.expires)
		if h.cancelled { // what it was told of that may have come before the task
			n.tellCancel(h)
		}
		switch {
		case t.msg == nil:
		case t.moves > 0:
			n.takenOver(t, h)
		default:
			n.accepted(t, h)
		}
		return nil
	}
	if h.state.taken() {
		return fmt.Errorf("%s refuses hold %s after it had accepted it", m.Agent, m.Hold)
	}
	n.refused(h, m)
	return nil
}

// accepted tells the client who serves it. The body is kept, within limits, in case another has to.
func (n *Node) accepted(t *task, h *hold) {
	t.accepted = n.acceptance(t, h)
	t.reply = t.msg.Reply
	if t.msg.Failover == "off" || n.bodies+len(t.msg.Body) > n.cfg.KeepBodies {
		t.msg.Body = nil
	} else if t.body == 0 {
		t.body = len(t.msg.Body)
		n.bodies += t.body
	}
	n.answer(t, &bus.Answer{Accepted: t.accepted})
}

func (n *Node) acceptance(t *task, h *hold) *bus.Accepted {
	return &bus.Accepted{
		Client: t.key.client, Task: t.key.id, Hub: n.cfg.Domain, Agent: h.agent.id, Model: h.rec.Model,
		Reply: t.msg.Reply, Round: h.rec.Round,
	}
}

// letGo counts a kept body out.
func (n *Node) letGo(t *task) {
	n.bodies -= t.body
	t.body = 0
}

// refused ends a dispatch that an agent did not take. Reasons that lie with the agent send the task back to
// the batch, with its first arrival; those that lie with the task are its end.
func (n *Node) refused(h *hold, m *bus.DispatchReply) {
	n.stats.agent(h.agent.id).Refused++
	switch m.Code {
	case bus.CodeBadRequest, bus.CodeUnsupportedField, bus.CodeTooLarge, bus.CodeEmptyPrompt,
		bus.CodePromptTooLong, bus.CodeEngineRefused:
		n.fail(h, m.Code, m.Code, m.Message)
		return
	case bus.CodeDraining:
		h.agent.state = bus.StateDraining
	}
	n.shun(h.agent)
	n.void(h, m.Code, bus.CodeNoRoom,
		fmt.Sprintf("%d dispatches were refused, the last by %s: %s", h.task.refusals+1, h.agent.id, m.Code))
}

// void ends a hold without payment for a reason that does not lie with its task, which is tried again if its
// client was promised nothing yet, or another agent that had not begun; else the client is told code, and
// knows what it has.
func (n *Node) void(h *hold, reason, code bus.Code, why string) {
	t := h.task
	promised := t.told && (t.moves == 0 || h.state.taken())
	if promised || h.cancelled || !n.leading || n.draining || t.msg == nil || !n.now.Before(t.deadline) ||
		t.refusals >= n.cfg.MaxRefusals {
		n.fail(h, reason, code, why)
		return
	}
	if !n.voided(h, reason) {
		return
	}
	t.refusals++
	t.hold = nil
	t.join()
	n.fund(t, t.wanted)
	n.news()
}

// fail ends a hold without payment, for reason, and its task, with code.
func (n *Node) fail(h *hold, reason, code bus.Code, why string) {
	if !n.voided(h, reason) {
		return
	}
	t := h.task
	if h.cancelled {
		code, why = bus.CodeCancelled, "cancelled by the client before an agent took it"
		if h.state.taken() {
			why = "cancelled by the client: its agent did not say what it had served, and nothing is due"
		}
	}
	r := n.refusal(n.identity(t), code, 0, "%s", why)
	r.Agent, r.Model, r.Receipt = h.agent.id, h.rec.Model, n.receipt(h)
	n.end(t, r)
	n.news()
}

// identity is enough of a task's message to speak of it, even of one known from the journal alone.
func (n *Node) identity(t *task) *bus.Task {
	if t.msg != nil {
		return t.msg
	}
	return &bus.Task{Client: t.key.client, ID: t.key.id}
}

// voided records the void of a hold and takes it off its agent. On a fault nothing changes.
func (n *Node) voided(h *hold, code bus.Code) bool {
	if err := n.commit(ledger.NewVoid(n.cfg.Journal, h.rec, string(code), n.salt())); err != nil {
		n.fault(fmt.Errorf("void of hold %s: %w", h.id, err))
		return false
	}
	count(n.stats.Voids, code)
	n.close(h)
	return true
}

// close takes an ended hold off its agent.
func (n *Node) close(h *hold) {
	delete(n.holds, h.id)
	if h.again > 0 { // and is perhaps about to be dispatched again
		for i := range n.out.Dispatches {
			if n.out.Dispatches[i].Hold == h.id {
				n.out.Dispatches = slices.Delete(n.out.Dispatches, i, i+1)
				n.out.Placed = slices.Delete(n.out.Placed, i, i+1)
				break
			}
		}
	}
	n.timers.set(&h.timer, time.Time{})
	a := h.agent
	for i, o := range a.holds {
		if o == h {
			a.holds = append(a.holds[:i], a.holds[i+1:]...)
			break
		}
	}
	n.drop(a)
}

// due implements timed.
func (h *hold) due(n *Node) {
	switch {
	case !n.now.Before(h.expires) && n.cut:
		n.timers.set(&h.timer, n.now.Add(repeatWithin))
	case !n.now.Before(h.expires) && n.now.Before(n.hears):
		n.timers.set(&h.timer, n.hears)
	case !n.now.Before(h.expires):
		n.acks.put(h.id, bus.CodeLate)
		n.stats.agent(h.agent.id).Expired++
		n.fail(h, bus.CodeTimeout, bus.CodeTimeout,
			"the agent did not report an end in time; nothing was charged")
	case h.state.taken():
		n.timers.set(&h.timer, h.expires)
	case h.again < dispatchAgain && !h.cancelled && h.task.msg != nil && len(h.task.msg.Body) > 0:
		if h.again == 0 {
			n.stats.agent(h.agent.id).Unanswered++
			n.shun(h.agent)
		}
		h.again++
		n.handOut(h)
	case h.state == dispatched:
		// Nobody knows whether the agent has the task. It is told to stop, and the task goes nowhere else
		// before this hold has ended.
		h.state = recalled
		n.tellRecall(h)
		n.timers.set(&h.timer, earlier(h.expires, h.sent.Add(toldAfter*n.cfg.DispatchTimeout)))
	case n.silent(h.agent) && n.handOn(h):
	default:
		if len(h.task.inboxes) > 0 {
			n.answer(h.task, &bus.Answer{Result: n.refusal(n.identity(h.task), bus.CodeUnknown, time.Second,
				"agent %s did not answer: whether it serves the task is not known", h.agent.id)})
		}
		n.timers.set(&h.timer, h.expires)
	}
}

// handOn takes a task from an agent that hangs or is cut off, if there is another. Should the first wake, it
// finds its recall beside the dispatch, and what it says is of an attempt that was given up.
func (n *Node) handOn(h *hold) bool {
	t := h.task
	if h.cancelled || t.told || t.msg == nil || len(t.msg.Body) == 0 {
		return false
	}
	t.failedAt = append(t.failedAt, h.agent.id)
	if _, r := n.survey(t); r != nil {
		t.failedAt = t.failedAt[:len(t.failedAt)-1]
		return false
	}
	t.msg.Attempt++
	n.void(h, bus.CodeAgentFailed, bus.CodeAgentFailed,
		fmt.Sprintf("agent %s did not answer, and says nothing", h.agent.id))
	return true
}

func (n *Node) receipt(h *hold) *bus.Receipt {
	return &bus.Receipt{ID: h.id, Journal: n.cfg.Journal, Round: h.rec.Round, Epoch: n.epoch,
		Earlier: h.task.earlier}
}

// complete settles a hold by its agent's account of it. The acknowledgement leaves once that is durable, and
// every repeat gets the same.
func (n *Node) complete(c *bus.Completion) error {
	if !strings.HasPrefix(c.Hold, n.cfg.Journal+"/") {
		return fmt.Errorf("completion of %s on hold %s, which its own hub settles", c.Agent, c.Hold)
	}
	h := n.holds[c.Hold]
	if h == nil {
		code, ok := n.acks.get(c.Hold)
		if !ok && n.book.Ended(c.Hold) != ledger.KindCapture {
			code = bus.CodeLate
		}
		n.stats.Late++
		n.send(c.Inbox, &bus.CompletionAck{Hold: c.Hold, Code: code})
		return nil
	}
	if c.Agent != h.agent.id {
		return fmt.Errorf("completion of %s on hold %s of %s", c.Agent, c.Hold, h.agent.id)
	}
	if c.Boot != h.rec.Boot {
		return fmt.Errorf("completion of %s, boot %d, on hold %s, which was handed to boot %d", c.Agent,
			c.Boot, c.Hold, h.rec.Boot)
	}
	h.agent.speaks(n)
	n.learn(h, c)
	outcome := c.Outcome
	if outcome == bus.OutcomeCancelled && (h.state == recalled || h.state == late) && !h.cancelled {
		outcome = bus.OutcomeFailed // the hub stopped it, not the client: nothing is due
	}
	n.acks.put(h.id, "")
	if outcome == bus.OutcomeFailed {
		n.failed(h, c)
	} else {
		n.capture(h, c, outcome)
	}
	if n.holds[c.Hold] == nil {
		code, _ := n.acks.get(c.Hold)
		n.send(c.Inbox, &bus.CompletionAck{Hold: c.Hold, Code: code})
	}
	return nil
}

// served makes up for a reply to a dispatch that is late or lost: the agent took it, for chunks of it are
// there.
func (n *Node) served(h *hold) {
	if t := h.task; t.accepted == nil && t.msg != nil {
		n.accepted(t, h)
	}
}

// capture ends a hold in payment, at the figure that the rule gives, whatever the agent claims.
func (n *Node) capture(h *hold, c *bus.Completion, outcome string) {
	if c.Unused() {
		n.unused(h)
		return
	}
	s := n.stats.agent(h.agent.id)
	c, cost, claim, lie := h.settle(c)
	if claim != nil {
		s.Differing++
		n.out.Faults = append(n.out.Faults,
			fmt.Errorf("hold %s: %s claims %s: %s: settled at %s, by the rule", h.id, h.agent.id,
				money(claim.Cost), lie, money(cost)))
	}
	rec := ledger.NewCapture(n.cfg.Journal, h.rec, ledger.Capture{
		Outcome: outcome, Cost: cost, Usage: c.Usage, Unmetered: c.Unmetered,
		NoCacheReport: c.NoCacheReport, Finish: word(c.Finish), TTFTUS: c.TTFTUS, Claim: claim,
	}, n.salt())
	if err := n.commit(rec); err != nil {
		n.fault(fmt.Errorf("capture of hold %s: %w", h.id, err))
		return
	}
	n.close(h)
	n.stats.captured(s, h, c, cost)
	t := h.task
	r := &bus.Result{
		Client: t.key.client, Task: t.key.id, Hub: n.cfg.Domain, Agent: h.agent.id, Model: h.rec.Model,
		Finish: c.Finish, Usage: c.Usage, Unmetered: c.Unmetered, TTFTUS: c.TTFTUS, ITLUS: c.ITLUS,
		Cost: cost, Premium: h.rec.Premium, Fee: h.rec.Fee, Receipt: n.receipt(h),
	}
	if t.msg != nil {
		r.Session = t.msg.Session
	}
	if outcome == bus.OutcomeCancelled {
		r.Code, r.Message = bus.CodeCancelled, "cancelled: what was served until then is paid"
	}
	if outcome == bus.OutcomeDone {
		n.served(h)
	}
	if t.msg == nil && t.accepted == nil {
		t.accepted = n.recovered(h)
	}
	n.finish(t, r, false)
	n.news()
}

// unused ends a hold of which nothing came: its client cancelled, and its engine had computed nothing, or
// was too slow to say so.
func (n *Node) unused(h *hold) {
	if !n.voided(h, bus.CodeCancelled) {
		return
	}
	const why = "cancelled before the engine had said anything: nothing is due"
	r := n.refusal(n.identity(h.task), bus.CodeCancelled, 0, why)
	r.Agent, r.Model, r.Receipt = h.agent.id, h.rec.Model, n.receipt(h)
	n.finish(h.task, r, false)
	n.news()
}

// word cuts what an engine says to what a record holds.
func word(s string) string {
	if len(s) > bus.MaxID {
		return strings.ToValidUTF8(s[:bus.MaxID], "")
	}
	return s
}

// clocksDiffer is how much longer something may have taken by an agent's clock than by the hub's.
const clocksDiffer = time.Second

// learn teaches the predictor and the belief about the agent's cache.
func (n *Node) learn(h *hold, c *bus.Completion) {
	t, a := h.task, h.agent
	if c.Outcome == bus.OutcomeFailed && c.Code == bus.CodeTimeout && h.rec.Boot == a.reg.Boot {
		// Its engine is slower than it was given time for: the next answers get more, within their bound.
		a.predictor.Learn(h.features, predict.Observation{Cut: true,
			ITL: time.Duration(c.ITLUS) * time.Microsecond})
	}
	if t.msg == nil || t.carried() > 0 || c.Outcome == bus.OutcomeFailed || c.Usage.Prompt <= 0 ||
		h.rec.Boot != a.reg.Boot {
		return
	}
	// An agent that was believed to have taken an hour would never be given a task again that shows
	// otherwise.
	most := n.now.Sub(h.sent) + clocksDiffer
	a.predictor.Learn(h.features, predict.Observation{
		Prompt: c.Usage.Prompt, Cached: c.Usage.Cached, Output: c.Usage.Output,
		NoCacheReport: c.NoCacheReport,
		// One cut before its max_tokens ended at its client's price: it is as long as a bid.
		Cut:  c.Outcome != bus.OutcomeDone || c.Finish == "length" && c.Usage.Output < h.rec.MaxTokens,
		TTFT: min(time.Duration(c.TTFTUS)*time.Microsecond, most),
		ITL:  min(time.Duration(c.ITLUS)*time.Microsecond, most),
	})
	if t.session != 0 {
		cached := c.Usage.Cached
		if c.NoCacheReport {
			cached = -1
		}
		a.belief.Served(n.now, t.session, t.msg.Prompt, c.Usage.Prompt, c.Usage.Output, cached,
			h.features.Cached)
	}
}
