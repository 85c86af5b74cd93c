package flow

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// sound checks the basis from first principles: prices, links, slots, strong feasibility.
func (s *Solver) sound(p *Problem) error {
	t := &s.tree
	m := int32(len(p.Slots))
	load := make([]int32, m)
	for k, a := range s.Match {
		if a < 0 {
			continue
		}
		load[a]++
		if w := p.weightOf(int32(k), a); w != s.weight[k] {
			return fmt.Errorf("task %d at %d: weight %d, want %d", k, a, s.weight[k], w)
		}
	}
	for a := range m {
		n := t.node[a]
		if t.node[n.parent].depth+1 != n.depth {
			return fmt.Errorf("seat %d: depth %d below depth %d", a, n.depth, t.node[n.parent].depth)
		}
		if t.price[a] < 0 {
			return fmt.Errorf("seat %d: price %d", a, t.price[a])
		}
		if s.free[a] != p.Slots[a]-load[a] {
			return fmt.Errorf("seat %d: %d free, want %d - %d", a, s.free[a], p.Slots[a], load[a])
		}
		if n.link == bySlack {
			if n.parent != m || t.price[a] != 0 || s.free[a] < 1 {
				return fmt.Errorf("seat %d: slack under %d with price %d and %d free", a, n.parent,
					t.price[a], s.free[a])
			}
			continue
		}
		if s.free[a] != 0 || s.Match[n.link] != a {
			return fmt.Errorf("seat %d: %d free, link %d sits at %d", a, s.free[a], n.link, s.Match[n.link])
		}
		other := int64(0)
		if n.parent < m {
			other = p.weightOf(n.link, n.parent) - t.price[n.parent]
		}
		if s.utility2(n.link) != other {
			return fmt.Errorf("seat %d: link %d gains %d here and %d at the parent", a, n.link,
				s.utility2(n.link), other)
		}
	}
	return nil
}

func (s *Solver) utility2(k int32) int64 { return s.weight[k] - s.tree.price[s.Match[k]] }

// Every pivot leaves a sound basis.
func TestEveryPivot(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 6))
	var s, o Solver
	for n := range 300 {
		f := families[n%len(families)]
		tasks, seats := 1+rng.IntN(20), 1+rng.IntN(8)
		p := f.make(rng, tasks, seats, rng.IntN(seats+1), 1+rng.IntN(2*tasks))
		s.reset(&p)
		s.tree.start(seats)
		for quiet := 0; quiet < tasks; {
			k := int32(quiet)
			b, w, d := s.worst(&p, k)
			quiet++
			if d <= 0 {
				continue
			}
			quiet = 0
			before := fmt.Sprintf("task %d at %d to %d, gain %d; links %+v; prices %v", k, s.Match[k], b, d,
				s.tree.node, s.tree.price)
			s.enter(k, b, w, d)
			if err := s.sound(&p); err != nil {
				t.Fatalf("seed %d, round %d, %s, slots %v: after %s: %v", seed, n, f.name, p.Slots, before,
					err)
			}
		}
		if o.Insert(&p, -1, nil); o.Welfare() != s.Welfare() {
			t.Fatalf("seed %d, round %d, %s, slots %v: simplex %d insertion %d\n%+v", seed, n, f.name,
				p.Slots, s.Welfare(), o.Welfare(), p)
		}
	}
}
