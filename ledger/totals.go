package ledger

import (
	"strings"

	"souk/market"
)

// Totals sums up the accounts of a journal by what they are; what does not fit is left out. A treasury's have
// no Avail, Held, Payable, Surplus and Fee, a hub's no Prepaid, Deposits and Clients.
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

// Totals goes through all accounts.
func (b *Book) Totals() (t Totals) {
	t.Surplus, t.Fee, t.Deposits = b.Balance(Surplus), b.Balance(Fee), -b.Balance(External("deposits"))
	clients := map[string]*market.Credits{"prepaid": &t.Prepaid, "avail": &t.Avail, "held": &t.Held}
	for name, a := range b.accounts {
		var to *market.Credits
		role, id, _ := strings.Cut(name, ":")
		_, kind, _ := strings.Cut(id, ":")
		switch role {
		case "client":
			to = clients[kind]
		case "agent":
			to = &t.Payable
		case "clearing":
			to = &t.Clearing
		}
		if to == nil {
			continue
		}
		if sum, ok := to.Add(*a); ok {
			*to = sum
		}
		if to == &t.Prepaid {
			t.Clients++
			if *a == 0 {
				t.Empty++
			} else if *a < market.Credit {
				t.Low++
			}
		}
	}
	return t
}
