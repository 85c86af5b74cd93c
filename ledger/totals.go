package ledger

import (
	"strings"

	"souk/market"
)

// Totals sums up the accounts of a journal by what they are. A treasury's have no Avail, Held, Payable,
// Surplus and Fee, a hub's neither Prepaid nor Deposits.
type Totals struct {
	Prepaid  market.Credits // of clients, with the treasury
	Avail    market.Credits // of clients, at a hub
	Held     market.Credits // of that, for open holds
	Payable  market.Credits // due to agents
	Surplus  market.Credits
	Fee      market.Credits
	Deposits market.Credits // paid in from outside, ever
}

// Totals goes through all accounts.
func (b *Book) Totals() (t Totals) {
	t.Surplus, t.Fee, t.Deposits = b.Balance(Surplus), b.Balance(Fee), -b.Balance(External("deposits"))
	for name, a := range b.accounts {
		client, agent := strings.HasPrefix(name, "client:"), strings.HasPrefix(name, "agent:")
		switch {
		case client && strings.HasSuffix(name, ":prepaid"):
			t.Prepaid += *a
		case client && strings.HasSuffix(name, ":avail"):
			t.Avail += *a
		case client && strings.HasSuffix(name, ":held"):
			t.Held += *a
		case agent && strings.HasSuffix(name, ":payable"):
			t.Payable += *a
		}
	}
	return t
}
