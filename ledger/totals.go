package ledger

import (
	"strings"

	"souk/market"
)

// Totals sums up the accounts of a journal by what they are. A treasury's have no Avail, Held, Payable,
// Surplus and Fee, a hub's no Prepaid, Deposits and Clients.
type Totals struct {
	Prepaid  market.Credits // of clients, with the treasury
	Avail    market.Credits // of clients, at a hub
	Held     market.Credits // of that, for open holds
	Payable  market.Credits // due to agents
	Surplus  market.Credits
	Fee      market.Credits
	Deposits market.Credits // paid in from outside, ever
	Clearing market.Credits // on the way to other journals, or there
	// that prepaid; of them, those that have less than a credit left, and nothing
	Clients, Low, Empty int
}

// Totals are kept with each record, so it takes as long with a million accounts as with one.
func (b *Book) Totals() Totals {
	t := b.head.totals
	t.Surplus, t.Fee, t.Deposits = b.Balance(Surplus), b.Balance(Fee), -b.Balance(External("deposits"))
	return t
}

// count adds an account with what it has to the totals; by -1 it takes it out again. A sum that does not fit
// is right again as soon as it does. An audit has no use for them.
func (b *Book) count(account string, has market.Credits, by int) {
	if b.bare {
		return
	}
	t, sum := &b.head.totals, market.Credits(by)*has
	switch {
	case strings.HasPrefix(account, "agent:"):
		t.Payable += sum
	case strings.HasPrefix(account, "clearing:"):
		t.Clearing += sum
	case !strings.HasPrefix(account, "client:"):
	case strings.HasSuffix(account, ":avail"):
		t.Avail += sum
	case strings.HasSuffix(account, ":held"):
		t.Held += sum
	case strings.HasSuffix(account, ":prepaid"):
		t.Prepaid += sum
		t.Clients += by
		if has == 0 {
			t.Empty += by
		} else if has < market.Credit {
			t.Low += by
		}
	}
}
