package gateway

import (
	"cmp"
	"slices"
	"time"

	"souk/bus"
)

// back holds back some tasks of a request for several answers. Each task sets aside what it may cost at most,
// and takes room and slots of its client, so money, room and slots may do for some at once and not for all,
// though they do for all of them one after another. The first task held back is asked for again whenever
// another has ended, and now and then, as other requests may have freed room, too. It waits as long as some
// of its request is asked for or served, backWithin beyond that, and until the request's deadline where it
// has one: then it is refused, and the request with it.
//
// So is the one task of a request whose money other requests of its client have: of these the first is asked
// for again whenever another has ended. A client that only came again now and then would find the money taken
// each time by one that came at the right moment.
type back struct {
	parts []*part     // held back, in the order of their answers
	going int         // tasks that are asked for, or served
	freed time.Time   // when one of these last ended; of one alone, when it was first held back
	timer *time.Timer // asks for the first again
	times int         // that one alone was held back
}

// backWithin is the time for which a hub lets a task wait for a slot if the task sets none.
const backWithin = time.Minute

// notNow are the refusals that others of the same request may be the reason of, and that end with them.
var notNow = []bus.Code{bus.CodeAllotmentPending, bus.CodeTooManyTasks, bus.CodeNoRoom}

// late reports whether the request's deadline is over.
func (a *answer) late(now time.Time) bool {
	at := a.asked.Tasks[0].DeadlineMS
	return at > 0 && now.UnixMilli() >= at
}

// holdBack has a task wait whose money, room or slot others of its answer may have. It reports whether it
// does. The lock is held.
func (p *part) holdBack(err error) bool {
	code := bus.CodeOf(err)
	if !slices.Contains(notNow, code) || p.known != nil || p.a.alone() && code != bus.CodeAllotmentPending {
		return false
	}
	p.letGo()
	return p.a.holdBack(p, asRefusal(err))
}

func (a *answer) holdBack(p *part, why *refusal) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	b, now, alone := &a.back, time.Now(), a.alone()
	if alone && b.freed.IsZero() {
		if !a.payer.shared() {
			return false
		}
		b.freed = now
	}
	if a.stopped || a.late(now) ||
		b.going == 1 && (b.freed.IsZero() || now.Sub(b.freed) >= backWithin) {
		return false
	}
	b.going--
	wait := time.Duration(cmp.Or(why.retryMS, retryDefault)) * time.Millisecond
	switch {
	case alone:
		a.payer.await(a, b.freed)
		wait <<= min(b.times, 3)
		b.times++
	case !p.again: // its beginning is not waited for
		a.waiting--
		a.tell()
	}
	p.again, p.why = true, why
	at, _ := slices.BinarySearchFunc(b.parts, p.i, func(p *part, i int) int { return p.i - i })
	b.parts = slices.Insert(b.parts, at, p)
	if at := a.asked.Tasks[0].DeadlineMS; at > 0 {
		wait = min(wait, time.Until(time.UnixMilli(at)))
	}
	if b.timer == nil {
		b.timer = time.AfterFunc(wait, a.goOn)
	} else {
		b.timer.Reset(wait)
	}
	return true
}

// tooLate reports whether a task that was held back is refused as its deadline is over, or too near for any
// agent: as it was asked for before, one would have begun in time.
func (p *part) tooLate(code bus.Code) bool {
	return code == bus.CodePastDeadline || code == bus.CodeNotWorthIt && p.a.asked.Tasks[p.i].DeadlineMS > 0
}

// goOn asks for the first again that is held back.
func (a *answer) goOn() {
	a.mu.Lock()
	b := &a.back
	if len(b.parts) == 0 {
		a.mu.Unlock()
		return
	}
	p := b.parts[0]
	b.parts = slices.Delete(b.parts, 0, 1)
	b.going++
	a.payer.awaits(a)
	a.mu.Unlock()
	p.begin()
}

// frees notes that a task holds nothing any more.
func (a *answer) frees() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.back.going--
	a.back.freed = time.Now()
	if len(a.back.parts) > 0 {
		go a.goOn()
	}
}

// stopBack ends what is held back. The lock is held.
func (a *answer) stopBack() {
	b := &a.back
	for _, p := range b.parts {
		go p.begin()
	}
	a.payer.awaits(a)
	b.going += len(b.parts)
	if b.parts = nil; b.timer != nil {
		b.timer.Stop()
	}
}
