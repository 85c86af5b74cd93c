// Package settle has what a hub holds of its clients' money for tasks that agents have, from the dispatch
// until it is captured or void; and whether a task goes to another agent before its first token, as its agent
// fails or is late.
//
// The events of a hold and their effects are one table: see [State.On] and testdata/table.golden. A [Room]
// hears what happens (of agents, readers, timers and the journal) and carries it out, on the hub's
// [turn.Turn], without I/O or clock. What becomes of the task, and of the agent's slot, it tells its [Hub].
package settle

import "slices"

// State is the state of a hold at its agent.
type State string

const (
	None       State = ""           // nobody has it
	Dispatched State = "dispatched" // the agent was handed the task
	Withdrawn  State = "withdrawn"  // it was told to end the task, unless a reader has heard of it already
	Accepted   State = "accepted"   // it serves the task
	Replayed   State = "replayed"   // the journal alone tells of it: the agent may be serving it
	Captured   State = "captured"   // ended, and paid
	Void       State = "void"       // ended without payment
)

// Event is something that happens to a hold.
type Event string

const (
	Awarded    Event = "awarded"                 // a round has given its task to an agent
	Found      Event = "found in the journal"    // it is open in the journal of an earlier life of the hub
	SentAgain  Event = "task sent again"         // its task, known from the journal alone, comes again
	Accepts    Event = "accepts"                 // its agent serves it
	Rejects    Event = "rejects the task"        // its agent does not, for a reason that lies with the task
	Refuses    Event = "refuses"                 // its agent does not, for a reason that lies with the agent
	NoReply    Event = "no reply"                // its agent does not reply in time, and may not have heard
	Unanswered Event = "unanswered"              // no reply to the last dispatch, or to the withdrawal
	Served     Event = "served"                  // its agent's account: served, or until its client cancelled
	Unused     Event = "unused"                  // its agent's account: cancelled before the engine spoke
	Unsaid     Event = "given up unsaid"         // its agent's account: given up before the engine spoke
	Failed     Event = "failed"                  // its agent's account: failed, some of it may be out
	Unfit      Event = "unfit account"           // its agent's account is none
	FirstLate  Event = "first token late"        // its first token is late, and another may have the task
	Dead       Event = "agent dead"              // nobody listens at its agent
	Lost       Event = "agent lost"              // its agent cannot have served it: restarted, or dead
	GivenUp    Event = "reader gives up"         // its reader has no end of the answer, its agent is dead
	Silent     Event = "agent silent"            // the hub does not hear its agent, nor does its reader
	Expired    Event = "expired"                 // its time is over
	Cancelled  Event = "cancelled by the client" // its client wants no more of it
)

// Effect is an action on a hold. Move, Again and End say what becomes of the task of a hold that has ended:
// the first of them that is possible.
type Effect string

const (
	Dispatch    Effect = "dispatch"                // hand the task to the agent, and wait for the reply
	AwaitEnd    Effect = "await the end"           // wait for the agent's account, until its time is over
	Withdraw    Effect = "withdraw"                // have the agent end what nobody has heard of
	Stop        Effect = "stop it if cancelled"    // tell the agent that its client has cancelled
	GiveUp      Effect = "ask to give it up"       // have the agent give up what its engine has not begun
	TellServer  Effect = "tell who serves"         // tell the client who serves its task
	TellUnknown Effect = "tell that it is unknown" // tell the client that nobody knows who serves it
	AskReader   Effect = "ask the reader"          // ask the reader whether it has the end of the answer
	Move        Effect = "move the task"           // the task goes to another agent
	Again       Effect = "try the task again"      // the task is in a round again
	End         Effect = "end the task"            // the task ends
)

// Rule is the outcome of an event for a hold.
type Rule struct {
	To   State
	Then []Effect
	Not  string // why nothing comes of it, where nothing does
}

var (
	unsure = []State{Dispatched, Withdrawn}
	taken  = []State{Accepted, Replayed}
	open   = slices.Concat(unsure, taken)
)

type row struct {
	from  []State
	event Event
	Rule
}

// rows is the table of states and events: of those that name both the first counts. One that names no next
// state leaves a hold as it is.
var rows = []row{
	{[]State{None}, Awarded, Rule{To: Dispatched, Then: []Effect{Dispatch}}},
	{[]State{None}, Found, Rule{To: Replayed, Then: []Effect{AwaitEnd}}},
	{[]State{Replayed}, SentAgain, Rule{To: Withdrawn, Then: []Effect{Withdraw}}},
	{unsure, Accepts, Rule{To: Accepted, Then: []Effect{AwaitEnd, Stop, TellServer}}},
	{unsure, Rejects, Rule{To: Void, Then: []Effect{End}}},
	{unsure, Refuses, Rule{To: Void, Then: []Effect{Again, End}}},
	{[]State{Dispatched}, NoReply, Rule{To: Dispatched, Then: []Effect{Dispatch}}},
	{[]State{Dispatched}, Unanswered, Rule{To: Withdrawn, Then: []Effect{Withdraw}}},
	{[]State{Withdrawn}, Unanswered, Rule{Then: []Effect{TellUnknown, Withdraw}}},
	{[]State{Withdrawn}, Silent, Rule{To: Void, Then: []Effect{Again, End}}},
	{open, Served, Rule{To: Captured, Then: []Effect{End}}},
	{open, Unused, Rule{To: Void, Then: []Effect{End}}},
	{[]State{Withdrawn}, Unsaid, Rule{To: Void, Then: []Effect{Move, Again, End}}},
	{open, Unsaid, Rule{To: Void, Then: []Effect{Move, End}}},
	{open, Failed, Rule{To: Void, Then: []Effect{End}}},
	{open, Unfit, Rule{To: Void, Then: []Effect{End}}},
	{[]State{Accepted}, FirstLate, Rule{Then: []Effect{GiveUp}}},
	{unsure, Dead, Rule{To: Void, Then: []Effect{Again, End}}},
	{taken, Dead, Rule{Then: []Effect{AskReader}}},
	{open, Lost, Rule{To: Void, Then: []Effect{Again, End}}},
	{taken, GivenUp, Rule{To: Void, Then: []Effect{Move, End}}},
	{open, Silent, Rule{To: Void, Then: []Effect{End}}},
	{open, Expired, Rule{To: Void, Then: []Effect{End}}},
	{open, Cancelled, Rule{Then: []Effect{Stop}}},

	{open, Awarded, Rule{Not: "its id, of round and slot, is given once"}},
	{open, Found, Rule{Not: "the journal is read once, before anything else happens"}},
	{open, SentAgain, Rule{Not: "who asks again for what the hub has is told of it"}},
	{taken, Accepts, Rule{Not: "it has said so, to this hub or to its earlier life"}},
	{taken, Rejects, Rule{Not: "it has said that it serves, or may have: it contradicts itself"}},
	{taken, Refuses, Rule{Not: "it has said that it serves, or may have: it contradicts itself"}},
	{open, NoReply, Rule{Not: "it is dispatched no more, once it is taken or withdrawn"}},
	{taken, Unanswered, Rule{Not: "no reply is waited for"}},
	{open, FirstLate, Rule{Not: "its agent has not said that it serves, or is to end it"}},
	{unsure, GivenUp, Rule{Not: "its reader is asked only where its agent may serve it"}},
}

// On returns what an event does to a hold in a state.
func (s State) On(e Event) (r Rule) {
	for i := range rows {
		if rows[i].event == e && slices.Contains(rows[i].from, s) {
			r = rows[i].Rule
			break
		}
	}
	switch {
	case s.Ended():
		r.Not = "it has ended"
	case s == None && r.To == "":
		r.Not = "it is not there yet"
	}
	if r.To == "" {
		r.To = s
	}
	return r
}

// May reports whether an event does anything in a state.
func (s State) May(e Event) bool { return s.On(e).Not == "" }

// Taken reports whether the agent has said that it serves the hold, or may have, to an earlier hub.
func (s State) Taken() bool { return slices.Contains(taken, s) }

// Ended reports whether nothing can happen to the hold any more.
func (s State) Ended() bool { return s == Captured || s == Void }
