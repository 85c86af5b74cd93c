package hub_test

import (
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/tip"
	"souk/hub/account"
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
	h.n.Money().Await(account.WasMoved, false)
	refused("before the treasury's word")
	h.n.Doubts("behind")
	refused("contradicted")
	h.n.Doubts("")
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
	h.n.Money().Await(account.WasMoved, false)
	h.pass(time.Hour)
	reply := h.treasury(h.pending[len(h.pending)-1])
	reply.Mark = &tip.Mark{Journal: tip.Sum{9}, Seq: 3, Sum: tip.Sum{1}}
	h.must(h.n.Step(h.now, reply))
	h.pass(7 * time.Second)
	h.must(h.step(completion("a-1", d, market.Usage{Prompt: 100, Output: 10})))
	h.run()
	if got := h.ack(d.Hold); got != "ack " {
		t.Errorf("it is answered %q", got)
	}
}
