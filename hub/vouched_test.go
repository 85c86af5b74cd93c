package hub

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

// A hub shows the treasury the last that each door vouched for in each of its lines, whatever order tasks
// came in, and no more of them than a request may have; and tells no agent of it.
func TestAHubShowsWhatDoorsVouchFor(t *testing.T) {
	h := newHouse(t, nil)
	h.prepaid["ann"] = market.Credit
	h.join("a-1", "llama", 8, 0.8, card(100, 10, 100))
	j := h.n.cfg.Journal
	n := 0
	place := func(with func(*bus.Task)) {
		n++
		h.must(h.step(h.task("ann", fmt.Sprint("t", n), with)))
	}
	h.silent = true // the treasury says nothing for now
	place(vouchedBy("d1", j, 4, 30, market.Credit))
	place(vouchedBy("d1", j, 4, 20, market.Credit)) // overtaken
	place(vouchedBy("d1", j, 5, 10, market.Credit)) // of its next line
	place(vouchedBy("d2", j, 4, 40, market.Credit))
	place(vouchedBy("d1", j, 4, 50, market.Credit))
	h.must(h.step(h.task("ann", "t1", vouchedBy("d3", j, 1, 60, market.Credit)))) // the same task by another
	p := h.n.accounts["ann"]
	shows := func() string {
		var s []string
		for _, v := range p.vouchers {
			s = append(s, fmt.Sprintf("%s/%d %d", v.Door, v.Voucher.Line(), int64(v.Voucher.Total())))
		}
		return strings.Join(s, ", ")
	}
	if got, want := shows(), "d1/5 10, d2/4 40, d1/4 50, d3/1 60"; got != want {
		t.Errorf("it keeps %s, want %s", got, want)
	}
	for i := range 2 * bus.MaxVouchers {
		place(vouchedBy(fmt.Sprint("pod-", i), j, 1, 1, market.Credit))
	}
	if len(p.vouchers) != bus.MaxVouchers || p.vouchers[0].Door != fmt.Sprint("pod-", bus.MaxVouchers) {
		t.Errorf("it keeps %d: %s", len(p.vouchers), shows())
	}
	a := p.request
	if a == nil || len(a.req.Vouchers) != 1 {
		t.Fatalf("its first request: %+v", a)
	}
	h.must(h.step(&bus.FundsReply{ID: a.req.ID, Code: bus.CodeUnavailable})) // it asks once more
	if !a.flying || len(a.req.Vouchers) != bus.MaxVouchers {
		t.Fatalf("its request %+v", a)
	}
	if (&a.req).Validate() != nil {
		t.Errorf("its request is none: %v", a.req.Validate())
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
			vouchedBy("d1", h.n.cfg.Journal, 1, 1000*market.Credit, c.most))...)
		m.Terms.Worth = nil
		for _, f := range c.task {
			f(m)
		}
		h.must(h.step(m))
		x := h.n.known[taskKey{"ann", m.ID}]
		if i == 0 {
			usual = x.terms.Cap()
		}
		if got := x.terms.Cap(); got != c.cap() || usual == 0 {
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
		if a := h.n.accounts["ann"].request; a != nil && a.flying {
			h.must(h.n.Step(h.now, &bus.FundsReply{ID: a.req.ID, Code: bus.CodeUnavailable,
				Message: "doors vouched for nothing"}))
		}
		h.pass(time.Second)
	}
	h.pass(time.Second)
	r := h.said("ann.t1")
	if r == nil || r.Code != bus.CodeAllotmentPending ||
		!strings.Contains(r.Message, "doors vouched for nothing") {
		t.Errorf("it is told %+v", r)
	}
}
