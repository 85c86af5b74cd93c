package hub_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// vouchedBy gives a task a door's voucher.
func vouchedBy(door, journal string, line uint64, total, most market.Credits) func(*bus.Task) {
	return func(m *bus.Task) {
		m.Door = door
		key := make([]byte, bus.VouchKeyBytes)
		m.Voucher = bus.NewVoucher(key, door, m.Client, journal, line, total, most)
	}
}

// What a door vouches for bounds what a task is charged that says nothing of its price, and moves no other.
func TestAVoucherBoundsWhatATaskCosts(t *testing.T) {
	h := newHouse(t, nil)
	h.prepaid["ann"] = 100 * market.Credit
	h.join("a-1", "llama", 8, 0.8, card(100, 10, 100))
	usual := market.Credits(0)
	for i, c := range []struct {
		most market.Credits
		task []func(*bus.Task)
		cap  func() market.Credits
	}{
		{0, nil, func() market.Credits { return usual }},
		{market.Credit / 50, nil, func() market.Credits { return market.Credit / 50 }},
		{1000 * market.Credit, nil, func() market.Credits { return 1000 * market.Credit }},
		{2 * market.Credit, []func(*bus.Task){worth(2 * market.Credit)},
			func() market.Credits { return 2 * market.Credit }},
	} {
		m := h.task("ann", fmt.Sprint("t", i), append(c.task,
			vouchedBy("d1", h.n.Config().Journal, 1, 1000*market.Credit, c.most))...)
		m.Terms.Worth = nil
		for _, f := range c.task {
			f(m)
		}
		h.must(h.step(m))
		terms := h.n.Terms("ann", m.ID)
		if i == 0 {
			usual = terms.Cap()
		}
		if got := terms.Cap(); got != c.cap() || usual == 0 {
			t.Errorf("vouched for with %s it may cost %s, want %s", c.most, got, c.cap())
		}
	}
	for _, d := range h.dispatched {
		if d.Task.Voucher != nil {
			t.Errorf("agent %s hears a voucher", d.Hold)
		}
		if d.CostCap > 1000*market.Credit {
			t.Errorf("%+v", d)
		}
	}
}

// Where the treasury gives nothing as no door vouched, the task's client is told why.
func TestATaskThatNobodyVouchedFor(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 8, 0.8, card(100, 10, 100))
	h.silent = true
	h.must(h.step(h.task("ann", "t1", worth(market.Credit))))
	for range 3 {
		if last := len(h.pending) - 1; h.pending[last].Op == bus.OpAllot {
			h.must(h.n.Step(h.now, &bus.FundsReply{ID: h.pending[last].Request.ID, Code: bus.CodeUnavailable,
				Message: "doors vouched for nothing"}))
		}
		h.pass(time.Second)
	}
	h.pass(time.Second)
	r := h.told("ann.t1")
	if r == nil || r.Code != bus.CodeAllotmentPending ||
		!strings.Contains(r.Message, "doors vouched for nothing") {
		t.Errorf("it is told %+v", r)
	}
}
