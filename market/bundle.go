package market

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"souk/market/flow"
)

// Hubs once put the tasks of a round that began alike on one agent together. They no longer do; this is what
// is left to audit their journals: no assignment problem says what they did, so nothing shorter than the same
// search proves such a round.

// Bundle is tasks that go to one agent if they are served at all.
type Bundle struct {
	Tasks []int // index into Round.Tasks, ascending; two or more
}

// maxBundleNodes bounds one search. A batch of 16 tasks in four bundles on eight agents takes 100 to 200
// solves for each search.
const maxBundleNodes = 20_000

// maxBundleWork bounds all searches of a round together, in edges, tasks and seats read at least once for
// each solve: a quarter of a second, so that a record made up to stall its auditor cannot.
const maxBundleWork = 1 << 26

// errBundles: hubs cleared such a round without bundles.
var errBundles = errors.New("bundles: the best placement was not proven in time")

func validateBundles(bundles []Bundle, tasks int) error {
	if len(bundles) == 0 {
		return nil
	}
	seen := make(map[int]bool)
	for i, b := range bundles {
		if len(b.Tasks) < 2 {
			return fmt.Errorf("bundle %d has %d tasks, want at least 2", i, len(b.Tasks))
		}
		if i > 0 && b.Tasks[0] <= bundles[i-1].Tasks[0] {
			return fmt.Errorf("bundle %d: out of order: bundles stand by their first task", i)
		}
		for k, j := range b.Tasks {
			if j < 0 || j >= tasks || k > 0 && j <= b.Tasks[k-1] || seen[j] {
				return fmt.Errorf("bundle %d: task index %d: out of range or order, or in another bundle",
					i, j)
			}
			seen[j] = true
		}
	}
	return nil
}

// bundled clears a round whose bundles stay together: the best of all assignments in which the served tasks
// of a bundle are on one agent, found by branch and bound on plain assignments. There is no common price of a
// slot then; SlotPrice of an award is what its place costs the others, found by clearing again without its
// task (under clarke: client without all its client's tasks, split over them by weight, so that none pays
// more than it gains). Costs of edges are those quoted for the bundle, which makes it a choice among fixed
// amounts: truth is best, nobody is served at a loss, and premiums cover the fee.
func (ws *workspace) bundled(r *Round) (Outcome, error) {
	l := &ws.layout
	s := &bundleSearch{l: l, solver: &ws.solver, bundles: r.Bundles, of: make([]int, len(r.Tasks))}
	for j := range s.of {
		s.of[j] = -1
	}
	for i, b := range r.Bundles {
		for _, j := range b.Tasks {
			s.of[j] = i
		}
	}
	welfare, match, err := s.best(nil, -1)
	if err != nil {
		return Outcome{}, err
	}
	if match, err = s.settle(match, r.tieKeys(l.seats).hash); err != nil {
		return Outcome{}, err
	}
	var o Outcome
	l.place(r, &o, match, nil)
	for _, g := range r.payers(o.Awards) {
		without, _, err := s.best(g.tasks, welfare-int64(g.weight)) // the others could stay where they are
		if err != nil {
			return Outcome{}, err
		}
		externality := Credits(without) - (o.Welfare - g.weight)
		if externality < 0 || externality > g.weight {
			panic("market: bundles: a task costs the others less than nothing or more than it adds")
		}
		g.split(o.Awards, externality)
	}
	return o, nil
}

// checkBundled clears again: nothing shorter proves a search.
func (ws *workspace) checkBundled(r *Round, o *Outcome) error {
	want, err := ws.bundled(r)
	if err != nil {
		return err
	}
	if !bytes.Equal(o.AppendCanonical(nil), want.AppendCanonical(nil)) {
		return errors.New("clearing with its bundles gives another")
	}
	return nil
}

// payers are those whose externality is paid: each task by itself, or each client.
func (r *Round) payers(awards []Award) []group {
	var list []group
	index := make(map[string]int)
	next := 0
	for t, task := range r.Tasks {
		name := string(task.ID)
		if r.Rule.Clarke == ClarkeClient {
			name = task.Client
		}
		i, ok := index[name]
		if !ok {
			i = len(list)
			index[name], list = i, append(list, group{client: name})
		}
		g := &list[i]
		g.tasks = append(g.tasks, int32(t))
		if next < len(awards) && awards[next].Task == task.ID {
			g.awards = append(g.awards, int32(next))
			g.weight += awards[next].Value - awards[next].Cost + awards[next].Toll
			next++
		}
	}
	return slices.DeleteFunc(list, func(g group) bool { return len(g.awards) == 0 })
}

// split bills a payer's externality over its awards in proportion to what each adds, so that none pays more
// than that.
func (g *group) split(awards []Award, externality Credits) {
	g.prices = g.weight
	for _, i := range g.awards {
		a := &awards[i]
		a.SlotPrice = a.Value - a.Cost + a.Toll
		a.Premium = -a.Toll
	}
	if g.weight > 0 {
		g.bill(awards, externality)
	}
	for _, i := range g.awards {
		awards[i].SlotPrice = awards[i].Premium + awards[i].Toll
	}
}

// bundleSearch looks for the best assignment that keeps bundles together. Its bound is the plain assignment,
// which may pull them apart.
type bundleSearch struct {
	l       *layout
	solver  *flow.Solver
	bundles []Bundle
	of      []int // bundle of every task, or -1

	without []int32 // tasks left out
	nodes   int
	work    int // of all searches so far
	welfare int64
	match   []int32
}

// best is the greatest welfare without some tasks, and where the others sit then; no place is given where
// floor, a welfare known to be possible, is not exceeded.
func (s *bundleSearch) best(without []int32, floor int64) (int64, []int32, error) {
	s.without, s.nodes, s.welfare, s.match = without, 0, floor, nil
	pins := make([]int32, len(s.bundles))
	for i := range pins {
		pins[i] = -1
	}
	welfare, match, err := s.relaxed(pins)
	if err == nil {
		err = s.branch(pins, welfare, match)
	}
	return s.welfare, s.match, err
}

// branch settles the first bundle that the bound pulls apart on each agent in turn, the most promising first.
// pins names the agent of every bundle that is settled, or -1.
func (s *bundleSearch) branch(pins []int32, welfare int64, match []int32) error {
	if welfare <= s.welfare {
		return nil
	}
	apart := s.apart(match)
	if apart < 0 {
		s.welfare, s.match = welfare, match
		return nil
	}
	type child struct {
		agent   int32
		welfare int64
		match   []int32
	}
	var children []child
	for _, agent := range s.agents(apart) {
		pins[apart] = agent
		w, m, err := s.relaxed(pins)
		if err != nil {
			return err
		}
		children = append(children, child{agent, w, m})
	}
	slices.SortStableFunc(children, func(a, b child) int { return cmp.Compare(b.welfare, a.welfare) })
	for _, c := range children {
		pins[apart] = c.agent
		if err := s.branch(pins, c.welfare, c.match); err != nil {
			return err
		}
	}
	pins[apart] = -1
	return nil
}

// apart is the first bundle whose tasks sit on several agents, or -1.
func (s *bundleSearch) apart(match []int32) int {
	for i, b := range s.bundles {
		home := int32(-1)
		for _, j := range b.Tasks {
			if match[j] < 0 {
				continue
			}
			if at := s.l.seats[match[j]].agent; home >= 0 && at != home {
				return i
			} else {
				home = at
			}
		}
	}
	return -1
}

// agents that some task of the bundle may sit at, ascending.
func (s *bundleSearch) agents(bundle int) []int32 {
	var list []int32
	for _, j := range s.bundles[bundle].Tasks {
		for _, a := range s.l.seat[s.l.off[j]:s.l.off[j+1]] {
			list = append(list, s.l.seats[a].agent)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// relaxed solves the plain assignment with settled bundles held to their agents.
func (s *bundleSearch) relaxed(pins []int32) (int64, []int32, error) {
	if s.nodes++; s.nodes > maxBundleNodes {
		return 0, nil, errBundles
	}
	if s.work += len(s.l.seat) + len(s.of) + len(s.l.slots); s.work > maxBundleWork {
		return 0, nil, errBundles
	}
	match := make([]int32, len(s.of))
	for t := range match {
		match[t] = -1
	}
	if len(s.l.slots) == 0 {
		return 0, match, nil
	}
	p := s.problem(pins)
	if err := s.solver.Solve(&p, nil); err != nil {
		return 0, nil, err
	}
	var welfare int64
	for t, a := range s.solver.Match {
		if a >= 0 {
			lo := p.Off[t]
			i, _ := slices.BinarySearch(p.Seat[lo:p.Off[t+1]], a)
			welfare += p.Weight[int(lo)+i]
		}
	}
	copy(match, s.solver.Match)
	return welfare, match, nil
}

// settle breaks ties among tasks by the round's seed, every bundle staying with the agent that the search
// found for it.
func (s *bundleSearch) settle(match []int32, hash func(task, seat int32) uint64) ([]int32, error) {
	if len(s.l.slots) == 0 {
		return match, nil
	}
	pins := make([]int32, len(s.bundles))
	for i, b := range s.bundles {
		pins[i] = -1
		for _, j := range b.Tasks {
			if match[j] >= 0 {
				pins[i] = s.l.seats[match[j]].agent
			}
		}
		if agents := s.agents(i); pins[i] < 0 && len(agents) > 0 {
			pins[i] = agents[0] // of a bundle left out: it may not be pulled apart by edges of no weight
		}
	}
	p := s.problem(pins)
	if err := s.solver.Solve(&p, nil); err != nil {
		return nil, err
	}
	s.solver.Settle(&p, hash)
	return slices.Clone(s.solver.Match), nil
}

func (s *bundleSearch) problem(pins []int32) flow.Problem {
	l := s.l
	p := flow.Problem{Off: make([]int32, 1, len(s.of)+1), Slots: l.slots}
	for t := range s.of {
		if !slices.Contains(s.without, int32(t)) {
			for i := l.off[t]; i < l.off[t+1]; i++ {
				if b := s.of[t]; b < 0 || pins[b] < 0 || l.seats[l.seat[i]].agent == pins[b] {
					p.Seat, p.Weight = append(p.Seat, l.seat[i]), append(p.Weight, l.weight[i])
				}
			}
		}
		p.Off = append(p.Off, int32(len(p.Seat)))
	}
	return p
}
