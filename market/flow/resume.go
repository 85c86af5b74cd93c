package flow

import "slices"

// Resume is Solve, and begins with where tasks may well sit: at match, as far as they have an edge there and
// the seat a slot, and each seat hung under another as [Solver.Hangs] said of a problem like it; -1: under
// none. The better the guess, the fewer pivots are left. Welfare and least prices are the same, whatever is
// guessed; of matchings that are equally good it may find another.
func (s *Solver) Resume(p *Problem, match, under []int32, stop func() bool) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if len(match) != p.Tasks() || len(under) != len(p.Slots) {
		return s.solve(p, stop)
	}
	s.begin(p, match, under)
	if !s.relieved() {
		return s.solve(p, stop)
	}
	done, err := s.improve(p, 64*p.Tasks()+10_000, stop)
	if done || err != nil {
		return err
	}
	_, err = s.Insert(p, -1, stop)
	return err
}

// Hangs lists what seat each seat hangs under in the basis of the last solve, -1 for none, and reports
// whether it had one: insertion has not.
func (s *Solver) Hangs(out []int32) ([]int32, bool) {
	out = out[:0]
	if !s.based {
		return out, false
	}
	root := int32(len(s.Price))
	for a := range root {
		b := s.tree.node[a].parent
		if b == root {
			b = -1
		}
		out = append(out, b)
	}
	return out, true
}

// what became of the way up from a seat while a basis is begun
const (
	open = 1 + iota // it is being looked for
	done            // the seat stands
)

// begin makes a basis of a matching. A full seat is linked by the task that loses least by going to the seat
// under which it is to hang, or to the outside, which gives its price; a seat with a free slot by its slack.
func (s *Solver) begin(p *Problem, match, under []int32) {
	s.reset(p)
	seats := len(p.Slots)
	s.tree.start(seats)
	for k, a := range match {
		if a < 0 || int(a) >= seats || s.free[a] == 0 {
			continue
		}
		if w, ok := p.edge(int32(k), a); ok {
			s.Match[k], s.weight[k] = a, w
			s.free[a]--
		}
	}
	s.group(seats)
	t, order := &s.tree, s.insert.heap[:0]
	t.hot = grow(t.hot, seats) // of each seat: the way up from it was looked at
	clear(t.hot)
	for a := range int32(seats) {
		// up to a seat that stands already, or one that the way has been at: there it is cut
		from := len(order)
		for x := a; x >= 0 && t.hot[x] == 0; {
			t.hot[x] = open
			order = append(order, x)
			if x = s.up(x, under); x >= 0 && t.hot[x] == open {
				break
			}
		}
		for _, x := range slices.Backward(order[from:]) {
			s.link(p, x, s.up(x, under))
			t.hot[x] = done
		}
	}
	s.insert.heap = order[:0]
}

// up returns the parent of a seat; -1: the outside.
func (s *Solver) up(a int32, under []int32) int32 {
	if under == nil || s.free[a] > 0 || under[a] == a || int(under[a]) >= len(s.Price) {
		return -1
	}
	return under[a]
}

// link links a seat to another that stands, or to the outside where that cannot be.
func (s *Solver) link(p *Problem, a, parent int32) {
	t, root := &s.tree, int32(len(s.Price))
	if s.free[a] > 0 {
		return
	}
	best, least := int32(-1), int64(0)
	members := s.member[s.start[a]:s.start[a+1]]
	if parent >= 0 && t.hot[parent] == done {
		for _, k := range members {
			if w, ok := p.edge(k, parent); ok && (best < 0 || s.weight[k]-w < least) {
				best, least = k, s.weight[k]-w
			}
		}
	}
	if best >= 0 {
		t.cut(a)
		t.hang(a, parent, best)
		t.node[a].depth, t.price[a] = t.node[parent].depth+1, t.price[parent]+least
		return
	}
	for _, k := range members {
		if best < 0 || s.weight[k] < least {
			best, least = k, s.weight[k]
		}
	}
	n := &t.node[a]
	n.parent, n.link, t.price[a] = root, best, least
}

// relieved has tasks leave seats whose price is below 0, and reports whether few of them did: else the guess
// was no good.
func (s *Solver) relieved() bool {
	price := s.tree.price[:len(s.Price)]
	for range 8 {
		least := int32(0)
		for a := range price {
			if price[a] < price[least] {
				least = int32(a)
			}
		}
		if len(price) == 0 || price[least] >= 0 {
			return true
		}
		s.relieve(least)
	}
	return false
}

// edge finds the weight of an edge, if it exists.
func (p *Problem) edge(t, a int32) (w int64, ok bool) {
	lo := p.Off[t]
	seats := p.Seat[lo:p.Off[t+1]]
	if len(seats) == 0 {
		return 0, false
	}
	i := int(a - seats[0]) // its place where all stand side by side, as mostly
	if i < 0 || i >= len(seats) || seats[i] != a {
		if i, ok = slices.BinarySearch(seats, a); !ok {
			return 0, false
		}
	}
	return p.Weight[lo+int32(i)], true
}
