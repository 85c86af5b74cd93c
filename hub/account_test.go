package hub

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// More clients than the hub keeps accounts for: it forgets those that are idle, and strands no money of them.
func TestManyIdleAccounts(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	h := newHouse(t, func(c *Config) { c.MaxWaiting = 1 << 15 })
	h.join("a-1", "llama", 4096, 0.8, card(1, 1, 4))
	const clients = idleAccounts + 200
	for i := range clients {
		c := fmt.Sprint("c", i)
		h.prepaid[c] = market.Credit
		h.must(h.step(h.task(c, "t")))
		h.serve(h.take(c, "t"), market.Usage{Prompt: 10, Output: 5})
	}
	h.pass(h.n.cfg.AccountIdle + time.Second)
	h.pass(time.Second)
	if n := len(h.n.accounts); n > idleAccounts {
		t.Errorf("%d accounts are kept", n)
	}
	for i := range clients {
		c := fmt.Sprint("c", i)
		if p := h.n.accounts[c]; p == nil && h.replica.Avail(c) != 0 {
			t.Fatalf("%s has %v here and no account", c, h.replica.Avail(c))
		}
	}
}

// A request ahead of need that finds nothing refuses nobody: for the task that needs it money is recalled.
func TestARefusalAheadOfNeedRefusesNobody(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 4, 0.8, card(1, 1, 4))
	h.must(h.step(h.task("ann", "t1")))
	h.silent = true
	p := h.n.account("ann")
	h.n.allot(p, p.largest, p.largest, 0)
	h.run()
	ask := h.asked[len(h.asked)-1]
	if !ask.Request.Ahead {
		t.Fatalf("asked %+v", ask)
	}
	h.must(h.step(h.task("ann", "t3", worth(8*market.Credit))))
	if h.n.known[taskKey{"ann", "t3"}].state != awaitingFunds {
		t.Fatal("t3 does not await funds: the test's money is wrong")
	}
	h.must(h.step(&bus.FundsReply{ID: ask.Request.ID, Code: bus.CodeInsufficientFunds}))
	h.want("inbox.ann.t3", "")
	if last := h.asked[len(h.asked)-1]; last.Op != bus.OpAllot || last.Request.Ahead ||
		last.Request.ID == ask.Request.ID {
		t.Errorf("asked %+v, want what t3 needs", last)
	}
}

// A treasury that is away is asked by a bounded number of requests, however many wait.
func TestRequestsUnderWayAreBounded(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.MaxWaiting = 1 << 15 })
	h.join("a-1", "llama", 64, 0.8, card(1, 1, 4))
	h.silent = true
	for i := range 2000 {
		h.must(h.step(h.task(fmt.Sprint("c", i), "t",
			func(m *bus.Task) { m.DeadlineMS = h.now.Add(time.Minute).UnixMilli() })))
	}
	h.asked = nil
	for range 600 {
		h.pass(100 * time.Millisecond)
		if n := h.n.treasury.flying; n > MaxRequests {
			t.Fatalf("%d requests are under way", n)
		}
	}
	if n := len(h.asked); n > MaxRequests*60 {
		t.Errorf("%d requests in a minute", n)
	}
	if n := len(h.n.treasury.requests); n > MaxRequests+1 {
		t.Errorf("%d requests are kept though nobody waits", n)
	}
}

// What has come since a hub asked to be ended does not get lost in its journal.
func TestAJournalWithMoneyIsNotClosed(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 0.8, card(1, 1, 4))
	h.silent = true
	h.n.Close(h.now)
	h.pass(0)
	var ask *Funds
	for i := range h.pending {
		if h.pending[i].Op == bus.OpClose {
			ask = &h.pending[i]
		}
	}
	if ask == nil {
		t.Fatalf("asked %+v; waits for %s", h.pending, h.n.Waits())
	}
	yes := h.treasury(*ask)
	grant := bus.Grant{Number: 1, Client: "ann", Hub: "hub-math", Amount: 5}
	h.n.accept([]bus.Grant{grant})
	h.run()
	h.must(h.step(yes))
	if h.n.Closed() && h.replica.Avail("ann") > 0 {
		t.Errorf("the journal is closed with %s of ann's in it", h.replica.Avail("ann"))
	}
}

// What a hub remembers of its own statuses is bounded, however long it speaks.
func TestStatusesThatAreRemembered(t *testing.T) {
	h := newHouse(t, nil)
	for range 100 {
		h.pass(time.Second)
	}
	if n := len(h.n.status.said); n > 16 || n == 0 {
		t.Errorf("%d statuses are remembered", n)
	}
}
