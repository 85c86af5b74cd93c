package fleet

import (
	"time"

	"souk/market"
)

// An engine begins the first task of its own queue in the step after a slot is free. One that a hub sends when
// it hears of that comes a step or two later, and the slot is idle meanwhile: for half a percent to two of an
// answer. So an agent whose slots are all taken is given one task more, where nobody dearer is likely to come
// who would have had its place, and prompts take at most half of the engine's time with all slots taken:
// where they take more, caches are short, and another prompt before its turn costs more than a step.

// Overcommit sets which agents are given a task beyond their slots. spread is by how much a second is dearer
// to who comes than to who came before, on the mean and of the mean: see round.Spread. Half the time until
// one of the slots is free, times that, is what the place costs a dearer task; a step, the time between tokens
// of the agent's answers, is what it gains.
func (r *Room[A]) Overcommit(spread float64) {
	for _, kept := range r.all {
		a := kept.self()
		busy, known := a.busy()
		if a.overcommit = known && busy >= 2*a.sold && a.queues && a.stuck == 0 && len(a.runs) > 0; a.overcommit {
			service, step := a.Service().Mean(), a.pace.Token(a.Load(r.turn.Nano()))
			a.overcommit = r.turn.Now().Sub(a.runs[0].Since) <= overdue*service &&
				spread*float64(service) < 2*float64(len(a.runs))*float64(step)
		}
	}
}

// Queued bounds for how long a task that the agent is given now is in its engine's queue: usually, but for one
// in a thousand, and at the latest, until the first of those that run ends. It is 0 where a slot is free.
func (a *Agent) Queued(now time.Time) (usually, most time.Duration) {
	if slots, _ := a.slots(); a.Running() < slots || len(a.runs) == 0 {
		return 0, 0
	}
	until := a.runs[0].Until
	for _, x := range a.runs {
		if x.Until.Before(until) {
			until = x.Until
		}
	}
	most = min(max(0, until.Sub(now)), market.MaxIn)
	return min(most, 7*a.Service().Mean()/time.Duration(len(a.runs))), most // e^-7 is one in a thousand
}
