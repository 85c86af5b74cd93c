package treasury

import (
	"cmp"
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
	// doorLines of one door are remembered for a client at a hub, those on which something was granted last.
	// A voucher of a line before them counts no more.
	doorLines = 3
	// maxLines of a client at a hub are remembered, of all doors. The lowest makes room, and a voucher of a
	// line below all of them counts no more.
	maxLines = 128
)

// Vouches takes in the keys by which a door proves its vouchers, of the registry; nil: the door is gone. It
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

// owns reports whether a request is for the money that a hub's own tasks are paid by: it needs nobody's word.
func (t *Treasury) owns(req *bus.FundsRequest) bool {
	if t.leads[req.Domain].hub != req.Hub {
		return false
	}
	return req.Client == bus.ProberOf(req.Domain)
}

// backing is the cover for a grant: the money that the hub gave back, and the vouchers of doors, as far as
// nothing was granted on them.
type backing struct {
	was   ledger.Vouched
	lines []ledger.DoorTotal // what is left of each
	all   market.Credits
}

// vouchedFor returns the cover for a grant of at least so much, or an error if there is less. It is nil for a
// hub's own client.
func (t *Treasury) vouchedFor(req *bus.FundsRequest, least market.Credits) (*backing, error) {
	if t.owns(req) {
		return nil, nil
	}
	b := &backing{was: t.Book.Vouched(req.Client, req.Hub)}
	b.all = b.was.Left
	for i := range req.Vouchers {
		if s := &req.Vouchers[i]; t.proven(s, req) {
			b.count(s)
		}
	}
	switch {
	case b.all >= least:
		return b, nil
	case req.Ahead: // it is no fault: the hub asks for more than the task takes that it has
		return nil, refuse(bus.CodeAllotmentPending, "doors vouched for %s more of client %s's money at hub %s",
			b.all, req.Client, req.Hub)
	}
	return nil, refuse(bus.CodeUnavailable, "hub %s needs %s of client %s's money, and doors vouched for %s: it "+
		"gets what tasks may cost that a door placed there, once the treasury has the door's key", req.Hub, least,
		req.Client, b.all)
}

func (t *Treasury) proven(s *bus.DoorVoucher, req *bus.FundsRequest) bool {
	keys := t.keys[s.Door]
	return keys != nil && slices.ContainsFunc(keys.Keys, func(key []byte) bool {
		return s.Voucher.Proves(key, s.Door, req.Client, req.Hub)
	})
}

// count adds the rest of a voucher.
func (b *backing) count(s *bus.DoorVoucher) {
	line, used := s.Voucher.Line(), market.Credits(0)
	if i, known := b.was.Find(s.Door, line); known {
		used = b.was.Doors[i].Total
	} else if from, own := b.linesOf(s.Door); own >= doorLines && line < b.was.Doors[from].Line ||
		len(b.was.Doors) >= maxLines &&
			byLine(ledger.DoorTotal{Door: s.Door, Line: line}, b.was.Doors[b.lowest()]) < 0 {
		return
	}
	left := s.Voucher.Total() - used
	at := slices.IndexFunc(b.lines,
		func(d ledger.DoorTotal) bool { return d.Door == s.Door && d.Line == line })
	switch {
	case left <= 0:
		return
	case at < 0:
		b.lines = append(b.lines, ledger.DoorTotal{Door: s.Door, Line: line})
		at = len(b.lines) - 1
	}
	if more := left - b.lines[at].Total; more > 0 {
		b.lines[at].Total = left
		b.all = min(b.all, market.MaxCredits-more) + more
	}
}

// byLine compares lines of all doors.
func byLine(x, y ledger.DoorTotal) int {
	return cmp.Or(cmp.Compare(x.Line, y.Line), cmp.Compare(x.Door, y.Door))
}

// lowest returns the index of the lowest line.
func (b *backing) lowest() int {
	at := 0
	for i := range b.was.Doors {
		if byLine(b.was.Doors[i], b.was.Doors[at]) < 0 {
			at = i
		}
	}
	return at
}

// linesOf returns the index of a door's first line, and the number of its lines.
func (b *backing) linesOf(door string) (from, own int) {
	from, _ = b.was.Find(door, 0)
	for from+own < len(b.was.Doors) && b.was.Doors[from+own].Door == door {
		own++
	}
	return from, own
}

// grant returns the cover used for a grant of so much, with what is left after it. Money that the hub gave
// back is used first: vouchers become worthless once doors have other keys.
func (b *backing) grant(amount market.Credits) *ledger.Vouched {
	returned := min(b.was.Left, amount)
	b.was.Left -= returned
	amount -= returned
	slices.SortFunc(b.lines, byLine)
	for _, l := range b.lines {
		take := min(l.Total, amount)
		if take == 0 {
			continue
		}
		amount -= take
		i, known := b.was.Find(l.Door, l.Line)
		if !known {
			gone, own := b.linesOf(l.Door)
			if own < doorLines {
				gone = b.lowest()
			}
			if own >= doorLines || len(b.was.Doors) >= maxLines {
				b.was.Doors = slices.Delete(b.was.Doors, gone, gone+1)
				i, _ = b.was.Find(l.Door, l.Line)
			}
			b.was.Doors = slices.Insert(b.was.Doors, i, ledger.DoorTotal{Door: l.Door, Line: l.Line})
		}
		b.was.Doors[i].Total += take
	}
	return &b.was
}
