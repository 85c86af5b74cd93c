package vllmsim

import (
	"math"
	"math/bits"
	"time"

	"github.com/cespare/xxhash/v2"

	"souk/bus/policy"
	"souk/market"
)

// evictor has a runtime policy say which blocks an engine gives up, of those that nobody uses: by 63 ranks of
// its scores, each half as long again as the one below, and in a rank by age. Of what it has no opinion goes
// first, by age, so that with a policy without any the engine does what engines do. A block is scored when it
// is let go, and again when it would be given up; if it is worth more by then, it stays. What others follow
// is never worth less than they are.
type evictor struct {
	guard policy.Guard
	now   func() time.Time

	items  []policy.Item // by block
	at     []ranked      // by block
	heads  [ranks]int32
	filled uint64 // ranks that have blocks
}

// ranks counts the ranks of scores: none, and from a nanosecond on.
const ranks = 64

// ranked is a block's place.
type ranked struct {
	rank       int8 // -1: it is in use, or cannot be found
	least      int8 // the rank of what follows it
	prev, next int32
	used       time.Time // when it was let go
}

func newEvictor(p policy.Policy, blocks int, now func() time.Time) *evictor {
	v := &evictor{guard: policy.NewGuard("evict", p), now: now, items: make([]policy.Item, blocks),
		at: make([]ranked, blocks)}
	for i := range v.at {
		v.at[i].rank = -1
	}
	return v
}

// rankOf is the rank of a score in seconds.
func rankOf(score float64) int8 {
	if !(score > 0) {
		return 0
	}
	return int8(max(1, min(ranks-1, 1+math.Log(score/1e-9)/math.Log(1.5))))
}

func (v *evictor) score(b int32) int8 {
	i, now := v.items[b], v.now()
	i.Age = now.Sub(v.at[b].used)
	var to [1]float64
	v.guard.Score(now, []policy.Item{i}, to[:])
	return rankOf(to[0])
}

// Freed implements kv.Order.
func (v *evictor) Freed(blocks []int32) {
	least := int8(0)
	for _, b := range blocks {
		v.at[b].used, v.at[b].least = v.now(), least
		least = max(least, v.score(b))
		v.put(b, least)
	}
}

// Held implements kv.Order.
func (v *evictor) Held(b int32) {
	r := &v.at[b]
	switch {
	case r.rank < 0:
		return
	case r.next == b:
		v.heads[r.rank] = 0
		v.filled &^= 1 << r.rank
	default:
		v.at[r.prev].next, v.at[r.next].prev = r.next, r.prev
		if v.heads[r.rank] == b {
			v.heads[r.rank] = r.next
		}
	}
	r.rank = -1
}

// put makes a block the last of a rank.
func (v *evictor) put(b int32, rank int8) {
	r := &v.at[b]
	r.rank = rank
	head := v.heads[rank]
	if head == 0 {
		r.prev, r.next = b, b
		v.heads[rank] = b
		v.filled |= 1 << rank
		return
	}
	last := v.at[head].prev
	r.prev, r.next = last, head
	v.at[last].next, v.at[head].prev = b, b
}

// looks is how many blocks are scored again at most until one is given up.
const looks = 32

// First implements kv.Order.
func (v *evictor) First() int32 {
	for n := 0; v.filled != 0; n++ {
		rank := int8(bits.TrailingZeros64(v.filled))
		b := v.heads[rank]
		now := rank
		if n < looks {
			now = max(v.score(b), v.at[b].least)
		}
		if now <= rank {
			return b
		}
		v.Held(b)
		v.put(b, now)
	}
	return 0
}

// nameID is the id of a name that came with a request.
func nameID(name string) policy.ID {
	if name == "" {
		return 0
	}
	return max(1, xxhash.Sum64String(name))
}

// told is what a policy hears of a sequence.
func (q *sequence) told(kind policy.EventKind, now time.Time) policy.Event {
	e := policy.Event{Kind: kind, At: now, Client: 1, Session: q.session, Role: q.role}
	if kind == policy.Served {
		e.Usage = market.Usage{Prompt: q.prompt, Cached: max(0, q.run.Cached), Output: q.output()}
		e.Stop = policy.StopOf(q.reason)
	}
	return e
}

// item is a block of a sequence.
func (q *sequence) item(at int) policy.Item {
	i := policy.Item{Kind: policy.Tail, Session: q.session, Role: q.role, Tokens: q.block, Blocks: 1}
	if (at+1)*q.block <= q.anchor {
		i.Kind, i.Session = policy.Anchor, 0
	}
	return i
}
