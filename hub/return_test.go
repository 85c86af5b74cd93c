package hub

import (
	"fmt"
	"strings"
	"testing"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// A hub has more clients than one frame or one answer holds, and stops while the treasury is away. It takes
// returns in their order, so one that it never heard of would strand the money of all that follow: at the
// next start each is told again, but for those that the treasury has.
func TestReturnsOfManyClients(t *testing.T) {
	const clients = 5000
	for _, taken := range []uint64{0, clients - 3} {
		t.Run(fmt.Sprint(taken, " of them were heard"), func(t *testing.T) {
			h := newHouse(t, nil)
			var accepts []ledger.Record
			for i := range uint64(clients) {
				accepts = append(accepts,
					ledger.NewAccept("hub-math", i+1, fmt.Sprint("c", i), market.Credit, h.n.salt()))
			}
			h.must(h.n.commit(accepts...))
			h.run()
			before := len(h.frames)
			h.silent = true
			h.n.Drain(h.now)
			h.n.Retire(h.now)
			h.run()
			if n := len(h.frames) - before; n < 2 || n > clients/100 {
				t.Errorf("%d returns in %d frames", clients, n)
			}
			if len(h.replica.Balances("client:*:avail")) != clients || h.replica.Avail("c0") != 0 ||
				h.replica.Avail(fmt.Sprint("c", clients-1)) != 0 {
				t.Error("money is left at the hub")
			}

			again, err := NewNode(testConfig(), [32]byte{2})
			h.must(err)
			for _, f := range h.frames {
				h.must(again.Replay(f))
			}
			h.n, h.asked, h.silent, h.taken = again, nil, false, taken
			h.must(again.Lead(h.now, 8))
			h.run()
			told := uint64(0)
			for _, f := range h.asked {
				if f.Op != bus.OpReturn {
					continue
				}
				if told++; f.Request.ID != bus.ReturnID("hub-math", taken+told) ||
					f.Request.Amount != market.Credit {
					t.Fatalf("told %+v, want return %d", f.Request, taken+told)
				}
			}
			if told != clients-taken {
				t.Errorf("%d returns are told again, want %d", told, clients-taken)
			}
			if len(again.treasury.returns) != 0 || !again.Quiet() {
				t.Errorf("%d returns are still to be told", len(again.treasury.returns))
			}
			h.asked = nil
			again.Depose(h.now)
			h.must(again.Lead(h.now, 9))
			h.run()
			if len(h.asked) != 1 || h.asked[0].Op != bus.OpAllotted {
				t.Errorf("at the next leadership the treasury is told %d things, want it asked one",
					len(h.asked))
			}
		})
	}
}

// The treasury is away when the hub comes to lead: it is told of returns once it is back, not at the next
// start.
func TestReturnsAndATreasuryThatIsAway(t *testing.T) {
	h := newHouse(t, nil)
	h.must(h.n.commit(ledger.NewAccept("hub-math", 1, "ann", market.Credit, h.n.salt())))
	h.silent = true
	h.n.Drain(h.now)
	h.n.Retire(h.now)
	h.run()
	h.n.Depose(h.now)
	h.must(h.n.Lead(h.now, 8))
	h.run()
	have := h.prepaid["ann"]
	ask := h.asked[len(h.asked)-1]
	if ask.Op != bus.OpAllotted {
		t.Fatalf("asked %+v", ask)
	}
	h.silent = false
	h.must(h.step(&bus.FundsReply{ID: ask.Request.ID, Code: bus.CodeUnavailable}))
	h.pass(askMissedAgain)
	if got := h.prepaid["ann"]; got != have+market.Credit {
		t.Errorf("ann has %v with the treasury, want %v", got, have+market.Credit)
	}
}

// An older copy of a journal lists money that has long gone back: its hub would let it be spent twice.
func TestAnOlderCopyOfAJournal(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 2, 0.8, card(1, 1, 4))
	h.must(h.step(h.task("ann", "t1")))
	d := h.take("ann", "t1")
	copied := len(h.frames)
	h.serve(d, market.Usage{Prompt: 100, Output: 50})
	h.n.Drain(h.now)
	h.n.Retire(h.now)
	h.run()
	if h.replica.LastReturn("hub-math") != 1 {
		t.Fatal("nothing was returned")
	}

	older, err := NewNode(testConfig(), [32]byte{2})
	h.must(err)
	h.replica = ledger.NewBook()
	for _, f := range h.frames[:copied] {
		h.must(older.Replay(f))
		h.must(h.replica.ApplyFrame(f))
	}
	h.n, h.taken = older, 1
	h.must(older.Lead(h.now, 8))
	h.run()
	if len(h.faults) != 1 {
		t.Fatalf("its operator is told %v", h.faults)
	}
	h.join("a-1", "llama", 2, 0.8, card(1, 1, 4))
	h.must(h.step(h.task("ann", "t2")))
	h.want("inbox.ann.t2", "unavailable")
	h.pass(h.n.cfg.StatusEvery)
	if h.running() != "" || h.status.Room != 0 {
		t.Errorf("running %q, room for %d", h.running(), h.status.Room)
	}
	h.must(h.step(completion("a-1", d, market.Usage{Prompt: 100, Output: 50})))
	if h.replica.Ended(d.Hold) != ledger.KindCapture {
		t.Error("what runs is not settled")
	}
	if len(h.faults) != 1 {
		t.Errorf("faults %v", h.faults)
	}
}

// What the treasury has against a hub is said to its operator, once.
func TestATreasuryThatDoesNotSay(t *testing.T) {
	h := newHouse(t, nil)
	h.silent = true
	h.n.Depose(h.now)
	h.must(h.n.Lead(h.now, 8))
	h.run()
	for range 5 {
		ask := h.asked[len(h.asked)-1]
		if ask.Op != bus.OpAllotted {
			t.Fatalf("asked %+v", ask)
		}
		h.must(h.step(&bus.FundsReply{ID: ask.Request.ID, Code: bus.CodeBadRequest,
			Message: "not of one market"}))
		h.pass(askMissedAgain)
	}
	if len(h.faults) != 1 || !strings.Contains(h.faults[0].Error(), "not of one market") {
		t.Errorf("faults %v", h.faults)
	}
}
