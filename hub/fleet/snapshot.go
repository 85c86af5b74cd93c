package fleet

import (
	"time"

	"souk/hub/estimate"
	"souk/market"
)

// Snapshot makes x what there is at a moment, in the memory that it has: the agents that take tasks, by id,
// the classes that these are of, and what runs, at these and at others. It shows those agents.
func (r *Room[A]) Snapshot(x *estimate.Snapshot, now time.Time, nano int64, show func(A)) {
	*x = estimate.Snapshot{Now: nano, Agents: x.Agents[:0], Classes: x.Classes[:0], Runs: x.Runs[:0]}
	placed := make([]*Service, 0, 16)
	for _, kept := range r.all {
		a, k := kept.self(), int32(-1)
		if a.Open(nano) {
			k = int32(len(x.Agents))
			s := a.Service()
			if s.place == 0 {
				x.Classes = append(x.Classes, estimate.Class{
					Service: s.Mean(), Own: s.Own(), Prefill: s.Prefill})
				s.place, placed = int32(len(x.Classes)), append(placed, s)
			}
			x.Agents = append(x.Agents, estimate.Agent{})
			e := &x.Agents[k]
			e.ID, e.Class, e.Running = market.AgentID(a.id), s.place-1, a.Running()
			e.Slots, e.PrefillBound = a.slots()
			e.Free = a.Free(nano)
			if e.Running > 0 {
				e.Since, e.Overdue, e.Age = a.ends(now, s.Mean())
			}
			show(kept)
		}
		for _, t := range a.Runs {
			x.Runs = append(x.Runs, estimate.Run{Client: t.Client, Agent: k, For: now.Sub(t.Since)})
		}
	}
	for _, s := range placed {
		s.place = 0 // a quote leaves no trace
	}
}

// overdue is the multiple of the usual time after which a running task is not expected to end.
const overdue = 3

// ends tells of the tasks that the agent has, where one usually keeps its slot for so long: since when that
// has run which is expected to end first, in nanoseconds (0: none is), how many have run so long that they
// are not expected to end, and of these for how long the youngest has.
func (a *Agent) ends(now time.Time, usual time.Duration) (since int64, late int, age time.Duration) {
	for _, x := range a.Runs {
		if age = now.Sub(x.Since); age <= overdue*usual {
			since = x.Since.UnixNano()
			break
		}
		late++
	}
	if a.stuck > 0 { // when it ends nobody knows
		late, age = late+a.stuck, max(age, now.Sub(a.excessSince))
	}
	return since, late, age
}
