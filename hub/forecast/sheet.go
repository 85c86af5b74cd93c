package forecast

import (
	"slices"

	"souk/hub/estimate"
)

// Sheet has the agents of a round, what tasks would have of each, and estimates: one for all of a class that
// hold as much of a task's prompt.
type Sheet struct {
	rows  []row // of this round
	task  *Task // at hand
	first int   // of its rows

	agents  []*Agent
	Classes []*Class         // of the agents
	kinds   []kind           // of agents
	kind    []int32          // of each agent: in kinds
	alike   []estimate.Offer // of the task at hand, of agents of each kind that hold nothing
	own     estimate.Offer   // of one that does
	offers  []estimate.Offer // of all tasks
}

// kind holds what agents have in common that are as good to a task of whose prompt they hold nothing.
type kind struct {
	class  *Class
	beside int            // tasks that each has beside another
	load   estimate.Delay // had it computed what it has in hand
}

// Set has the sheet be of no agents yet.
func (s *Sheet) Set() {
	s.agents, s.Classes, s.kinds, s.kind = s.agents[:0], s.Classes[:0], s.kinds[:0], s.kind[:0]
}

// Add adds an agent of a round, with so many tasks beside another.
func (s *Sheet) Add(r *Room, a *Agent, beside int) {
	c := r.Of(a)
	i := slices.IndexFunc(s.kinds, func(x kind) bool { return x.class == c && x.beside == beside })
	if i < 0 {
		i = len(s.kinds)
		s.kinds = append(s.kinds, kind{c, beside, c.Line.Delay(estimate.Load{Decoding: beside})})
	}
	s.agents, s.Classes, s.kind = append(s.agents, a), append(s.Classes, c), append(s.kind, int32(i))
}

// Offers returns what a task would have of each agent that may serve it, as far as keep says of it.
func (s *Sheet) Offers(r *Room, now int64, t *Task, keep func(o *estimate.Offer) bool) []estimate.Offer {
	from := len(s.offers)
	s.reach(r, now, t, func(o *estimate.Offer) {
		if keep(o) {
			s.offers = append(s.offers, *o)
		}
	})
	return s.offers[from:len(s.offers):len(s.offers)]
}

// Ask shows what a task would have that a client only asks about, which nothing remembers: see [Room.Reach].
func (s *Sheet) Ask(r *Room, now int64, t *Task, may func(o estimate.Obstacle, context, prompt int) bool,
	show func(o *estimate.Offer)) {
	r.Reach(now, t, may, nil)
	s.Clear(0)
	s.reach(r, now, t, show)
}

// reach shows what a task would have of each agent that may serve it, behind the prompts that this has in
// hand: one offer for agents of a kind that hold nothing.
func (s *Sheet) reach(r *Room, now int64, t *Task, show func(o *estimate.Offer)) {
	alone := t.Only != nil || t.Failed != nil && len(*t.Failed) > 0
	s.Next(t)
	s.alike = s.alike[:0]
	for range s.kinds {
		s.alike = append(s.alike, estimate.Offer{Agent: -1}) // none is made yet
	}
	depths := r.depths(t)
	for k, a := range s.agents {
		o, depth := &s.own, depths[a.Place]
		if alone || depth > 0 {
			*o = s.make(r, now, k, depth)
		} else if o = &s.alike[s.kind[k]]; o.Agent < 0 {
			*o = s.make(r, now, k, 0)
		}
		if o.Agent = int32(k); o.Estimate != nil {
			show(o)
		}
	}
}

// make forecasts the task at hand at the k-th agent; without an estimate where it may not go there.
func (s *Sheet) make(r *Room, now int64, k int, depth int32) (o estimate.Offer) {
	a, c := s.agents[k], s.Classes[k]
	if s.task.obstacle(a, c) == estimate.None {
		o.Estimate = s.Of(r, now, c, a.expect(c, s.task.Prompt, depth))
		o.TTFT = c.Line.Later(o.First, o.Work, s.kinds[s.kind[k]].load)
		o.Half = a.Half(o.TTFT)
	}
	return o
}

type row struct {
	class *Class
	held  estimate.Held
	estimate.Estimate
}

// Clear begins a round of so many tasks. What was shown of the last is no more.
func (s *Sheet) Clear(tasks int) {
	s.rows, s.offers = s.rows[:0], slices.Grow(s.offers[:0], tasks*len(s.agents))
}

// Next says that the next estimates are of another task.
func (s *Sheet) Next(t *Task) { s.task, s.first = t, len(s.rows) }

// near bounds the rows that are looked through for one: of more kinds of agents some have two.
const near = 16

// Of is [Room.Estimate] of the task at hand.
func (s *Sheet) Of(r *Room, now int64, c *Class, h estimate.Held) *estimate.Estimate {
	for i := max(s.first, len(s.rows)-near); i < len(s.rows); i++ {
		if x := &s.rows[i]; x.class == c && x.held == h {
			return &x.Estimate
		}
	}
	s.rows = append(s.rows, row{c, h, r.Estimate(now, s.task, c, h)})
	return &s.rows[len(s.rows)-1].Estimate
}
