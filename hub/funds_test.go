package hub

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/market"
)

// The treasury answers while the hub's queue is full, and stays so for longer than the answer can wait: it is lost. The client has
// its money all the same, within seconds, and so has the hub's next start.
func TestAnAnswerThatFindsTheQueueFull(t *testing.T) {
	for _, lost := range []string{bus.OpAllot, bus.OpAllotted} {
		t.Run(lost, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tn := newTown(t)
				cfg := testConfig()
				cfg.Queue, cfg.Silence, cfg.Suspect = 4, time.Hour, time.Hour
				b := tn.world.Bus("hub")
				defer b.Close()
				s, err := NewServer(cfg, Deps{Bus: b, Registry: tn.world.Registry(), Journal: tn.journal("hub-math"), Log: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				if lost == bus.OpAllotted { // a grant that this hub does not know of stands before all others
					tn.grants = append(tn.grants, bus.Grant{ID: "g", Number: 1, Client: "ann", Hub: "hub-math", Amount: 1})
				}
				if err := s.node.Lead(time.Now(), 7); err != nil {
					t.Fatal(err)
				}
				if err := s.node.Join(time.Now(), registration("a-1", "llama", 4, 0.8, card(1, 1, 4))); err != nil {
					t.Fatal(err)
				}
				dropped, dispatched := 0, 0
				play := func(in input) {
					for range 20 {
						r, _ := s.turn(in, nil)
						in = input{}
						dispatched += len(r.Dispatches)
						for _, f := range r.Funds {
							if f.Op == lost && dropped == 0 {
								dropped++
								for len(s.in) < cap(s.in) {
									s.in <- input{at: time.Now(), again: true}
								}
								s.ask(f)
								for len(s.in) > 0 {
									<-s.in
								}
								continue
							}
							s.ask(f)
						}
						if len(r.Funds) == 0 {
							return
						}
					}
				}
				play(input{})
				begin, sent := time.Now(), 0
				for ; dispatched == 0 && time.Since(begin) < 30*time.Second; sent++ {
					play(input{at: time.Now(), m: (&house{}).task("ann", fmt.Sprint("t", sent))})
					for range 10 {
						time.Sleep(100 * time.Millisecond) // virtual
						play(input{})
					}
				}
				if dropped != 1 {
					t.Fatalf("%d answers were lost: the test proves nothing", dropped)
				}
				if took := time.Since(begin); dispatched == 0 || took > 10*time.Second {
					t.Errorf("after %v and %d tasks %d were dispatched", took, sent, dispatched)
				}
				if got := s.node.Book().Avail("ann"); got <= 0 || got > 1000*market.Credit {
					t.Errorf("ann has %v here", got)
				}
			})
		})
	}
}

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
	if want := 1000*market.Credit - h.replica.Balance("agent:a-1:payable"); h.prepaid["ann"]+h.replica.Avail("ann") != want {
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

// What is recalled comes back but for what tasks need, and the answer says so; a question alone moves nothing.
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
	if look.Avail != before || look.Reserved <= 0 || look.Held != h.replica.Held("ann") || look.Returned != 0 || look.Accepted != 1 {
		t.Errorf("%+v", look)
	}
	q.Look = false
	for range 2 { // also where it comes twice
		h.must(h.step(&q))
		if r := reply(); r.Avail != look.Reserved || r.Returned != 1 || h.replica.LastReturn("hub-math") != 1 {
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

// A treasury that says that money is on its way is asked again, and whoever waits is served, or hears in the end that there is none.
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
			h.must(h.step(&bus.FundsReply{ID: ask.Request.ID, Code: bus.CodeInsufficientFunds, Message: "hub x does not answer"}))
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
	if last := h.asked[len(h.asked)-1]; last.Op != bus.OpAllot || last.Request.Ahead || last.Request.ID == ask.Request.ID {
		t.Errorf("asked %+v, want what t3 needs", last)
	}
}

// A treasury that is away is asked by a bounded number of requests, however many wait.
func TestRequestsUnderWayAreBounded(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.MaxOpen, c.MaxWaiting = 1<<15, 1<<15 })
	h.join("a-1", "llama", 64, 0.8, card(1, 1, 4))
	h.silent = true
	for i := range 2000 {
		h.must(h.step(h.task(fmt.Sprint("c", i), "t", func(m *bus.Task) { m.DeadlineMS = h.now.Add(time.Minute).UnixMilli() })))
	}
	h.asked = nil
	for range 600 {
		h.pass(100 * time.Millisecond)
		if n := h.n.treasury.flying; n > maxAsking {
			t.Fatalf("%d requests are under way", n)
		}
	}
	if n := len(h.asked); n > maxAsking*60 {
		t.Errorf("%d requests in a minute", n)
	}
	if n := len(h.n.treasury.asks); n > maxAsking+1 {
		t.Errorf("%d requests are kept though nobody waits", n)
	}
}
