package line

import (
	"slices"
	"time"
)

// longest bounds how long a task is expected to run.
const longest = 24 * time.Hour

// overdue is the part of its time that a task is expected to run on, however long it has run.
const overdue = 4

// Left is how long a task will run on: of service, from its dispatch to its end, so much has passed. One that
// takes longer than expected takes longer still: at least a quarter of all its time is to come, so that
// nobody is told for ever that an agent is as good as free.
func Left(service, passed time.Duration) time.Duration {
	service, passed = min(max(0, service), longest), min(max(0, passed), longest)
	return max(service-passed, max(service, passed)/overdue)
}

// Ends says when slots of an agent are expected to come free.
type Ends struct {
	at   []time.Duration // from now, soonest first
	runs int             // tasks; the slot of at[i] comes free again one turn later, and so on
	turn time.Duration   // what a task takes of a slot, on the mean
}

// Reset forgets all ends.
func (e *Ends) Reset() { e.at, e.runs, e.turn = e.at[:0], 0, 0 }

// Add takes in a task that runs. Done must be called after the last.
func (e *Ends) Add(service, passed time.Duration) {
	e.at = append(e.at, Left(service, passed))
	e.turn += min(max(0, service), longest)
}

// Done says that all were added.
func (e *Ends) Done() {
	slices.Sort(e.at)
	if e.runs = len(e.at); e.runs > 0 {
		e.turn /= time.Duration(e.runs)
	}
}

// Nth is when the n-th slot from now comes free, counting from 1. Whoever comes after the last that runs now
// waits for those who came before it, too, each for a whole turn. Nothing runs: nothing ends.
func (e *Ends) Nth(n int) (time.Duration, bool) {
	if e.runs == 0 || n < 1 {
		return Far, false
	}
	for done := len(e.at) - e.runs; done < n-1; done++ {
		next := min(Far, e.at[done]+e.turn)
		i, _ := slices.BinarySearch(e.at[done+1:], next)
		e.at = slices.Insert(e.at, done+1+i, next)
	}
	return e.at[n-1], true
}

// Wait is how long a task has to wait for an agent where the n-th slot is its own: see [Stretch].
func (e *Ends) Wait(n int, over time.Duration) (time.Duration, bool) {
	d, ok := e.Nth(n)
	return Stretch(d, over), ok
}

// Stretch is what a forecast of d is to a task that has waited so much longer than it was told at first.
// Forecasts for such a one were wrong, so they are stretched by the seconds since. To wait as long as was
// forecast says nothing against a forecast.
func Stretch(d, over time.Duration) time.Duration {
	if d == 0 {
		return 0
	}
	return times(d, float64(max(0, over)+time.Second), float64(time.Second))
}
