package virtual

import (
	"math"
	"slices"
	"time"

	"souk/market"
)

// Line is a rule that chooses an engine for a task when it comes, and keeps it in that engine's line until a
// slot there is free. A task that is not worth what it would pay is told so, when it comes or when it has
// waited that long.
type Line struct {
	Plain
	Lots
	// where a task waits; [Wait]: nowhere
	Choose func(l *Line, now time.Time, r *Request, v *View) int
	// what it pays there, of what that costs; 0: the cost
	Price float64
	// of those in a line who has more of it goes first; nil: who came first
	Urgency func(now time.Time, r *Request) float64

	view  *View
	lines [][]*Request // by engine
	gone  []Placed     // who is told that it is not worth it
}

// Near is false: a line is kept by a router.
func (l *Line) Near() bool { return false }

// Charge returns what a task pays, given its cost.
func (l *Line) Charge(cost market.Credits) market.Credits {
	if l.Price == 0 {
		return cost
	}
	return market.Credits(math.Round(l.Price * float64(cost)))
}

// Gain returns a task's surplus at an engine that begins with it so long after now: value less payment.
func (l *Line) Gain(now time.Time, engine int, r *Request, after time.Duration) market.Credits {
	return l.view.Value(now, engine, r, after) - l.Charge(l.view.Cost(engine, r))
}

// After returns how long a task that comes last is expected to wait for a slot of an engine.
func (l *Line) After(engine int) time.Duration {
	e := &l.view.Engines[engine]
	over := e.InFlight + len(l.lines[engine]) + 1 - e.Slots
	if over <= 0 {
		return 0
	}
	return time.Duration(float64(over) * l.view.Service(engine) / float64(e.Slots) * float64(time.Second))
}

// Load counts an engine's tasks, in flight and in line.
func (l *Line) Load(engine int) float64 {
	return float64(l.view.Engines[engine].InFlight + len(l.lines[engine]))
}

// Arrive implements Policy.
func (l *Line) Arrive(now time.Time, r *Request, v *View) int {
	if l.view = v; l.lines == nil {
		l.lines = make([][]*Request, len(v.Engines))
	}
	i := l.Choose(l, now, r, v)
	if i == Wait || l.Gain(now, i, r, 0) < 0 {
		l.gone = append(l.gone, Placed{Request: r, Engine: Wait})
		return Wait
	}
	if v.Free(i) > 0 && len(l.lines[i]) == 0 {
		return i
	}
	l.lines[i] = append(l.lines[i], r)
	return Wait
}

// Wake implements Policy.
func (l *Line) Wake(now time.Time) (place []Placed, next time.Time) {
	place, l.gone = l.gone, nil
	for i := range l.lines {
		if len(l.lines[i]) == 0 || l.view.Free(i) <= 0 {
			continue
		}
		l.lines[i] = slices.DeleteFunc(l.lines[i], func(r *Request) bool {
			over := l.Gain(now, i, r, 0) < 0
			if over {
				place = append(place, Placed{Request: r, Engine: Wait})
			}
			return over
		})
		for n := min(l.view.Free(i), len(l.lines[i])); n > 0; n-- {
			first := 0
			if l.Urgency != nil {
				for j, r := range l.lines[i] {
					if l.Urgency(now, r) > l.Urgency(now, l.lines[i][first]) {
						first = j
					}
				}
			}
			place = append(place, Placed{Request: l.lines[i][first], Engine: i})
			l.lines[i] = slices.Delete(l.lines[i], first, first+1)
		}
	}
	return place, time.Time{}
}
