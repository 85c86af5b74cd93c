package machines

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/classifier"
	"souk/ledger"
	"souk/market"
)

// pledges are the sums for which the door of an economy has vouched, by client and hub.
type pledges map[[2]string]market.Credits

var (
	pledgeKey  = bytes.Repeat([]byte{3}, bus.VouchKeyBytes)
	pledgeKeys = &bus.VouchKeys{Keys: [][]byte{pledgeKey}}
)

// voucher vouches for one task more, which may cost so much and no more.
func (p *pledges) voucher(client, hub string, most market.Credits) bus.Voucher {
	if *p == nil {
		*p = pledges{}
	}
	k := [2]string{client, hub}
	(*p)[k] += most
	return bus.NewVoucher(pledgeKey, "door", client, hub, 1, (*p)[k], most)
}

// cover: no hub was ever granted more of a client's money than doors vouched for and it gave back.
func (p pledges) cover(t *testing.T, frames []ledger.Frame) {
	t.Helper()
	left := pledges{}
	for i := range frames {
		for _, r := range frames[i].Records {
			x := r.Transfer
			if x == nil || strings.HasPrefix(x.Client, "probe-") {
				continue
			}
			k := [2]string{x.Client, x.Hub}
			switch r.Kind {
			case ledger.KindGrant:
				left[k] -= x.Amount
			case ledger.KindReclaim:
				left[k] += x.Amount
			}
			if left[k]+p[k] < 0 {
				t.Fatalf("%s was granted %s more of %s's money than doors vouched for, %s, and it returned", x.Hub,
					-left[k]-p[k], x.Client, p[k])
			}
		}
	}
}

// vouch has a door that starts say what it proves its vouchers with. The registry has it, and the treasury
// hears of it a moment later.
func (d *doorPart) vouch() {
	w := d.w
	d.key = make([]byte, bus.VouchKeyBytes)
	for i := range d.key {
		d.key[i] = byte(w.r.Uint32())
	}
	old := w.registry.vouch[d.name]
	if old == nil {
		old = &bus.VouchKeys{}
	}
	d.desk.LinesFrom(old.Line)
	keys := old.With(d.key, uint64(w.now.UnixMilli()))
	w.registry.vouch[d.name] = keys
	w.after(w.within(10*time.Millisecond), func() {
		if w.bank.up && w.registry.vouch[d.name] == keys {
			w.bank.bank.Vouches(d.name, keys)
		}
	})
}

// voucher makes the door's voucher for a task, and adds it to w.pledged.
func (d *doorPart) voucher(t *bus.Task, v *classifier.Vouched) bus.Voucher {
	w := d.w
	k := [2]string{t.Client, v.Journal}
	if w.pledged == nil {
		w.pledged, w.lines = pledges{}, map[[3]string]market.Credits{}
	}
	line := [3]string{t.Client, v.Journal, d.name + "/" + time.UnixMilli(int64(v.Line)).String()}
	if more := v.Total - w.lines[line]; more > 0 {
		w.lines[line] = v.Total
		w.pledged[k] += more
	}
	return bus.NewVoucher(d.key, d.name, t.Client, v.Journal, v.Line, v.Total, v.Most)
}

// hearKeys has a treasury that starts read what doors prove their vouchers with.
func (b *bankPart) hearKeys() {
	b.on(b.w.within(20*time.Millisecond), func() {
		for _, door := range sortedKeys(b.w.registry.vouch) {
			b.bank.Vouches(door, b.w.registry.vouch[door])
		}
	})
}
