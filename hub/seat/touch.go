package seat

import (
	"iter"
	"math"
	"math/bits"
	"time"
)

// A touch has an agent serve a session's last prompt once more, for one token that nobody reads: the engine
// then has used what it holds of it, and drops something else first. That pays where pauses are regular and
// the engine has time to spare. What room for idle sessions is worth is one price for each agent: it rises
// while more is worth keeping than may be touched, and falls while less is.

// Touch is a session to be touched, which holds so many blocks.
type Touch struct {
	Key    uint64
	Blocks int
	Warm   bool // not all of them are thought to be there: they are computed ahead
	Held   int  // of a warm one, those that are
}

// Incoming is a task that is about to be sent to an agent, or may be.
type Incoming struct {
	New    int                    // blocks that the agent does not hold of it
	Must   int                    // blocks that have to be dropped for it
	Idle   iter.Seq2[uint64, int] // what the agent holds of idle sessions: see [Table.Threatened]
	Block  time.Duration          // what a block takes to compute
	Touch  time.Duration          // what a touch takes
	Pinned int                    // blocks of touches under way there
	Doubt  int                    // blocks of Idle's first sessions that may be gone already
}

const (
	leastPrice, firstPrice, mostPrice = 1e-6, 1e-3, 20.0

	mostTouched = 3  // blocks for each new one
	mostTouches = 24 // sessions
	// parts of an agent's blocks: of tasks that run and what is touched together; and how much further is
	// looked than what has to be dropped
	mostPinned, further = 0.6, 0.1

	// of so many touches, those that may miss before nothing is touched for a while
	judged, mostMissed = 20, 2
	afterMiss          = 30 * time.Second

	// In hundredths of a block: what may be missing of each touch without being counted, a part of it in so
	// many, and what is let pass of the rest in all, at least and as a part of an agent's blocks. Caches miss
	// one of several hundred blocks that are touched, and vLLM that drafts by EAGLE computes the last anew.
	missingFree, missingPart = 100, 50
	leastShort, shortPart    = 4000, 15
)

// Touches are the sessions to be touched before a task is sent to an agent. The agent's price moves.
func (t *Table) Touches(now time.Duration, a *Agent, r *Incoming) (all []Touch) {
	if !t.MayTouch(now, a) || r.New <= 0 {
		return nil
	}
	wanted, touched, pinned := 0, 0, a.running+r.Pinned
	t.Threatened(now, a, r, func(x Touch) {
		wanted += x.Blocks
		if touched+x.Blocks <= mostTouched*r.New && len(all) < mostTouches &&
			float64(pinned+x.Blocks) <= mostPinned*float64(a.blocks) {
			all = append(all, x)
			touched, pinned = touched+x.Blocks, pinned+x.Blocks
		}
	})
	lack := min(max(1.1*float64(wanted)/float64(mostTouched*r.New)-1, -1), 2)
	step := min(0.2, 0.5*float64(r.New)/float64(a.blocks))
	a.price = min(max(a.price*exp(float64(step*lack)), leastPrice), mostPrice)
	return all
}

// MayTouch reports whether anything may be touched on an agent now: it has time to spare, and so lets in
// whoever comes. One that has none lets in no more sessions than its cache has room for.
func (t *Table) MayTouch(now time.Duration, a *Agent) bool {
	return t.Params.Touches && a.blocks > 0 && now >= a.pause &&
		float64(a.running) < mostPinned*float64(a.blocks) && t.Open(a, now)
}

// Threatened shows the idle sessions that a task would push out of an agent's cache, and a little further,
// as far as they are worth keeping. Incoming.Idle gives what is dropped first before the others, by the keys
// of sessions, 0 for what is of none, with the blocks that are still held.
func (t *Table) Threatened(now time.Duration, a *Agent, r *Incoming, show func(Touch)) {
	left := r.Must + max(2, r.New/4) + int(further*float64(a.blocks))
	least := max(a.price, t.index.freshOne()/5)
	doubt := r.Doubt
	for key, blocks := range r.Idle {
		if doubt > 0 { // a touch of what is gone computes all of it anew
			doubt -= blocks
			continue
		}
		if left <= 0 {
			return
		}
		i := t.find(key)
		if key == 0 || i == none || !t.keeps(now, a, &t.all[i], blocks, least, r) {
			left -= blocks
			continue
		}
		show(Touch{Key: key, Blocks: blocks})
	}
}

// keeps reports whether what an agent holds of a session is worth a touch.
func (t *Table) keeps(now time.Duration, a *Agent, x *session, blocks int, least float64, r *Incoming) bool {
	if x.last != a.number || x.over || x.open > 0 || 2*blocks < int(x.chain) {
		return false
	}
	idle := now - x.ended
	value := t.index.of(class(x.turns, x.gap), idle)
	since := max(0, (idle - time.Duration(x.refreshed)*time.Millisecond).Seconds())
	saved := float64(time.Duration(blocks) * r.Block)
	return value >= least && float64(min(1, float64(value*since))*saved) > float64(r.Touch)
}

// Touched says that a session was touched on an agent, which found so many of its blocks.
func (t *Table) Touched(now time.Duration, a *Agent, key uint64, believed, found int) {
	if t.Judge(now, a, believed, found) {
		return
	}
	if i := t.find(key); i != none && t.all[i].open == 0 {
		t.all[i].refreshed = int32(min((now - t.all[i].ended).Milliseconds(), math.MaxInt32))
	}
}

// Judge takes in how many blocks an agent found of those that it was believed to hold, and reports whether
// that is a miss: more than two are gone. Where more than half are, or several of late were misses, or a
// little is gone again and again, what is believed of the agent is wrong, or it lies to be paid for what it
// computes anew: nothing is touched there for a while.
func (t *Table) Judge(now time.Duration, a *Agent, believed, found int) (missed bool) {
	gone := max(0, believed-found)
	missed = gone > 2
	if a.misses = a.misses << 1 & (1<<judged - 1); missed {
		a.misses |= 1
	}
	a.short = max(0, a.short+100*gone-100*believed/missingPart-missingFree)
	if missed && 2*found < believed || bits.OnesCount32(a.misses) > mostMissed ||
		a.short > max(leastShort, 100*a.blocks/shortPart) {
		a.pause, a.misses, a.short = now+afterMiss, 0, 0
	}
	return missed
}

// Lost says that an agent cannot touch a session: it does not know its text any more.
func (t *Table) Lost(a *Agent, key uint64) {
	if i := t.find(key); i != none && t.all[i].last == a.number {
		t.all[i].last = 0
	}
}

// Price is what an agent's room is worth.
func (a *Agent) Price() float64 { return a.price }
