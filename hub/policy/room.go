package policy

import (
	"slices"
	"time"

	"souk/bus/bounded"
	"souk/bus/policy"
	"souk/hub/estimate"
	"souk/hub/turn"
	"souk/ledger"
	"souk/market"
)

// Room is the policies of a hub, what it remembers for them, and what they have said in the round at hand.
// Without a policy it says and does nothing.
type Room struct {
	policy.Hosted[Hook]
	sessions *bounded.Cache[policy.ID, policy.ID, session]
	turn     *turn.Turn
	quiet    func() bool
	tick     turn.Timer

	sets   []ledger.Set      // of the round at hand
	before map[policy.ID]int // tasks of each client that were asked about in it
	agents []Agent
	ids    []policy.ID // of these
	items  []policy.Item
	scores []float64
}

const (
	actEvery = time.Second // policies are asked for effects so often

	// room for what they want done then
	mostEffects = 64
	mostTokens  = 1 << 20
	mostSteps   = 1 << 16
)

// NewRoom has the policies of p, which are known, and remembers so many sessions. quiet reports whether no
// task waits: engines have time then.
func NewRoom(t *turn.Turn, p Params, known *Known, sessions int, quiet func() bool) *Room {
	r := &Room{turn: t, quiet: quiet, before: map[policy.ID]int{},
		sessions: bounded.New[policy.ID, policy.ID, session](max(1, sessions), 0)}
	p.names().Make(known[:], r.Put)
	r.tick.Due = r.act
	return r
}

// act is called by a timer, once a second after a task has come. What policies want done may be of use where
// it is of a session, for an agent, not too late, and no task waits that needs the engines more.
func (r *Room) act() {
	if !r.turn.Leading || r.turn.Draining {
		return
	}
	now := r.turn.Now()
	r.turn.Set(&r.tick, now.Add(actEvery))
	for _, e := range r.Of(Keep).Act(now, policy.Room{Effects: mostEffects, Tokens: mostTokens,
		Work: policy.NewWork(mostSteps)}) {
		late := !e.Until.IsZero() && now.After(e.Until)
		if r.quiet() && !late && e.Session != 0 && e.Tokens != 0 && e.Agent != 0 {
			r.turn.Out.Wishes = append(r.turn.Out.Wishes, e)
		}
	}
}

// Report says which policies were turned off.
func (r *Room) Report() {
	for _, err := range r.Faults() {
		r.turn.Changed = true
		r.turn.Fault(err)
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

// Judge asks the policy of [Place] about what each task of a round is offered, whatever was bid: what it
// forbids is offered no more, and for other offers the task is charged for what is lost by them. It returns
// who was forbidden any. task tells of the i-th, false: nobody is asked about it; agent tells of the k-th.
func (r *Room) Judge(from *estimate.Snapshot, waiters []estimate.Waiter, task func(i int) (Asker, bool),
	agent func(k int) Agent) (barred []int) {
	r.sets = r.sets[:0]
	if !r.Of(Place).On(r.turn.Now()) {
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
	by := r.Of(Place)
	r.scores = slices.Grow(r.scores[:0], len(r.items))[:len(r.items)]
	by.Score(r.turn.Now(), r.items, r.scores)
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
			r.sets = append(r.sets, ledger.Set{Policy: by.Name(), Task: string(w.ID),
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

// Sets returns what policies set in the round.
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
	slices.SortFunc(all, ledger.CompareSets)
	barred := map[string]int{} // of each task: agents where it may not go
	return slices.DeleteFunc(all, func(s ledger.Set) bool {
		if s.Toll < 0 {
			return !in[[2]string{s.Task, s.Agent}]
		}
		barred[s.Task]++
		return !in[[2]string{s.Task}] || barred[s.Task] > market.MaxShown
	})
}
