package hub_test

import (
	"testing"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// Whatever arrives, the Node does not panic, its book stays legal, and nothing is handed out without a hold
// (I17).
func FuzzStep(f *testing.F) {
	w := market.Credit
	h := &house{}
	d := bus.Dispatch{Boot: 1, Hold: "hub-math/1/0", Task: *h.task("ann", "t1"), CostCap: market.Credit,
		Price: card(1, 1, 4)}
	for i, m := range []bus.Message{
		h.task("ann", "t1"), h.task("ann", "t2", worth(w)),
		h.task("ann", "t1", func(m *bus.Task) { m.Prompt.Tokens = 1 << 23 }),
		completion("a-1", d, market.Usage{Prompt: 100, Cached: 3, Output: 7}),
		&bus.DispatchReply{Agent: "a-1", Boot: d.Boot, Hold: d.Hold},
		&bus.DispatchReply{Agent: "a-1", Boot: d.Boot, Hold: d.Hold, Code: bus.CodeNoSlot},
		&bus.Cancel{Client: "ann", Sender: "ann", Task: "t1"},
		&bus.Feedback{Client: "ann", Sender: "ann", Task: "t1", Quality: 0.5},
		&bus.Summary{Agent: "a-1", Boot: 1, Seq: 1, State: bus.StateReady, Slots: 2,
			Price: card(1, 1, 4)},
		&bus.FundsReply{ID: "hub-math-7-2",
			Grants: []bus.Grant{{Number: 1, Client: "ann", Hub: "hub-math", Amount: w}}},
	} {
		data, err := bus.Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(i), data)
	}
	f.Fuzz(func(t *testing.T, kind byte, data []byte) {
		h := newHouse(t, nil)
		h.join("a-1", "llama", 2, 0.9, card(1, 1, 4))
		h.must(h.step(h.task("ann", "t1")))
		messages := []bus.Message{new(bus.Task), new(bus.Completion), new(bus.DispatchReply), new(bus.Cancel),
			new(bus.Feedback), new(bus.Summary), new(bus.FundsReply), new(bus.Status)}
		m := messages[int(kind)%len(messages)]
		if err := bus.Decode(data, m); err != nil {
			// What the codec refuses may still be put to the Node by a careless caller.
			h.step(m)
			return
		}
		h.step(m)
		h.step(m)
		h.pass(time.Second)
		h.pass(time.Hour)
		if h.replica.OpenCount() != 0 {
			t.Errorf("%d holds are open after an hour", h.replica.OpenCount())
		}
		if seq, _, _ := h.replica.Last(); seq != uint64(len(h.frames)) {
			t.Errorf("frame %d of %d", seq, len(h.frames))
		}
		if got := h.replica.Balance(ledger.Fee); got != 0 {
			t.Errorf("a fee of %v where there is none", got)
		}
	})
}
