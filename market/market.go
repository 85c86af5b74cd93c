package market

import "time"

// Credits is an amount of money in nano-credits (1e-9 credit). One credit is one unit of account,
// one dollar in the price files. Arithmetic on Credits is exact; floats become Credits through
// [Quantise] only.
type Credits int64

// Credit is one whole credit.
const Credit Credits = 1_000_000_000

// TaskID names a task within the market: "<client>/<task>".
type TaskID string

// AgentID names an agent: one engine serving one model.
type AgentID string

// Price is an agent's price card, per million tokens, as price lists are written: Miss for prompt tokens that
// are computed, Hit for those found in the KV cache, Out for output tokens.
type Price struct {
	Miss Credits `json:"miss" msgpack:"miss" yaml:"miss"`
	Hit  Credits `json:"hit" msgpack:"hit" yaml:"hit"`
	Out  Credits `json:"out" msgpack:"out" yaml:"out"`
}

// Usage counts the tokens that a task used. Cached counts those prompt tokens that were found in the
// cache; 0 <= Cached <= Prompt.
type Usage struct {
	Prompt int `json:"prompt_tokens" msgpack:"p"`
	Cached int `json:"cached_tokens" msgpack:"c"`
	Output int `json:"completion_tokens" msgpack:"o"`
}

// Quote holds a task's predicted need and service on one agent.
type Quote struct {
	TTFT    time.Duration // time to the first token
	Cost    Credits       // what the agent is expected to be due
	Quality float64       // 0 to 1
}

// Terms are a client's bid for its task (iemas Eq. 1, in money).
type Terms struct {
	Worth    Credits       // what a perfect answer at once is worth to the client
	Delta    float64       // 0 to 1: weight of quality against latency
	Patience time.Duration // time to the first token in which latency takes its whole part of the worth once
	MaxPrice Credits       // the most the client ever pays; 0: Worth
	// after so much waiting a second costs twice as much as at first, after twice that three times; 0: it
	// always costs the same
	Doubles time.Duration
}

// Rule names how a round is priced and settled; it is part of the round's record.
type Rule struct {
	Pricing string `json:"pricing" yaml:"pricing"` // "vcg", "tariff" or "posted"
	Settle  string `json:"settle" yaml:"settle"`   // "metered" or "quoted"
	Clarke  string `json:"clarke" yaml:"clarke"`   // "task" or "client": whose externality is paid
	// the configured pricing, where its solve had to be stopped and the round was posted instead; else ""
	Instead string `json:"instead,omitempty" yaml:"-"`
}

// Task is one demand for a slot.
type Task struct {
	ID     TaskID  `json:"id"`
	Client string  `json:"client"`
	Second Credits `json:"second"` // >= 0: by how much its value falls with every second, wherever it goes
	// 0 to [MaxTurn]: of plans that are equally good, the one in which those with the smaller turns begin
	Turn int `json:"turn,omitempty"`
	// 0 to [MaxIn]: a seat that comes later is of no use to it, as its deadline has passed by then; 0: any is
	Within time.Duration `json:"within,omitempty"`
}

// Seat is a number of slots of an agent that come free at one time.
type Seat struct {
	Slots int           `json:"slots"`
	In    time.Duration `json:"in"`    // from the round on, until a task there is begun
	Later bool          `json:"later"` // they are not free yet: a task that is given one waits
}

// Supply is one agent's offer in a round. Its seats stand in the order of time, those that are free now
// before those to come.
type Supply struct {
	Agent AgentID `json:"agent"`
	Seats []Seat  `json:"seats"`
}

// Seller says who sells an agent's slots, and the tariff that its owner is paid for every task beside the
// metered cost.
type Seller struct {
	Owner  string  `json:"owner"`
	Class  string  `json:"class"` // model, precision, hardware: agents of one class have one tariff
	Tariff Credits `json:"tariff"`
}

// Edge says what a task would be worth and cost on an agent, begun at once. At a seat that comes in a time it
// is worth less by what that time costs the task: see [Task.Delay]. Task and Agent index Round.Tasks and
// Round.Agents. Toll <= 0 is what the agent's slot costs others; the flat fee is added when the round is
// cleared. Own, from 0 to -Toll, is the part of it that the client's own other tasks bear, which is charged
// to nobody. Neither is ever a function of a bid of the round.
type Edge struct {
	Task, Agent int
	Value, Cost Credits
	Toll, Own   Credits
}

// Round is everything that clearing depends on. The same Round gives the same Outcome on every
// machine. Tasks and Agents are sorted by id, Edges by (Task, Agent), without duplicates: see
// [Round.Sort] and [Round.Validate].
type Round struct {
	Domain string
	Number uint64   // counts from 1 within a journal
	Prev   [32]byte // salt and half a hash of the journal's previous round; zero for the first
	Rule   Rule
	Fee    Credits // flat fee >= 0, part of every award's toll
	Tasks  []Task
	Agents []Supply
	Edges  []Edge

	// under tariff and posted: one for each of Agents. The edges' costs include their tariffs. Nil: there are
	// no tariffs
	Sellers []Seller

	// Others are edges that a [Cutter] took out because they cannot change the outcome. The proof does not
	// cover them. [Explain] shows them: what a task might have had instead. Sorted as Edges are.
	Others []Edge
	Pruned Pruned
}

// Pruned counts what a [Cutter] took out of a round.
type Pruned struct {
	Tasks   int `json:"tasks"`   // tasks without a seat
	Edges   int `json:"edges"`   // edges that could not change the outcome, also those of Tasks and Planned
	Planned int `json:"planned"` // tasks that have a seat to come
	Beyond  int `json:"beyond"`  // tasks left out because too many waited
}

// Award is a task given a slot that is free. Toll is the whole toll: Edge.Toll - flat fee. Under the rule
// clarke: task, Premium is SlotPrice - Toll - Edge.Own. Under clarke: client, the client's
// ClientProof.Externality is split over its seats, those to come among them, and Premium is this award's
// share - Toll - Edge.Own, which is never more than under clarke: task.
type Award struct {
	Task      TaskID
	Agent     AgentID
	Seat      int
	Value     Credits // at the time that the seat comes
	Cost      Credits // as quoted
	SlotPrice Credits
	Toll      Credits
	Premium   Credits
}

// Planned is a task given a seat to come. It waits, and is matched anew with what comes meanwhile. It pays
// nothing for it.
type Planned struct{ Task, Agent, Seat int } // index into Round.Tasks and Round.Agents

// Witness proves that a positive slot price is not too high: at any lower price Task would want the slot.
type Witness struct {
	Agent, Seat int // the slot price in question: index into Round.Agents, and its seat
	Task        int // index into Round.Tasks
	// FromAgent and FromSeat say where Task is placed, or FromAgent is -1 if Task was left out.
	FromAgent, FromSeat int
	Rank                int // strictly larger than the rank of (FromAgent, FromSeat)
}

// SlotPrice is the price of one more slot of a seat.
type SlotPrice struct {
	Agent, Seat int
	Price       Credits
}

// Tie is part of the proof that among assignments of equal welfare the one the seed prefers was taken:
// a second slot price, in units of the tie-break instead of money.
type Tie struct {
	Agent, Seat int
	Rank        int64
}

// Outcome is how a round was cleared.
type Outcome struct {
	Awards    []Award     // sorted by task
	Planned   []Planned   // sorted by task
	Prices    []SlotPrice // every positive slot price, sorted by (agent, seat)
	Witnesses []Witness   // one for each positive slot price, in the same order
	// sorted by (agent, seat), those not 0; empty where the best assignment is the only one
	Ties []Tie
	// under clarke: client, sorted by client, for those with several tasks of which one pays for a slot;
	// under pricing posted, for clients with several tasks, in the order in which clients were served
	Clients []ClientProof
	Welfare Credits // sum over awards, and tasks with a seat to come, of value - cost + toll
}

// ClientProof proves what a client with several tasks owes the others. That is its Externality: the welfare
// of the round without its tasks, less the others' welfare in the round as it was. Prices and Moves are the
// outcome of the round without its tasks.
type ClientProof struct {
	Client      string
	Externality Credits
	Prices      []SlotPrice // those that are not the round's, sorted by (agent, seat)
	Moves       []Move      // tasks of others that would be placed elsewhere, sorted by task

	// Under pricing posted there is no externality. Prices, those that are positive, prove that the client's
	// tasks got what suits them best together, of the slots that were left at its turn. Ties prove that the
	// seed chose among equally good choices; those that are 0 are not listed.
	Ties []Tie
}

// Move says where a task would be placed.
type Move struct {
	Task        int // index into Round.Tasks
	Agent, Seat int // Agent is -1 if it were left out
}
