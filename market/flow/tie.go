package flow

import "math/bits"

// Among matchings of equal weight the answer must not depend on the algorithm or on the order of the input.
// Once the least prices are known, which are unique, an edge is tight if its task is indifferent to it; every
// best matching uses tight edges only, serves every task of positive utility and fills every seat of positive
// price. Among those the answer serves the most tasks and then has the greatest sum of hash bits. Both wishes
// and both duties are put into one weight and the tight edges are solved once more:
//
//	weight = hash bits + S  + D [utility > 0] + D [price > 0]
//
// with h hash bits, K seats, S = (K+2) 2^h and D = 2S. One exchange shifts hash bits by less than (K+1) 2^h <
// S, so serving one more task outweighs it; mending one duty may cost one served task and all hash bits,
// which is less than D. Weights are below 2^(h+3) (K+2), so h = min(40, 58 - 2 len(K+1)) keeps weight x (K+1)
// under 2^62.

// TieBits counts the bits of the hash that a problem with so many seats can use.
func TieBits(seats int) int { return min(40, 58-2*bits.Len(uint(seats+1))) }

// tieBreak holds the state of Settle and Witnesses beside the Solver's own.
type tieBreak struct {
	problem Problem // the tight edges; their weights only where there are ties
	merged  Problem // the same, where seats that nobody tells apart are one
	apart   []bool  // of every seat: somebody tells it from the one before
	group   []int32 // likewise: which it is of merged
	first   []int32 // of every seat of merged: the first that it is made of, with a slot to give
	solver  *Solver
	rank    []int64
	queue   []int32
	into    []int32
}

// Settle makes the answer of the last Solve canonical: it may exchange tasks at no change of weight or
// price. hash gives 64 unchosen bits for an edge. It returns the second price of every seat, which proves the
// choice (see package certify), or nil if the best matching is the only one.
func (s *Solver) Settle(p *Problem, hash func(task, seat int32) uint64) []int64 {
	s.tighten(p)
	if s.unique(p) {
		return nil
	}
	return s.breakTies(p, hash)
}

// tighten lists the edges that their tasks are indifferent to, the one they sit at among them.
func (s *Solver) tighten(p *Problem) {
	q := &s.tie.problem
	q.Off, q.Seat, q.Slots = append(q.Off[:0], 0), q.Seat[:0], p.Slots
	for k := range int32(p.Tasks()) {
		u := s.utility(k)
		seat, weight := p.Seat[p.Off[k]:p.Off[k+1]], p.Weight[p.Off[k]:p.Off[k+1]]
		weight = weight[:len(seat)]
		for i, b := range seat {
			if weight[i]-s.Price[b] == u {
				q.Seat = append(q.Seat, b)
			}
		}
		q.Off = append(q.Off, int32(len(q.Seat)))
	}
}

// unique reports whether no exchange leaves weight and prices as they are. Exchanges are arcs between seats
// and one more node, the outside; a second best matching is a cycle of them. Where there are ties the first
// way that is followed mostly comes back to where it has been.
//
//	a > b        a task on a has a tight edge to b
//	a > outside  a task on a has utility 0, or a has a free slot
//	outside > a  a task left out has a tight edge to a, or a is full at price 0 and may be left with a free
//	             slot
//	outside > b  as a > b, if a has free slots: it gives a task away and nobody need come (to lead outside >
//	             a > outside instead would free a slot and fill it again, which changes nothing)
func (s *Solver) unique(p *Problem) bool {
	outside := int32(len(p.Slots))
	s.group(int(outside))
	was := grow(s.tie.into, int(outside)+1)
	s.tie.into = was
	clear(was)
	var returns func(a int32) bool // a way from a comes to where it has been
	returns = func(a int32) bool {
		was[a] = open
		found := s.exchanges(a, func(b int32) bool { return was[b] == open || was[b] == 0 && returns(b) })
		was[a] = done
		return found
	}
	for a := range outside + 1 {
		if was[a] == 0 && returns(a) {
			return false
		}
	}
	return true
}

// exchanges calls f with the end of each arc from a, until it says yes, and reports whether it did.
func (s *Solver) exchanges(a int32, f func(b int32) bool) bool {
	outside := int32(len(s.Price))
	if a < outside {
		return s.free[a] > 0 && f(outside) || s.moves(a, f)
	}
	for k, at := range s.Match {
		if at < 0 && s.tight(int32(k), f) {
			return true
		}
	}
	for b := range outside {
		if s.free[b] > 0 && s.moves(b, f) || s.free[b] == 0 && s.Price[b] == 0 && f(b) {
			return true
		}
	}
	return false
}

// moves is exchanges, of the tasks on a to every place that they would as gladly have.
func (s *Solver) moves(a int32, f func(b int32) bool) bool {
	for _, k := range s.member[s.start[a]:s.start[a+1]] {
		if s.utility(k) == 0 && f(int32(len(s.Price))) || s.tight(k, f) {
			return true
		}
	}
	return false
}

// tight is exchanges, of task k to every other seat that it would as gladly have.
func (s *Solver) tight(k int32, f func(b int32) bool) bool {
	q := &s.tie.problem
	for _, b := range q.Seat[q.Off[k]:q.Off[k+1]] {
		if b != s.Match[k] && f(b) {
			return true
		}
	}
	return false
}

// breakTies solves the tight edges for the preferred matching and returns every seat's second price.
func (s *Solver) breakTies(p *Problem, hash func(task, seat int32) uint64) []int64 {
	t := &s.tie
	seats := len(p.Slots)
	h := TieBits(seats)
	serve := int64(seats+2) << h
	duty := 2 * serve
	q := &t.problem
	q.Weight, t.apart = grow(q.Weight, len(q.Seat)), grow(t.apart, seats+1)
	clear(t.apart)
	for k := range int32(p.Tasks()) {
		base, last, same := serve, int32(-1), int64(0)
		if s.utility(k) > 0 {
			base += duty
		}
		for e := q.Off[k]; e < q.Off[k+1]; e++ {
			b := q.Seat[e]
			w := base + int64(hash(k, b)>>(64-h))
			if s.Price[b] > 0 {
				w += duty
			}
			if last != b-1 || same != w {
				t.apart[b], t.apart[last+1] = true, true
			}
			q.Weight[e], last, same = w, b, w
		}
		t.apart[last+1] = true
	}
	t.merge(int32(seats))
	if t.solver == nil {
		t.solver = new(Solver)
	}
	for k, a := range s.Match {
		if a >= 0 {
			s.Match[k] = t.group[a]
		}
	}
	t.solver.from(&t.merged, s.Match)
	t.rank = grow(t.rank, seats)
	for a := range seats {
		t.rank[a] = t.solver.Price[t.group[a]]
		if s.Price[a] > 0 {
			t.rank[a] -= duty
		}
	}
	copy(s.free, p.Slots)
	for k, g := range t.solver.Match {
		if s.Match[k], s.weight[k] = -1, 0; g < 0 {
			continue
		}
		for s.free[t.first[g]] == 0 {
			t.first[g]++
		}
		a := t.first[g]
		s.Match[k], s.weight[k] = a, p.weightOf(int32(k), a)
		s.free[a]--
	}
	return t.rank
}

// merge makes one seat of those that stand side by side and are the same to every task. Which of them a task
// sits on is nothing to anybody, and they have one price.
func (t *tieBreak) merge(seats int32) {
	q, m := &t.problem, &t.merged
	tasks := q.Tasks()
	t.group, t.first, m.Slots = grow(t.group, int(seats)), t.first[:0], m.Slots[:0]
	for b := range seats {
		if b == 0 || t.apart[b] {
			t.first, m.Slots = append(t.first, b), append(m.Slots, 0)
		}
		g := len(t.first) - 1
		t.group[b] = int32(g)
		// more slots than tasks change nothing
		m.Slots[g] = int32(min(int(m.Slots[g])+int(q.Slots[b]), max(1, tasks)))
	}
	m.Off, m.Seat, m.Weight = append(m.Off[:0], 0), m.Seat[:0], m.Weight[:0]
	for k := range tasks {
		last := int32(-1)
		for e := q.Off[k]; e < q.Off[k+1]; e++ { // all of a group or none
			if g := t.group[q.Seat[e]]; g != last {
				m.Seat, m.Weight = append(m.Seat, g), append(m.Weight, q.Weight[e])
				last = g
			}
		}
		m.Off = append(m.Off, int32(len(m.Seat)))
	}
}
