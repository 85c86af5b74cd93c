package hub

import (
	"fmt"
	"slices"
	"time"

	"souk/bus"
	"souk/hub/session"
	"souk/market"
)

type taskKey struct{ client, id string }

// taskState is where an admitted task is.
//
//	state          means                                    ends
//	fresh          admitted this moment                     awaitingFunds or waiting: fund
//	awaitingFunds  waits for its client's money             waiting: admitFunded, when the money is there
//	                                                        done: the treasury refuses, or time is up
//	waiting        waits for a slot, its money reserved     running: a round awards it a slot
//	                                                        done: its deadline passes
//	running        an agent has it, or may: see holdState   either again: its hold is void
//	                                                        done: its hold ends otherwise
//	done           has its last word
//
// A task that holds no money is also done by its client's cancel, and when the hub sends away what waits. One
// that ends under a hold is remembered; only then may the rest of its answer be a new task of the same id.
type taskState uint8

const (
	fresh taskState = iota
	awaitingFunds
	waiting
	running
	done
)

// task is a request from its admission until it is forgotten.
type task struct {
	key        taskKey
	id         market.TaskID
	digest     [16]byte
	state      taskState
	msg        *bus.Task // nil once done, and of tasks known from the journal alone
	arrived    time.Time
	broke      time.Time // when its reader wanted the rest of an answer that had begun; zero: none had
	deadline   time.Time
	terms      market.Terms
	stake      market.Credits   // the worth, however little may be paid for it
	usual      market.Terms     // what these are where a client says nothing
	asUsual    market.Credits   // what a task usually cost when these were made
	most       market.Credits   // its client has no more to spend on it; 0: it has
	open       bool             // no max_tokens was named: its answer ends where its engine ends it
	valued     [2]market.Judged // both, as they were last asked for
	session    uint64
	inboxes    []string       // who waits for the answer
	shared     bool           // somebody else asked for it since it came
	doors      []string       // who sent it here
	reserved   market.Credits // of its client's money, while it waits
	wanted     market.Credits // to be reserved: no outcome takes more
	worst      market.Credits // of that, for an answer of the cheapest agent that is not cut short
	least      market.Credits // for less no agent serves it
	surplus    market.Credits // what it was worth beyond its cost when it came
	sought     bool           // it asks for just what is enough, which other hubs may have
	free       bool           // a slot was free when it came, and nobody before it wanted one
	rounds     int            // that it was in without being given a slot
	refusals   int            // of agents
	notes      *notes         // while it waits
	length     length         // of its answer; the same
	met        bool           // a round has looked at it
	barred     bool           // from an agent in its last round, by a policy or as its session has no seat
	short      bool           // by an agent's slot its first token would have come too late
	plannedFor *agent         // where it has a seat to come, as of the last round
	worth      market.Credits // what it was to have of the first such seat; less than 0: it began once
	second     market.Credits // what a second costs it in a round
	spent      time.Time      // when it will be worth no more than it costs; zero: not before its deadline
	waited     time.Duration  // since it arrived, in the last round
	left       time.Duration  // and to its deadline
	account    *account       // of its client, once its money was asked for; nil: to be found
	// where it may go in this round, by the place of open agents, as far as places of sessions say; nil:
	// anywhere
	may     []bool
	outside time.Time      // since then its session has found no place; zero: it has one, or needs none
	needs   int            // blocks, then
	turn    *session.Place // its session's; nil: none yet
	role    uint64         // as policies know it; 0: none
	hold    *hold
	timer   timer

	// What its client knows goes through the states on its own way: one that is told early may wait again.
	accepted *bus.Accepted // who serves it; nil again while it moves to another agent
	told     bool          // its client had an answer, if only that nobody knows who serves it
	reply    string        // where its chunks go, once they may

	moves    int      // how often an agent failed it and it went to another
	hedged   bool     // an agent was asked to give it up, as its first token was late
	failedAt []string // agents that failed it
	earlier  []string // their holds
	// the last of these: what settles the task, unless another agent gets it
	failedHold *bus.Receipt
	continued  bool        // it is the rest of an answer that broke off, or that was served
	restOf     *task       // then: of this, until it has ended
	parses     bool        // and only parsers can tell how it goes on
	media      bool        // its prompt has pictures or sound
	whole      int         // max_tokens of the whole answer
	only       *agent      // that it goes to, of a text that is seeded
	tries      int         // number of its last attempt, once done
	body       int         // bytes of it kept after it was accepted
	next       *bus.Task   // its reader wants it to go on elsewhere, if its agent has failed
	asked      time.Time   // since then
	final      *bus.Result // once done, if it held money then
	noRest     *bus.Result // why its rest is not served
	closed     time.Time   // when it was done
	domain     string      // its agent's, in which its answer is judged; "": in none
	judged     bool        // its client has said how good that was
	until      time.Time   // when done: to be forgotten
	forgotten  bool        // it is
}

// stated are the terms of the task, and usually those that they are where its client says nothing.
func (t *task) stated() *market.Judged  { return t.valued[0].As(&t.terms) }
func (t *task) usually() *market.Judged { return t.valued[1].As(&t.usual) }

// moreInboxes bounds how many requests for one task wait for its answer.
const moreInboxes = 8

// refusal is a Result that says why there is no answer.
func (n *Node) refusal(m *bus.Task, code bus.Code, retry time.Duration, format string,
	args ...any) *bus.Result {
	return &bus.Result{
		Client: m.Client, Task: m.ID, Session: m.Session, Hub: n.cfg.Domain,
		Code: code, Message: bus.Clip(fmt.Sprintf(format, args...), bus.MaxText),
		RetryMS: retry.Milliseconds(),
	}
}

// Refusal answers a task that never reached the Node: what was wrong with it, and when to try again.
func (c Config) Refusal(t *bus.Task, wrong error, retry time.Duration) *bus.Answer {
	r := bus.Result{Client: t.Client, Task: t.ID, Hub: c.Domain, Code: bus.CodeOf(wrong),
		Message: bus.Clip(bus.MessageOf(wrong), bus.MaxText),
		RetryMS: retry.Milliseconds()}
	if !bus.ValidID(r.Client) || !bus.ValidID(r.Task) {
		r.Client, r.Task = "unknown", "unknown" // what could not be read has no ids to speak of
	}
	return &bus.Answer{Result: &r}
}

// refuse answers a request that was not admitted.
func (n *Node) refuse(m *bus.Task, code bus.Code, retry time.Duration, format string, args ...any) {
	count(n.stats.Tasks, code)
	n.send(m.Inbox, &bus.Answer{Result: n.refusal(m, code, retry, format, args...)})
}

// answer tells everyone who asked for t.
func (n *Node) answer(t *task, a *bus.Answer) {
	for _, to := range t.inboxes {
		n.send(to, a)
	}
	t.inboxes = nil
	t.told = true
}

// sendReader says something where a task's answer goes.
func (n *Node) sendReader(reply string, c *bus.Chunk) { n.send(reply+"."+n.cfg.Domain, c) }

// end is the last word on an admitted task, which its agent cannot have sent.
func (n *Node) end(t *task, r *bus.Result) { n.finish(t, r, true) }

// finish ends a task. One that never held money is forgotten, so that its client may try the same id again.
// Others are remembered until their deadline and KeepIDs have passed. tell has a reader of the answer hear of
// the result where the chunks come.
func (n *Node) finish(t *task, r *bus.Result, tell bool) {
	switch t.state {
	case awaitingFunds:
		n.accounts[t.key.client].drop(t)
	case waiting:
		n.noteUnserved(t, r.Code)
		n.wait(t, -1)
		n.batch.Remove(t)
	case done:
		return
	}
	if t.hold == nil {
		r.Receipt = t.failedHold
		n.hearUnserved(t)
	}
	n.release(t)
	n.letGo(t)
	n.unquote(t)
	n.placeFreed(n.sessions.table.Gone(n.clock(), t.turn))
	if t.msg != nil && t.msg.SessionEnd && r.RetryMS == 0 && !mayGoOn(r.Code) {
		n.endSession(t.session) // else its last turn is still to come: sent again, or as the rest of this one
	}
	n.timers.set(&t.timer, time.Time{})
	n.admitFunded(n.accounts[t.key.client]) // what this one leaves may be enough for another
	n.closeAccount(t.key.client)
	if t.only == nil { // nobody sent what the hub seeds
		count(n.stats.Tasks, r.Code)
	}
	n.status.changed = true
	waited := len(t.inboxes) > 0
	if waited {
		n.answer(t, &bus.Answer{Result: r, SoleOwner: n.exclusive(t)})
	}
	if tell && t.reply != "" && (!waited || t.moves > 0) {
		n.sendReader(t.reply, &bus.Chunk{Task: t.key.id, Attempt: t.attempt(), Result: r})
	}
	t.state = done
	if t.hold == nil {
		n.forgetUnheld(t, r)
		t.msg = nil
		return
	}
	t.tries = t.attempt()
	t.final, t.msg, t.hold, t.doors, t.restOf = r, nil, nil, nil, nil
	t.closed = n.now
	t.until = later(t.deadline, n.now).Add(n.cfg.KeepIDs)
	n.remember(t)
	if m := t.next; m != nil {
		t.next = nil
		n.goOn(t, m, t.digest)
	}
}

// forgetUnheld lets go of a task that never held money. One that is the rest of another leaves that known:
// the rest may be asked for again, or, where it was refused for good, whoever asks later hears the same.
func (n *Node) forgetUnheld(t *task, r *bus.Result) {
	switch old := t.restOf; {
	case old == nil || old.forgotten:
		delete(n.known, t.key)
	default:
		n.known[t.key] = old
		if !asksAgain(r) {
			old.noRest = r
		}
	}
}

// exclusive reports whether no other hub can have a task that is refused here: another door that is asked for
// what was sent here asks all hubs before it places it, and nobody asked. A hub that was deaf does not know.
func (n *Node) exclusive(t *task) bool {
	return t.hold == nil && !t.shared && !n.cut && !n.now.Before(n.hears)
}

func (t *task) attempt() int {
	if t.msg != nil {
		return t.msg.Attempt
	}
	return t.tries
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// remember keeps an ended task, and drops the oldest beyond MaxKnown.
func (n *Node) remember(t *task) {
	n.ended = append(n.ended, t)
	for len(n.ended)-n.forgot > n.cfg.MaxKnown {
		n.forgetOldest()
	}
}

// forgetEnded drops what need not be remembered any more, in the order of the ends: a task with a late
// deadline keeps those that ended after it, too. MaxKnown bounds them.
func (n *Node) forgetEnded() {
	for n.forgot < len(n.ended) && !n.now.Before(n.ended[n.forgot].until) {
		n.forgetOldest()
	}
}

func (n *Node) forgetOldest() {
	t := n.ended[n.forgot]
	n.ended[n.forgot] = nil
	n.forgot++
	t.forgotten = true
	if n.known[t.key] == t {
		delete(n.known, t.key)
	}
	if n.forgot > 1024 && n.forgot > len(n.ended)/2 {
		k := copy(n.ended, n.ended[n.forgot:])
		clear(n.ended[k:])
		n.ended, n.forgot = n.ended[:k], 0
	}
}

// repeat answers a request whose id is known. The same content is the same task, whoever asks again.
func (n *Node) repeat(t *task, m *bus.Task, digest [16]byte) {
	switch {
	case t.digest != digest:
		n.refuse(m, bus.CodeIDConflict, 0, "task %s was sent before with other content: take a new id", m.ID)
	case t.state == running && t.hold.state == replayed && m.Attempt == t.hold.rec.Attempt &&
		n.now.Before(t.hold.expires):
		n.takeUp(t, m)
	case t.state != done && t.accepted != nil:
		n.send(m.Inbox, &bus.Answer{Accepted: t.accepted})
	case t.state != done && t.told && t.moves == 0:
		n.send(m.Inbox, &bus.Answer{Result: n.refusal(m, bus.CodeUnknown, time.Second,
			"an agent may be serving the task: it said nothing")})
	case t.state != done && len(t.inboxes) < moreInboxes:
		t.inboxes = append(t.inboxes, m.Inbox)
	case t.state != done:
		n.refuse(m, bus.CodeDuplicate, time.Second, "the task waits, and %d requests wait for it",
			len(t.inboxes))
	case t.accepted != nil && m.Stream && m.Reply == t.reply && t.final.Code == "" &&
		n.now.Before(t.closed.Add(n.cfg.ReplayFor)):
		n.send(m.Inbox, &bus.Answer{Accepted: t.accepted}) // the agent still has the chunks
	default:
		r := *t.final
		if r.Code == "" {
			r.Code, r.Message = bus.CodeAnswerGone, "served and paid once; the text is not kept here"
		}
		n.send(m.Inbox, &bus.Answer{Result: &r})
	}
}

// due implements timed: a task that waited until its deadline is told what stood in its way.
func (t *task) due(n *Node) {
	switch {
	case t.state == awaitingFunds && n.now.Before(t.deadline) && n.isRecalled(t.key.client):
		n.timers.set(&t.timer, earlier(t.deadline, n.now.Add(n.cfg.FundsWait)))
	case t.state == awaitingFunds && n.now.Before(t.deadline) && n.lowerHere(t):
	case t.state == awaitingFunds && n.now.Before(t.deadline):
		why := "the treasury has not yet said whether " + t.key.client + " has the money"
		if p := n.accounts[t.key.client]; p.request != nil && p.request.why != "" {
			why = "the treasury said: " + p.request.why
		}
		n.end(t, n.refusal(t.msg, bus.CodeAllotmentPending, time.Second, "%s: try again", why))
	case t.state == awaitingFunds:
		n.end(t, n.refusal(t.msg, bus.CodePastDeadline, 0,
			"the deadline passed while the client's money was on its way"))
	case t.state == waiting && n.now.Before(t.deadline):
		n.beat(t, "")
		n.timers.set(&t.timer, earlier(t.deadline, n.now.Add(beatEvery)))
	case t.state == waiting:
		n.plan.kept.End(n.nano, t.worth, 0)
		n.end(t, n.unplaced(t))
	case t.state == running && t.next != nil:
		n.look(t)
	}
}

// unplaced is the truth about a task whose deadline passed while it waited.
func (n *Node) unplaced(t *task) *bus.Result {
	switch {
	case !t.outside.IsZero():
		return n.notAdmitted(t)
	case t.refusals > 0 && t.rounds == 0:
		return n.refusal(t.msg, bus.CodeNoRoom, time.Second,
			"agents refused it %s, and in no other round before the deadline was a slot free that could serve it "+
				"in time",
			market.Some(t.refusals, "time"))
	case t.rounds > 0 && !t.short:
		return n.refusal(t.msg, bus.CodeNoRoom, time.Second,
			"in %s before the deadline the slots went to others: tasks that are worth more, lose more by waiting or "+
				"came first",
			rounds(t.rounds))
	case !t.met && slices.ContainsFunc(n.roster,
		func(a *agent) bool { return a.free(n) > 0 && n.usable(t, a) }):
		return n.refusal(t.msg, bus.CodeNoRoom, time.Second,
			"no round was held between its arrival and its deadline: where tasks compete one is held within "+
				"%v (max_wait)", n.cfg.Batch.MaxWait)
	}
	if !slices.ContainsFunc(n.roster, func(a *agent) bool { return a.open(n) && n.usable(t, a) }) {
		return n.refusal(t.msg, bus.CodeNoRoom, time.Second,
			"no agent that could serve it takes tasks now: each is stopping, silent, or without an engine that "+
				"answers")
	}
	if t.short {
		return n.refusal(t.msg, bus.CodeNoRoom, time.Second,
			"its first token was expected after the deadline, with every slot that was free: give it more time")
	}
	return n.refusal(t.msg, bus.CodeNoRoom, time.Second,
		"in no round before the deadline was a slot free that could serve it in time")
}

// rounds says how many.
func rounds(n int) string { return market.Some(n, "round") }

// cancel ends a task for its client: at once while it waits, through its agent while it runs.
func (n *Node) cancel(m *bus.Cancel) error {
	t := n.known[taskKey{m.Client, m.Task}]
	if t == nil || t.state == done {
		return nil // nothing to end; who asks has the answer, or never sent the task here
	}
	if !t.of(m.Sender) {
		return fmt.Errorf("%s cancels task %s of %s, which it has not sent", m.Sender, m.Task, m.Client)
	}
	if t.state != running {
		n.end(t, n.refusal(t.msg, bus.CodeCancelled, 0, "cancelled by the client while it waited"))
		return nil
	}
	t.hold.cancelled = true
	n.tellCancel(t.hold)
	return nil
}

// of reports whether somebody speaks for a task: its client, its reader, or a door that has sent it.
func (t *task) of(sender string) bool {
	reader, _, _ := bus.ReaderOf(t.answered())
	return sender == t.key.client || sender == reader || slices.Contains(t.doors, sender)
}

// answered is where the answer to a task goes.
func (t *task) answered() string {
	if t.msg != nil {
		return t.msg.Reply
	}
	return t.reply
}

// from notes a door that has sent a task: more than a few say nothing of it.
func (t *task) from(m *bus.Task) {
	if !slices.Contains(t.doors, m.Door) && len(t.doors) < moreInboxes {
		t.doors = append(t.doors, m.Door)
	}
}

// withdraw takes a task back from an agent that never answered: it is to end it, unless somebody has heard of
// the answer already.
func (n *Node) withdraw(h *hold) {
	n.send(bus.ControlSubject(h.agent.id, n.cfg.Domain), &bus.HoldControl{Hold: h.id, Withdraw: true})
}

// tellCancel asks the agent of a hold to stop.
func (n *Node) tellCancel(h *hold) {
	n.send(bus.ControlSubject(h.agent.id, n.cfg.Domain), &bus.HoldControl{Hold: h.id, Cancel: true})
}
