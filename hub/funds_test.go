package hub_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// What a client's other tasks hold comes back when they end: a task that only that keeps from being paid for
// may come again, and is told so.
func TestWhoseMoneyIsHeldMayComeAgain(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 4, 0.9, card(1, 1, 15_000))
	dear := func(c market.Credits) func(*bus.Task) {
		return func(m *bus.Task) { m.Terms.Worth, m.Terms.MaxPrice = &c, &c }
	}
	h.prepaid["cat"] = 3 * market.Credit
	h.must(h.step(h.task("cat", "first", dear(2*market.Credit))))
	d := h.take("cat", "first")
	h.accept(d)
	h.must(h.step(h.task("cat", "second", dear(2*market.Credit))))
	if r := h.told("cat.second"); r == nil || r.Code != bus.CodeAllotmentPending || r.RetryMS == 0 ||
		!strings.Contains(r.Message, "come again when these have ended") {
		t.Errorf("held money comes back: %+v", r)
	}
	h.serve(d, market.Usage{Prompt: 100, Output: 10})
	h.must(h.step(h.task("cat", "again", dear(2*market.Credit))))
	h.take("cat", "again")
}

// The last of a balance buys what it pays for: where a client has less than a task may cost, by the hub's own
// measure, by its worth or by its max_price, the hold is never more than there is. Who has too little for any
// agent is refused.
func TestTheLastOfABalanceIsSpent(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 4, 0.9, card(1, 1, 4))
	h.prepaid["cat"], h.prepaid["dog"], h.prepaid["eel"] = market.Credit/1000, market.Credit/1000, 5
	h.must(h.step(h.task("cat", "usual")))
	d := h.take("cat", "usual")
	h.accept(d)
	if held := h.n.Book().Held("cat"); held <= 0 || held > market.Credit/1000 {
		t.Errorf("%s are held of a thousandth", held)
	}
	h.prepaid["cat"] = market.Credit / 1000 // while the first has what there was
	h.must(h.step(h.task("cat", "beside")))
	beside := h.take("cat", "beside")
	h.serve(d, market.Usage{Prompt: 100, Output: 10})
	h.serve(beside, market.Usage{Prompt: 100, Output: 10})

	h.must(h.step(h.task("dog", "worth", func(m *bus.Task) { c := market.Credit; m.Terms.Worth = &c })))
	h.serve(h.take("dog", "worth"), market.Usage{Prompt: 100, Output: 10})
	h.must(h.step(h.task("dog", "most",
		func(m *bus.Task) { c := market.Credit / 100; m.Terms.MaxPrice = &c })))
	h.serve(h.take("dog", "most"), market.Usage{Prompt: 100, Output: 10})
	h.must(h.step(h.task("eel", "usual")))
	if r := h.told("eel.usual"); r == nil || r.Code != bus.CodeInsufficientFunds || r.RetryMS != 0 {
		t.Errorf("%+v", r)
	}
}

// So it is where a task could be paid for out of all that there is and not out of what is free: it is told to
// come again.
func TestWhoCouldPayWithAllMayComeAgain(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 4, 0.9, card(1, 1, 15_000)) // 1.5 credits in the worst case
	h.prepaid["cat"] = 5 * market.Credit / 4
	worth := func(m *bus.Task) { c := 10 * market.Credit; m.Terms.Worth = &c }
	h.must(h.step(h.task("cat", "first", worth)))
	d := h.take("cat", "first")
	h.accept(d)
	h.must(h.step(h.task("cat", "second", worth)))
	if r := h.told("cat.second"); r == nil || r.Code != bus.CodeAllotmentPending || r.RetryMS == 0 {
		t.Errorf("%+v", r)
	}
	h.serve(d, market.Usage{Prompt: 100, Output: 10})
	h.must(h.step(h.task("cat", "again", worth)))
	h.take("cat", "again")
}

// Whether a task of a client with little money is served for what is free, or is to come again once the
// others have ended, is said by what there is and by no bid: to bid more than the client has is no way past
// it. Nor is an answer cut for want of money that others of its client hold.
func TestNoBidSaysWhatTheLastOfABalanceBuys(t *testing.T) {
	for _, c := range []struct {
		running int
		want    string
	}{{0, "accepted by a-1"}, {1, "accepted by a-1"}, {2, string(bus.CodeAllotmentPending)}} {
		for _, bid := range []market.Credits{market.Credit / 80, market.Credit / 25, market.Credit,
			1000 * market.Credit} {
			h := newHouse(t, nil)
			h.join("a-1", "llama", 4, 0.9, card(1, 1, 4))
			h.prepaid["cat"] = market.Credit / 50 // of which two answers hold nearly all
			for i := range c.running {
				id := fmt.Sprint("running", i)
				h.must(h.step(h.task("cat", id)))
				h.accept(h.take("cat", id))
			}
			h.must(h.step(h.task("cat", "bids", worth(bid))))
			if len(h.dispatched) > 0 {
				h.accept(h.take("cat", "bids"))
			}
			if got := h.answerTo("inbox.cat.bids"); got != c.want {
				t.Errorf("beside %d, one that bids %s: %q, want %q", c.running, bid, got, c.want)
			}
		}
	}
}

// While the treasury is away, what its hub has of a client's money pays for what it covers.
func TestTheLastOfABalanceIsSpentWithoutTheTreasury(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 4, 0.9, card(1, 1, 4))
	h.prepaid["cat"] = market.Credit / 50
	h.must(h.step(h.task("cat", "first")))
	h.serve(h.take("cat", "first"), market.Usage{Prompt: 100, Output: 10})
	h.silent = true
	h.must(h.step(h.task("cat", "second")))
	h.must(h.step(h.task("cat", "third")))
	h.pass(h.n.Config().FundsWait)
	h.take("cat", "second")
	h.take("cat", "third")
	if held := h.n.Book().Held("cat"); held > market.Credit/50 {
		t.Errorf("%s are held", held)
	}
}

// Where a task goes to another agent, it may cost what it was said to cost, if there is so much by then.
func TestATaskThatMovesMayCostWhatItMight(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	h.prepaid["cat"] = market.Credit / 1000
	h.must(h.step(h.task("cat", "t")))
	d := h.take("cat", "t")
	h.accept(d)
	h.join("a-2", "llama", 1, 0.9, card(10, 10, 40))
	h.prepaid["cat"] += market.Credit
	c := completion("a-1", d, market.Usage{})
	c.Outcome, c.Code, c.Unsaid, c.Finish = bus.OutcomeFailed, bus.CodeEngineFailed, true, ""
	h.must(h.step(c))
	if moved := h.take("cat", "t"); moved.CostCap < market.Credit/100 {
		t.Errorf("on the second agent it may cost %s", moved.CostCap)
	}
}

// What was reserved for a task on the dearest agent is more than what is held for it on another. The rest is
// there for those of its client that wait for money: also while the treasury says nothing.
func TestWhatAHoldLeavesLetsOthersIn(t *testing.T) {
	h := newHouse(t, func(c *hub.Config) { c.Silence, c.Prewarm.Every = time.Hour, 0 })
	h.join("cheap", "llama", 4, 0.9, card(1, 1, 4))
	h.join("dear", "llama", 4, 0.9, card(100, 100, 400))
	h.prepaid["ann"] = market.Credit / 20
	h.must(h.step(h.task("ann", "t0", worth(market.Credit/20))))
	h.serve(h.take("ann", "t0"), market.Usage{Prompt: 100, Output: 10})
	h.silent = true
	h.must(h.n.Step(h.now, h.task("ann", "t1", worth(market.Credit/20-market.Credit/2000))))
	h.must(h.n.Step(h.now, h.task("ann", "t2", worth(market.Credit/100))))
	if st := h.n.Stats(); st.Open-st.Waiting-st.Holds != 1 || st.Waiting != 1 {
		t.Fatalf("%d tasks wait and %d await funds, want one of each", st.Waiting, st.Open-st.Waiting-st.Holds)
	}
	h.run()
	if got := h.running(); got != "ann/t1>cheap ann/t2>cheap" {
		t.Errorf("handed out: %q, with %s available", got, h.replica.Avail("ann"))
	}
	h.audited()
}

// Whatever is said of a task that is taken, it stays good terms when its client has less than it may cost and
// when agents ask for other prices: nobody is told after that that terms are bad.
func TestTermsStayGood(t *testing.T) {
	most, year, ms := market.MaxWorth, market.MaxPatience.Milliseconds(), int64(1)
	one, little, full := 1.0, 0.001, market.Credit/1000
	taken := 0
	for i, worth := range []*market.Credits{nil, &full, &most} {
		for j, delta := range []*float64{nil, &little, &one} {
			for k, patience := range []*int64{nil, &ms, &year} {
				for l, price := range []*market.Credits{nil, &full, &most} {
					h := newHouse(t, nil)
					h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
					h.must(h.step(h.task("ann", "t0", inNoHurry)))
					h.accept(h.take("ann", "t0"))
					h.prepaid["cat"] = full
					h.must(h.step(h.task("cat", "t1", func(m *bus.Task) {
						m.Terms = bus.Terms{Worth: worth, Delta: delta, PatienceMS: patience, MaxPrice: price}
					})))
					if !h.n.Knows("cat", "t1") {
						continue // no agent is worth its cost
					}
					h.join("a-2", "llama", 1, 0.9, card(1_000_000, 1, 1_000_000))
					h.pass(time.Second)
					if !h.n.Knows("cat", "t1") {
						continue
					}
					taken++
					if x := h.n.Terms("cat", "t1"); x.Validate() != nil || x.Cap() > full {
						t.Errorf("%d %d %d %d: %v: %v of %v", i, j, k, l, x.Validate(), x.Cap(), full)
					}
				}
			}
		}
	}
	if taken < 10 {
		t.Errorf("only %d tasks wait", taken)
	}
}

// A client whose money came too late for a task may ask it again, with a slot free: its money is there now.
func TestWhoseMoneyCameTooLateMayComeAgain(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 4, 0.9, card(1, 1, 4))
	hurried := func(m *bus.Task) { // worth nothing after some 300 ms
		m.Terms = bus.Terms{Worth: new(market.Credit), Delta: new(0.25), PatienceMS: new(int64(1000))}
	}
	h.prepaid["cat"], h.silent = 10*market.Credit, true
	h.must(h.step(h.task("cat", "late", hurried)))
	h.pass(400 * time.Millisecond)
	h.silent = false
	for _, f := range h.pending {
		h.must(h.step(h.treasury(f)))
	}
	h.pass(time.Millisecond)
	if r := h.told("cat.late"); r == nil || r.Code != bus.CodeNotWorthIt || r.RetryMS == 0 {
		t.Errorf("%+v", r)
	}
	h.must(h.step(h.task("cat", "again", hurried)))
	h.take("cat", "again")
}
