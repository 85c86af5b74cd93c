package hub

import (
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/tip"
	"souk/market"
)

// A hub whose journal may be an older copy, or is, takes no completion and acknowledges none, of a hold that
// it has or of one that the newest alone may have: agents would forget what nobody has paid. Once the
// treasury has said that the journal is the newest, agents' repeats are taken.
func TestACopyThatLeadsAcknowledgesNothing(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 4, 0.9, market.Price{Miss: market.Credit, Hit: market.Credit, Out: market.Credit})
	h.must(h.step(h.task("ann", "t", worth(market.Credit))))
	d := h.take("ann", "t")
	h.accept(d)
	c := completion("a-1", d, market.Usage{Prompt: 100, Output: 10})
	newer := *c
	newer.Hold = "hub-math/999999/0"
	unfit := *c
	unfit.Usage.Output = -1
	refused := func(when string) {
		t.Helper()
		for _, m := range []bus.Completion{unfit, *c, newer} {
			if err := h.step(&m); err == nil || !strings.Contains(err.Error(), "is not taken: ") ||
				h.ack(m.Hold) != "none" {
				t.Errorf("%s, a completion of %s is answered %s, %v", when, m.Hold, h.ack(m.Hold), err)
			}
		}
	}
	h.n.Await(WasMoved)
	refused("before the treasury's word")
	h.n.marks.awaits, h.n.doubt = false, ""
	h.n.doubts("behind")
	refused("contradicted")
	h.n.doubt = ""
	h.must(h.step(c))
	h.run()
	if got := h.ack(d.Hold); got != "ack " {
		t.Errorf("once the journal is the newest: %s", got)
	}
}

// However long the treasury's word is waited for: what was served meanwhile is repeated after it, and paid.
func TestWhatWasServedWhileAHubWaitsIsPaid(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 4, 0.9, market.Price{Miss: market.Credit, Hit: market.Credit, Out: market.Credit})
	h.must(h.step(h.task("ann", "t", worth(market.Credit))))
	d := h.take("ann", "t")
	h.accept(d)
	h.silent = true
	h.n.Await(WasMoved)
	h.pass(time.Hour)
	h.n.hearWord(&bus.FundsReply{Mark: &tip.Mark{Journal: tip.Sum{9}, Seq: 3}})
	h.pass(7 * time.Second)
	h.must(h.step(completion("a-1", d, market.Usage{Prompt: 100, Output: 10})))
	h.run()
	if got := h.ack(d.Hold); got != "ack " {
		t.Errorf("it is answered %q", got)
	}
}

// Of a word that another has overtaken the treasury takes in no charges: they are told again.
func TestChargesAreToldAgain(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 4, 0.9, market.Price{Miss: market.Credit, Hit: market.Credit, Out: market.Credit})
	h.must(h.step(h.task("ann", "t", worth(market.Credit))))
	d := h.take("ann", "t")
	h.accept(d)
	h.must(h.step(completion("a-1", d, market.Usage{Prompt: 100, Output: 10})))
	h.run()
	id, charged := h.n.book.ID(), h.n.book.Charged("ann")
	last, _, _ := h.n.book.Last()
	if charged <= 0 || last < 2 {
		t.Fatalf("%d was charged, in %d frames", charged, last)
	}
	for _, c := range []struct {
		known uint64
		again bool
	}{{last - 1, false}, {last, true}} {
		h.n.marks.changed, h.n.treasury.missed = nil, nil
		clear(h.n.marks.among)
		h.n.out.Funds = nil
		a := &request{op: bus.OpAllotted, req: bus.FundsRequest{
			Mark:  &tip.Mark{Journal: id, Seq: last - 1},
			Spent: []tip.Spent{{Client: "ann", Amount: charged}}}}
		h.n.missed(a, &bus.FundsReply{Known: &tip.Mark{Journal: id, Seq: c.known, Sum: h.sum(c.known)},
			Here: h.sum(c.known), Mark: &tip.Mark{Journal: tip.Sum{9}, Seq: 3}})
		again := false
		for _, f := range h.n.out.Funds {
			s := f.Request.Spent
			again = again || f.Op == bus.OpAllotted && len(s) == 1 && s[0].Amount == charged
		}
		if again != c.again {
			t.Errorf("the treasury knows frame %d, and was told of frame %d: told again %v", c.known, last-1, again)
		}
	}
}
