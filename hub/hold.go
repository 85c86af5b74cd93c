package hub

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"souk/bus"
	"souk/hub/predict"
	"souk/hub/prefix"
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
	said     predict.Forecast // when it was dispatched
	most     int              // prompt tokens that it covers; 0: it is known from the journal alone
	verified int              // tokens that the agent holds for certain, by what it served of the same text
	ttft     time.Duration    // expected
	queued   uint64           // its number in its agent's queue; 0: it is in none
	run      *prefix.Run      // of it, in what its agent is believed to hold
	first    time.Duration    // the latest that its first token was quoted to come
	watch    time.Duration    // its agent says so if none has come by then; 0: it need not
	asked    int64            // by Node.nano: when the agent was asked to give it up for that
	given    bool             // it was

	// to its first token on its agent, had that nothing else in hand, as was thought; 0: not known
	idle time.Duration

	own market.Credits // what of its toll is not charged

	award     market.Award
	state     holdState
	again     int  // times it was dispatched again, for want of a reply
	kept      bool // it was found in the journal, and its agent is handed it once more when it is claimed
	cancelled bool // by its client, which may be in every state, and stays so in the next
	// when its reader was asked last whether it has the end, as nobody listened at the agent; zero: never
	inquired time.Time
	timer    timer
}

// holdState is what is known of an agent and a hold. A hold that has ended has none: it is no longer in
// Node.holds. In every state a completion ends it, and its own time does.
//
//	state       what is known                        what comes next
//	dispatched  the agent was handed the task        accepted: it says that it serves
//	                                                 withdrawn: it says nothing, asked three times
//	                                                 ended: it refuses
//	withdrawn   it was told to end the task, unless  late: it says that it serves
//	            a reader has heard of it already     ended: it refuses, or is silent: another gets the task
//	accepted    it serves the task
//	late        it serves, though the task was withdrawn; what the hub has stopped is a failure by its
//	            agent's word, and a cancelled answer one that its client stopped, perhaps there alone
//	replayed    the journal alone tells of it: the   dispatched: its client sends the task again
//	            agent may be serving it
type holdState uint8

const (
	dispatched holdState = iota
	withdrawn
	accepted
	late
	replayed
)

// taken reports whether the agent has said that it serves the hold, or may have said so before this hub
// began.
func (s holdState) taken() bool { return s >= accepted }

// A dispatch without a reply is sent again so many times, one dispatch timeout apart. The agent serves a hold
// once, and gives the same reply each time. After toldAfter timeouts the client is told that nobody knows.
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
		if m.Boot != h.rec.Boot { // that start serves it, or what becomes of it is told by a registration
			return fmt.Errorf("reply of %s, boot %d, on hold %s, which was handed to boot %d", m.Agent, m.Boot,
				m.Hold, h.rec.Boot)
		}
		h.agent.alive(n)
	}
	if m.Code == "" {
		switch h.state {
		case dispatched:
			h.state = accepted
		case withdrawn:
			h.state = late
		default:
			return nil
		}
		h.agent.refusals = 0
		n.timers.set(&h.timer, h.expires)
		if h.cancelled { // the cancel may have come to the agent before the task
			n.tellCancel(h)
		}
		if t.msg == nil {
			return nil
		}
		n.accepted(t, h)
		if t.moves > 0 { // its reader waits where the chunks come
			n.beat(t, h.agent.id)
		}
		return nil
	}
	if h.state.taken() {
		return fmt.Errorf("%s refuses hold %s after it had accepted it", m.Agent, m.Hold)
	}
	if m.Code == bus.CodeUnavailable && h.again > 0 {
		return nil // nobody heard it this time; an agent that is cut off now may have the one before
	}
	n.refused(h, m)
	return nil
}

// accepted tells the client who serves it. The body is kept, within limits, in case another has to.
func (n *Node) accepted(t *task, h *hold) {
	t.accepted = n.acceptance(h)
	switch {
	case t.body > 0: // kept since an earlier agent took it
	case t.msg.Failover == "off" || n.bodies+len(t.msg.Body) > n.cfg.KeepBodies:
		t.msg.Body = nil
	default:
		t.body = len(t.msg.Body)
		n.bodies += t.body
	}
	n.answer(t, &bus.Answer{Accepted: t.accepted})
}

// acceptance says who serves a task, and where its chunks come: from now on that is where its reader listens.
func (n *Node) acceptance(h *hold) *bus.Accepted {
	t := h.task
	if t.msg != nil {
		t.reply = t.msg.Reply
	}
	return &bus.Accepted{
		Client: t.key.client, Task: t.key.id, Hub: n.cfg.Domain, Agent: h.agent.id, Model: h.rec.Model,
		Reply: t.reply, Round: h.rec.Round, Attempt: t.attempt(),
	}
}

// letGo counts a task's body out of those that are kept.
func (n *Node) letGo(t *task) {
	n.bodies -= t.body
	t.body = 0
}

// refused ends a dispatch that an agent did not take. If the reason lies with the agent, the task goes back
// to the batch, with its first arrival. If it lies with the task, the task ends.
func (n *Node) refused(h *hold, m *bus.DispatchReply) {
	n.stats.agent(h.agent.id).Refused++
	switch m.Code {
	case bus.CodeBadRequest, bus.CodeUnsupportedField, bus.CodeTooLarge, bus.CodeEmptyPrompt,
		bus.CodePromptTooLong, bus.CodeEngineRefused:
		n.fail(h, m.Code, m.Code, m.Message)
		return
	case bus.CodeDraining:
		h.agent.ready = false
	}
	n.avoid(h.agent)
	n.void(h, m.Code, bus.CodeNoRoom,
		fmt.Sprintf("agents refused it %s, the last %s: %s", market.Some(h.task.refusals+1, "time"),
			h.agent.id, m.Code))
}

// void ends a hold without payment, for a reason that does not lie with its task. The task is tried again,
// unless its client knows of an agent that may have begun. Then the client is told code.
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
	if reason == bus.CodeAgentFailed { // it may have begun, and be given the task again
		t.msg.Attempt++
	}
	t.refusals++
	t.hold = nil
	t.join()
	n.hearAgain(t)
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
	n.end(t, n.unpaid(h, code, "%s", why))
	n.news()
}

// unpaid is the result of a task whose hold was void.
func (n *Node) unpaid(h *hold, code bus.Code, format string, args ...any) *bus.Result {
	r := n.refusal(n.identity(h.task), code, 0, format, args...)
	r.Agent, r.Model, r.Receipt = h.agent.id, h.rec.Model, n.receipt(h)
	return r
}

// paid is the result of a task whose hold was captured.
func (n *Node) paid(h *hold, c *ledger.Capture) *bus.Result {
	r := &bus.Result{
		Client: h.rec.Client, Task: h.rec.Task, Hub: n.cfg.Domain, Agent: h.agent.id, Model: h.rec.Model,
		Session: n.identity(h.task).Session, Finish: c.Finish, Usage: c.Usage, Unmetered: c.Unmetered,
		TTFTUS: c.TTFTUS, Cost: c.Cost, Premium: h.rec.Premium, Fee: h.rec.Fee, Receipt: n.receipt(h),
	}
	if c.Outcome == bus.OutcomeCancelled {
		r.Code, r.Message = bus.CodeCancelled, "cancelled: what was served until then is paid"
	}
	return r
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
	n.hearFailed(h)
	n.close(h, h.state.taken())
	return true
}

// close forgets an ended hold and frees its agent's slot, which the task had unless its agent never took it.
func (n *Node) close(h *hold, had bool) {
	delete(n.holds, h.id)
	if h.again > 0 { // this turn may be about to dispatch it again
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
	if h.task.only == nil && had {
		n.regimes.watch.Ended(n.now.Sub(h.sent))
		if a.alike != nil {
			a.alike.Ended(n.now.Sub(h.sent))
		}
	}
	a.queue.Ended(h.queued, 0)
	a.cache.Ended(h.run)
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
	case !n.now.Before(h.expires) && (n.cut || n.doubt != ""): // its agent is not heard, or not believed
		n.timers.set(&h.timer, n.now.Add(repeatWithin))
	case !n.now.Before(h.expires) && n.now.Before(n.hears):
		n.timers.set(&h.timer, n.hears)
	case !n.now.Before(h.expires):
		n.fail(h, bus.CodeTimeout, bus.CodeTimeout,
			"the agent did not report an end in time; nothing was charged")
		if n.holds[h.id] != nil { // that could not be recorded
			n.timers.set(&h.timer, n.now.Add(endAgain))
			return
		}
		n.acks.Put(h.task.key.client, h.id, bus.CodeLate, 1)
		n.stats.agent(h.agent.id).Expired++
	case h.state.taken():
		n.timers.set(&h.timer, h.expires)
	case h.kept && h.former():
		n.void(h, bus.CodeAgentFailed, bus.CodeAgentFailed, "the agent was restarted")
		if n.holds[h.id] != nil { // that could not be recorded
			n.timers.set(&h.timer, n.now.Add(endAgain))
		}
	case h.again < dispatchAgain && !h.cancelled && h.task.msg != nil && len(h.task.msg.Body) > 0:
		if h.again == 0 {
			n.stats.agent(h.agent.id).Unanswered++
			n.avoid(h.agent)
		}
		h.again++
		n.handOut(h)
	case h.state == dispatched:
		// Nobody knows whether the agent has the task. It is told to end it, and the task goes nowhere else
		// before this hold has ended.
		h.state = withdrawn
		n.withdraw(h)
		n.timers.set(&h.timer, earlier(h.expires, h.sent.Add(toldAfter*n.cfg.DispatchTimeout)))
	case n.silent(h.agent) && n.handOn(h):
	default:
		if len(h.task.inboxes) > 0 {
			r := n.refusal(n.identity(h.task), bus.CodeUnknown, time.Second,
				"agent %s did not answer: whether it serves the task is not known", h.agent.id)
			r.Agent = h.agent.id // whatever it says is heard
			n.answer(h.task, &bus.Answer{Result: r})
		}
		n.timers.set(&h.timer, h.expires)
	}
}

// handOn gives the task of an agent that hangs or is cut off to another agent, if there is one. An agent that
// wakes up finds the withdrawal next to the dispatch, and whatever it says belongs to an attempt that was
// given up.
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
	n.void(h, bus.CodeAgentFailed, bus.CodeAgentFailed,
		fmt.Sprintf("agent %s did not answer, and says nothing", h.agent.id))
	if t.state != done {
		n.acks.Put(h.task.key.client, h.id, bus.CodeMoved, 1) // else it would tell the reader that it failed
	}
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
		code, known := bus.Code(""), n.acks.Peek(c.Hold)
		if known != nil {
			code = *known
		}
		if known == nil && n.book.Ended(c.Hold) != ledger.KindCapture || code == bus.CodeMoved &&
			c.Outcome != bus.OutcomeFailed { // it was served after all, and nothing is due
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
	h.agent.alive(n)
	n.learn(h, c)
	n.acks.Put(h.task.key.client, h.id, "", 1)
	if c.Outcome == bus.OutcomeFailed {
		n.failed(h, c)
	} else {
		n.capture(h, c, c.Outcome)
	}
	if n.holds[c.Hold] == nil {
		ack := bus.CompletionAck{Hold: c.Hold}
		if code := n.acks.Peek(c.Hold); code != nil {
			ack.Code = *code
		}
		n.send(c.Inbox, &ack)
	}
	return nil
}

// served stands in for a reply to a dispatch that is late or lost: there are chunks of the answer, so the
// agent took the task.
func (n *Node) served(h *hold) {
	if t := h.task; t.accepted == nil && t.msg != nil {
		n.accepted(t, h)
	}
}

// capture ends a hold in payment. The cost is what the rule gives, whatever the agent claims.
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
	rec := ledger.Capture{
		Outcome: outcome, Cost: cost, Usage: c.Usage, Unmetered: c.Unmetered,
		NoCacheReport: c.NoCacheReport, Finish: short(c.Finish), TTFTUS: c.TTFTUS, Claim: claim,
	}
	if err := n.commit(ledger.NewCapture(n.cfg.Journal, h.rec, rec, n.salt())); err != nil {
		n.fault(fmt.Errorf("capture of hold %s: %w", h.id, err))
		return
	}
	n.charged(h.rec.Client)
	n.hearServed(h, c)
	n.noteServed(h, c)
	n.close(h, true)
	n.stats.captured(s, h, c, cost)
	n.noteAnswer(h, c, cost)
	t := h.task
	r := n.paid(h, &rec)
	r.ITLUS = c.ITLUS
	if outcome == bus.OutcomeDone {
		n.served(h)
	}
	if t.msg == nil && t.accepted == nil {
		t.accepted = n.acceptance(h)
	}
	n.finish(t, r, false)
	n.news()
}

// unused voids a hold whose client cancelled before the engine had said anything.
func (n *Node) unused(h *hold) {
	if !n.voided(h, bus.CodeCancelled) {
		return
	}
	r := n.unpaid(h, bus.CodeCancelled, "cancelled before the engine had said anything: nothing is due")
	n.finish(h.task, r, false)
	n.news()
}

// short cuts what an engine says to what a record holds.
func short(s string) string {
	if len(s) > bus.MaxID {
		return strings.ToValidUTF8(s[:bus.MaxID], "")
	}
	return s
}

// endAgain is how soon the end of a hold is tried again that could not be recorded.
const endAgain = time.Second

// clocksDiffer is how much longer something may take by an agent's clock than by the hub's.
const clocksDiffer = time.Second

// learn teaches the predictor, and what is known of the agent's cache.
func (n *Node) learn(h *hold, c *bus.Completion) {
	t, a := h.task, h.agent
	if c.Outcome == bus.OutcomeFailed && c.Code == bus.CodeTimeout && h.rec.Boot == a.reg.Boot {
		// The engine is slower than the hold had time for. Its next holds get more time, within a bound.
		a.predictor.Learn(h.features, predict.Observation{Cut: true,
			ITL: time.Duration(c.ITLUS) * time.Microsecond})
	}
	if c.Outcome == bus.OutcomeFailed || c.Usage.Prompt <= 0 || h.rec.Boot != a.reg.Boot {
		return
	}
	cached := c.Usage.Cached
	if c.NoCacheReport || c.Unmetered {
		cached = -1
	}
	if h.rec.Asserted > 0 && (cached >= 0 || c.Outcome == bus.OutcomeDone) {
		a.cache.Judge(h.rec.Asserted, cached)
	}
	if t.msg == nil || t.carried() > 0 {
		return
	}
	// No more than the time since the dispatch is believed. An agent that was believed to need an hour would
	// get no more tasks to show otherwise.
	most := n.now.Sub(h.sent) + clocksDiffer
	o := predict.Observation{
		Prompt: c.Usage.Prompt, Cached: c.Usage.Cached, Output: c.Usage.Output,
		NoCacheReport: c.NoCacheReport,
		// An answer of finish "length" below its max_tokens ended at its client's max_price: its length is a
		// bid. One that an agent cuts ends at what was found in it.
		Cut: c.Outcome != bus.OutcomeDone || c.Finish == "length" && c.Usage.Output < h.rec.MaxTokens ||
			c.Finish == bus.FinishFiltered ||
			t.only != nil, // which was to answer with one token
		TTFT: min(time.Duration(c.TTFTUS)*time.Microsecond, most),
		ITL:  min(time.Duration(c.ITLUS)*time.Microsecond, most),
		// What the hub asks to seed an idle agent is asked of an engine with nothing else to do, and the
		// first task of an engine that was started again finds it cold.
		WarmUp: t.only != nil || a.restarted,
		Said:   h.said,
	}
	a.restarted = false
	a.predictor.Learn(h.features, o)
	if !o.Cut && a.predictor.Typical() {
		n.outputs.Learn(t.source(), min(o.Output, h.rec.MaxTokens), a.predictor.Usual(t.assumed()))
	}
	a.queue.Ended(h.queued, min(time.Duration(c.TTFTUS)*time.Microsecond, most))
	n.firstCame(h, min(time.Duration(c.TTFTUS)*time.Microsecond, most))
	if c.TTFTUS > 0 {
		sent := n.clock() - n.now.Sub(h.sent)
		first := min(sent+time.Duration(c.TTFTUS)*time.Microsecond, n.clock())
		h.agent.rate.Learn(sent, first, c.Usage.Prompt-c.Usage.Cached)
	}
	a.cache.Served(h.run, t.session, &t.msg.Prompt, c.Usage.Prompt, c.Usage.Output, cached)
	a.sown = a.sown || t.only != nil
	h.run = nil
}

// takes has an agent take a hold's task: it is in the agent's queue, among its tasks, and in what it is
// believed to hold.
func (n *Node) takes(t *task, h *hold) {
	a := h.agent
	n.queue(h)
	a.holds = append(a.holds, h)
	n.settlesIn(t, h)
	h.run = a.cache.Sent(&t.msg.Prompt, h.rec.Prompt, h.rec.Output, n.at(h.ttft))
}
