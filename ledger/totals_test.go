package ledger

import (
	"testing"

	"souk/market"
)

// Totals are the sums of the accounts that are listed, whatever clients, agents and journals are called.
func TestTotals(t *testing.T) {
	b := NewBook()
	for name, amount := range map[string]market.Credits{
		Prepaid("ann"): 5, Prepaid("held"): 7, Prepaid("bob"): 0,
		Avail("ann"): 11, Avail("avail"): 13, Held("ann"): 17,
		Payable("a-1"): 19, Payable("payable"): 23, Surplus: 29, Fee: 31, External("deposits"): -37,
		External("payouts"): -41, Clearing("prepaid"): 43, Clearing("held"): 47, "lost:avail": 53,
		"probe:payable": 59,
	} {
		b.accounts[name] = &amount
	}
	if got, want := b.Totals(), (Totals{Prepaid: 12, Avail: 24, Held: 17, Payable: 42, Surplus: 29, Fee: 31,
		Deposits: 37, Clearing: 90, Clients: 3, Low: 2, Empty: 1}); got != want {
		t.Errorf("totals are %+v, want %+v", got, want)
	}
}
