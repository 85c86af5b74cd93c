package hub_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/tip"
	"souk/ledger"
	"souk/market"
)

// contest has ann outbid bob for one slot, which makes a surplus, and both be served.
func contest(h *house) {
	h.t.Helper()
	h.join("a-1", "llama", 1, 0.8, card(1, 1, 4))
	for client, c := range map[string]market.Credits{"ann": 9 * market.Credit, "bob": 5 * market.Credit} {
		h.must(h.n.Step(h.now, h.task(client, "t", worth(c))))
	}
	h.run()
	h.pass(h.n.Config().Batch.MaxWait)
	u := market.Usage{Prompt: 100, Output: 50}
	h.serve(h.take("ann", "t"), u)
	h.pass(h.n.Config().Batch.MaxWait)
	h.serve(h.take("bob", "t"), u)
	if h.n.Book().Balance(ledger.Surplus) <= 0 {
		h.t.Fatal("the contest left no surplus")
	}
}

// distribute puts the treasury's command to the hub and returns its answer, which follows the record.
func (h *house) distribute(n uint64, payee string, amount market.Credits) *bus.RecallReply {
	h.t.Helper()
	return h.order(&tip.Ordered{Kind: "distribute", Number: n, Amount: amount, Client: payee})
}

// order likewise puts any order.
func (h *house) order(o *tip.Ordered) *bus.RecallReply {
	h.t.Helper()
	h.messages = nil
	h.must(h.step(&bus.Recall{ID: "r", Hub: "hub-math", Client: "hub-math", Look: true, Order: o,
		Inbox: "inbox.bank"}))
	if len(h.messages) != 1 || h.messages[0].Subject != "inbox.bank" {
		h.t.Fatalf("said %+v", h.messages)
	}
	return h.messages[0].Body.(*bus.RecallReply)
}

// hasMoney reports whether a book has money of clients.
func hasMoney(b *ledger.Book) bool {
	return slices.ContainsFunc(b.Balances("client:*"), func(b ledger.Balance) bool { return b.Amount > 0 })
}

// Surplus leaves by its number, once; more than there is, or out of turn, does not leave.
func TestSurplusLeavesByCommand(t *testing.T) {
	h := newHouse(t, nil)
	contest(h)
	all := h.replica.Balance(ledger.Surplus)
	first := &tip.Ordered{Kind: "distribute", Number: 1, Client: "ann", Amount: 3}
	second := &tip.Ordered{Kind: "distribute", Number: 2, Amount: all - 3}
	for _, test := range []struct {
		n      uint64
		payee  string
		amount market.Credits
		want   bus.RecallReply
	}{
		{0, "", 0, bus.RecallReply{Next: 1, There: all}},
		{1, "", all + 1, bus.RecallReply{Next: 1, There: all, Why: "at least"}},
		{2, "", 1, bus.RecallReply{Next: 1, There: all}},
		{1, "ann", 3, bus.RecallReply{Next: 2, Last: first, There: all - 3}},
		{1, "ann", 3, bus.RecallReply{Next: 2, Last: first, There: all - 3}},
		{1, "bob", 4, bus.RecallReply{Next: 2, Last: first, There: all - 3}},
		{2, "", all - 3, bus.RecallReply{Next: 3, Last: second}},
		{0, "", 0, bus.RecallReply{Next: 3, Last: second}},
		{3, "", 1, bus.RecallReply{Next: 3, Last: second, Why: "at least"}},
	} {
		test.want.ID, test.want.Hub, test.want.Client = "r", "hub-math", "hub-math"
		got := h.distribute(test.n, test.payee, test.amount)
		if test.want.Why != "" && strings.Contains(got.Why, test.want.Why) {
			test.want.Why = got.Why
		}
		if !reflect.DeepEqual(*got, test.want) {
			t.Errorf("distribution %d of %d to %q: %+v, want %+v", test.n, test.amount, test.payee, got,
				test.want)
		}
	}
	if h.replica.Balance(ledger.Surplus) != 0 {
		t.Error("what was said to have left is here")
	}
	h.restart()
	h.must(h.n.Lead(h.now, 8))
	h.run()
	if got := h.distribute(2, "", all-3); got.Next != 3 || got.Last.Amount != all-3 {
		t.Errorf("after a start: %+v", got)
	}
	if len(h.faults) > 0 {
		t.Error(h.faults)
	}
}

// A hub that ends refuses tasks, settles what runs, gives back, waits until its surplus has left, its agents
// are paid and the treasury has ended it, and closes its journal, wherever it was stopped between.
func TestAHubClosesItsJournal(t *testing.T) {
	h := newHouse(t, nil)
	contest(h)
	h.must(h.step(h.task("ann", "long")))
	d := h.take("ann", "long")
	h.accept(d)
	waits := func(for_ string) {
		t.Helper()
		if got := h.n.Money().Waits(); !strings.Contains(got, for_) || h.n.Book().Closed("hub-math") {
			t.Fatalf("waits for %q, want %q; closed: %v", got, for_, h.n.Book().Closed("hub-math"))
		}
	}
	restart := func(epoch int64) {
		t.Helper()
		h.restart()
		h.taken = uint64(len(h.back))
		h.n.Close(h.now)
		h.must(h.n.Lead(h.now, epoch))
		h.run()
	}
	h.n.Close(h.now)
	h.pass(0)
	waits("1 holds are open")
	h.must(h.step(h.task("bob", "late")))
	h.want("inbox.bob.late", "draining")
	restart(8)
	waits("1 holds are open")
	if ask := h.asked[len(h.asked)-1]; ask.Op == bus.OpClose {
		t.Fatal("the treasury is asked to end a hub with open holds")
	}
	h.silent = true
	h.must(h.step(completion("a-1", d, market.Usage{Prompt: 100, Output: 50})))
	h.pass(0)
	waits("the treasury has not taken back")
	if len(h.replica.Balances("client:*:avail")) == 0 || hasMoney(h.n.Book()) {
		t.Error("money of clients is here")
	}
	h.silent = false
	restart(9)
	surplus := h.n.Book().Balance(ledger.Surplus)
	waits("a surplus of " + surplus.String() + " is left: souk distribute hub-math says how")
	h.distribute(1, "", surplus)
	h.pass(0)
	earned := h.n.Book().Balance(ledger.Payable("a-1"))
	waits("agents are due " + earned.String() + ", and a closed journal takes no remittance")
	restart(10)
	waits("agents are due " + earned.String())
	h.order(&tip.Ordered{Kind: "remit", Number: 2, Amount: earned, Order: &tip.Order{Agent: "a-1", Ref: "r"}})
	h.unended = true
	h.pass(0)
	waits("the treasury said bad_request: another number")
	restart(11)
	h.pass(0)
	waits("the treasury said bad_request: another number")
	h.unended = false
	h.pass(time.Second) // and it asks again
	if !h.n.Book().Closed("hub-math") || !h.replica.Closed("hub-math") {
		t.Fatalf("the journal is not closed; waits for %s", h.n.Money().Waits())
	}
	ask := h.asked[len(h.asked)-1]
	if q := ask.Request; ask.Op != bus.OpClose || q.ID != "hub-math-close" || q.Ordered != 2 ||
		q.After != h.replica.LastGrant("hub-math") || q.Returned != h.replica.LastReturn("hub-math") {
		t.Errorf("asked %+v", ask)
	}
	if h.prepaid["ann"]+h.prepaid["bob"]+surplus+earned+h.replica.Balance(ledger.Fee) != 2000*market.Credit {
		t.Errorf("money is missing: %v and %v", h.prepaid, h.replica.Balances("*"))
	}
	frames := len(h.frames)
	h.must(h.step(h.task("bob", "later")))
	h.want("inbox.bob.later", "draining")
	h.pass(bus.FundsEvery)
	if len(h.frames) != frames || len(h.faults) > 0 {
		t.Errorf("%d frames follow; faults %v", len(h.frames)-frames, h.faults)
	}
}

// A hub that the treasury counts as ended, though it was not told to end, says so once, by name and with what
// to do. It settles what runs, gives back what clients have, keeps its surplus on record, and closes its
// journal. So it goes for one that was stopped just before its journal was closed, too.
func TestAHubThatTheTreasuryEnded(t *testing.T) {
	h := newHouse(t, nil)
	contest(h)
	h.must(h.step(h.task("ann", "long")))
	d := h.take("ann", "long")
	h.accept(d)
	h.ended = true
	h.pass(bus.FundsEvery)
	h.must(h.step(h.task("bob", "late")))
	h.want("inbox.bob.late", "draining")
	if h.n.Book().Closed("hub-math") || !h.n.Money().Closing() {
		t.Fatal("it does not wait for what runs")
	}
	h.must(h.step(completion("a-1", d, market.Usage{Prompt: 100, Output: 50})))
	h.pass(0)
	h.pass(0)
	if !h.n.Book().Closed("hub-math") || !h.replica.Closed("hub-math") {
		t.Fatalf("the journal is not closed; it waits for %s", h.n.Money().Waits())
	}
	left := h.replica.Balance(ledger.Surplus)
	if left <= 0 || hasMoney(h.replica) || h.prepaid["ann"]+h.prepaid["bob"]+left+
		h.replica.Balance(ledger.Payable("a-1"))+h.replica.Balance(ledger.Fee) != 2000*market.Credit {
		t.Errorf("money is missing: %v and %v", h.prepaid, h.replica.Balances("*"))
	}
	if len(h.faults) != 1 || !strings.Contains(h.faults[0].Error(), "counts hub hub-math as ended") ||
		!strings.Contains(h.faults[0].Error(), "start a hub with a journal of another name") {
		t.Errorf("it says %v", h.faults)
	}

	h.restartFrom(h.frames[:len(h.frames)-1]) // all but the close
	h.faults, h.taken = nil, uint64(len(h.back))
	h.replica = ledger.NewBook()
	for _, f := range h.frames[:len(h.frames)-1] {
		h.must(h.replica.ApplyFrame(f))
	}
	h.must(h.n.Lead(h.now, 8))
	h.run()
	h.pass(0)
	if !h.n.Book().Closed("hub-math") || len(h.faults) != 1 {
		t.Errorf("after a start it is not closed and waits for %s; faults %v", h.n.Money().Waits(), h.faults)
	}
}
