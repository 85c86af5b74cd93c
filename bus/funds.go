package bus

import (
	"strconv"
	"time"

	"souk/bus/tip"
	"souk/market"
)

// Operations of the treasury: souk.v1.ledger.<op>.<who>, and a balance's as [BalanceSubject] has it.
const (
	OpDeposit  = "deposit"  // an operator: FundsRequest, answered by FundsReply
	OpAllot    = "allot"    // a hub asks for an allotment of a client's money
	OpReturn   = "return"   // a hub hands unspent allotment back: its ID is ReturnID(Hub, number)
	OpAllotted = "allotted" // a hub asks for every grant it was ever given after a number
	OpBalance  = "balance"  // a client's prepaid and allotted money
	OpPayout   = "payout"   // prepaid money goes back outside
	OpMove     = "move"     // Client's prepaid money becomes To's
	// To may have so much of Client's money every day, week or month, or once; without an amount that ends
	OpBudget = "budget"
	// surplus of a hub leaves, to Client or outside: its ID is DistributeID(Hub, number); without an amount
	// the answer has the surplus
	OpDistribute = "distribute"
	// an operator: what Hub owes Order.Agent is paid, once by Order.Ref; without an amount the answer has
	// what each hub owes it
	OpRemit  = "remit"
	OpRefund = "refund" // an operator: the client of Order.Receipt gets some of it back, once by Order.Ref
	OpMonth  = "month"  // an operator: Order.Month is over, and is closed in the books
	OpClose  = "close"  // a hub that has given everything back ends
	// an operator: the journal of Hub is gone for good, and clients' money there comes back to them
	OpWriteOff = "writeoff"
	OpSums     = "sums" // an operator: what all clients have, and which hubs there are
)

// FundsEvery is how often a hub that leads asks the treasury for its allotments. So a grant whose answer was
// lost is found, and the treasury knows which hubs live.
const FundsEvery = 5 * time.Second

// ReturnID is the id of a hub's n-th return, by which the treasury takes returns in order, each once.
func ReturnID(hub string, n uint64) string { return hub + "-return-" + strconv.FormatUint(n, 10) }

// DistributeID is the id of the n-th distribution of a hub's surplus, each made once.
func DistributeID(hub string, n uint64) string {
	return hub + "-distribute-" + strconv.FormatUint(n, 10)
}

// FundsRequest asks the treasury for something. ID makes it idempotent: the same id and content give
// the first answer again; the same id with other content gives CodeIDConflict.
type FundsRequest struct {
	ID     string `json:"id" msgpack:"id"`
	Client string `json:"client,omitempty" msgpack:"client,omitempty" want:"id?"`
	// journal of the asking hub, as the subject names it; distribute: of whose surplus it is
	Hub    string         `json:"hub,omitempty" msgpack:"hub,omitempty"`
	Epoch  int64          `json:"epoch,omitempty" msgpack:"epoch,omitempty"`
	Amount market.Credits `json:"amount,omitempty" msgpack:"amount,omitempty"` // > 0
	// move, budget: the client that gets it
	To    string `json:"to,omitempty" msgpack:"to,omitempty" want:"id?"`
	Every string `json:"every,omitempty" msgpack:"every,omitempty"` // budget: "", "day", "week" or "month"
	// allot: the least amount that is of use
	Least market.Credits `json:"least,omitempty" msgpack:"least,omitempty"`
	// allot: the whole need of the task that waits for it. Least is that, less the client's money at the hub;
	// once the hub has given that back it needs all of this
	Needs market.Credits `json:"needs,omitempty" msgpack:"needs,omitempty"`
	// allotted: grants numbered above this; close: the last grant, return and order in its journal; allot:
	// the hub's last return before it computed its need
	After    uint64 `json:"after,omitempty" msgpack:"after,omitempty"`
	Returned uint64 `json:"returned,omitempty" msgpack:"returned,omitempty"`
	Ordered  uint64 `json:"ordered,omitempty" msgpack:"ordered,omitempty"`
	// of the asking hub, where it hears a Recall; empty: it hears none
	Domain string `json:"domain,omitempty" msgpack:"domain,omitempty" want:"id?"`
	// allotted: the time by the hub's clock
	AtMS int64 `json:"at_ms,omitempty" msgpack:"at_ms,omitempty" want:"unix"`
	// How far the hub's journal is; nil: it is empty. Unsure: it may be an older copy, or the
	// treasury has not been heard on it in this leadership: it is not kept.
	Mark   *tip.Mark `json:"mark,omitempty" msgpack:"mark,omitempty"`
	Unsure bool      `json:"unsure,omitempty" msgpack:"unsure,omitempty"`
	// allotted: the highest mark of the treasury's journal that the hub's has
	Known *tip.Mark `json:"known,omitempty" msgpack:"known,omitempty"`
	// allotted: what clients were charged there in all, of those for whom that has changed since it was taken
	// in
	Spent []tip.Spent `json:"spent,omitempty" msgpack:"spent,omitempty" want:"most:512"`
	// allot: no task waits for it, so no hub is asked to give money back for it
	Ahead bool `json:"ahead,omitempty" msgpack:"ahead,omitempty"`
	// allot: the vouchers of doors
	Vouchers []DoorVoucher `json:"vouchers,omitempty" msgpack:"vouchers,omitempty" want:"most:16"`
	// balance: ask the client's hubs, too; and what its tasks came to from a day on, since 1970 and UTC, with
	// one key or with any
	Hubs    bool   `json:"hubs,omitempty" msgpack:"hubs,omitempty"`
	UsesDay int64  `json:"uses_day,omitempty" msgpack:"uses_day,omitempty"`
	UsesKey string `json:"uses_key,omitempty" msgpack:"uses_key,omitempty" want:"id?"`
	// deposit, payout, move, distribute, remit, refund: what the operator says of it
	Order *tip.Order `json:"order,omitempty" msgpack:"order,omitempty"`
	// the JWT of the operator who has signed Order, too
	Token string `json:"token,omitempty" msgpack:"token,omitempty" want:"answer"`
	// writeoff: do it; else only compute it
	Sure bool `json:"sure,omitempty" msgpack:"sure,omitempty"`
	// of who asks as a hub: its checkpoints, and what it has cosigned
	Attest *Attest `json:"attest,omitempty" msgpack:"attest,omitempty"`
	// found by who takes the request: the checksum of frame Known.Seq in its own journal, and the domains
	// that a hub leads, by the registry, which is to be written off
	Here  tip.Sum  `json:"-" msgpack:"-"`
	Leads []string `json:"-" msgpack:"-"`
}

// Grant is an allotment of a client's money to a hub. Number counts from 1 for each hub without gaps.
type Grant struct {
	Number uint64         `json:"number" msgpack:"number"`
	Client string         `json:"client" msgpack:"client" want:"id"`
	Hub    string         `json:"hub" msgpack:"hub"`
	Amount market.Credits `json:"amount" msgpack:"amount"`
}

// FundsReply is the treasury's answer. Code is empty, CodeUnknownClient, CodeInsufficientFunds, ...
type FundsReply struct {
	ID string `json:"id" msgpack:"id"`
	// of the treasury's leadership: replies of an epoch below the highest heard are ignored; 0: it does not
	// lead
	Epoch    int64          `json:"epoch" msgpack:"epoch,omitempty"`
	Code     Code           `json:"code,omitempty" msgpack:"code,omitempty"`
	Message  string         `json:"message,omitempty" msgpack:"message,omitempty" want:"text"`
	Client   string         `json:"client,omitempty" msgpack:"client,omitempty" want:"id?"`
	Prepaid  market.Credits `json:"prepaid" msgpack:"prepaid" want:"sum"`   // left with the treasury
	Allotted market.Credits `json:"allotted" msgpack:"allotted" want:"sum"` // granted to hubs less returned
	Grants   []Grant        `json:"grants,omitempty" msgpack:"grants,omitempty" want:"most:16384"`
	// beside a Code that says to come back: nothing was made under this id, and nothing will be unless it is
	// asked for again
	Unmade bool `json:"unmade,omitempty" msgpack:"unmade,omitempty"`
	// allotted: of the hub's returns, those up to this number were taken in
	Returned uint64 `json:"returned,omitempty" msgpack:"returned,omitempty"`
	// allotted: the hub counts as ended, and is granted nothing more
	Ended bool `json:"ended,omitempty" msgpack:"ended,omitempty"`
	// with CodeAllotmentPending: when to ask again, with the same id
	RetryMS int64 `json:"retry_ms,omitempty" msgpack:"retry_ms,omitempty" want:"ms"`
	// distribute, remit, refund: which order was made, or comes next, and it; and what is left of the hub's
	// surplus
	Number  uint64         `json:"number,omitempty" msgpack:"number,omitempty"`
	Order   *tip.Ordered   `json:"order,omitempty" msgpack:"order,omitempty"`
	Surplus market.Credits `json:"surplus,omitempty" msgpack:"surplus,omitempty" want:"sum"`
	// The treasury's journal, which every grant of it is of, and how far it is; nil: it may be an older copy.
	Journal tip.Sum   `json:"journal,omitzero" msgpack:"journal"`
	Mark    *tip.Mark `json:"mark,omitempty" msgpack:"mark,omitempty"`
	// allotted: the highest mark of the hub's journal that the treasury's has; whether it was written off
	Known *tip.Mark `json:"known,omitempty" msgpack:"known,omitempty"`
	Lost  bool      `json:"lost,omitempty" msgpack:"lost,omitempty"`
	// allotted: hubs contradict the treasury's journal, and the one that asks does not: what it was told of
	// its own counts no more
	Contradicted bool `json:"contradicted,omitempty" msgpack:"contradicted,omitempty"`
	// writeoff: what comes back to so many clients (Number), and what is lost
	Back market.Credits `json:"back,omitempty" msgpack:"back,omitempty" want:"sum"`
	Gone market.Credits `json:"gone,omitempty" msgpack:"gone,omitempty" want:"sum"`
	// month: the sides of the trial balance, of so many accounts (Number)
	Debits  market.Credits `json:"debits,omitempty" msgpack:"debits,omitempty" want:"sum"`
	Credits market.Credits `json:"credits,omitempty" msgpack:"credits,omitempty" want:"sum"`
	// to such a request: the treasury's
	Attest *Attest `json:"attest,omitempty" msgpack:"attest,omitempty"`
	// sums: of all clients, what they paid in; Prepaid, Allotted and Hubs are of all, too. Who leads, and
	// when its creds end; 0: never
	Deposits market.Credits `json:"deposits,omitempty" msgpack:"deposits,omitempty" want:"sum"`
	Expires  int64          `json:"expires_ms,omitempty" msgpack:"expires,omitempty" want:"unix"`
	// found by who takes the reply: the checksum of frame Known.Seq in its own journal
	Here tip.Sum `json:"-" msgpack:"-"`
	// balance: all hubs that were granted more than they returned; remit: those that may owe the agent
	// something; sums: all that have not ended
	Hubs []HubFunds `json:"hubs,omitempty" msgpack:"hubs,omitempty"`
}

// HubFunds is a client's money at one hub.
type HubFunds struct {
	Hub    string `json:"hub" msgpack:"hub"` // its journal
	Domain string `json:"domain,omitempty" msgpack:"domain,omitempty" want:"id?"`
	// granted less returned, money spent included
	Allotted market.Credits `json:"allotted" msgpack:"allotted" want:"sum"`
	Avail    market.Credits `json:"avail" msgpack:"avail" want:"sum"` // not held
	Held     market.Credits `json:"held" msgpack:"held" want:"sum"`   // for tasks that run
	// of Avail, for tasks that wait for a slot
	Reserved market.Credits `json:"reserved" msgpack:"reserved" want:"sum"`
	// Unix time of its answer, by the treasury's clock; 0: it did not answer, and the four above are unknown
	AtMS int64          `json:"at_ms" msgpack:"at_ms" want:"unix"`
	Owed market.Credits `json:"owed,omitempty" msgpack:"owed,omitempty" want:"sum"` // remit: to the agent
	// when it last said anything; 0: never since the treasury's start
	HeardMS int64 `json:"heard_ms" msgpack:"heard_ms" want:"unix"`
	// what tasks came to there, where that was asked for, and the first day of which all is told, 0: all of
	// it
	Uses  []tip.Use `json:"uses,omitempty" msgpack:"uses,omitempty" want:"most:4096"`
	Since int64     `json:"since,omitempty" msgpack:"since,omitempty"`
}

// Recall asks a hub to give back a client's money that is neither held nor reserved, on
// souk.v1.hub.<domain>.recall.<treasury>; answered by RecallReply. A hub that has not yet taken in all its
// grants asks for them.
type Recall struct {
	ID      string `msgpack:"id"`
	Epoch   int64  `msgpack:"epoch,omitempty"` // of the treasury's leadership
	Hub     string `msgpack:"hub" want:"id"`   // the journal that is meant: a domain may have had others
	Client  string `msgpack:"client" want:"id"`
	Granted uint64 `msgpack:"granted,omitempty"` // number of the last grant to the hub
	Look    bool   `msgpack:"look,omitempty"`    // only report it
	// beside Look: also what its tasks came to, as a FundsRequest asks
	UsesDay int64  `msgpack:"uses_day,omitempty"`
	UsesKey string `msgpack:"uses_key,omitempty" want:"id?"`
	// The hub records Order, if it is its next; without a number it only says what there is.
	Order *tip.Ordered `msgpack:"order,omitempty"`
	// found by who takes it: the capture of Order's receipt, its client and agent, or why there is none
	Found *tip.Ordered `msgpack:"-"`
	Why   string       `msgpack:"-"`
	Inbox string       `msgpack:"-"` // where the answer goes
}

// RecallReply is a hub's answer to a Recall; what it gave back is durable there, and on its way as a return.
type RecallReply struct {
	ID       string         `msgpack:"id"`
	Hub      string         `msgpack:"hub" want:"id"`
	Client   string         `msgpack:"client" want:"id"`
	Avail    market.Credits `msgpack:"avail" want:"sum"` // left, not held
	Held     market.Credits `msgpack:"held" want:"sum"`
	Reserved market.Credits `msgpack:"reserved" want:"sum"` // of Avail
	Accepted uint64         `msgpack:"accepted,omitempty"`  // number of the last grant taken in
	Returned uint64         `msgpack:"returned,omitempty"`  // number of the last return made
	// to an order: the number of the next, never 0; the last one; what there is for one of its kind; and why
	// it
	// was not recorded
	Next  uint64         `msgpack:"next,omitempty"`
	Last  *tip.Ordered   `msgpack:"last,omitempty"`
	There market.Credits `msgpack:"there,omitempty" want:"sum"`
	Ripe  market.Credits `msgpack:"ripe,omitempty" want:"sum"` // of the surplus, what a rule shares out next
	Why   string         `msgpack:"why,omitempty" want:"text"`
	Uses  []tip.Use      `msgpack:"uses,omitempty" want:"most:4096"`
	Since int64          `msgpack:"since,omitempty"`
}
