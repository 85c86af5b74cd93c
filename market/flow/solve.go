package flow

import "errors"

// ErrStopped says that the solve was stopped. What was found by then is a matching without prices: it must
// not clear.
var ErrStopped = errors.New("flow: stopped before the best matching was proven")

// Solve finds the matching of greatest weight and the least prices. stop, if not nil, is asked about every
// 65,536 edges; once it says yes Solve returns ErrStopped.
//
// Where slots outnumber tasks by a third, insertion usually reads the edges about once and is done; it gets a
// quarter more. Else the network simplex on a tree of seats solves the round and one more pass lowers its
// prices to the least. Insertion without a budget remains for a simplex beyond its pivots: it is polynomial.
func (s *Solver) Solve(p *Problem, stop func() bool) error {
	if err := p.Validate(); err != nil {
		return err
	}
	return s.solve(p, stop)
}

func (s *Solver) solve(p *Problem, stop func() bool) error {
	s.Pivots = 0
	slots := 0
	for _, n := range p.Slots {
		slots += int(n)
	}
	if 4*p.Tasks() <= 3*slots {
		done, err := s.Insert(p, int64(len(p.Seat)+len(p.Seat)/4+64), stop)
		if done || err != nil {
			return err
		}
	}
	done, err := s.Simplex(p, 64*p.Tasks()+10_000, stop)
	if done || err != nil {
		return err
	}
	_, err = s.Insert(p, -1, stop)
	return err
}
