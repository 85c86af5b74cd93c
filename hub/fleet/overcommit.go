package fleet

import (
	"time"

	"souk/market"
)

// An engine begins the first task of its own queue in the step after a slot is free. One that a hub sends
// when it hears of that comes a step or two later, and the slot is idle meanwhile: for half a percent to
// two of an answer. So an agent whose slots are all taken is given one task more, where nobody dearer is
// likely to come who would have had its place, and prompts take at most half of the engine's time with all
// slots taken: where they take more, caches are short, and another prompt before its turn costs more than a
// step.

// leastSlots bounds from below the slots of an agent that is given more. Of few the first end is far off, and
// who stands in that engine's queue meanwhile waits beside slots that others have free.
const leastSlots = 8

// Overcommit sets which agents are given a task beyond their slots. spread is by how much a second is dearer
// to who comes than to who came before, on the mean and of the mean: see round.Spread. Half the time until
// one of the slots is free, times that, is what the place costs a dearer task; a step, the time between
// tokens of the agent's answers, is what it gains.
func (r *Room[A]) Overcommit(spread float64) {
	for _, kept := range r.all {
		a := kept.self()
		busy, known := a.busy()
		a.overcommit = known && busy >= 2*a.sold && a.sold >= leastSlots && len(a.Runs) > 0
		if a.overcommit {
			service, step := a.Service().Mean(), a.pace.Token(a.Load(r.turn.Nano()))
			a.overcommit = r.turn.Now().Sub(a.Runs[0].Since) <= overdue*service &&
				spread*float64(service) < 2*float64(len(a.Runs))*float64(step)
		}
	}
}

// Queued bounds for how long a task that the agent is given now is in its engine's queue: usually, but for
// one in a thousand, and at the most, until the first of those that run ends. It is 0 where a slot is free.
// For how long these were in the queue themselves does not count: else each would have more time than the
// last.
func (a *Agent) Queued() (usually, most time.Duration) {
	if slots, _ := a.slots(); a.Running() < slots || len(a.Runs) == 0 {
		return 0, 0
	}
	most = market.MaxIn
	for _, x := range a.Runs {
		most = min(most, max(0, x.Most))
	}
	return min(most, 7*a.Service().Mean()/time.Duration(len(a.Runs))), most // e^-7 is one in a thousand
}
