// Package flow finds the matching of tasks to seats with the greatest weight, in exact integers, and the
// least price of a slot in every seat.
//
// A seat is a place with one or more equal slots: those of an agent that come free at one time. A task takes
// one slot or none; left out, it adds nothing, which is the outside option that the paper's max-flow lacks
// (iemas Thm. 4.1 is false without it).
//
// Two methods find the same answer by different means, each the other's check. Insert adds one task at a time
// and keeps prices least; it is the faster where nothing contends. Simplex is the primal network simplex on a
// tree of seats, followed by one pass for the least prices; it is the faster where much does. Solve chooses.
//
// Measured (AMD EPYC, 2 cores shared with others at a load of 10 to 20, Go 1.26, processor time, medians of
// three runs, slots = tasks, "iid" and "struct" weights; all prices included). N+1: successive shortest paths
// run once more without each task. LEMON: the better of its network simplex and cost scaling, for one solve
// without prices, and run N+1 times. go test -bench . prints these and more.
//
//	tasks x seats            time          against N+1      LEMON once   LEMON N+1 times
//	16 x 8                   2.6-3.6 us    250-390          2.9-3.4      49-58
//	64 x 16                  23-25 us      2,700-3,000      2.6-5.2      170-340
//	200 x 100                0.47-0.61 ms  28,000-32,000    3.2-4.2      640-850
//	1000 x 200               6.6-7.2 ms                     6.1-8.2      6,100-8,200
//	1000 x 200, 16 edges     1.5 ms                         3.4-5.6      3,400-5,600
//	10000 x 1000, 16 edges   36-40 ms                       5.2-8.3      52,000-83,000
//	100000 x 2000, 16 edges  1.5-3.5 s
//
// The pass for the least prices takes 13 % of a solve at 64 x 16, 7 % at 200 x 100 and 3 % or less beyond.
// With twice as many slots the same rounds take 0.5, 2.7, 52, 480, 41 and 540 us and 5.8 ms with iid weights:
// one to four times as long as reading every edge once. The hardest found is "struct" with 100,000 tasks and
// twice as many slots, 6 s; at that size sweeps over all rows are 60 % of a profile.
package flow

import (
	"errors"
	"fmt"
	"slices"
)

// Limits of a Problem. Weights are at least 0, since a task with nothing to gain stays out, and
//
//	max weight x (seats + 1) < 2^62
//
// so that no price and no sum along a path leaves an int64: a path visits each seat at most once, and each
// step adds the difference between two weights of one task.
const (
	MaxRows   = 1 << 21 // tasks, and seats
	weightSum = 1 << 62
)

// Problem is a bipartite graph by task: the edges of task t are Off[t] to Off[t+1], with Seat ascending.
type Problem struct {
	Off    []int32 // len(tasks)+1, from 0
	Seat   []int32
	Weight []int64
	Slots  []int32 // of every seat, at least 1
}

// Tasks is the number of tasks.
func (p *Problem) Tasks() int { return max(0, len(p.Off)-1) }

// ErrProblem marks a problem outside the limits.
var ErrProblem = errors.New("flow: bad problem")

// Validate judges a problem in one pass over its edges.
func (p *Problem) Validate() error {
	n, m := p.Tasks(), len(p.Slots)
	if n > MaxRows || m > MaxRows {
		return fmt.Errorf("%w: %d tasks and %d seats, want at most %d each", ErrProblem, n, m, MaxRows)
	}
	if len(p.Seat) != len(p.Weight) || len(p.Off) > 0 && (p.Off[0] != 0 || int(p.Off[n]) != len(p.Seat)) ||
		len(p.Off) == 0 && len(p.Seat) > 0 {
		return fmt.Errorf("%w: rows do not cover %d edges with %d weights", ErrProblem, len(p.Seat),
			len(p.Weight))
	}
	for a, s := range p.Slots {
		if s < 1 {
			return fmt.Errorf("%w: seat %d has %d slots, want at least 1", ErrProblem, a, s)
		}
	}
	bound := int64((weightSum - 1) / (m + 1))
	for t := range n {
		if p.Off[t] > p.Off[t+1] {
			return fmt.Errorf("%w: row %d ends before it begins", ErrProblem, t)
		}
		last := int32(-1)
		for e := p.Off[t]; e < p.Off[t+1]; e++ {
			if p.Seat[e] <= last || int(p.Seat[e]) >= m {
				return fmt.Errorf("%w: row %d names seat %d after %d of %d",
					ErrProblem, t, p.Seat[e], last, m)
			}
			last = p.Seat[e]
			if w := p.Weight[e]; w > bound || w < 0 {
				return fmt.Errorf("%w: weight %d of row %d, want 0 to %d with %d seats", ErrProblem, w, t,
					bound, m)
			}
		}
	}
	return nil
}

// Solver solves one problem after another and keeps its buffers, so that a round allocates nothing once they
// are large enough. The zero value is ready. Not for concurrent use; results live until the next Solve.
type Solver struct {
	Match []int32 // the seat of every task, or -1
	Price []int64 // the least price of a slot in every seat, >= 0

	Pivots int // of the last solve; 0 where insertion did it
	based  bool

	weight []int64 // of every matched task's edge
	free   []int32 // free slots of every seat

	start, member []int32 // tasks by seat, see group

	insert insertion
	tree   tree
	tie    tieBreak
}

func (s *Solver) reset(p *Problem) {
	n, m := p.Tasks(), len(p.Slots)
	s.based = false
	s.Match = grow(s.Match, n)
	s.weight = grow(s.weight, n)
	s.Price = grow(s.Price, m)
	s.free = grow(s.free, m)
	for t := range s.Match {
		s.Match[t], s.weight[t] = -1, 0
	}
	copy(s.free, p.Slots)
	clear(s.Price)
}

// utility returns task t's gain at the current prices.
func (s *Solver) utility(t int32) int64 {
	if a := s.Match[t]; a >= 0 {
		return s.weight[t] - s.Price[a]
	}
	return 0
}

// group lists the tasks of every seat: member[start[a]:start[a+1]], ascending.
func (s *Solver) group(seats int) {
	s.start = grow(s.start, seats+2)
	clear(s.start)
	start := s.start[1:] // shifted by one while it is filled, so that it ends in place
	for _, a := range s.Match {
		if a >= 0 {
			start[a+1]++
		}
	}
	for a := range seats {
		start[a+1] += start[a]
	}
	s.member = grow(s.member, int(start[seats]))
	for k, a := range s.Match {
		if a >= 0 {
			s.member[start[a]] = int32(k)
			start[a]++
		}
	}
}

func grow[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }
