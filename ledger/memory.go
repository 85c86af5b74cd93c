package ledger

import "souk/market"

// ended is what is remembered of a hold after its end.
type ended struct {
	key    slotKey
	digest uint64 // of the record that ended it
	kind   Kind
}

// undo takes one change back: of an account, of a hold's beginning (opened) or end (hold), or any other.
type undo struct {
	account *account
	old     market.Credits
	opened  slotKey
	hold    *Hold
	do      func()
}

func (b *Book) rollback() {
	for i := len(b.undo) - 1; i >= 0; i-- {
		switch u := &b.undo[i]; {
		case u.account != nil:
			u.account.amount = u.old
		case u.hold != nil:
			e := b.past.unpush()
			delete(b.ended, e.key)
			b.open[e.key] = u.hold
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
	for b.past.len() > RememberEnded {
		delete(b.ended, b.past.pop())
	}
	for b.opsQ.len() > RememberOps {
		delete(b.ops, b.opsQ.pop())
	}
}

// ring holds the last ended holds in order; positions count from the first ever and never change.
type ring struct {
	items       []ended
	first, next uint64
}

func (r *ring) len() int { return int(r.next - r.first) }

func (r *ring) at(position uint64) *ended { return &r.items[position&uint64(len(r.items)-1)] }

// push adds e and returns its position. The memory doubles until it holds what is remembered and one frame.
func (r *ring) push(e ended) uint64 {
	if r.len() == len(r.items) {
		bigger := make([]ended, max(64, 2*len(r.items)))
		for p := r.first; p < r.next; p++ {
			bigger[p&uint64(len(bigger)-1)] = *r.at(p)
		}
		r.items = bigger
	}
	*r.at(r.next) = e
	r.next++
	return r.next - 1
}

// unpush takes the newest back.
func (r *ring) unpush() ended { r.next--; return *r.at(r.next) }

// pop forgets the oldest.
func (r *ring) pop() slotKey {
	k := r.at(r.first).key
	*r.at(r.first) = ended{}
	r.first++
	return k
}

// queue is a first-in first-out list whose memory is reused.
type queue[T any] struct {
	items []T
	first int
}

func (q *queue[T]) len() int { return len(q.items) - q.first }
func (q *queue[T]) push(v T) { q.items = append(q.items, v) }

// unpush takes the newest back.
func (q *queue[T]) unpush() { q.items = q.items[:len(q.items)-1] }

func (q *queue[T]) pop() T {
	var zero T
	v := q.items[q.first]
	q.items[q.first] = zero
	if q.first++; q.first > len(q.items)/2 {
		n := copy(q.items, q.items[q.first:])
		clear(q.items[n:])
		q.items, q.first = q.items[:n], 0
	}
	return v
}
