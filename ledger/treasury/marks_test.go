package treasury

import (
	"testing"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// What a hub said that clients had spent there counts until it says otherwise of a later frame: no older copy
// lowers it that has not heard yet that it is one, also where the treasury was started anew. Else a write-off
// would give back what was spent.
func TestAnOlderWordLowersNothing(t *testing.T) {
	o := open(t)
	told := func(seq uint64, spent int64) {
		t.Helper()
		o.ask(bus.OpAllotted, bus.FundsRequest{ID: "w", Hub: "maths", Epoch: 1, After: 1,
			Mark:  &ledger.Mark{Journal: ledger.Sum{1}, Seq: seq, Sum: ledger.Sum{byte(seq)}},
			Spent: []ledger.Spent{{Client: "ann", Amount: market.Credits(spent)}}})
	}
	o.ask(bus.OpDeposit, bus.FundsRequest{ID: "d", Client: "ann", Amount: 100})
	if r := o.ask(bus.OpAllot, bus.FundsRequest{ID: "a", Client: "ann", Hub: "maths", Amount: 50,
		Least: 50}); r.Code != "" {
		t.Fatal(r.Message)
	}
	want := func(when string, want market.Credits) {
		t.Helper()
		if got := o.tr.Book().Spent("ann", "maths"); got != want {
			t.Errorf("%s: ann has spent %d, want %d", when, got, want)
		}
	}
	told(10, 40)
	want("first", 40)
	told(20, 30) // a refund
	want("later", 30)
	told(10, 5)
	want("by a word that was overtaken", 30)
	o.reopen()
	told(10, 5)
	want("by a word that was overtaken by a start of the treasury", 30)
	told(21, 31)
	want("at last", 31)
}
