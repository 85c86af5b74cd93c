package hub_test

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// A task that comes again before any agent has joined the restarted hub waits, once its agent refuses it, for
// what is free of its client's money, as any other does; and what it is told of money is true.
func TestWhoComesAgainEarlyMayBeLowered(t *testing.T) {
	for _, silent := range []bool{false, true} {
		h := newHouse(t, func(c *hub.Config) { c.Prewarm.Every = 0 })
		h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
		h.prepaid["cat"] = market.Credit / 50
		m := *h.task("cat", "t")
		h.must(h.step(h.task("cat", "t")))
		d := h.take("cat", "t")
		h.prepaid["cat"] = 0 // the hub has all that there is
		h.restart()
		h.must(h.n.Lead(h.now, 8))
		h.run()
		m.Inbox += ".again"
		h.must(h.step(&m)) // before the hub has claimed its agent
		h.silent = true
		h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
		// another of cat's, which waits for more money than is free
		total := h.n.Book().Held("cat") + h.n.Book().Avail("cat")
		h.must(h.step(h.task("cat", "other", worth(total-total/8))))
		h.refuse(d, bus.CodeLate)
		if r := h.n.Money().Reserved("cat"); r != total-total/8 {
			t.Fatalf("%s are reserved", r)
		}
		if h.silent = silent; !silent {
			for _, f := range h.pending {
				_ = h.step(h.treasury(f))
			}
		}
		h.pass(h.n.Config().FundsWait)
		for _, l := range h.messages {
			if a, ok := l.Body.(*bus.Answer); ok && l.Subject == m.Inbox && a.Result != nil {
				t.Errorf("silent %v: %s: %s", silent, a.Result.Code, a.Result.Message)
			}
		}
	}
}

// A client whose money pays for prewarming has a task of the very id that the hub names its own by.
func TestTheHubsOwnTaskTakesNoOthersPlace(t *testing.T) {
	h := newHouse(t, func(c *hub.Config) { c.Fee = 10 })
	h.prepaid["probe-math"] = 10 * market.Credit
	price := card(100, 10, 100)
	h.join("a-1", "llama", 4, 0.8, price)
	dialogue := func(i int) *bus.Task {
		return h.task("ann", fmt.Sprint("t", i), worth(market.Credit), func(m *bus.Task) {
			m.Salt = "of-ann"
			m.Prompt = bus.Prompt{Bytes: 6400, Messages: 2, Tokens: 1600,
				Prefixes: []bus.PrefixHash{{Bytes: 6000, Hash: 1}, {Bytes: 6400, Hash: uint64(100 + i)}}}
		})
	}
	for i := range 6 {
		h.must(h.step(dialogue(i)))
		h.serve(h.take("ann", fmt.Sprint("t", i)),
			market.Usage{Prompt: 1600, Cached: min(1, i) * 1504, Output: 20})
		h.pass(100 * time.Millisecond)
	}
	h.join("a-2", "llama", 4, 0.8, price)
	h.dispatched, h.silent = nil, true
	h.must(h.step(h.task("probe-math", "prewarm-7-0", worth(market.Credit))))
	h.must(h.step(dialogue(6)))
	h.silent = false // its money comes
	for _, f := range h.pending {
		_ = h.step(h.treasury(f))
	}
	for _, d := range h.dispatched {
		h.serve(d, market.Usage{Prompt: 1600, Output: 1})
	}
	for range 100 {
		h.pass(time.Second)
	}
	if s := h.n.Stats(); s.Waiting+s.Open+s.Holds > 0 || h.n.Money().Reserved("probe-math") > 0 {
		t.Errorf("%d wait, %d are open with %d holds, %s are reserved", s.Waiting, s.Open, s.Holds, h.n.Money().Reserved("probe-math"))
	}
	if h.answerTo("inbox.probe-math.prewarm-7-0") == "" {
		t.Error("its client is told nothing")
	}
}

// The rest of an answer, which a hub that was started again takes up, goes to no agent that has failed the
// task, though its new agent refuses it: its reader would not take it from there, and would pay for it.
func TestARestThatIsTakenUpDoesNotGoBack(t *testing.T) {
	h := newHouse(t, nil)
	join := func() {
		h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
		h.join("a-2", "llama", 1, 0.5, card(1, 1, 4))
	}
	join()
	h.must(h.step(h.task("ann", "t1")))
	d := h.take("ann", "t1")
	h.accept(d)
	failed := completion(h.agentOf(d), d, market.Usage{})
	failed.Outcome, failed.Code, failed.Relayed = bus.OutcomeFailed, bus.CodeEngineFailed, 40
	h.must(h.step(failed))
	again := func(inbox string) {
		h.must(h.step(h.task("ann", "t1", func(m *bus.Task) {
			m.Attempt, m.Inbox = 1, inbox
			m.Resume = &bus.Resume{Agent: failed.Agent, Seq: 40, Tokens: make([]uint32, 40), Text: "so far"}
		})))
	}
	again("rest")
	rest := h.take("ann", "t1")
	if at := h.agentOf(rest); at != "a-2" || failed.Agent != "a-1" {
		t.Fatalf("%s failed, and the rest is at %s", failed.Agent, at)
	}
	h.restart()
	h.must(h.n.Lead(h.now, 8))
	h.run()
	join()
	again("once more")
	h.refuse(rest, bus.CodeLate)
	h.pass(time.Second)
	for _, d := range h.dispatched {
		if at := h.agentOf(d); at != "a-2" {
			t.Errorf("%s, which failed it, has the rest", at)
		}
	}
	h.audited()
}
