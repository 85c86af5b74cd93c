// Package policy is the runtime layer's interface: the events of sessions, roles, tools and caches that a
// policy hears, and the few effects that it may want.
//
// A [Policy] sees what neither a framework nor an engine sees whole. It reads no bid and changes nothing that
// was sold: no field here says what a task offers. Its inputs and outputs are plain values without any text
// of prompts or answers, and the time is an argument, so that the same events always have the same effects.
// Its host runs it through a [Guard].
package policy

import (
	"time"

	"github.com/cespare/xxhash/v2"

	"souk/market"
)

// Policy is called by one goroutine at a time.
type Policy interface {
	// Observe takes in an event. Events come in the order in which their host heard of them. It never waits,
	// and takes a bounded number of steps.
	Observe(e Event)
	// Score returns how many seconds of engine time are lost if an item loses, and changes nothing. 0, NaN
	// and infinity are no opinion, as is every negative number but [Never] and [Hold].
	Score(now time.Time, i Item) float64
	// Act appends the effects that it wants, as far as there is room. It is called now and then.
	Act(now time.Time, r Room, to []Effect) []Effect
}

// Silent has no opinion and wants nothing done: policies embed it for what they leave out.
type Silent struct{}

func (Silent) Score(time.Time, Item) float64                 { return 0 }
func (Silent) Act(_ time.Time, _ Room, to []Effect) []Effect { return to }

// Never is the score of an item that must lose. Only hooks that ask for bits take it; others have no opinion.
const Never = -1.0

// Hold is the score of a pair whose task is to stay out of the round at hand, as others go first. The score
// of one pair of a task counts for all its pairs.
const Hold = -2.0

// ID names an agent, a client, a session, a role or a tool by a hash of its name, which itself is not passed
// on. 0 is none.
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

// EventKind is the kind of an event.
type EventKind uint8

// The kinds of events, with the fields that are set beside Kind and At.
const (
	// Arrived: a turn of a session was admitted. Client, Session, Parent, Role, Turn.
	Arrived EventKind = 1 + iota
	// Placed: the turn goes to Agent. Usage is the expected usage.
	Placed
	// Served: the turn has ended there and is paid for. Usage, TTFT, ITL, Stop, Tool, Thought; Claimed is
	// after how long the client says that it will be back.
	Served
	// Failed: it ended there without payment.
	Failed
	// Ended: the session has had its last turn, as its client says.
	Ended
	// Next: the client says that Role, of the same session or of Session's child, comes next.
	Next
	// Loaded: the engine of Agent has what its tasks need ready, as a policy wanted: see Load.
	Loaded
	// Again: the turn waits for another agent, as the one that Failed names gave it up. As Arrived.
	Again
	eventKinds
)

// Event is something that happened. Fields that are not listed for its kind are 0.
type Event struct {
	Kind    EventKind
	At      time.Time     // by the host's clock
	Agent   ID            // that serves or served it; of its id
	Client  ID            // who pays; of its name
	Session ID            // bus.SessionKey
	Parent  ID            // the client's session that began this one, as the client says
	Role    ID            // see Role
	Turn    int           // of the session, from 0, as the host has counted
	Usage   market.Usage  // tokens
	TTFT    time.Duration // at the agent, from dispatch to first token
	ITL     time.Duration // at the agent, mean between tokens
	Stop    Stop          // why the answer ended
	Tool    ID            // that the answer calls; of its name
	Claimed time.Duration // the announced pause; 0: none
	Thought int           // tokens of the answer that later prompts leave out: reasoning
}

// Stop says why an answer ended.
type Stop uint8

// The reasons for an answer's end.
const (
	StopUnknown Stop = iota
	StopEnd          // the model ended it
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

// ItemKind is the kind of an item.
type ItemKind uint8

// The kinds of items.
const (
	Pair ItemKind = 1 + iota // a session's turn, on Agent: it loses if it goes elsewhere
	// the shared beginning of Role's prompts, in the cache of Agent: it loses its blocks
	Anchor
	Tail // the rest of Session's prompts there: the same
)

// Item is a thing for a policy to score.
type Item struct {
	Kind    ItemKind
	Agent   ID
	Session ID
	Role    ID
	Tokens  int // of it; of a Pair, those of the prompt that Agent is believed to hold
	Blocks  int // that it takes of the agent's cache; 0: not known
	// since it was last used, 0 for what is in use; of a Pair, since its task came
	Age time.Duration

	// Of a Pair alone: the client, how many of its tasks come before this one in the round, and the number of
	// idle slots of all agents. Split: another engine computes the prompts of Agent's.
	Client       ID
	Before, Free int
	Split        bool
}

// EffectKind is the kind of an effect. The list is closed: a host does these, within bounds, or nothing.
type EffectKind uint8

// The kinds of effects. KeepAlive and Warm are wishes: a hub passes them on, and no agent can be told them.
// The lab has simulated engines do them, to see what they are worth.
const (
	KeepAlive EffectKind = 1 + iota // Agent uses again Tokens that it holds of Session, so that they stay
	// Agent computes the first Tokens of Session, the anchor of Role, which it lacks
	Warm
	// the engine that Agent shares with others loads, or keeps, what Agent's tasks need: an adapter. Only an
	// agent's host does this, and nobody pays for it.
	Load
	effectKinds
)

// Effect is an action that a policy wants.
type Effect struct {
	Kind    EffectKind
	Agent   ID
	Session ID
	Tokens  int
	Until   time.Time // of no use later; zero: whenever
}

// Room bounds what Act may ask for, in counts and not in time, so that the same events have the same effects
// on any machine. A policy that asks for more is turned off for a while.
type Room struct {
	Effects int   // at most
	Tokens  int   // of all effects together
	Work    *Work // sessions, roles or pairs that it may look at
}

// Work counts the steps of a policy.
type Work struct{ left, over int }

// NewWork has room for so many steps.
func NewWork(steps int) *Work { return &Work{left: steps} }

// Take asks for so many steps. If it returns false the policy must stop: asking again is an overrun. Steps
// are never given back, so a negative number is refused.
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
	return name(k, "arrived", "placed", "served", "failed", "ended", "next", "loaded", "again")
}

func (k ItemKind) String() string { return name(k, "pair", "anchor", "tail") }

func (k EffectKind) String() string { return name(k, "keep-alive", "warm", "load") }

// name is the word for a kind, which counts from 1.
func name[K ~uint8](k K, words ...string) string {
	if k < 1 || int(k) > len(words) {
		return "unknown"
	}
	return words[k-1]
}
