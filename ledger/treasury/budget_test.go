package treasury

import (
	"testing"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// A move is made once under its id. What it takes and the treasury has not is looked for at hubs first, and
// whoever waits for the money that it brings gets it.
func TestAMoveFindsItsMoney(t *testing.T) {
	b := newBank(t)
	move := func(id, from, to string, amount int) {
		b.put(bus.OpMove, bus.FundsRequest{ID: id, Client: from, To: to, Amount: credits(amount)})
	}
	b.put(bus.OpDeposit, bus.FundsRequest{ID: "d", Client: "ann", Amount: 100})
	b.put(bus.OpDeposit, bus.FundsRequest{ID: "e", Client: "bob", Amount: 1})
	for range 2 {
		move("m1", "ann", "bob", 40)
		if got := b.last("m1"); got != "done" {
			t.Fatalf("the move: %q", got)
		}
	}
	move("m1", "ann", "bob", 41)
	if got := b.last("m1"); got != string(bus.CodeIDConflict) {
		t.Errorf("another amount under its id: %q", got)
	}
	move("m1", "ann", "eve", 40)
	if got := b.last("m1"); got != string(bus.CodeIDConflict) {
		t.Errorf("another payee under its id: %q", got)
	}
	for id, to := range map[string]string{"x1": "", "x2": "ann"} {
		move(id, "ann", to, 1)
		if got := b.last(id); got != string(bus.CodeBadRequest) {
			t.Errorf("a move to %q: %q", to, got)
		}
	}
	move("m2", "eve", "bob", 1)
	if got := b.last("m2"); got != string(bus.CodeUnknownClient) {
		t.Errorf("a move of nobody's: %q", got)
	}

	b.alive("h")
	b.put(bus.OpAllot, bus.FundsRequest{ID: "a", Client: "ann", Hub: "h", Domain: "of-h", Amount: 60, Least: 60})
	b.put(bus.OpPayout, bus.FundsRequest{ID: "p", Client: "eve", Amount: 5})
	b.put(bus.OpDeposit, bus.FundsRequest{ID: "f", Client: "eve", Amount: 1})
	b.put(bus.OpPayout, bus.FundsRequest{ID: "p2", Client: "eve", Amount: 5})
	if got := b.last("p2"); got != string(bus.CodeInsufficientFunds) {
		t.Errorf("a payout of what is not there: %q", got)
	}
	move("m3", "ann", "eve", 25)
	if got := b.last("m3"); got != "" || len(b.asked) == 0 {
		t.Fatalf("a move of money that a hub has: %q, %d questions", got, len(b.asked))
	}
	b.put(bus.OpReturn, bus.FundsRequest{ID: bus.ReturnID("h", 1), Client: "ann", Hub: "h", Amount: 30})
	if got := b.last("m3"); got != "done" {
		t.Errorf("once the hub has returned it: %q", got)
	}
	b.reopen()
	for client, want := range map[string]int{"ann": 5, "bob": 41, "eve": 26} {
		if got, _ := b.tr.book.Prepaid(client); got != credits(want) {
			t.Errorf("%s has %d, want %d", client, got, want)
		}
	}
}

// Two moves that wait for each other's money are each made once, as soon as there is any.
func TestMovesThatWaitForEachOther(t *testing.T) {
	b := newBank(t)
	for _, c := range []string{"ann", "bob"} {
		b.put(bus.OpDeposit, bus.FundsRequest{ID: "d-" + c, Client: c, Amount: 20})
		b.alive("h-" + c)
		b.put(bus.OpAllot, bus.FundsRequest{ID: "a-" + c, Client: c, Hub: "h-" + c, Domain: "of-h-" + c, Amount: 20,
			Least: 20})
	}
	b.put(bus.OpMove, bus.FundsRequest{ID: "m-ann", Client: "ann", To: "bob", Amount: 10})
	b.put(bus.OpMove, bus.FundsRequest{ID: "m-bob", Client: "bob", To: "ann", Amount: 10})
	b.put(bus.OpReturn, bus.FundsRequest{ID: bus.ReturnID("h-ann", 1), Client: "ann", Hub: "h-ann", Amount: 10})
	for _, id := range []string{"m-ann", "m-bob"} {
		if n := len(b.heard[id]); n != 1 || b.last(id) != "done" {
			t.Errorf("%s: %d answers, the last %q", id, n, b.last(id))
		}
	}
	moves := 0
	for _, f := range b.frames {
		for _, r := range f.Records {
			if r.Kind == ledger.KindMove {
				moves++
			}
		}
	}
	if moves != 2 {
		t.Errorf("%d moves were made", moves)
	}
}

func credits(n int) market.Credits { return market.Credits(n) }
