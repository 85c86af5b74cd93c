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

// recent remembers the last that was done, by what names it.
type recent[K comparable, V any] struct {
	Of    map[K]V
	Order []K // the oldest first
}

func (p *recent[K, V]) add(k K, v V) {
	p.Of[k] = v
	p.Order = append(p.Order, k)
}

// undo forgets what was added last.
func (p *recent[K, V]) undo() {
	last := len(p.Order) - 1
	delete(p.Of, p.Order[last])
	p.Order = p.Order[:last]
}

// keep forgets the oldest beyond so many.
func (p *recent[K, V]) keep(most int) {
	for len(p.Order) > most {
		delete(p.Of, p.Order[0])
		p.Order = p.Order[1:]
	}
}

// undo takes one change back: of an account, of a hold's beginning (opened) or end (hold), or any other. A
// record that is refused has changed no account and no hold, so an audit, which takes no frame back, has no
// undo of these.
type undo struct {
	account *market.Credits
	old     market.Credits
	opened  slotKey
	hold    *Hold
	do      func()
}

func (b *Book) rollback() {
	b.taught, b.fresh = b.taught[:0], b.fresh[:0]
	for _, u := range slices.Backward(b.undo) {
		switch {
		case u.account != nil:
			*u.account = u.old
		case u.hold != nil:
			k, _ := keyOf(u.hold.Round, u.hold.Slot)
			b.kept.Ended.undo()
			b.open[k] = u.hold
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
	if len(b.fresh) > 0 {
		for i := range b.fresh {
			if u := &b.fresh[i]; u.counts {
				b.kept.Usual.learn(u.client, u.card)
			}
		}
		b.used = append(b.used, b.fresh...)
		clear(b.fresh)
		b.fresh = b.fresh[:0]
	}
	for at, r := range b.taught {
		b.kept.Rates.Learn(&r.Round, &r.Outcome, &r.Ground)
		for i := range min(len(r.Ground.Loads), len(r.Round.Agents)) { // of each agent
			a := &r.Round.Agents[i]
			if len(b.kept.Offered) >= maxShares && b.kept.Offered[string(a.Agent)] == 0 {
				continue
			}
			slots := int64(0)
			for _, s := range a.Seats {
				slots += int64(s.Slots)
			}
			b.kept.Offered[string(a.Agent)] += slots
		}
		b.taught[at] = nil
	}
	b.taught = b.taught[:0]
	b.kept.Ended.keep(RememberEnded)
	b.Ops.keep(RememberOps)
}
