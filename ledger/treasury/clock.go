package treasury

import (
	"slices"
	"time"

	"souk/bus"
	"souk/ledger"
)

// Budgets are filled by the date, and a treasury whose clock is ahead would fill tomorrow's today. Hubs say
// what their clocks say whenever they ask what was allotted to them. Where more than half of those that are
// there say that it is earlier, it is as late as they say. They move nothing forward: a treasury that is
// behind fills later, and nothing twice.

const (
	// slip is how far clocks may be apart that mean the same: a word is on its way, or sent once more.
	slip = time.Minute
	// hubsSpeak is in what time hubs have said what their clocks say.
	hubsSpeak = 3 * bus.FundsEvery
)

// clock is how far a hub's is behind the treasury's.
type clock struct {
	said   bool
	behind time.Duration
}

// today is what the date of budgets is judged by.
func (t *Treasury) today() time.Time { return t.now.Add(-t.budgets.ahead) }

// hearClock takes in what a hub's clock said when it asked.
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

// jump notes that time begins, or leaps, as a clock does that is set forward: what hubs said before means
// nothing.
func (t *Treasury) jump(now time.Time) {
	if t.now.IsZero() || now.Sub(t.now) > hubsSpeak {
		t.budgets.leapt = now
	}
}

// unheard reports that hubs are still to say what their clocks say, shortly after the start or a leap.
func (t *Treasury) unheard() bool {
	w := &t.budgets
	return t.now.Sub(w.leapt) < hubsSpeak && t.book.Dealings() > t.book.EndedHubs() &&
		(w.compared.IsZero() || w.told)
}

// nextPeriod is when, by the treasury's clock, the next period of a budget begins; zero where there is none.
func (t *Treasury) nextPeriod(every string) time.Time {
	next := ledger.NextPeriod(every, t.today())
	if !next.IsZero() {
		next = next.Add(t.budgets.ahead)
	}
	return next
}
