package hub

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/hub/policy"
	"souk/market"
)

// An agent that says of each answer that it reasoned, and of each text that it is to compute ahead that it
// had nothing of it, not even of the prompt that it was just paid for, is not paid like that again and
// again.
func TestAnAgentThatFarmsTextsAhead(t *testing.T) {
	paid := map[bool]market.Credits{}
	made := map[bool]int{}
	for _, lies := range []bool{false, true} {
		h := newHouse(t, func(c *Config) {
			c.Seats.Sessions, c.Seats.Touches, c.Seats.Spare = true, true, time.Hour
			c.Seed.Every, c.Policies = 0, policy.Params{Keep: "ahead"}
		})
		var due []Touch
		h.tell = func(r *Ready) { due = append(due, r.Touches...) }
		h.prepaid["probe-math"] = 100 * market.Credit
		reg := registration("a-0", "llama", 8, 0.9, card(10, 1, 40))
		reg.BlockSize, reg.KVTokens, reg.Features = 10, 80_000, []string{bus.Touches}
		h.must(h.n.Join(h.now, reg))
		h.run()
		for i := range 21 {
			id := fmt.Sprint("t", i)
			h.must(h.step(h.task("ann", id, func(m *bus.Task) { m.Session = id })))
			d := h.take("ann", id)
			h.accept(d)
			c := completion("a-0", d, market.Usage{Prompt: 1000, Output: 100})
			c.Thought = 60
			h.must(h.step(c))
			for range 3 {
				h.pass(1100 * time.Millisecond)
				h.must(h.step(&bus.Summary{Agent: "a-0", Boot: 1, Seq: uint64(h.now.UnixMilli()),
					State: bus.StateReady, Slots: 8, Price: card(10, 1, 40)}))
				for _, x := range due {
					made[lies]++
					c := &bus.Completion{Agent: "a-0", Boot: x.Dispatch.Boot, Hold: x.Dispatch.Hold,
						Client: x.Dispatch.Task.Client, Task: x.Dispatch.Task.ID, Outcome: bus.OutcomeDone,
						Usage:  market.Usage{Prompt: x.Dispatch.Tokens + 1, Cached: 1000, Output: 1},
						TTFTUS: 2000}
					if lies {
						c.Usage.Cached = 0
					}
					h.must(h.step(c))
				}
				due = nil
			}
		}
		h.pass(5 * time.Second)
		paid[lies], _, _ = h.paidFor()
		h.audited()
	}
	t.Logf("paid %s for %d texts ahead, a liar %s for %d", paid[false], made[false], paid[true], made[true])
	if paid[false] == 0 || paid[true] > 2*paid[false] {
		t.Errorf("a liar is paid %s for texts ahead, where %s are due", paid[true], paid[false])
	}
}

// What an owner's other agents ask is no measure of what one of them may ask.
func TestAnOwnersAgentsVouchForNone(t *testing.T) {
	h := newHouse(t, nil)
	for i, c := range []struct {
		owner string
		price market.Credits
	}{{"fair", 1}, {"dear", 50}, {"dear", 50}, {"dear", 50}, {"dear", 50}} {
		reg := registration(fmt.Sprint("a-", i), "llama", 8, 0.9, card(c.price, c.price, 4*c.price))
		reg.Owner = c.owner
		h.must(h.n.Join(h.now, reg))
		h.run()
	}
	for _, a := range h.n.roster {
		if fair := h.n.fair(a, 1000, 1); fair != (a.owner == "fair") {
			t.Errorf("%s of %s may have the hub's money: %v", a.id, a.owner, fair)
		}
	}
}
