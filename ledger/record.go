package ledger

import (
	"souk/bus/tip"
	"souk/market"
)

// Kind is the kind of a record. Its numbers stand in journals.
type Kind uint8

const (
	KindOpen       Kind = 1  // first record of a journal: whose it is, and its scale
	KindRound      Kind = 2  // a cleared round: everything needed to clear and check it again
	KindHold       Kind = 3  // money set aside for an award, before its dispatch
	KindCapture    Kind = 4  // a hold ends in payment
	KindVoid       Kind = 5  // a hold ends without, with a reason
	KindDeposit    Kind = 8  // treasury: money from outside
	KindPayout     Kind = 9  // treasury: money to outside
	KindGrant      Kind = 10 // treasury: allotment of a client's money to a hub
	KindAccept     Kind = 11 // hub: an allotment taken in
	KindReturn     Kind = 12 // hub: unspent allotment handed back
	KindReclaim    Kind = 13 // treasury: a return taken in
	KindDistribute Kind = 14 // hub, then treasury: surplus leaves
	KindClose      Kind = 15 // last record of a journal; at the treasury, of its dealings with a hub
	KindSeal       Kind = 16 // asks of a class's owners, sealed, for an epoch
	KindTariff     Kind = 17 // the same opened: who sells in the epoch, and what they are paid
	KindMove       Kind = 18 // treasury: a client's money becomes another's
	KindBudget     Kind = 19 // treasury: how much of a client's money another may have
	KindMark       Kind = 20 // how far another journal is
	KindWriteOff   Kind = 21 // treasury: a hub whose journal is gone ends
	KindRemit      Kind = 22 // hub, then treasury: what an agent has earned is paid
	KindRefund     Kind = 23 // hub, then treasury: a client gets back what it paid
	KindMonth      Kind = 24 // treasury: a month is closed
)

// Record is one fact. Only the part that Kind names is set. Its legs sum to zero.
type Record struct {
	Kind Kind
	// made from (journal, round, slot, kind) or the operation's own id; never from time or chance
	ID   string
	Salt [16]byte // hides a record from its neighbours' proofs; an argument, seeded in simulation
	Legs []Leg

	Open     *Open
	Round    *Round
	Hold     *Hold
	Capture  *Capture
	Void     *Void
	Transfer *Transfer // Deposit, Payout, Grant, Accept, Return, Reclaim, Distribute, Remit, Refund
	Epoch    *Epoch    // Seal, Tariff
	Move     *Move
	Budget   *Budget
	Noted    *Noted // Mark
	WriteOff *WriteOff
	Month    *Month
}

// Leg adds Amount to Account. Accounts are named "client:<id>:avail", "client:<id>:held",
// "agent:<id>:payable", "surplus", "fee", "probe:<hub>", "clearing:<journal>", "client:<id>:prepaid",
// "external:<name>", "lost:<hub>".
type Leg struct {
	Account string
	Amount  market.Credits
}

// Open begins a journal.
type Open struct {
	Journal string // name, unique in the market
	Role    string // "hub" or "treasury"
	Domain  string // of a hub
	Scale   int64  // units per credit: 1e9, never changed
	// of the treasury's: what a credit is, by its code of ISO 4217; "" in a hub's, which counts in the same
	Currency string `json:",omitempty"`
}

// Round is a cleared round with its certificate. Seed made the tie-break.
type Round struct {
	Round   market.Round
	Outcome market.Outcome
	// the figures of which its tolls are made, and from which prices are learned
	Ground market.Ground
	// forecasts for each of Round.Edges, and then of Round.Others; nil: not written
	Seen []Seen `json:",omitempty"`
	// decisions of runtime policies, sorted; nil: none
	Set []Set `json:",omitempty"`
	// tasks that earlier rounds had left waiting, sorted; nil: none
	Waited []Waited `json:",omitempty"`
}

// Hold is money set aside for one award.
type Hold struct {
	Client    string
	Task      string // the client's id of the task
	Attempt   int
	Agent     string
	Model     string
	Round     uint64
	Slot      int            // index of the award in its round
	Kind      string         // dispatch kind
	Amount    market.Credits // premium + worst case, at most max_price
	Premium   market.Credits // slot price - toll: what is due beside the cost as quoted
	Fee       market.Credits // part of Premium that is the flat fee
	Quoted    market.Credits // cost as quoted
	Tariff    market.Credits // part of Quoted: due to the agent beside the metered cost
	Settle    string
	Price     market.Price // the card in force
	Prompt    int          // predicted prompt tokens
	Cached    int          // of which predicted to be cached
	Output    int          // predicted output tokens
	MaxTokens int
	Expires   int64    // Unix nanoseconds by the hub's clock
	Boot      int64    // the agent's boot epoch at the dispatch: a later boot knows nothing of it
	Digest    [16]byte // of the task's content: same id and other content is a conflict

	// The reader of the answer, and its token for it. Both empty: the client, by the task's id.
	Reader string `json:",omitempty"`
	Token  string `json:",omitempty"`

	// Prompt tokens that are due as cached, whatever the engine finds: the agent got the task because it
	// reported to hold them.
	Asserted int `json:",omitempty"`

	// What tells it from the client's others: the id of its request, empty where the task's says that; the
	// API key that it came with; and tags, as bus.Tags writes them.
	Request string `json:",omitempty"`
	Key     string `json:",omitempty"`
	Tags    string `json:",omitempty"`
}

// Capture ends a hold in payment: Cost to the agent, [Hold.Due] - Fee to surplus, Fee to fee, the rest back.
type Capture struct {
	Hold          string
	Outcome       string // bus.OutcomeDone or OutcomeCancelled
	Cost          market.Credits
	Usage         market.Usage
	Unmetered     bool
	NoCacheReport bool
	Finish        string
	TTFTUS        int64
	Claim         *Claim `json:",omitempty"` // the agent's account, where it cannot be true; nil otherwise
	// the engine's own usage, where its token ids say otherwise, by which Usage is; nil otherwise
	Said *market.Usage `json:",omitempty"`
}

// Claim is an agent's account of a task that cannot be true, word for word. The capture beside it has the
// corrected one.
type Claim struct {
	Usage   market.Usage
	Relayed int            // output tokens relayed, by its account
	Most    int            // prompt tokens that the hold was made for; 0: not known when it was settled
	Cost    market.Credits // by its account
}

// Void ends a hold without payment.
type Void struct {
	Hold   string
	Reason string // a bus.Code
}

// Transfer moves money between the outside, the treasury and hubs.
type Transfer struct {
	Client string
	Hub    string // journal of the hub
	Number uint64 // of a grant, return or order, each from 1 for each hub, without gaps
	Amount market.Credits
	Note   string
	// the cover of a grant; nil: none, as for a hub's own client
	Vouched *Vouched `json:",omitempty"`
	// what an operator said of a deposit, payout or order to a hub; nil: nothing
	Order *tip.Order `json:",omitempty"`
}

// Frame holds records that are made durable together, or not at all.
type Frame struct {
	Version uint8
	Epoch   int64  // of the writer; never falls
	Seq     uint64 // from 1 without gaps
	Time    int64  // Unix nanoseconds by the writer's clock; never falls
	Records []Record
}
