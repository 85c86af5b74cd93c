package treasury

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"souk/bus"
)

// A payout that names a hub, by mistake or to have that one left alone, is a payout: hubs give back what it
// needs, all of them.
func TestAPayoutThatNamesAHub(t *testing.T) {
	b := newBank(t)
	spread(b, 100, "h-1", "h-2")
	b.put(bus.OpPayout, bus.FundsRequest{ID: "p", Client: "ann", Hub: "h-1", Least: 1, Amount: 150})
	if got := b.last("p"); got != "" {
		t.Fatalf("answered %q: hubs have what it needs", got)
	}
	if len(b.asked) != 2 {
		t.Fatalf("%d hubs are asked: %+v", len(b.asked), b.asked)
	}
	for _, hub := range []string{"h-1", "h-2"} {
		b.giveBack(hub, 100)
		b.answer(hub, 0)
	}
	b.want("p", "done")
	if left, _ := b.tr.Book.Prepaid("ann"); left != 50 {
		t.Errorf("%d are left, want 50", left)
	}
}

// Two payouts under one id are one, whichever amount they name and however long hubs take.
func TestAPayoutAskedForAgainWithAnotherAmount(t *testing.T) {
	b := newBank(t)
	spread(b, 100, "h-1", "h-2")
	b.put(bus.OpPayout, bus.FundsRequest{ID: "p", Client: "ann", Amount: 150})
	b.put(bus.OpPayout, bus.FundsRequest{ID: "p", Client: "ann", Amount: 120})
	for _, hub := range []string{"h-1", "h-2"} {
		b.giveBack(hub, 100)
		b.answer(hub, 0)
	}
	b.pass(10 * time.Second)
	if left, _ := b.tr.Book.Prepaid("ann"); left != 200-150 && left != 200-120 {
		t.Errorf("%d are left: paid twice, or not at all", left)
	}
	b.put(bus.OpPayout, bus.FundsRequest{ID: "p", Client: "ann", Amount: 33})
	if got := b.last("p"); got != "id_conflict" {
		t.Errorf("a third of another amount: %q", got)
	}
}

// A payout that waits for hubs is asked for again under its id, with another amount: nobody is told that it
// was made who asked for another, and who asked first has an answer.
func TestAPayoutOfAnotherAmountWhileOneWaits(t *testing.T) {
	for _, told := range []bool{false, true} { // to come back, before the hub has said what it needs
		b := newBank(t)
		spread(b, 100, "h-1")
		b.put(bus.OpPayout, bus.FundsRequest{ID: "p", Client: "ann", Amount: 60})
		if told {
			b.pass(answerWithin)
			b.want("p", "allotment_pending")
			b.answer("h-1", 90)
			b.giveBack("h-1", 70)
		}
		delete(b.heard, "p")
		b.put(bus.OpPayout, bus.FundsRequest{ID: "p", Client: "ann", Amount: 80})
		if got := b.last("p"); got != "id_conflict" {
			left, _ := b.tr.Book.Prepaid("ann")
			t.Errorf("told to come back: %v: 80 where 60 were asked for: %q, and %d are left", told, got,
				left)
		}
		if !told {
			b.giveBack("h-1", 100)
		} else {
			b.put(bus.OpPayout, bus.FundsRequest{ID: "p", Client: "ann", Amount: 60})
		}
		b.want("p", "done")
	}
}

// Whoever asks for balances of many clients, for money that is not there and for names of hubs that never
// were, leaves nothing behind.
func TestAFloodLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	b := newBank(t)
	spread(b, 100, "h-1")
	for i := range maxClients + 76 {
		c := fmt.Sprint("c-", i)
		b.put(bus.OpDeposit, bus.FundsRequest{ID: "d-" + c, Client: c, Amount: 10})
		b.put(bus.OpAllot, bus.FundsRequest{ID: "a-" + c, Client: c, Hub: "h-1", Domain: "of-h-1", Amount: 10,
			Least: 10})
		b.put(bus.OpPayout, bus.FundsRequest{ID: "p-" + c, Client: c, Amount: 10})
		b.put(bus.OpBalance, bus.FundsRequest{ID: "b-" + c, Client: c, Hubs: true})
		b.put(bus.OpAllot, bus.FundsRequest{ID: "x-" + c, Client: c, Hub: "ghost-" + c, Domain: "nowhere",
			Amount: 10, Least: 10})
		b.put(bus.OpReturn, bus.FundsRequest{ID: bus.ReturnID("h-1", uint64(2+i)), Client: c, Hub: "h-1",
			Domain: "of-h-1", Amount: 10})
		if len(b.tr.waitlists) > maxClients || len(b.tr.looks) > maxLooks ||
			len(b.tr.polls) > maxClients+maxLooks ||
			len(b.tr.heard) > 2*b.tr.cfg.MaxHubs || len(b.tr.early["h-1"]) > maxEarly {
			t.Fatalf("after %d: %d pending, %d looks, %d polls, %d hubs, %d early", i, len(b.tr.waitlists),
				len(b.tr.looks), len(b.tr.polls), len(b.tr.heard), len(b.tr.early["h-1"]))
		}
	}
	b.pass(time.Minute)
	n := len(b.tr.waitlists) + len(b.tr.looks) + len(b.tr.polls)
	if n > 0 || len(b.tr.early["h-1"]) > maxEarly {
		t.Errorf("%d pending, %d looks, %d polls, %d early returns are left", len(b.tr.waitlists),
			len(b.tr.looks), len(b.tr.polls), len(b.tr.early["h-1"]))
	}
}

// A move to nobody, or to whom the money is already, is refused in words that name the field.
func TestAMoveToNobody(t *testing.T) {
	b := newBank(t)
	b.put(bus.OpDeposit, bus.FundsRequest{ID: "d", Client: "ann", Amount: 100})
	for to, says := range map[string]string{"": "to: ", "ann": "to: ann has the money already"} {
		id := "m-" + to
		b.put(bus.OpMove, bus.FundsRequest{ID: id, Client: "ann", To: to, Amount: 10})
		if r := b.heard[id][0]; r.Code != bus.CodeBadRequest || !strings.HasPrefix(r.Message, says) {
			t.Errorf("%q: %s: %s", to, r.Code, r.Message)
		}
	}
}
