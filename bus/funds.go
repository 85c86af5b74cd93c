package bus

import (
	"strconv"

	"souk/market"
)

// Operations of the treasury, the last token of souk.v1.ledger.<op>.
const (
	OpDeposit  = "deposit"  // anyone who may: FundsRequest, answered by FundsReply
	OpAllot    = "allot"    // a hub asks for an allotment of a client's money
	OpReturn   = "return"   // a hub hands unspent allotment back: its ID is ReturnID(Hub, number)
	OpAllotted = "allotted" // a hub asks for every grant it was ever given after a number
	OpBalance  = "balance"  // a client's prepaid and allotted money
	OpPayout   = "payout"   // prepaid money goes back outside
)

// ReturnID is the id of a hub's n-th return, by which the treasury takes returns in order, each once.
func ReturnID(hub string, n uint64) string { return hub + "-return-" + strconv.FormatUint(n, 10) }

// FundsRequest asks the treasury for something. ID makes it idempotent: the same id and content give
// the first answer again; the same id with other content gives CodeIDConflict.
type FundsRequest struct {
	ID     string         `json:"id" msgpack:"id"`
	Client string         `json:"client,omitempty" msgpack:"client,omitempty"`
	Hub    string         `json:"hub,omitempty" msgpack:"hub,omitempty"` // journal of the asking hub
	Epoch  int64          `json:"epoch,omitempty" msgpack:"epoch,omitempty"`
	Amount market.Credits `json:"amount,omitempty" msgpack:"amount,omitempty"` // > 0
	Least  market.Credits `json:"least,omitempty" msgpack:"least,omitempty"`   // allot: what is needed at least; less is of no use
	After  uint64         `json:"after,omitempty" msgpack:"after,omitempty"`   // allotted: grants numbered above this
}

// Grant is an allotment of a client's money to a hub. Number counts from 1 for each hub without gaps.
type Grant struct {
	ID     string         `json:"id" msgpack:"id"`
	Number uint64         `json:"number" msgpack:"number"`
	Client string         `json:"client" msgpack:"client"`
	Hub    string         `json:"hub" msgpack:"hub"`
	Amount market.Credits `json:"amount" msgpack:"amount"`
}

// FundsReply is the treasury's answer. Code is empty, CodeUnknownClient, CodeInsufficientFunds, ...
type FundsReply struct {
	ID       string         `json:"id" msgpack:"id"`
	Code     Code           `json:"code,omitempty" msgpack:"code,omitempty"`
	Message  string         `json:"message,omitempty" msgpack:"message,omitempty"`
	Client   string         `json:"client,omitempty" msgpack:"client,omitempty"`
	Prepaid  market.Credits `json:"prepaid" msgpack:"prepaid"`   // left with the treasury
	Allotted market.Credits `json:"allotted" msgpack:"allotted"` // granted to hubs less returned
	Grants   []Grant        `json:"grants,omitempty" msgpack:"grants,omitempty"`
	Returned uint64         `json:"returned,omitempty" msgpack:"returned,omitempty"` // allotted: of the hub's returns, those up to this number were taken in
}

func (*FundsRequest) message() {}
func (*FundsReply) message()   {}
