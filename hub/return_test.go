package hub

import (
	"fmt"
	"slices"
	"testing"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// A hub has more clients than one frame or one answer holds, and stops while the treasury is away. It takes
// returns in their order, so one that it never heard of would strand the money of all that follow: at the
// next start each is told again, but for those that the treasury has.
func TestReturnsOfManyClients(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
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
			if len(again.treasury.returns) != 0 || !again.Idle() {
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

// A hub whose journal was moved gives nothing back when it is stopped before the treasury has spoken: what an
// older copy has may be spent.
func TestAnOlderCopyThatIsStoppedGivesNothingBack(t *testing.T) {
	h := newHouse(t, nil)
	h.must(h.n.commit(ledger.NewAccept("hub-math", 1, "ann", market.Credit, h.n.salt())))
	h.run()
	for _, moved := range []bool{true, false} {
		again, err := NewNode(testConfig(), [32]byte{2})
		h.must(err)
		for _, f := range h.frames {
			h.must(again.Replay(f))
		}
		if moved {
			again.Await(WasMoved)
		}
		h.n, h.asked, h.silent = again, nil, true
		h.must(again.Lead(h.now, 8))
		again.Drain(h.now)
		again.Retire(h.now)
		h.run()
		told := slices.ContainsFunc(h.asked, func(f Funds) bool { return f.Op == bus.OpReturn })
		if back := h.replica.Avail("ann") == 0; back == moved || told == moved {
			t.Errorf("moved %v: it gave back %v, and told the treasury %v", moved, back, told)
		}
	}
}
