package hub

import (
	"slices"

	"souk/bus"
)

// A door says with each task how much of its client's money it vouches for. The treasury grants no more, so
// the hub keeps what doors said last and shows it with each request. What it says itself of a task's price is
// bounded by the door's word, too: so what a task needs here never is more than what stands behind it.

// hearVoucher keeps what a door vouches for with a task, where the client has tasks here.
func (n *Node) hearVoucher(m *bus.Task) {
	p, v := n.accounts[m.Client], m.Voucher
	if p == nil || v.Total() <= 0 {
		return
	}
	i := slices.IndexFunc(p.vouchers, func(o bus.DoorVoucher) bool {
		return o.Door == m.Door && o.Voucher.Line() == v.Line()
	})
	if i >= 0 { // what was said last comes last
		if v.Total() < p.vouchers[i].Voucher.Total() {
			v = p.vouchers[i].Voucher
		}
		p.vouchers = slices.Delete(p.vouchers, i, i+1)
	}
	p.vouchers = append(p.vouchers, bus.DoorVoucher{Door: m.Door, Voucher: slices.Clone(v)})
	p.vouchers = slices.Delete(p.vouchers, 0, max(0, len(p.vouchers)-bus.MaxVouchers))
}
