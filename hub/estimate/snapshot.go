package estimate

import (
	"time"

	"souk/market"
)

// Snapshot is a hub's agents as a round sees them, at one moment.
type Snapshot struct {
	Now     int64   // nanoseconds
	Agents  []Agent // that take tasks, now or as soon as they have a slot, by id
	Classes []Class // that these are of
	Runs    []Run   // whatever runs, at these and at others
}

// Class holds what agents that are alike have in common.
type Class struct {
	Service time.Duration // for which a task keeps a slot, on the mean
	Own     time.Duration // the same without the prompts of others
	Prefill time.Duration // that a task's prompt takes, on the mean
}

// Agent is an agent as a round sees it.
type Agent struct {
	ID    market.AgentID
	Class int32 // its place in Classes

	Slots, Running int           // tasks that it can have, and has
	PrefillBound   bool          // prompts take all of its engine's time before all slots are taken
	Free           int           // that may be given away now
	Since          int64         // nanoseconds: when what runs longest and is not overdue began; 0: nothing
	Overdue        int           // tasks in its slots that have run so long that they are not expected to end
	Age            time.Duration // of these, for how long the youngest has run
}

// Seller is an agent as a seller of slots.
type Seller struct {
	ID, Owner, Class string
	Joined           bool // the hub sells its slots; else it has left, and tasks may run on it still
	Slots, Running   int
}

// Run is a task that runs.
type Run struct {
	Client string
	Agent  int32         // its place in Agents; -1: at one that takes no tasks
	For    time.Duration // that it has run
}

// Waiter is a task that waits.
type Waiter struct {
	ID     market.TaskID
	Client string
	Terms  *market.Judged
	Most   market.Credits // that may be held for it: it is worth no more
	First  market.Credits // what its first second of waiting cost it
	Second market.Credits // what a second costs it by now
	Waited time.Duration  // since it came, which its value counts
	InLine time.Duration  // since it came first, which its turn counts
	Left   time.Duration  // to its deadline
	Rounds int            // in which it was and was given no slot
	Offers []Offer        // of the agents that may serve it, by their place in Agents
}

// Offer is a task's estimate on one agent.
type Offer struct {
	*Estimate
	Agent int32
	TTFT  time.Duration // to the first token, had the agent computed what it has in hand
	Half  time.Duration // within which that comes as often as not

	// charged beside the price of the slot, at most 0: fixed before any bid is read
	Extra market.Credits

	// found by the round
	Value     market.Credits // if it began now
	Toll, Own market.Credits // all that is charged, at most 0; and of it what is the client's own congestion
}

// Bare is the value less the cost.
func (o *Offer) Bare() market.Credits { return o.Value - o.Cost }
