package fleet

import (
	"strings"
	"testing"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// A hold whose client was told nothing is wrong, and so is one that was paid twice.
func TestEveryHoldHasItsWord(t *testing.T) {
	for _, captures := range []int{1, 2} {
		const paid market.Credits = 3
		a := &Account{tasks: map[[2]string]*settled{}, Voids: map[string]int{},
			Owned: map[string]market.Credits{"ann": 10 - paid*market.Credits(captures)}}
		held := map[string]*ledger.Hold{}
		for i := range captures {
			id := strings.Repeat("h", i+1)
			held[id] = &ledger.Hold{Client: "ann", Task: "t", Kind: bus.DispatchTask}
			a.take(held, &ledger.Record{Kind: ledger.KindHold, ID: id, Hold: held[id]})
			a.take(held, &ledger.Record{Kind: ledger.KindCapture,
				Capture: &ledger.Capture{Hold: id, Cost: paid}})
		}
		f := &Fleet{Plan: Plan{Clients: map[string]market.Credits{"ann": 10}}}
		_, err := f.Judge(a, nil)
		if err == nil || !strings.Contains(err.Error(), "was told nothing") {
			t.Errorf("paid %d times: %v", captures, err)
		}
		twice := err != nil && strings.Contains(err.Error(), "was paid 2 times")
		if twice != (captures == 2) {
			t.Errorf("paid %d times: %v", captures, err)
		}
	}
}
