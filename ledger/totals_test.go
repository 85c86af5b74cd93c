package ledger

import (
	"strings"
	"testing"

	"souk/market"
)

// walked sums up all accounts of a book, one after another: the oracle of what the book keeps.
func walked(b *Book) (t Totals) {
	t.Surplus, t.Fee, t.Deposits = b.Balance(Surplus), b.Balance(Fee), -b.Balance(External("deposits"))
	for _, x := range b.Balances("") {
		role, id, _ := strings.Cut(x.Account, ":")
		_, kind, _ := strings.Cut(id, ":")
		switch {
		case role == "agent":
			t.Payable += x.Amount
		case role == "clearing":
			t.Clearing += x.Amount
		case role == "client" && kind == "avail":
			t.Avail += x.Amount
		case role == "client" && kind == "held":
			t.Held += x.Amount
		case role == "client" && kind == "prepaid":
			t.Prepaid += x.Amount
			t.Clients++
			if x.Amount == 0 {
				t.Empty++
			} else if x.Amount < market.Credit {
				t.Low++
			}
		}
	}
	return t
}

// summed holds what a book keeps of its accounts' sums against a walk over them.
func summed(t testing.TB, b *Book) {
	t.Helper()
	if got, want := b.Totals(), walked(b); got != want {
		t.Fatalf("totals are %+v, want %+v", got, want)
	}
}

// Totals are the sums of the accounts that are listed, whatever clients, agents and journals are called. That
// they stay so with each record, refused or taken, read or loaded, all tests look at that write some.
func TestTotals(t *testing.T) {
	b := NewBook()
	for name, amount := range map[string]market.Credits{
		Prepaid("ann"): 5, Prepaid("held"): 7, Prepaid("bob"): 0,
		Avail("ann"): 11, Avail("avail"): 13, Held("ann"): 17,
		Payable("a-1"): 19, Payable("payable"): 23, Surplus: 29, Fee: 31, External("deposits"): -37,
		External("payouts"): -41, Clearing("prepaid"): 43, Clearing("held"): 47, "lost:avail": 53,
		"probe:payable": 59,
	} {
		b.Accounts[name] = &amount
		b.count(name, amount, 1)
	}
	summed(t, b)
	if got, want := b.Totals(), (Totals{Prepaid: 12, Avail: 24, Held: 17, Payable: 42, Surplus: 29, Fee: 31,
		Deposits: 37, Clearing: 90, Clients: 3, Low: 2, Empty: 1}); got != want {
		t.Errorf("totals are %+v, want %+v", got, want)
	}
}
