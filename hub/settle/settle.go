package settle

import (
	"cmp"
	"fmt"
	"time"

	"souk/bus"
	"souk/bus/bounded"
	"souk/hub/turn"
	"souk/ledger"
	"souk/market"
)

// DispatchTimeout is how long a reply to a dispatch may take: then it is sent again, as the agent may not
// have heard it.
const DispatchTimeout = 2 * time.Second

// Limits configures a hub's handling of holds.
type Limits struct {
	MaxRefusals int // so often a task is tried again
	MaxKnown    int // so many ended holds are remembered
	KeepBodies  int // bytes kept of tasks at most, so that another agent can be given one whose agent fails
	Hedge       Hedging
}

// Hub has the tasks and the agents of holds. It is called while the room is in the midst of something, and
// may call it again.
type Hub interface {
	// Agent says how the agent of a hold is.
	Agent(h *Hold) Agent
	// Spoke passes on an agent's message about a hold before it has any effect: a reply, or its account; nil:
	// an invalid account.
	Spoke(h *Hold, m bus.Message)
	// Avoid leaves the agent of a hold alone for a while, after an event.
	Avoid(h *Hold, e Event)
	// HandOut adds the agent's and the task's fields to a dispatch, and names its agent.
	HandOut(h *Hold, d *bus.Dispatch) turn.Placed
	// Answer answers all who asked for the task of a hold. It reports whether anybody had.
	Answer(h *Hold, a *bus.Answer) bool
	// Refuse refuses a reader the rest of an answer.
	Refuse(m *bus.Task, code bus.Code, retry time.Duration, why string)
	// Others says how many slots the largest agent has, and how many are free at others that may have the
	// task of a hold and are not late.
	Others(h *Hold) (largest, free int)
	// Wait returns a function that has the task of a void hold wait for a slot again; elsewhere: of an agent
	// that has not failed it, and nil where none would serve it.
	Wait(h *Hold, elsewhere bool) func()
	// Ended tells that a hold has ended, so its agent's slot is free.
	Ended(h *Hold, how Ending)
	// Done ends the task of a hold that has ended. tell: no agent has told its reader.
	Done(h *Hold, r *bus.Result, tell bool)
}

// Agent is an agent's state as far as settling needs it.
type Agent struct {
	Known  bool  // it has been registered since the hub began
	Boot   int64 // then: as it is
	Silent bool  // it has said nothing for too long
	Dead   bool  // nobody listens at it
}

// former reports whether a hold is of an earlier life of its agent, which is known to have another.
func (a Agent) former(h *Hold) bool { return a.Known && h.Rec.Boot != a.Boot }

// Ending describes how a hold has ended.
type Ending struct {
	Event   Event    // by which; "": so the journal says
	Reason  bus.Code // why it is void, on record
	Had     bool     // the agent had taken the task
	Capture *ledger.Capture
	Account *bus.Completion // by which it is captured, with the usage that counts
}

// Counts counts what became of tasks that agents had.
type Counts struct {
	// tasks that another agent got because theirs failed before anything was delivered
	Moved  int64
	Hedged int64 // of these, those whose first token was late
	Late   int64 // completions of holds that had ended: repeats, or too late
}

// Room is the state of all holds together. For one goroutine.
type Room struct {
	turn   *turn.Turn
	limits Limits
	hub    Hub
	holds  map[string]*Hold                         // open
	acks   *bounded.Cache[string, string, bus.Code] // of ended holds, by client
	late   map[string]int                           // holds that its last summary named as late, by agent
	spent  float64                                  // tasks asked for by hedging, less what was earned since
	bodies int                                      // bytes kept of tasks that agents have
	cut    bool                                     // the bus is away
	hears  time.Time                                // until then completions may come that were sent before
	counts Counts
}

// New returns the room of a hub that has no holds.
func New(t *turn.Turn, l Limits, hub Hub) *Room {
	return &Room{turn: t, limits: l, hub: hub, holds: map[string]*Hold{}, late: map[string]int{},
		acks: bounded.New[string, string, bus.Code](l.MaxKnown, 0)}
}

// Kept counts the open holds, and the bytes kept of their tasks.
func (r *Room) Kept() (holds, bytes int) { return len(r.holds), r.bodies }

// Counts returns the counts so far.
func (r *Room) Counts() Counts { return r.counts }

// Cut says whether the bus is away.
func (r *Room) Cut(away bool) { r.cut = away }

// Deaf tells that until now the hub could not hear its agents. Tasks served in the meantime count as served
// in time: agents repeat their completions, and no hold expires before they have had time to.
func (r *Room) Deaf() { r.hears = r.turn.Now().Add(repeatWithin) }

// Hears reports whether the hub has heard all that its agents and doors have said.
func (r *Room) Hears() bool { return !r.cut && !r.turn.Now().Before(r.hears) }

// Hold is money set aside for a task that was handed to an agent. The room alone changes one that it has.
type Hold struct {
	ID       string
	Index    int64 // of its record in the journal
	Rec      ledger.Hold
	Task     *Task
	Msg      *bus.Task // what its client sent; nil: it is known from the journal alone
	Deadline time.Time // of the task
	Unread   bool      // nobody reads the answer
	Beyond   bool      // its agent's slots were all taken
	State    State
	Most     int // prompt tokens that it covers; 0: it is known from the journal alone
	Sent     time.Time
	Expires  time.Time

	// what the agent is told, beside the record
	Timeout  time.Duration // until its account is due
	First    time.Duration // the latest that its first token was quoted to come
	Limit    time.Duration // without a first token by then its engine has failed
	Watch    time.Duration // it reports if no first token has come by then; 0: it need not
	Verified int           // tokens of the prompt that it holds for certain, as it served the same text
	Award    market.Award
	Own      market.Credits // what of the award's toll is not charged

	Cancelled bool      // by its client, which may be in every state, and stays so in the next
	Given     bool      // its agent was asked to give it up, as its first token was late
	Next      *bus.Task // its reader wants it to go on elsewhere, if its agent has failed

	timer    turn.Timer
	look     turn.Timer // while its reader waits to hear whether its agent has failed
	nextAt   time.Time  // since then
	again    int        // times it was dispatched again, for want of a reply
	inquired time.Time  // when its reader was asked last whether it has the end, as its agent is dead
}

// Task is the state of a task that agents have or had.
type Task struct {
	// What the client was told, apart from the hold's state: a client that was told early may wait again.
	Accepted *bus.Accepted // who serves it; nil again while it moves to another agent
	Told     bool          // its client had an answer, if only that nobody knows who serves it
	Reply    string        // where its chunks go, once they may

	Refusals int      // of agents
	Moves    int      // how often an agent failed it and it went to another
	Hedged   bool     // an agent was asked to give it up, as its first token was late
	FailedAt []string // agents that failed it
	Earlier  []string // their holds
	// the last of these: what settles the task, unless another agent gets it
	FailedHold *bus.Receipt
	Whole      int // max_tokens of the whole answer, of which what failed is a part

	body int // bytes of it kept after it was accepted
}

// Begin dispatches a new hold, whose record is in a frame of this turn.
func (r *Room) Begin(h *Hold) {
	r.add(h)
	r.spent = max(0, r.spent-hedgeShare)
	r.happens(h, Awarded)
}

// Replayed returns a hold of the journal, and the state of its task.
func (r *Room) Replayed(p *ledger.Past) (h Hold, t Task) {
	c, until := p.Hold, time.Unix(0, p.Hold.Expires)
	h = Hold{ID: ledger.HoldID(r.turn.Journal, c.Round, c.Slot), Index: p.Index, Rec: *c, Sent: r.turn.Now(),
		Deadline: until, Expires: until}
	if p.Award != nil {
		h.Award, h.Own = *p.Award, p.Own
	}
	return h, Task{Told: true, Earlier: p.Earlier,
		Reply: bus.ReplyTo(cmp.Or(c.Reader, c.Client), cmp.Or(c.Token, c.Task))}
}

// Found opens a hold that is open in the journal.
func (r *Room) Found(h *Hold) {
	r.add(h)
	r.happens(h, Found)
}

func (r *Room) add(h *Hold) {
	h.timer.Due, h.look.Due = func() { r.due(h) }, func() { r.looks(h) }
	r.holds[h.ID] = h
	if h.Msg.Carried() == 0 {
		h.Task.Whole = max(h.Task.Whole, h.Rec.MaxTokens)
	}
}

// TakeUp takes in the task of a hold that the journal alone tells of, as it has come again. Only its agent
// can say whether it has the task, as the hub may have died between its journal and its agents; and which
// part of the answer that was to be is in no journal, nor does who asks know which attempt it is. So the hold
// is withdrawn: an agent that has said something of the answer goes on and says so; else the task is in a
// round again, as it has come.
func (r *Room) TakeUp(h *Hold, m *bus.Task, deadline time.Time) {
	m.Attempt = max(m.Attempt, h.Rec.Attempt)
	h.Msg, h.Deadline, h.Sent, h.Watch = m, deadline, r.turn.Now(), r.WatchFor(h.Watch)
	h.Task.Told, h.Task.Reply = false, m.Reply
	r.happens(h, SentAgain)
}

// Cancel ends the task of a hold for its client.
func (r *Room) Cancel(h *Hold) { r.happens(h, Cancelled) }

// Done forgets a task that has ended.
func (r *Room) Done(t *Task) {
	r.bodies -= t.body
	t.body = 0
}

// happens applies an event that leaves a hold open. An event without a rule does nothing.
func (r *Room) happens(h *Hold, e Event) {
	rule := h.State.On(e)
	if rule.To.Ended() && !h.State.Ended() {
		r.turn.Fault(fmt.Errorf("hold %s: %s ends it, and nothing says how it ended", h.ID, e))
		return
	}
	if rule.Not != "" {
		return
	}
	h.State = rule.To
	switch e {
	case NoReply:
		h.again++
	case SentAgain:
		h.inquired = time.Time{}
	case Cancelled:
		h.Cancelled = true
	}
	for _, x := range rule.Then {
		switch x {
		case Dispatch:
			r.turn.Set(&h.timer, r.turn.Now().Add(DispatchTimeout))
			r.handOut(h)
		case AwaitEnd:
			r.turn.Set(&h.timer, h.Expires)
		case Withdraw:
			r.tell(h, &bus.HoldControl{Hold: h.ID, Withdraw: true})
			r.turn.Set(&h.timer, turn.Earlier(h.Expires, r.turn.Now().Add(withdrawEvery)))
		case Stop:
			if h.Cancelled {
				r.tell(h, &bus.HoldControl{Hold: h.ID, Cancel: true})
			}
		case GiveUp:
			if !h.Given { // else it may not have heard
				h.Given, h.Task.Hedged = true, true
				r.spent++
			}
			r.tell(h, &bus.HoldControl{Hold: h.ID, Late: true})
		case AskReader:
			h.inquired = r.turn.Now()
			r.turn.Send(h.Task.Reply+"."+r.turn.Domain, &bus.Chunk{Task: h.Rec.Task, Attempt: h.Rec.Attempt,
				Agent: h.Rec.Agent, Dead: true})
		case TellServer:
			r.accepted(h)
			if h.Task.Moves > 0 { // its reader waits where the chunks come
				r.Beat(h.Msg, h.Rec.Agent)
			}
		case TellUnknown:
			if r.turn.Now().Before(h.Sent.Add(toldAfter * DispatchTimeout)) {
				break
			}
			x := r.unpaid(h, bus.CodeUnknown, "agent "+h.Rec.Agent+
				" did not answer: whether it serves the task is not known", 1000)
			x.Model, x.Receipt = "", nil
			if r.hub.Answer(h, &bus.Answer{Result: x}) {
				h.Task.Told = true
			}
		}
	}
}

// tell sends a message to the agent of a hold.
func (r *Room) tell(h *Hold, c *bus.HoldControl) {
	r.turn.Send(bus.ControlSubject(h.Rec.Agent, r.turn.Domain), c)
}
