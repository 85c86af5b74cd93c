package ledger

import (
	"slices"

	"souk/market"
)

// ended is a remembered hold after its end.
type ended struct {
	Kind   Kind
	Digest uint64 // of the record that ended it
}

// undo takes one change back: of an account, of a hold's beginning (opened) or end (hold), or any other.
type undo struct {
	account *market.Credits
	old     market.Credits
	opened  slotKey
	hold    *Hold
	do      func()
}

func (b *Book) rollback() {
	b.paid, b.taught, b.fresh = b.paid[:0], b.taught[:0], b.fresh[:0]
	for _, u := range slices.Backward(b.undo) {
		switch {
		case u.account != nil:
			*u.account = u.old
		case u.hold != nil:
			k, _ := keyOf(u.hold.Round, u.hold.Slot)
			delete(b.ended, k)
			b.past, b.open[k] = b.past[:len(b.past)-1], u.hold
		case u.do != nil:
			u.do()
		default:
			delete(b.open, u.opened)
		}
	}
	b.undo = b.undo[:0]
}

// forget drops what is beyond the bounds of memory. It cannot be undone, so it comes last.
func (b *Book) forget() {
	b.undo = b.undo[:0]
	for _, p := range b.paid {
		b.usual.learn(p.client, p.card)
	}
	b.used = append(b.used, b.fresh...)
	clear(b.fresh)
	b.fresh = b.fresh[:0]
	b.paid = b.paid[:0]
	for i, r := range b.taught {
		b.rates.Learn(&r.Round, &r.Outcome, &r.Ground)
		b.taught[i] = nil
	}
	b.taught = b.taught[:0]
	for len(b.past) > RememberEnded {
		delete(b.ended, b.past[0])
		b.past = b.past[1:]
	}
	for len(b.opsQ) > RememberOps {
		delete(b.ops, b.opsQ[0])
		b.opsQ = b.opsQ[1:]
	}
}
