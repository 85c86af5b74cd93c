package ledger

import (
	"slices"

	"souk/market"
)

// ended is a remembered hold after its end.
type ended struct {
	Key    slotKey
	Kind   Kind
	Digest uint64 // of the record that ended it
	before uint64 // the last before it in its chain, counted from 1; 0: none
}

// memory holds the last ends, in their order. Chains lead to them, by the low bits of round and slot: so what
// ends one after the other lies side by side.
type memory struct {
	list  []ended
	first int      // of the list: those before it are forgotten
	gone  uint64   // that are not in the list any more
	heads []uint64 // of chains, counted from 1 likewise; a power of two of them
}

// find returns a hold's end; nil if it is not remembered.
func (m *memory) find(k slotKey) *ended {
	if len(m.heads) == 0 {
		return nil
	}
	for at := m.heads[uint64(k^k>>16)&uint64(len(m.heads)-1)]; at > m.gone+uint64(m.first); {
		e := &m.list[at-m.gone-1]
		if e.Key == k {
			return e
		}
		at = e.before
	}
	return nil
}

// add remembers one more.
func (m *memory) add(e ended) {
	m.list = append(m.list, e)
	i := len(m.list) - 1
	if i-m.first >= len(m.heads) { // chains get too long
		m.heads, i = make([]uint64, max(64, 2*len(m.heads))), m.first
	}
	for ; i < len(m.list); i++ {
		e := &m.list[i]
		head := &m.heads[uint64(e.Key^e.Key>>16)&uint64(len(m.heads)-1)]
		e.before, *head = *head, m.gone+uint64(i)+1
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
	b.paid, b.taught, b.fresh = b.paid[:0], b.taught[:0], b.fresh[:0]
	for _, u := range slices.Backward(b.undo) {
		switch {
		case u.account != nil:
			*u.account = u.old
		case u.hold != nil:
			k, _ := keyOf(u.hold.Round, u.hold.Slot)
			m, last := &b.ended, len(b.ended.list)-1
			m.heads[uint64(k^k>>16)&uint64(len(m.heads)-1)] = m.list[last].before
			m.list, b.open[k] = m.list[:last], u.hold
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
	if len(b.fresh) > 0 {
		b.used = append(b.used, b.fresh...)
		clear(b.fresh)
		b.fresh = b.fresh[:0]
	}
	b.paid = b.paid[:0]
	for at, r := range b.taught {
		b.rates.Learn(&r.Round, &r.Outcome, &r.Ground)
		for i := range min(len(r.Ground.Loads), len(r.Round.Agents)) { // of each agent
			a := &r.Round.Agents[i]
			if len(b.offered) >= maxShares && b.offered[string(a.Agent)] == 0 {
				continue
			}
			slots := int64(0)
			for _, s := range a.Seats {
				slots += int64(s.Slots)
			}
			b.offered[string(a.Agent)] += slots
		}
		b.taught[at] = nil
	}
	b.taught = b.taught[:0]
	m := &b.ended
	if m.first = max(m.first, len(m.list)-RememberEnded); m.first >= RememberEnded/2 {
		m.list = m.list[:copy(m.list, m.list[m.first:])]
		m.gone, m.first = m.gone+uint64(m.first), 0
	}
	for len(b.opsQ) > RememberOps {
		delete(b.ops, b.opsQ[0])
		b.opsQ = b.opsQ[1:]
	}
}
