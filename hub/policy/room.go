// Package policy has the runtime policy of a hub: it tells that what becomes of tasks, asks it for bits and
// tolls before any bid is read, and says what it set. What a policy is, bus/policy says.
package policy

import (
	"fmt"
	"slices"
	"time"

	"souk/bus/policy"
	"souk/hub/estimate"
	"souk/hub/turn"
	"souk/ledger"
	"souk/market"
)

// Params name the policy; "" is none.
type Params struct {
	Place string `yaml:"place"` // which agents a task may go to, and what it is charged there: Score of pairs
}

// Without turns a policy off where it is named, and reports whether it was.
func (p *Params) Without(name string) (was bool) {
	if was = p.Place == name; was {
		p.Place = ""
	}
	return was
}

// place names in reports where the policy is asked.
const place = "place"

// Validate says whether there is such a policy.
func (p Params) Validate(known policy.Known) error { return known.Validate(place, p.Place) }

// Room is the policy of a hub, and what it has said in the round at hand. Without a policy it says and does
// nothing.
type Room struct {
	policy.Guard
	turn *turn.Turn

	sets   []ledger.Set      // of the round at hand
	before map[policy.ID]int // tasks of each client that were asked about in it
	agents []Agent
	ids    []policy.ID // of these
	items  []policy.Item
	scores []float64
}

// NewRoom has the policy of p, which is known.
func NewRoom(t *turn.Turn, p Params, known policy.Known) *Room {
	r := &Room{turn: t, before: map[policy.ID]int{}}
	if p.Place != "" {
		r.Set(p.Place, known[p.Place]())
	}
	return r
}

// Set gives it a policy.
func (r *Room) Set(name string, p policy.Policy) { r.Guard = policy.NewGuard(name, p) }

// States returns the state of the policy, if there is one.
func (r *Room) States() (all []policy.State) {
	if r.Name() != "" {
		all = append(all, r.State(place, r.turn.Now()))
	}
	return all
}

// Report says whether the policy was turned off.
func (r *Room) Report() {
	if err := r.Fault(); err != nil {
		r.turn.Changed = true
		r.turn.Fault(fmt.Errorf("%s: %w", place, err))
	}
}

// Asker says of a task of a round which session and role it is of, and since when its client waits.
type Asker struct {
	Session, Role policy.ID
	Since         time.Time
}

// Agent says of an agent of a round whether it has prompts computed apart, and what its engine takes in with
// a second of computing prompts.
type Agent struct {
	Split  bool
	Second market.Credits
}

// Judge asks the policy about what each task of a round is offered, whatever was bid: what it
// forbids is offered no more, and for other offers the task is charged for what is lost by them. It returns
// who was forbidden any. task tells of the i-th, false: nobody is asked about it; agent tells of the k-th.
func (r *Room) Judge(from *estimate.Snapshot, waiters []estimate.Waiter, task func(i int) (Asker, bool),
	agent func(k int) Agent) (barred []int) {
	r.sets = r.sets[:0]
	if !r.On(r.turn.Now()) {
		return nil
	}
	clear(r.before)
	free := 0
	r.agents, r.ids = r.agents[:0], r.ids[:0]
	for k := range from.Agents {
		free += from.Agents[k].Free
		r.agents, r.ids = append(r.agents, agent(k)), append(r.ids, policy.IDOf(string(from.Agents[k].ID)))
	}
	for i := range waiters {
		w := &waiters[i]
		x, asks := task(i)
		if !asks || len(w.Offers) == 0 {
			continue
		}
		client := policy.IDOf(w.Client)
		before := r.before[client]
		r.before[client]++
		r.items = r.items[:0]
		for _, o := range w.Offers {
			r.items = append(r.items, policy.Item{Kind: policy.Pair, Agent: r.ids[o.Agent],
				Session: x.Session, Role: x.Role, Tokens: o.Cached, Client: client, Before: before,
				Free: free, Age: r.turn.Now().Sub(x.Since), Split: r.agents[o.Agent].Split})
		}
		if r.judge(w, from) {
			barred = append(barred, i)
		}
	}
	return barred
}

// judge has the policy judge the offers of a task. It reports whether any is forbidden. A task that may go to
// none of them may go to any; one that is held may go to none.
func (r *Room) judge(w *estimate.Waiter, from *estimate.Snapshot) (barred bool) {
	r.scores = slices.Grow(r.scores[:0], len(r.items))[:len(r.items)]
	r.Score(r.turn.Now(), r.items, r.scores)
	held, best, left := false, 0.0, false
	for _, s := range r.scores {
		held = held || s == policy.Hold
		if s >= 0 {
			best, left = max(best, s), true
		}
	}
	kept := w.Offers[:0]
	for i, s := range r.scores {
		o, never, toll := w.Offers[i], held || left && s == policy.Never, market.Credits(0)
		if s >= 0 && !held {
			toll = Toll(best-s, r.agents[o.Agent].Second)
		}
		if never || toll < 0 {
			r.sets = append(r.sets, ledger.Set{Policy: r.Name(), Task: string(w.ID),
				Agent: string(from.Agents[o.Agent].ID), Toll: toll})
		}
		if o.Extra += toll; never {
			barred = true
		} else {
			kept = append(kept, o)
		}
	}
	w.Offers = kept
	return barred
}

// MostLost bounds the engine seconds that one task is charged for.
const MostLost = 60.0

// Toll is the charge for engine seconds that others lose, at the price of a second: at most 0.
func Toll(lost float64, second market.Credits) market.Credits {
	if !(lost > 0) || second <= 0 {
		return 0
	}
	return -market.Credits(min(float64(min(lost, MostLost)*float64(second)), float64(market.MaxWorth)))
}

// Sets returns what the policy set in the round.
func (r *Room) Sets() []ledger.Set { return r.sets }

// Named picks of what was set for the tasks of a round, by policies or others, what its record has: what is
// charged, where the record names the agent, too, and the first agents where a task may not go.
func Named(r *market.Round, by ...[]ledger.Set) (all []ledger.Set) {
	if all = slices.Concat(by...); len(all) == 0 {
		return nil // as nearly always
	}
	in := map[[2]string]bool{}
	for _, t := range r.Tasks {
		in[[2]string{string(t.ID)}] = true
	}
	for _, e := range slices.Concat(r.Edges, r.Others) {
		in[[2]string{string(r.Tasks[e.Task].ID), string(r.Agents[e.Agent].Agent)}] = true
	}
	ledger.SortSets(all)
	barred := map[string]int{} // of each task: agents where it may not go
	return slices.DeleteFunc(all, func(s ledger.Set) bool {
		if s.Toll < 0 {
			return !in[[2]string{s.Task, s.Agent}]
		}
		barred[s.Task]++
		return !in[[2]string{s.Task}] || barred[s.Task] > market.MaxShown
	})
}
