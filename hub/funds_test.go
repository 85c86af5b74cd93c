package hub

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// A client that is idle keeps low water here, one that was before the start nothing; a busy one keeps all.
func TestIdlePursesGiveBack(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 4, 0.8, card(1, 1, 4))
	for _, c := range []string{"ann", "bob"} {
		h.must(h.step(h.task(c, "t1")))
	}
	h.serve(h.take("ann", "t1"), market.Usage{Prompt: 100, Output: 50})
	h.accept(h.take("bob", "t1"))
	ann, bob := h.replica.Avail("ann"), h.replica.Avail("bob")
	h.pass(h.n.cfg.PurseIdle - time.Second)
	if h.replica.Avail("ann") != ann {
		t.Fatal("a pause of a dialogue costs its allotment")
	}
	h.pass(2 * time.Second)
	low := times(h.n.purses["ann"].largest, lowWaterHolds)
	if got := h.replica.Avail("ann"); got != min(ann, low) || got == ann {
		t.Errorf("ann has %v of %v here, want %v", got, ann, low)
	}
	if got := h.replica.Avail("bob"); got != bob {
		t.Errorf("bob, who has a task, has %v of %v", got, bob)
	}
	again, err := NewNode(testConfig(), [32]byte{2})
	h.must(err)
	for _, f := range h.frames {
		h.must(again.Replay(f))
	}
	h.taken = h.replica.LastReturn("hub-math")
	h.n = again
	h.must(h.n.Lead(h.now, 8))
	h.run()
	h.pass(h.n.cfg.PurseIdle)
	if got := h.replica.Avail("ann"); got != 0 {
		t.Errorf("after the start ann has %v here", got)
	}
	if want := 1000*market.Credit - h.replica.Balance("agent:a-1:payable"); h.prepaid["ann"]+
		h.replica.Avail("ann") != want {
		t.Errorf("ann has %v with the treasury, want %v", h.prepaid["ann"], want)
	}
}

// More clients than the hub keeps purses for: it forgets those that are idle, and strands no money of them.
func TestManyIdlePurses(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.MaxOpen, c.MaxWaiting = 1<<15, 1<<15 })
	h.join("a-1", "llama", 4096, 0.8, card(1, 1, 4))
	const clients = idlePurses + 200
	for i := range clients {
		c := fmt.Sprint("c", i)
		h.prepaid[c] = market.Credit
		h.must(h.step(h.task(c, "t")))
		h.serve(h.take(c, "t"), market.Usage{Prompt: 10, Output: 5})
	}
	h.pass(h.n.cfg.PurseIdle + time.Second)
	h.pass(time.Second)
	if n := len(h.n.purses); n > idlePurses {
		t.Errorf("%d purses are kept", n)
	}
	for i := range clients {
		c := fmt.Sprint("c", i)
		if p := h.n.purses[c]; p == nil && h.replica.Avail(c) != 0 {
			t.Fatalf("%s has %v here and no purse", c, h.replica.Avail(c))
		}
	}
}

// What is recalled comes back but for what tasks need, and the answer says so; a question alone moves
// nothing.
func TestARecall(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 0.8, card(1, 1, 4))
	h.must(h.step(h.task("ann", "t1")))
	h.accept(h.take("ann", "t1"))
	h.must(h.step(h.task("ann", "t2"))) // waits for the slot
	reply := func() *bus.RecallReply {
		r, ok := h.letters[len(h.letters)-1].Message.(*bus.RecallReply)
		if !ok || h.letters[len(h.letters)-1].Subject != "treasury" {
			t.Fatalf("no answer but %+v", h.letters[len(h.letters)-1])
		}
		return r
	}
	q := bus.Recall{ID: "1", Hub: "hub-math", Client: "ann", Granted: 1, Look: true, Inbox: "treasury"}
	before := h.replica.Avail("ann")
	h.must(h.step(&q))
	look := reply()
	if look.Avail != before || look.Reserved <= 0 || look.Held != h.replica.Held("ann") ||
		look.Returned != 0 || look.Accepted != 1 {
		t.Errorf("%+v", look)
	}
	q.Look = false
	for range 2 { // also where it comes twice
		h.must(h.step(&q))
		if r := reply(); r.Avail != look.Reserved || r.Returned != 1 ||
			h.replica.LastReturn("hub-math") != 1 {
			t.Errorf("%+v", r)
		}
	}
	n := len(h.asked)
	h.must(h.step(&bus.Recall{ID: "2", Hub: "hub-math", Client: "ann", Granted: 9, Inbox: "treasury"}))
	if r := reply(); r.Accepted != 1 || h.asked[n].Op != bus.OpAllotted {
		t.Errorf("a grant that it misses: %+v, asked %+v", r, h.asked[n:])
	}
	h.must(h.step(&bus.Recall{ID: "3", Hub: "hub-math", Client: "nobody", Inbox: "treasury"}))
	if r := reply(); r.Avail != 0 || r.Client != "nobody" {
		t.Errorf("%+v", r)
	}
	if err := h.step(&bus.Recall{ID: "4", Hub: "hub-other", Client: "ann", Inbox: "treasury"}); err == nil {
		t.Error("it answers for another")
	}
}

// A treasury that says that money is on its way is asked again, and whoever waits is served, or hears in the
// end that there is none.
func TestATaskWaitsForWhatIsRecalled(t *testing.T) {
	for _, comes := range []bool{true, false} {
		h := newHouse(t, func(c *Config) { c.Silence = time.Hour }) // its agent says nothing of itself
		h.join("a-1", "llama", 1, 0.8, card(1, 1, 4))
		h.silent = true
		h.must(h.step(h.task("ann", "t1")))
		ask := h.asked[len(h.asked)-1]
		for range 40 { // ten seconds: longer than it would wait for a treasury that says nothing
			h.must(h.step(&bus.FundsReply{ID: ask.Request.ID, Code: bus.CodeAllotmentPending, RetryMS: 250}))
			n := len(h.asked)
			h.pass(250 * time.Millisecond)
			var again []Funds
			for _, f := range h.asked[n:] {
				if f.Op == bus.OpAllot {
					again = append(again, f)
				}
			}
			if len(again) != 1 || again[0].Request.ID != ask.Request.ID {
				t.Fatalf("asked again %+v", again)
			}
		}
		h.want("inbox.ann.t1", "")
		if comes {
			h.must(h.step(h.treasury(ask)))
			if h.running() != "ann/t1>a-1" {
				t.Errorf("running %q", h.running())
			}
		} else {
			h.must(h.step(&bus.FundsReply{ID: ask.Request.ID, Code: bus.CodeInsufficientFunds,
				Message: "hub x does not answer"}))
			h.want("inbox.ann.t1", "insufficient_funds")
		}
	}
}

// A request ahead of need that finds nothing refuses nobody: for the task that needs it money is recalled.
func TestARefusalAheadOfNeedRefusesNobody(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 4, 0.8, card(1, 1, 4))
	h.must(h.step(h.task("ann", "t1")))
	h.silent = true
	p := h.n.purse("ann")
	h.n.request(p, p.largest, p.largest, true)
	h.run()
	ask := h.asked[len(h.asked)-1]
	if !ask.Request.Ahead {
		t.Fatalf("asked %+v", ask)
	}
	h.must(h.step(h.task("ann", "t3", worth(8*market.Credit))))
	if h.n.known[taskKey{"ann", "t3"}].state != parked {
		t.Fatal("t3 is not parked: the test's money is wrong")
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
	h := newHouse(t, func(c *Config) { c.MaxOpen, c.MaxWaiting = 1<<15, 1<<15 })
	h.join("a-1", "llama", 64, 0.8, card(1, 1, 4))
	h.silent = true
	for i := range 2000 {
		h.must(h.step(h.task(fmt.Sprint("c", i), "t",
			func(m *bus.Task) { m.DeadlineMS = h.now.Add(time.Minute).UnixMilli() })))
	}
	h.asked = nil
	for range 600 {
		h.pass(100 * time.Millisecond)
		if n := h.n.treasury.flying; n > MaxAsking {
			t.Fatalf("%d requests are under way", n)
		}
	}
	if n := len(h.asked); n > MaxAsking*60 {
		t.Errorf("%d requests in a minute", n)
	}
	if n := len(h.n.treasury.asks); n > MaxAsking+1 {
		t.Errorf("%d requests are kept though nobody waits", n)
	}
}
