// Package policy is the runtime layer's interface: what a policy sees of sessions, roles, tools and caches,
// and the few things that it may want done.
//
// A [Policy] sees what neither a framework nor an engine sees whole. It reads no bid and changes nothing that
// was sold: no field here says what a task offers. What it is told and what it says are plain values without
// any text of prompts or answers, and the time is an argument, so that the same events always have the same
// effects. Whoever hosts policies runs them through a [Guard].
package policy

import (
	"time"

	"github.com/cespare/xxhash/v2"

	"souk/market"
)

// Policy is one policy. It is called by one goroutine at a time.
type Policy interface {
	// Observe takes in what has happened. Events come in the order in which their host heard of them. It
	// never waits, and takes a bounded number of steps.
	Observe(e Event)
	// Score is how many seconds of engine time are lost if an item loses, and changes nothing. 0, NaN and
	// infinity are no opinion, as is every negative number but [Never] and [Hold].
	Score(now time.Time, i Item) float64
	// Predict appends what is expected to run within so long, the likeliest first.
	Predict(now time.Time, within time.Duration, to []Forecast) []Forecast
	// Act appends what is to be done, as far as there is room for it. It is called now and then.
	Act(now time.Time, r Room, to []Effect) []Effect
}

// Silent has no opinion and no forecast, and wants nothing done: policies embed it for what they leave out.
type Silent struct{}

func (Silent) Score(time.Time, Item) float64                                  { return 0 }
func (Silent) Predict(_ time.Time, _ time.Duration, to []Forecast) []Forecast { return to }
func (Silent) Act(_ time.Time, _ Room, to []Effect) []Effect                  { return to }

// Never is the score of an item that must lose. Only hooks that ask for bits take it; others have no opinion.
const Never = -1.0

// Hold is the score of a pair whose task is to stay out of the round at hand, as others go first. What is
// said of one pair of a task counts for all.
const Hold = -2.0

// ID names an agent, a client, a session, a role or a tool: a hash of its name, so that no name is passed on.
// 0 is none.
type ID = uint64

// IDOf is the id of a name.
func IDOf(name string) ID {
	if name == "" {
		return 0
	}
	return max(1, xxhash.Sum64String(name))
}

// Mixed spreads the bits of an id (splitmix64).
func Mixed(x ID) ID {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// EventKind says what has happened.
type EventKind uint8

// The kinds of events, with the fields that are set beside Kind and At.
const (
	// Arrived: a turn of a session was admitted. Client, Session, Parent, Role, Turn; Back is how long the
	// session was idle, Claimed how long its client had said that it would be.
	Arrived EventKind = 1 + iota
	// Placed: the turn goes to Agent. Usage is what is expected of it.
	Placed
	// Served: the turn has ended there and is paid for. Usage, TTFT, ITL, Stop, Tool, Thought and, at the
	// agent itself, Caught as the agent says; Claimed is after how long the client says that it will be back.
	Served
	// Failed: it ended there without payment.
	Failed
	// Ended: the session has had its last turn, as its client says.
	Ended
	// Next: the client says that Role, of the same session or of Session's child, comes next.
	Next
	// Touched: the engine of Agent has what its tasks need ready, as a policy wanted: see Load.
	Touched
	// Again: the turn waits for another agent, as the one that Failed names gave it up. As Arrived.
	Again
	eventKinds
)

// Event is what has happened. Fields that its kind does not name are 0.
type Event struct {
	Kind    EventKind
	At      time.Time     // by the host's clock
	Agent   ID            // that serves or served it; of its id
	Client  ID            // who pays; of its name
	Session ID            // bus.SessionKey
	Parent  ID            // the session that began this one, as the client says; another of the client's
	Role    ID            // see Role
	Turn    int           // of the session, from 0, as the host has counted
	Usage   market.Usage  // tokens
	TTFT    time.Duration // at the agent, from dispatch to first token
	ITL     time.Duration // at the agent, mean between tokens
	Stop    Stop          // why the answer ended
	Tool    ID            // that the answer calls; of its name
	Back    time.Duration // from the end of the session's last turn to this one's arrival
	Claimed time.Duration // of that, said by the client and scaled by what it said before; 0: nothing heard
	Caught  bool          // a guard at the agent found in the answer what it looks for
	Thought int           // tokens of the answer that later prompts leave out: reasoning
}

// Stop is why an answer ended.
type Stop uint8

// The reasons for an answer's end.
const (
	StopUnknown Stop = iota
	StopEnd          // the model had no more to say
	StopLength       // max_tokens, or the price cap
	StopTool         // it calls a tool, so the session is likely to be back
	StopCut          // the client cancelled
)

// StopOf reads an OpenAI finish_reason.
func StopOf(finish string) Stop {
	switch finish {
	case "stop":
		return StopEnd
	case "length":
		return StopLength
	case "tool_calls", "function_call":
		return StopTool
	}
	return StopUnknown
}

// ItemKind says what an item is.
type ItemKind uint8

// The kinds of items.
const (
	Pair ItemKind = 1 + iota // a session's turn, on Agent: it loses if it goes elsewhere
	// what the prompts of Role begin with, in the cache of Agent: it loses its blocks
	Anchor
	Tail  // the rest of Session's prompts there: the same
	Share // of Client in all slots: what it was owed of them and did not have, in seconds of a slot
)

// Item is what a neighbour ranks.
type Item struct {
	Kind    ItemKind
	Agent   ID
	Session ID
	Role    ID
	Tokens  int // of it: of a Pair, those of the prompt that Agent is believed to hold
	Blocks  int // of the agent's cache that it takes; 0: not known
	// since it was last used, 0 for what is in use; of a Pair, since its task came
	Age time.Duration

	// Of a Pair alone: who pays, how many tasks of its before this one are in the round, and in how many
	// slots of all agents nothing runs. Split says that another engine computes the prompts of Agent's.
	Client       ID
	Before, Free int
	Split        bool
}

// Forecast is what is expected to run.
type Forecast struct {
	Session ID
	Role    ID
	Agent   ID            // where; 0: anywhere
	P       float64       // chance, from 0 to 1
	Within  time.Duration // from now
}

// EffectKind says what is to be done. The list is closed: a host does these, within bounds, or nothing.
type EffectKind uint8

// The kinds of effects. Touch and Warm are wishes: a hub passes them on, and no agent can be told them. The
// lab has simulated engines do them, to see what they are worth.
const (
	Touch EffectKind = 1 + iota // Agent uses again Tokens that it holds of Session, so that they stay
	// Agent computes the first Tokens of Session, the anchor of Role, which it lacks
	Warm
	// the engine that Agent shares with others has what Agent's tasks need ready, so an adapter is loaded, or
	// stays so. An agent's host alone does this, and nobody pays for it.
	Load
	effectKinds
)

// Effect is something to be done.
type Effect struct {
	Kind    EffectKind
	Agent   ID
	Session ID
	Tokens  int
	Until   time.Time // of no use later; zero: whenever
}

// Room is what Act may ask for, in counts and not in time, so that the same events have the same effects on
// any machine. Who asks for more is turned off for a while.
type Room struct {
	Effects int   // at most
	Tokens  int   // of all effects together
	Work    *Work // sessions, roles or pairs that it may look at
}

// Work counts what a policy looks at.
type Work struct{ left, over int }

// NewWork has room for so many steps.
func NewWork(steps int) *Work { return &Work{left: steps} }

// Take asks for so many steps. Where it says false the policy stops: who asks again has overrun. Nobody gives
// steps back, so fewer than none are refused.
func (w *Work) Take(steps int) bool {
	if steps < 0 || w.left < steps {
		w.over++
		w.left = 0
		return false
	}
	w.left -= steps
	return true
}

// overrun reports whether somebody went on without steps.
func (w *Work) overrun() bool { return w.over > 1 }

func (k EventKind) String() string {
	return name(k, "arrived", "placed", "served", "failed", "ended", "next", "touched", "again")
}

func (k ItemKind) String() string { return name(k, "pair", "anchor", "tail", "share") }

func (k EffectKind) String() string { return name(k, "touch", "warm", "load") }

// name is the word for a kind, which counts from 1.
func name[K ~uint8](k K, words ...string) string {
	if k < 1 || int(k) > len(words) {
		return "unknown"
	}
	return words[k-1]
}
