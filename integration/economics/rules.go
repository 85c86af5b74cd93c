package economics

import (
	"cmp"
	"slices"

	"souk/market"
	"souk/market/flow"
)

// rule says who is served where, and for what beside the cost.
type rule struct {
	name, about string
	place       func(s *sim, ds []demand) ([]place, error)
}

var (
	souk    = rule{"souk", "greatest welfare, slot prices, congestion charge in the premium", placeSouk}
	maxFlow = rule{"max-flow",
		"the paper's network as printed: as many tasks as possible, then greatest welfare; payments by Eq. 8",
		placeMaxFlow}
	greedy = rule{"greedy", "the heaviest edge first; the price card alone is paid", placeGreedy}
	sticky = rule{"posted + sticky",
		"one after another: the session's last agent while it has room, else the best at its price card",
		placeSticky}
	twoLine = rule{"two lines", "longest match if at least two blocks, else least loaded; nobody is asked",
		placeTwoLine}
	leastLoad  = rule{"least loaded", "the agent with the most free slots; nobody is asked", placeLeastLoaded}
	everyRule  = []rule{souk, maxFlow, greedy, sticky, twoLine, leastLoad}
	paperRules = []rule{souk, maxFlow}
)

func placeSouk(s *sim, ds []demand) ([]place, error) {
	_, places, err := s.honest(ds, market.SettleMetered)
	return places, err
}

// mayServe reports whether an agent is open to a task.
func (s *sim) mayServe(d *demand, a int) bool { return s.allowed == nil || s.allowed(d.person, a) }

// placeMaxFlow is min-cost MAX-flow on the edges of positive welfare, and Eq. 8 by solving again without each
// task. A bonus on every edge, larger than all welfare together, makes the greatest weight the greatest
// number first.
func placeMaxFlow(s *sim, ds []demand) ([]place, error) {
	var bonus int64 = 1
	weight := func(j, a int) int64 { return int64(ds[j].value[a] - ds[j].quote[a]) }
	for j := range ds {
		var most int64
		for a := range s.nodes {
			most = max(most, weight(j, a))
		}
		bonus += most
	}
	var solver flow.Solver
	solve := func(without int) ([]int32, int64, error) {
		p := flow.Problem{Off: []int32{0}}
		for _, n := range s.nodes {
			p.Slots = append(p.Slots, int32(n.slots))
		}
		for j := range ds {
			for a := range s.nodes {
				if w := weight(j, a); j != without && w > 0 && s.mayServe(&ds[j], a) {
					p.Seat, p.Weight = append(p.Seat, int32(a)), append(p.Weight, w+bonus)
				}
			}
			p.Off = append(p.Off, int32(len(p.Seat)))
		}
		if err := solver.Solve(&p, nil); err != nil {
			return nil, 0, err
		}
		var welfare int64
		for j, a := range solver.Match {
			if a >= 0 {
				welfare += weight(j, int(a))
			}
		}
		return solver.Match, welfare, nil
	}
	match, welfare, err := solve(-1)
	if err != nil {
		return nil, err
	}
	match = slices.Clone(match)
	var out []place
	for j, a := range match {
		if a < 0 {
			continue
		}
		_, without, err := solve(j)
		if err != nil {
			return nil, err
		}
		out = append(out, place{task: j, agent: int(a),
			premium: market.Credits(without - (welfare - weight(j, int(a))))})
	}
	return out, nil
}

func placeGreedy(s *sim, ds []demand) ([]place, error) {
	type edge struct {
		task, agent int
		weight      market.Credits
	}
	var edges []edge
	for j := range ds {
		for a := range s.nodes {
			if w := ds[j].value[a] - ds[j].quote[a]; w > 0 && s.mayServe(&ds[j], a) {
				edges = append(edges, edge{j, a, w})
			}
		}
	}
	slices.SortStableFunc(edges, func(a, b edge) int { return cmp.Compare(b.weight, a.weight) })
	free, taken := s.free(), make([]bool, len(ds))
	var out []place
	for _, e := range edges {
		if !taken[e.task] && free[e.agent] > 0 {
			taken[e.task] = true
			free[e.agent]--
			out = append(out, place{task: e.task, agent: e.agent})
		}
	}
	return out, nil
}

func (s *sim) free() []int {
	free := make([]int, len(s.nodes))
	for a := range s.nodes {
		free[a] = s.nodes[a].slots
	}
	return free
}

// oneByOne serves tasks in an order drawn anew each round; choose names an agent with a free slot, or -1.
func (s *sim) oneByOne(ds []demand, choose func(d *demand, free []int) int) []place {
	free := s.free()
	var out []place
	for _, j := range s.rng.Perm(len(ds)) {
		if a := choose(&ds[j], free); a >= 0 {
			free[a]--
			out = append(out, place{task: j, agent: a})
		}
	}
	return out
}

// best is the agent with a free slot of the greatest measure, the first of equals; -1 if none has one of more
// than least.
func (s *sim) best(d *demand, free []int, least int64, measure func(a int) int64) int {
	best := -1
	for a := range s.nodes {
		if m := measure(a); free[a] > 0 && m > least && s.mayServe(d, a) {
			best, least = a, m
		}
	}
	return best
}

func placeSticky(s *sim, ds []demand) ([]place, error) {
	return s.oneByOne(ds, func(d *demand, free []int) int {
		gain := func(a int) int64 { return int64(d.value[a] - d.quote[a]) }
		if home := s.people[d.person].home; home >= 0 && free[home] > 0 && gain(home) >= 0 &&
			s.mayServe(d, home) {
			return home
		}
		return s.best(d, free, -1, gain)
	}), nil
}

func placeTwoLine(s *sim, ds []demand) ([]place, error) {
	return s.oneByOne(ds, func(d *demand, free []int) int {
		if a := s.best(d, free, 2*block-1, func(a int) int64 { return int64(d.overlap[a]) }); a >= 0 {
			return a
		}
		return s.leastLoaded(d, free)
	}), nil
}

func placeLeastLoaded(s *sim, ds []demand) ([]place, error) {
	return s.oneByOne(ds, s.leastLoaded), nil
}

func (s *sim) leastLoaded(d *demand, free []int) int {
	return s.best(d, free, 0, func(a int) int64 { return int64(free[a]) })
}

// score is how a market went under one rule, as things came to be: times with the line before each prefill,
// costs metered.
type score struct {
	asked, served, lost, below int // turns; below: served at a loss to the client
	clients, unhappy           int // unhappy: lost money over the whole run
	welfare, utility, premiums float64
	prompt, hit                int
	ttft                       []float64 // seconds
}

func (s *sim) play(rl rule, rounds int) (score, error) {
	var sc score
	kept := make([]market.Credits, len(s.people))
	for range rounds {
		ds := s.demands()
		places, err := rl.place(s, ds)
		if err != nil {
			return sc, err
		}
		out, lost := s.serve(ds, places)
		sc.asked, sc.lost, sc.served = sc.asked+len(ds), sc.lost+lost, sc.served+len(out)
		for _, sv := range out {
			d := ds[sv.task]
			cost := d.real[sv.agent]
			keeps := sv.value - cost - sv.premium
			sc.welfare += micro(sv.value - cost)
			sc.utility += micro(keeps)
			sc.premiums += micro(sv.premium)
			if keeps < 0 {
				sc.below++
			}
			kept[d.person] += keeps
			sc.prompt, sc.hit = sc.prompt+d.turn.prompt, sc.hit+d.overlap[sv.agent]
			sc.ttft = append(sc.ttft, sv.ttft.Seconds())
		}
	}
	sc.clients = len(kept)
	for _, k := range kept {
		if k < 0 {
			sc.unhappy++
		}
	}
	return sc, nil
}

func sumScores(list []score) (sum score) {
	for _, s := range list {
		sum.asked, sum.served, sum.lost, sum.below = sum.asked+s.asked, sum.served+s.served, sum.lost+s.lost,
			sum.below+s.below
		sum.clients, sum.unhappy = sum.clients+s.clients, sum.unhappy+s.unhappy
		sum.welfare, sum.utility, sum.premiums = sum.welfare+s.welfare, sum.utility+s.utility,
			sum.premiums+s.premiums
		sum.prompt, sum.hit = sum.prompt+s.prompt, sum.hit+s.hit
		sum.ttft = append(sum.ttft, s.ttft...)
	}
	return sum
}
