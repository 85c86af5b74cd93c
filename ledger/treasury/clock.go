package treasury

import (
	"slices"
	"time"

	"souk/bus"
	"souk/ledger"
)

// Budgets are filled by the date, and a treasury whose clock is ahead would fill tomorrow's today. Hubs send
// the time of their clocks whenever they ask for their allotments. Where more than half of the live ones are
// behind the treasury's clock, their time counts. They move nothing forward: a treasury that is behind fills
// later, and nothing twice.

const (
	// slip bounds the difference of clocks that agree: a message is on its way, or sent once more.
	slip = time.Minute
	// hubsSpeak is the time within which every hub has sent the time of its clock.
	hubsSpeak = 3 * bus.FundsEvery
)

// clock is how far a hub's clock is behind the treasury's.
type clock struct {
	said   bool
	behind time.Duration
}

// today returns the date by which budgets are judged.
func (t *Treasury) today() time.Time { return t.now.Add(-t.budgets.ahead) }

// hearClock takes in the time of a hub's clock when it asked.
func (t *Treasury) hearClock(hub string, atMS int64) {
	w := t.heard[hub]
	if atMS <= 0 { // it does not say
		t.budgets.compared = t.now
		return
	}
	before := w.clock
	t.budgets.told = true
	w.clock = clock{true, t.now.Sub(time.UnixMilli(atMS))}
	t.heard[hub] = w
	if apart := (w.clock.behind - before.behind).Abs(); before.said && apart < slip &&
		t.now.Sub(t.budgets.compared).Abs() < bus.FundsEvery {
		return
	}
	t.compare()
}

// compare looks how far the treasury's clock is ahead of those of most hubs.
func (t *Treasury) compare() {
	var all []time.Duration
	for hub, w := range t.heard {
		if w.clock.said && t.alive(hub) {
			all = append(all, w.clock.behind)
		}
	}
	w := &t.budgets
	w.compared = t.now
	if len(all) == 0 { // as it was
		return
	}
	slices.Sort(all)
	ahead := all[(len(all)-1)/2] // more than half say so much, or more
	if ahead < slip {
		ahead = 0
	}
	if (ahead - w.ahead).Abs() >= slip {
		w.at = time.Time{} // all budgets are looked at again
	}
	w.ahead = ahead
}

// jump notes that time begins, or leaps, as when a clock is set forward: the times that hubs sent before are
// void.
func (t *Treasury) jump(now time.Time) {
	if t.now.IsZero() || now.Sub(t.now) > hubsSpeak {
		t.budgets.leapt = now
	}
}

// unheard reports whether hubs have still to send their times, shortly after the start or a leap.
func (t *Treasury) unheard() bool {
	w := &t.budgets
	return t.now.Sub(w.leapt) < hubsSpeak && t.Book.Dealings() > t.Book.EndedHubs() &&
		(w.compared.IsZero() || w.told)
}

// nextPeriod returns when, by the treasury's clock, a budget's next period begins; zero: there is none.
func (t *Treasury) nextPeriod(every string) time.Time {
	next := ledger.NextPeriod(every, t.today())
	if !next.IsZero() {
		next = next.Add(t.budgets.ahead)
	}
	return next
}
