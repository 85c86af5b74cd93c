package treasury

import (
	"fmt"
	"strings"
	"testing"

	"souk/bus"
	"souk/bus/tip"
	"souk/ledger"
	"souk/market"
)

// A hub is less trusted than the treasury: whatever it says that it distributed, no more comes out of it than
// went in, be it asked for a distribution or only what there is.
func TestALyingHubMakesNoMoney(t *testing.T) {
	for _, test := range []struct {
		name   string
		amount market.Credits // commanded; 0: a question
		lie    market.Credits
	}{
		{"a question", 0, 51}, {"a question, the most", 0, market.MaxCredits}, {"a command", 5, 51},
		{"an honest one", 50, 50},
	} {
		b := newBank(t)
		spread(b, 50, "h")
		b.put(bus.OpDeposit, bus.FundsRequest{ID: "d-moll", Client: "moll", Amount: 1})
		b.distribute(1, "moll", test.amount)
		b.says("h", 2, "moll", test.lie, 0)
		if got := b.tr.Book.Balance(ledger.Clearing("h")); got < 0 {
			t.Errorf("%s: %d more came out of the hub than went in", test.name, -got)
		}
		moll, _ := b.tr.Book.Prepaid("moll")
		if want := market.Credits(1); test.lie <= 50 && moll != want+test.lie || test.lie > 50 &&
			moll != want {
			t.Errorf("%s: moll has %d", test.name, moll)
		}
		// nor by its returns afterwards, of money that it has said left
		b.giveBack("h", 50)
		ann, _ := b.tr.Book.Prepaid("ann")
		moll, _ = b.tr.Book.Prepaid("moll")
		if ann+moll > 51 {
			t.Errorf("%s: ann has %d and moll %d of 51 that were deposited", test.name, ann, moll)
		}
		b.reopen()
	}
}

// Money that is being looked for at hubs does not go to a hub that has ended meanwhile, be it one that never
// had any: nobody would ever take it in.
func TestNothingIsGrantedToAHubThatEnded(t *testing.T) {
	b := newBank(t)
	spread(b, 50, "g")
	b.alive("k")
	b.put(bus.OpAllot, bus.FundsRequest{ID: "k-1-2", Client: "ann", Hub: "k", Domain: "of-k", Amount: 40,
		Least: 20})
	b.want("k-1-2", "")
	b.put(bus.OpClose, bus.FundsRequest{ID: "k-close", Hub: "k", Domain: "of-k"})
	if b.last("k-close") != "done" {
		return // it is to wait
	}
	b.giveBack("g", 50)
	b.answer("g", 0)
	b.pass(pendingFor)
	if got := b.tr.Book.LastGrant("k"); got != 0 {
		t.Errorf("%s of ann's money went to hub k, which has ended", b.tr.Book.Allotted("ann", "k"))
	}
}

// A hub that has made the next distribution by the time it answers for this one has made this one.
func TestAnAnswerThatComesAfterTheNextDistribution(t *testing.T) {
	b := newBank(t)
	spread(b, 50, "h")
	id := b.distribute(1, "ann", 3)
	late := b.asked[len(b.asked)-1].Ask
	b.put(bus.OpDistribute, bus.FundsRequest{ID: "look", Hub: "h"})
	look := b.asked[len(b.asked)-1].Ask
	b.distribute(1, "ann", 3)
	b.says("h", 2, "ann", 3, 40)
	b.want(id, "done")
	b.distribute(2, "", 4)
	b.says("h", 3, "", 4, 36)
	b.want(bus.DistributeID("h", 2), "done")
	for _, q := range []bus.Recall{late, look} {
		b.tr.Said(&bus.RecallReply{ID: q.ID, Hub: "h", Client: q.Client, Next: 3, There: 36,
			Last: &tip.Ordered{Kind: bus.OpDistribute, Number: 2, Amount: 4}})
		b.take()
	}
	if len(b.heard[id]) != 2 || b.last(id) != "done" {
		t.Errorf("%+v", b.heard[id])
	}
	if r := b.heard["look"]; len(r) != 1 || r[0].Code != "" || r[0].Number != 3 || r[0].Surplus != 36 {
		t.Errorf("%+v", r)
	}
}

// A treasury that has too many questions under way does not say of a hub which it never asked that it is
// silent.
func TestADistributionAmongTooManyQuestions(t *testing.T) {
	b := newBank(t)
	spread(b, 50, "h")
	for i := range maxLooks {
		b.put(bus.OpBalance, bus.FundsRequest{ID: fmt.Sprint("b-", i), Client: "ann", Hubs: true})
	}
	id := b.distribute(1, "ann", 5)
	b.want(id, "unavailable")
	if why := b.why(id); !strings.Contains(why, "256 questions to hubs wait") {
		t.Error(why)
	}
	b.pass(answerWithin)
	b.distribute(1, "ann", 5)
	b.says("h", 2, "ann", 5, 0)
	b.want(id, "done")
}
