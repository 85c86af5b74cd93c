package hub_test

import (
	"fmt"
	"slices"
	"testing"

	"souk/bus"
	"souk/hub"
	"souk/hub/account"
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
			h := newHouse(t, nil, func(h *house) {
				for i := range uint64(clients) {
					h.grants = append(h.grants, bus.Grant{Number: i + 1, Client: fmt.Sprint("c", i),
						Hub: "hub-math", Amount: market.Credit})
				}
			})
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

			h.restart()
			again := h.n
			h.asked, h.silent, h.taken = nil, false, taken
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
			if !again.Idle() {
				t.Error("returns are still to be told")
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
	h := newHouse(t, nil, func(h *house) {
		h.grants = []bus.Grant{{Number: 1, Client: "ann", Hub: "hub-math", Amount: market.Credit}}
	})
	for _, moved := range []bool{true, false} {
		h.restart()
		again := h.n
		if moved {
			again.Money().Await(account.WasMoved, false)
		}
		h.asked, h.silent = nil, true
		h.must(again.Lead(h.now, 8))
		again.Drain(h.now)
		again.Retire(h.now)
		h.run()
		told := slices.ContainsFunc(h.asked, func(f hub.Funds) bool { return f.Op == bus.OpReturn })
		if back := h.replica.Avail("ann") == 0; back == moved || told == moved {
			t.Errorf("moved %v: it gave back %v, and told the treasury %v", moved, back, told)
		}
	}
}
