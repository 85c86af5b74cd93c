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

// Usage is what a task used, in tokens. Cached counts those prompt tokens that were found in the
// cache; 0 <= Cached <= Prompt.
type Usage struct {
	Prompt int `json:"prompt_tokens" msgpack:"p"`
	Cached int `json:"cached_tokens" msgpack:"c"`
	Output int `json:"completion_tokens" msgpack:"o"`
}

// Quote is what a task is predicted to need and give on one agent.
type Quote struct {
	TTFT    time.Duration // time to the first token
	Cost    Credits       // what the agent is expected to be due
	Quality float64       // 0 to 1
}

// Terms is what a client says its task is worth (iemas Eq. 1, in money).
type Terms struct {
	Worth    Credits       // what a perfect answer at once is worth to the client
	Delta    float64       // 0 to 1: weight of quality against latency
	Patience time.Duration // time to the first token from which on latency takes its whole part of the worth
	MaxPrice Credits       // the most the client ever pays; 0: Worth
}

// Rule names how a round is priced and settled; it is part of the round's record.
type Rule struct {
	Pricing string `json:"pricing"` // "vcg", "tariff" or "posted"
	Settle  string `json:"settle"`  // "metered" or "quoted"
	Clarke  string `json:"clarke"`  // "task" or "client": whose externality is paid
	// the configured pricing, where its solve had to be stopped and the round was posted instead; else ""
	Instead string `json:"instead,omitempty"`
}

// Task is one demand for a slot.
type Task struct {
	ID     TaskID `json:"id"`
	Client string `json:"client"`
	Wait   *Wait  `json:"wait,omitempty"` // nil: waiting is worth nothing to the task, as always under posted
}

// Tier is a number of free slots at one congestion charge. Toll <= 0 and falls from tier to tier.
type Tier struct {
	Slots int     `json:"slots" msgpack:"slots" yaml:"slots"`
	Toll  Credits `json:"toll" msgpack:"toll" yaml:"toll"`
}

// Supply is what one agent offers in a round.
type Supply struct {
	Agent AgentID `json:"agent"`
	Tiers []Tier  `json:"tiers"`
}

// Seller says who sells an agent's slots, and the tariff that its owner is paid for every task beside the
// metered cost.
type Seller struct {
	Owner  string  `json:"owner"`
	Class  string  `json:"class"` // model, precision, hardware: agents of one class have one tariff
	Tariff Credits `json:"tariff"`
}

// Edge says what a task would be worth and cost on an agent. Task and Agent index Round.Tasks and
// Round.Agents. Toll <= 0 is the regime's toll alone; the tier's charge and the flat fee are added
// when the round is cleared. Toll is never a function of a bid.
type Edge struct {
	Task, Agent int
	Value, Cost Credits
	Toll        Credits
}

// Round is everything that clearing depends on. The same Round gives the same Outcome on every
// machine. Tasks and Agents are sorted by id, Edges by (Task, Agent), without duplicates: see
// [Round.Sort] and [Round.Validate].
type Round struct {
	Domain string
	Number uint64   // counts from 1 within a journal
	Prev   [32]byte // hash of the journal's previous round; zero for the first
	Rule   Rule
	Fee    Credits // flat fee >= 0, part of every award's toll
	Tasks  []Task
	Agents []Supply
	Edges  []Edge

	// under tariff and posted: one for each of Agents. The edges' costs include their tariffs. Nil: there are
	// no tariffs
	Sellers []Seller

	// Others are edges that a [Pruner] took out because they cannot change the outcome. The proof does not
	// cover them. [Explain] shows them: what a task might have had instead. Sorted as Edges are.
	Others []Edge
	Pruned Pruned
	Parts  []Toll // for each of Edges, what its toll is for; nil: each toll is the regime's alone
}

// Toll splits up [Edge.Toll]. Each part is <= 0, and the rest is the regime's toll. The parts explain a toll;
// they change no outcome.
type Toll struct {
	// for the seconds by which this agent takes longer to compute the prompt than another would
	Load Credits `json:"load" msgpack:"load" want:"toll"`
	// for being served before tasks that have waited longer for this agent
	Age Credits `json:"age" msgpack:"age" want:"toll"`
	// for slowing the tasks that run on this agent
	Beside Credits `json:"beside" msgpack:"beside" want:"toll"`
}

// Pruned counts what a [Pruner] took out of a round.
type Pruned struct {
	Tasks   int `json:"tasks"`   // tasks that were outbid on every agent that they could have gone to
	Edges   int `json:"edges"`   // edges that could not change the outcome, also those of Tasks and Waiting
	Waiting int `json:"waiting"` // tasks to which waiting was worth more than any free slot
	Beyond  int `json:"beyond"`  // tasks that came last, left out because the round was at its limit
}

// Sum is the part of an edge's toll that is not the regime's.
func (t Toll) Sum() Credits { return t.Load + t.Age + t.Beside }

// Award is a task given a slot. Toll is the whole toll: congestion charge + Edge.Toll - flat fee. Under the
// rule clarke: task, Premium is SlotPrice - Toll. Under clarke: client, the client's ClientProof.Externality
// is split over its awards, and Premium is this award's share - Toll, which is never more than under clarke:
// task.
type Award struct {
	Task      TaskID
	Agent     AgentID
	Tier      int
	Value     Credits
	Cost      Credits // as quoted
	SlotPrice Credits
	Toll      Credits
	Premium   Credits
}

// Witness proves that a positive slot price is not too high: at any lower price Task would want the slot.
type Witness struct {
	Agent, Tier int // the slot price in question: index into Round.Agents, and its tier
	Task        int // index into Round.Tasks
	// FromAgent and FromTier say where Task is placed, or FromAgent is -1 if Task was left out.
	FromAgent, FromTier int
	Rank                int // strictly larger than the rank of (FromAgent, FromTier)
}

// SlotPrice is the price of one more slot in a tier.
type SlotPrice struct {
	Agent, Tier int
	Price       Credits
}

// Tie is part of the proof that among assignments of equal welfare the one the seed prefers was taken:
// a second slot price, in units of the tie-break instead of money.
type Tie struct {
	Agent, Tier int
	Rank        int64
}

// Outcome is how a round was cleared.
type Outcome struct {
	Awards    []Award     // sorted by task
	Prices    []SlotPrice // every positive slot price, sorted by (agent, tier)
	Witnesses []Witness   // one for each positive slot price, in the same order
	// sorted by (agent, tier), those not 0; empty where the best assignment is the only one
	Ties []Tie
	// under clarke: client, sorted by client; under pricing posted, for clients with several tasks, in the
	// order in which clients were served
	Clients []ClientProof
	Welfare Credits // sum over awards of value - cost + toll
}

// ClientProof proves what a client with several tasks owes the others. That is its Externality: the welfare
// of the round without its tasks, less the others' welfare in the round as it was. Prices and Moves are the
// outcome of the round without its tasks.
type ClientProof struct {
	Client      string
	Externality Credits
	Prices      []SlotPrice // those positive, sorted by (agent, tier)
	Moves       []Move      // tasks of others that would be placed elsewhere, sorted by task

	// Under pricing posted there is no externality. Prices prove that the client's tasks got what suits them
	// best together, of the slots that were left at its turn. Ties prove that the seed chose among equally
	// good choices; those that are 0 are not listed.
	Ties []Tie
}

// Move says where a task would be placed.
type Move struct {
	Task        int // index into Round.Tasks
	Agent, Tier int // Agent is -1 if it were left out
}
