package treasury

import (
	"slices"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// A hub is granted a client's money for tasks that doors placed there, and for what it gave back, and no
// more. It shows vouchers of doors for that; what was granted on them stands in the grants themselves, so
// that a treasury that starts again knows as much as the one before, and a voucher counts once however often
// it is shown.

const (
	maxDoors = 4096 // with keys, in a market
	// doorLines of one door are remembered for a client at a hub: its life, the one before, and one more. A
	// voucher of a line before them counts no more.
	doorLines = 3
	// maxLines of a client at a hub are remembered: those of doors that are gone make room.
	maxLines = 128
)

// Vouches says which keys a door proves its vouchers with, as the registry has it; nil: the door is gone. It
// reports whether there was room for it.
func (t *Treasury) Vouches(door string, keys *bus.VouchKeys) bool {
	_, known := t.keys[door]
	switch {
	case keys == nil:
		delete(t.keys, door)
	case !known && len(t.keys) >= maxDoors || !ledger.ValidID(door):
		return false
	default:
		t.keys[door] = keys
	}
	return true
}

// owns reports whether a client is the one that a hub's own tasks are paid by: it needs nobody's word.
func (t *Treasury) owns(hub, client string) bool {
	domain, ok := t.domains[hub]
	own := t.cfg.Probers[domain]
	if own == "" {
		own = bus.ProberOf(domain)
	}
	return ok && client == own
}

// vouchedFor is what stands behind a grant, before it, or why nothing does: then not even so much may be
// granted. It is nil for a hub's own client.
func (t *Treasury) vouchedFor(req *bus.FundsRequest, least market.Credits) (*ledger.Vouched, error) {
	if t.owns(req.Hub, req.Client) {
		return nil, nil
	}
	v := t.book.Vouched(req.Client, req.Hub)
	for i := range req.Vouchers {
		if s := &req.Vouchers[i]; t.proven(s, req) {
			t.count(&v, s)
		}
	}
	switch {
	case v.Left >= least:
		return &v, nil
	case req.Ahead: // it is no fault: the hub asks for more than the task takes that it has
		return nil, refuse(bus.CodeAllotmentPending, "doors vouched for %s more of client %s's money at hub %s",
			v.Left, req.Client, req.Hub)
	}
	return nil, refuse(bus.CodeUnavailable, "hub %s needs %s of client %s's money, and doors vouched for %s: it "+
		"gets what tasks may cost that a door placed there, once the treasury has the door's key", req.Hub, least,
		req.Client, v.Left)
}

func (t *Treasury) proven(s *bus.DoorVoucher, req *bus.FundsRequest) bool {
	keys := t.keys[s.Door]
	return keys != nil && slices.ContainsFunc(keys.Keys, func(key []byte) bool {
		return s.Voucher.Proves(key, s.Door, req.Client, req.Hub)
	})
}

// count adds what a voucher says beyond those that were counted before.
func (t *Treasury) count(v *ledger.Vouched, s *bus.DoorVoucher) {
	line := s.Voucher.Line()
	if s.Voucher.Total() <= 0 {
		return
	}
	if _, known := v.Find(s.Door, line); !known {
		from, _ := v.Find(s.Door, 0)
		own := 0
		for from+own < len(v.Doors) && v.Doors[from+own].Door == s.Door {
			own++
		}
		switch {
		case own >= doorLines && line < v.Doors[from].Line:
			return
		case own >= doorLines:
			v.Doors = slices.Delete(v.Doors, from, from+1)
		case len(v.Doors) >= maxLines:
			v.Doors = slices.DeleteFunc(v.Doors,
				func(d ledger.DoorTotal) bool { return t.keys[d.Door] == nil })
			if len(v.Doors) >= maxLines {
				return
			}
		}
	}
	v.Vouch(s.Door, line, s.Voucher.Total())
}
