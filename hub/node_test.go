package hub

import (
	"testing"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

func TestATaskIsServedAndPaid(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 2, 0.8, card(1, 1, 4))
	h.must(h.step(h.task("ann", "t1")))
	if h.wake.IsZero() {
		t.Error("nothing is due although a dispatch may go unanswered")
	}
	d := h.take("ann", "t1")
	if d.SlotPrice != 0 || d.Premium != 0 || d.MaxTokens != 100 || d.Epoch != 7 ||
		d.Task.Reply != "souk.v1.reply.ann.t1" {
		t.Errorf("an uncontended dispatch: %+v", d)
	}
	h.want("inbox.ann.t1", "")
	h.accept(d)
	h.want("inbox.ann.t1", "accepted by a-1")

	c := completion("a-1", d, market.Usage{Prompt: 100, Output: 50})
	h.must(h.step(c))
	if got := h.ack(d.Hold); got != "ack " {
		t.Errorf("acknowledged %q", got)
	}
	if got, want := h.replica.Balance(ledger.Payable("a-1")), market.Credits(300_000); got != want {
		t.Errorf("the agent is due %v, want %v", got, want)
	}
	if h.replica.OpenCount() != 0 {
		t.Error("a hold is open")
	}

	// The same completion again, and the same request again.
	h.must(h.step(c))
	if got := h.ack(d.Hold); got != "ack " || h.replica.Balance(ledger.Payable("a-1")) != 300_000 {
		t.Errorf("a repeated completion: %s", got)
	}
	again := h.task("ann", "t1")
	again.Inbox = "again"
	h.must(h.step(again))
	h.want("again", "accepted by a-1") // the agent still has the chunks
	h.pass(time.Minute)
	h.must(h.step(again))
	h.want("again", "answer_gone")
	other := h.task("ann", "t1", func(m *bus.Task) { m.Body = []byte(`{"messages":[1]}`); m.Inbox = "other" })
	h.must(h.step(other))
	h.want("other", "id_conflict")
	h.pass(20 * time.Minute)
	if len(h.n.known) != 0 {
		t.Error("ids are remembered for ever")
	}
}

func TestSlotsGoToWhoeverGainsMost(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 1, card(1, 1, 1))
	credit := market.Credit
	h.must(h.step(h.task("ann", "first", worth(credit))))
	d := h.take("ann", "first")
	h.accept(d)
	for _, c := range []struct {
		id string
		w  market.Credits
	}{{"low", credit}, {"high", 3 * credit}, {"mid", 2 * credit}} {
		// each a client of its own: several tasks of one would be priced together
		h.prepaid[c.id] = 1000 * credit
		h.must(h.step(h.task(c.id, "t", worth(c.w))))
	}
	if got := h.running(); got != "" {
		t.Fatalf("no slot is free, yet %s runs", got)
	}
	h.pass(20 * time.Millisecond)
	h.must(h.step(completion("a-1", d, market.Usage{Prompt: 100, Output: 10})))
	if got := h.running(); got != "high/t>a-1" {
		t.Fatalf("running %s, want high/t", got)
	}
	high := h.take("high", "t")
	if high.SlotPrice <= credit || high.SlotPrice >= 2*credit {
		t.Errorf("slot price %v: it should be what mid would have gained, below 2 credits", high.SlotPrice)
	}
	h.serve(high, market.Usage{Prompt: 100, Output: 10})
	if got := h.running(); got != "mid/t>a-1" {
		t.Fatalf("running %s, want mid/t", got)
	}
	h.accept(h.take("mid", "t"))
	h.pass(2 * time.Minute)
	h.want("inbox.low.t", "outbid")
	if s := h.replica.Balance(ledger.Surplus); s < credit {
		t.Errorf("surplus %v: premiums are not in it", s)
	}
}

// The flat fee is part of every premium, is not surplus, and counts against a task that is hardly worth its
// cost.
func TestTheFee(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.Fee = 50_000 })
	h.join("a-1", "llama", 1, 1, card(1, 1, 1))
	h.must(h.step(h.task("ann", "t1", worth(market.Credit))))
	d := h.take("ann", "t1")
	if d.Premium != 50_000 || d.Fee != 50_000 || d.Toll != -50_000 || d.SlotPrice != 0 {
		t.Errorf("dispatch %+v", d)
	}
	h.serve(d, market.Usage{Prompt: 100, Output: 10})
	if fee, surplus := h.replica.Balance(ledger.Fee), h.replica.Balance(ledger.Surplus); fee != 50_000 ||
		surplus != 0 {
		t.Errorf("fee %v, surplus %v", fee, surplus)
	}
	h.must(h.step(h.task("ann", "t2", worth(200_000)))) // 0.00014 of value for 0.00014 of cost
	h.want("inbox.ann.t2", "not_worth_it")
}

// Under `quoted` both sides settle at the quote, whatever was used.
func TestQuotedSettlement(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.Settle = market.SettleQuoted })
	h.join("a-1", "llama", 1, 1, card(1, 1, 1))
	h.must(h.step(h.task("ann", "t1", worth(market.Credit))))
	d := h.take("ann", "t1")
	h.serve(d, market.Usage{Prompt: 100, Output: 99})
	if got := h.replica.Balance("agent:a-1:payable"); got != d.Quoted {
		t.Errorf("the agent is due %v, quoted was %v", got, d.Quoted)
	}
}

// A client's judgement of an answer is kept with the agent that gave it.
func TestFeedback(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 1, card(1, 1, 1))
	h.must(h.step(h.task("ann", "t1")))
	h.serve(h.take("ann", "t1"), market.Usage{Prompt: 100, Output: 9})
	h.must(h.step(&bus.Feedback{Client: "ann", Task: "t1", Quality: 0.25}))
	if h.step(&bus.Feedback{Client: "bob", Task: "t1", Quality: 1}) == nil {
		t.Error("bob judges ann's task")
	}
	if s := h.n.Stats(); len(s.Agents) != 1 || s.Agents[0].Judged != 1 || s.Agents[0].Quality != 0.25 {
		t.Errorf("stats %+v", s.Agents)
	}
}
