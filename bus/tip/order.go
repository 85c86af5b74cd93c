package tip

import (
	"fmt"
	"strings"

	"souk/market"
)

// Order stands beside an amount and holds the operator's words: who commands it, why, and whom it concerns.
type Order struct {
	By    string `json:"by,omitempty" msgpack:"by,omitempty" want:"id?"` // the operator, by its creds' name
	Ref   string `json:"ref,omitempty" msgpack:"ref,omitempty"`          // by which it is made once
	Note  string `json:"note,omitempty" msgpack:"note,omitempty"`
	Month string `json:"month,omitempty" msgpack:"month,omitempty"` // "2026-11": for which it is
	// the last month that was closed when it was commanded: what is for one up to it corrects that
	Closed string `json:"closed,omitempty" msgpack:"closed,omitempty"`
	// beyond Above a second operator has signed it: its name, its public key, and its signature of
	// [Order.Text]
	Above     market.Credits `json:"above,omitempty" msgpack:"above,omitempty"`
	Second    string         `json:"second,omitempty" msgpack:"second,omitempty" want:"id?"`
	Key       string         `json:"key,omitempty" msgpack:"key,omitempty"`
	Signature string         `json:"signature,omitempty" msgpack:"signature,omitempty"`
	// remit: who is paid; refund: who was paid
	Agent   string `json:"agent,omitempty" msgpack:"agent,omitempty" want:"id?"`
	Receipt string `json:"receipt,omitempty" msgpack:"receipt,omitempty"` // refund: the hold
	From    string `json:"from,omitempty" msgpack:"from,omitempty"`       // refund: FromAgent or FromSurplus
	// refund: the capture, as the hub's journal has it
	Capture *Captured `json:"capture,omitempty" msgpack:"capture,omitempty"`
	// distribute: the rule by which, one of those below; "": by an operator's word
	Rule   string  `json:"rule,omitempty" msgpack:"rule,omitempty"`
	Shares []Share `json:"shares,omitempty" msgpack:"shares,omitempty" want:"most:4096"` // ByAgents, sorted
}

// Rules of whose a hub's surplus is.
const (
	Kept      = "kept"    // the operator's, who takes it out
	ByAgents  = "agents"  // theirs, by the slots that they have offered
	ByClients = "clients" // theirs, in equal parts
)

// Share says how many slots an agent has offered, over all rounds since the last distribution by the rule.
type Share struct {
	Agent string `json:"agent" msgpack:"agent" want:"id"`
	Slots int64  `json:"slots" msgpack:"slots"`
}

// Payers of a refund.
const (
	FromAgent   = "agent"
	FromSurplus = "surplus"
)

// Captured is a payment as a journal has it, and where.
type Captured struct {
	Held   uint64         `json:"held" msgpack:"held"` // frame of the hold
	Seq    uint64         `json:"seq" msgpack:"seq"`   // frame of the capture
	Time   int64          `json:"time" msgpack:"time" want:"ever"`
	Paid   market.Credits `json:"paid" msgpack:"paid"`
	Model  string         `json:"model,omitempty" msgpack:"model,omitempty"`
	APIKey string         `json:"api_key,omitempty" msgpack:"api_key,omitempty"`
	Tags   string         `json:"tags,omitempty" msgpack:"tags,omitempty" want:"text"`
}

// Ordered is an operator's order to a hub: of its surplus, of what it owes an agent, of what a client paid.
// The hub records it first, then the treasury, both under one number.
type Ordered struct {
	Kind   string         `json:"kind" msgpack:"kind"`
	Number uint64         `json:"number" msgpack:"number"` // of the hub's orders, from 1 without gaps
	Client string         `json:"client,omitempty" msgpack:"client,omitempty" want:"id?"`
	Amount market.Credits `json:"amount" msgpack:"amount"`
	Order  *Order         `json:"order,omitempty" msgpack:"order,omitempty"`
}

// orderHead begins the text of each order, so that a signature of one is good for nothing else.
const orderHead = "souk order\n"

// IsOrder reports whether a text begins as an order's does: nothing else is signed as one.
func IsOrder(text string) bool { return strings.HasPrefix(text, orderHead) }

// Text writes out what a second operator signs: one line for each thing that the first one said. Of a
// deposit, a payout or a move id is the operation's own, and to names the client that gets it.
func (o *Order) Text(kind, id, hub, client, to string, amount market.Credits) []byte {
	var b strings.Builder
	b.WriteString(orderHead)
	for _, line := range [][2]string{{"kind", kind}, {"id", id}, {"hub", hub}, {"client", client}, {"to", to},
		{"agent", o.Agent}, {"receipt", o.Receipt}, {"from", o.From}, {"amount", amount.String()}, {"ref",
			o.Ref},
		{"note", o.Note}, {"month", o.Month}, {"by", o.By}} {
		if line[1] != "" {
			fmt.Fprintf(&b, "%s %s\n", line[0], line[1])
		}
	}
	return []byte(b.String())
}
