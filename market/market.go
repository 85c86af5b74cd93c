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

// Price is an agent's price card, per million tokens, as price lists are written: of a prompt token
// computed (Miss), of one found in the KV cache (Hit), of an output token (Out).
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
	Worth    Credits       // the client's own money scale: value of a perfect answer at once
	Delta    float64       // 0 to 1: weight of quality against latency
	Patience time.Duration // a TTFT at which the latency term is fully spent
	MaxPrice Credits       // the most the client ever pays; 0: Worth
}

// Rule names how a round is priced and settled; it is part of the round's record.
type Rule struct {
	Pricing string `json:"pricing"` // "vcg", "tariff" or "posted"
	Settle  string `json:"settle"`  // "metered" or "quoted"
	Clarke  string `json:"clarke"`  // "task" or "client": whose externality is paid
	// under "posted": the pricing whose solve had to be stopped; "" where posted was the plan
	Instead string `json:"instead,omitempty"`
}

// Task is one demand for a slot.
type Task struct {
	ID     TaskID `json:"id"`
	Client string `json:"client"`
	Wait   *Wait  `json:"wait,omitempty"` // nil: waiting is worth nothing to it; always under posted
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

	// under tariff and posted, one for each of Agents: their tariffs are part of the edges' costs. Nil: there
	// are no tariffs
	Sellers []Seller
	Bundles []Bundle // of old rounds: tasks that stay together, by their first task; nil: none

	// Others are edges beyond the proof, which cannot change the outcome: what a task might have had instead,
	// for [Explain] to show. Sorted as Edges are; see [Pruner].
	Others []Edge
	Pruned Pruned
	Parts  []Toll // of each of Edges, what of its toll is for what; nil: all of it is the regime's
}

// Toll is what an edge is charged for beside the regime's toll, each <= 0: parts of [Edge.Toll], which has
// the rest from the regime. They say what a toll is for and change no outcome.
type Toll struct {
	// seconds of service that another agent would not need, while others wait
	Load Credits `json:"load" msgpack:"load"`
	// going before those who have waited longer for the agent
	Age Credits `json:"age" msgpack:"age"`
	// what it does to those who run there
	Beside Credits `json:"beside" msgpack:"beside"`
}

// Pruned counts what was weighed with a round and is not in it.
type Pruned struct {
	Tasks   int `json:"tasks"`   // outbid wherever they could have gone
	Edges   int `json:"edges"`   // that could not matter, those of Tasks and Waiting among them
	Waiting int `json:"waiting"` // to whom waiting was worth more than every free slot
	Beyond  int `json:"beyond"`  // the latest to come, left out because the round was at its limit
}

// Sum is what of an edge's toll is not the regime's.
func (t Toll) Sum() Credits { return t.Load + t.Age + t.Beside }

// Award is a task given a slot. Toll is all of it: congestion charge, regime's toll and minus the
// fee. Premium is SlotPrice - Toll under the rule clarke: task. Under clarke: client it is the share of the
// client's ClientProof.Externality that falls on this award, less Toll; never more than under clarke: task.
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

// Witness proves one positive slot price from below: at any lower price Task would take the slot.
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
	// under clarke: client, by client; under pricing posted, of those with several tasks, in the order of the
	// line
	Clients []ClientProof
	Welfare Credits // sum over awards of value - cost + toll
}

// ClientProof shows what a client with several tasks owes the others, Externality: the welfare of the round
// without its tasks less the others' welfare in the round. Prices and Moves are that other round's outcome.
type ClientProof struct {
	Client      string
	Externality Credits
	Prices      []SlotPrice // those positive, sorted by (agent, tier)
	Moves       []Move      // tasks of others that would sit elsewhere, sorted by task

	// Under pricing posted there is no externality: Prices prove that what its tasks were given suits them
	// best together, of what was left when its turn came, and Ties that the choice among equals is the
	// seed's. Those not 0.
	Ties []Tie
}

// Move says where a task would sit.
type Move struct {
	Task        int // index into Round.Tasks
	Agent, Tier int // Agent is -1 if it were left out
}
