// Package certify checks, without solving anything, that a matching of tasks to seats has the greatest
// weight, that the prices are the least that support it, and that ties were broken as the seed says. It
// shares no line with the solver, so that neither's mistakes can hide in the other.
package certify

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// Instance is the problem: the edges of task t are Off[t] to Off[t+1], with Seat ascending. Hash
// gives the tie-break's 64 bits of an edge. Weights are so small that a sum over Seats+1 of them fits 62
// bits.
type Instance struct {
	Off    []int32
	Seat   []int32
	Weight []int64
	Slots  []int32
	Hash   func(task, seat int32) uint64
}

// Witness shows one price from below: Task sits at From (-1: was left out) and would take Seat at any lower
// price.
type Witness struct{ Seat, Task, From, Rank int32 }

// Answer is the claimed solution: the seat of every task (-1: left out), the price of every seat, one witness
// for every positive price in order of seats, and the second prices that prove the tie-break, nil where the
// best matching is the only one.
type Answer struct {
	Match     []int32
	Price     []int64
	Witnesses []Witness
	Second    []int64
}

// ErrAnswer marks a wrong answer. ErrTie, an ErrAnswer too, marks one that lacks only the second prices.
var (
	ErrAnswer = errors.New("wrong answer")
	ErrTie    = fmt.Errorf("%w: there are other best matchings and no proof of the choice", ErrAnswer)
)

// maxPrice is above every price of an instance within its bounds, and keeps differences inside an int64.
const maxPrice = 1 << 62

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrAnswer}, args...)...)
}

// Check verifies an answer in time linear in the edges, by linear programming duality: feasible primal and
// dual with complementary slackness are both optimal (iemas App. A.1), and a dual whose every positive part
// is witnessed is the least, hence the Clarke price (Leonard 1983). What it does not say: who deserves the
// slot among equals beyond the seed, and whether the weights themselves are true.
func (c *Checker) Check(in Instance, ans Answer) error {
	if _, err := c.Best(in, ans.Match, ans.Price); err != nil {
		return err
	}
	c.Instance, c.Answer = in, ans
	defer func() { c.Instance, c.Answer = Instance{}, Answer{} }()
	if err := c.least(); err != nil {
		return err
	}
	return c.tie()
}

// Choice verifies that a matching has the greatest weight, which prices (any dual) prove, and that ties were
// broken as the seed says. Witnesses are not looked at.
func (c *Checker) Choice(in Instance, ans Answer) error {
	ans.Witnesses = nil
	if _, err := c.Best(in, ans.Match, ans.Price); err != nil {
		return err
	}
	c.Instance, c.Answer = in, ans
	defer func() { c.Instance, c.Answer = Instance{}, Answer{} }()
	return c.tie()
}

// Best verifies that a matching has the greatest weight, which prices (any dual, not only the least) prove,
// and returns it.
func (c *Checker) Best(in Instance, match []int32, price []int64) (weight int64, err error) {
	c.Instance, c.Answer, c.n, c.m = in, Answer{Match: match, Price: price}, len(in.Off)-1, len(in.Slots)
	defer func() { c.Instance, c.Answer = Instance{}, Answer{} }()
	if len(match) != c.n || len(price) != c.m {
		return 0, wrong("%d tasks and %d seats, want %d and %d", len(match), len(price), c.n, c.m)
	}
	if err := c.feasible(); err != nil {
		return 0, err
	}
	if err := c.optimal(); err != nil {
		return 0, err
	}
	for _, e := range c.matched {
		if e >= 0 {
			weight += c.Weight[e]
		}
	}
	return weight, nil
}

// tight is an edge that its task is indifferent to.
type tight struct{ task, edge int32 }

// Checker checks one answer after another and keeps its buffers. The zero value is ready. Not for concurrent
// use.
type Checker struct {
	Instance
	Answer
	n, m    int
	free    []int32 // slots left in every seat
	utility []int64 // of every task
	matched []int32 // the edge of every task's seat, or -1
	rank    []int32 // of every seat's witness
	tight   []tight // edges that a best matching may use, beside those that this does
	even    bool    // a task that sits somewhere is indifferent to that

	pairs                 [][2]int32 // of alone, as are those below
	head, in, arcs, ready []int32
}

func zeroed[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}

// feasible: one seat per task, by a declared edge; no seat over its slots.
func (c *Checker) feasible() error {
	c.free = append(c.free[:0], c.Slots...)
	c.matched = zeroed(c.matched, c.n)
	for t, a := range c.Match {
		c.matched[t] = -1
		if a == -1 {
			continue
		}
		e, ok := c.edge(int32(t), a)
		if c.matched[t] = e; !ok {
			return wrong("task %d sits at %d, where it has no edge", t, a)
		}
		if c.free[a]--; c.free[a] < 0 {
			return wrong("seat %d holds more than its %d slots", a, c.Slots[a])
		}
	}
	return nil
}

// optimal: prices and utilities are a feasible dual that the matching meets exactly.
func (c *Checker) optimal() error {
	for a, p := range c.Price {
		if p < 0 || p > maxPrice {
			return wrong("seat %d has the price %d, want 0 to %d", a, p, int64(maxPrice))
		}
		if p > 0 && c.free[a] > 0 {
			return wrong("seat %d has the price %d and a free slot", a, p)
		}
	}
	c.utility, c.tight, c.even = zeroed(c.utility, c.n), c.tight[:0], false
	for t, own := range c.matched {
		utility := int64(0)
		if own >= 0 {
			if utility = c.Weight[own] - c.Price[c.Seat[own]]; utility < 0 {
				return wrong("task %d pays %d for a weight of %d", t, c.Price[c.Seat[own]], c.Weight[own])
			}
		}
		c.utility[t], c.even = utility, c.even || own >= 0 && utility == 0
		from := c.Off[t]
		seat, weight := c.Seat[from:c.Off[t+1]], c.Weight[from:c.Off[t+1]]
		for i, a := range seat[:len(weight)] {
			gain := weight[i] - c.Price[a]
			if gain > utility {
				return wrong("task %d would gain %d at seat %d and gains %d", t, gain, a, utility)
			}
			if e := from + int32(i); gain == utility && e != own {
				c.tight = append(c.tight, tight{int32(t), e})
			}
		}
	}
	return nil
}

// least: every positive price has a witness, and chains of witnesses end, since ranks fall along them.
func (c *Checker) least() error {
	c.rank = zeroed(c.rank, c.m)
	rank := c.rank
	next := 0
	for a, p := range c.Price {
		if p == 0 {
			continue
		}
		if next >= len(c.Witnesses) || int(c.Witnesses[next].Seat) != a {
			return wrong("seat %d has the price %d and no witness", a, p)
		}
		if rank[a] = c.Witnesses[next].Rank; rank[a] < 1 {
			return wrong("the witness of seat %d has rank %d, want at least 1", a, rank[a])
		}
		next++
	}
	if next < len(c.Witnesses) {
		return wrong("%d witnesses for %d positive prices", len(c.Witnesses), next)
	}
	for _, w := range c.Witnesses {
		if w.Task < 0 || int(w.Task) >= c.n || c.Match[w.Task] != w.From || w.From == w.Seat {
			return wrong("the witness of seat %d is task %d at %d, which does not sit there",
				w.Seat, w.Task, w.From)
		}
		if w.From >= 0 && rank[w.From] >= w.Rank {
			return wrong("the witness of seat %d leans on seat %d of no smaller rank", w.Seat, w.From)
		}
		e, ok := c.edge(w.Task, w.Seat)
		if !ok || c.Weight[e]-c.Price[w.Seat] != c.utility[w.Task] {
			return wrong("the witness of seat %d, task %d, is not indifferent to it", w.Seat, w.Task)
		}
	}
	return nil
}

func (c *Checker) edge(t, a int32) (int32, bool) {
	i, ok := slices.BinarySearch(c.Seat[c.Off[t]:c.Off[t+1]], a)
	return c.Off[t] + int32(i), ok
}

// tie: without second prices there must be no other best matching; with them they are a dual in which the
// hash bits are the weights, and duties (a task of positive utility, a seat of positive price) leave their
// side free in sign. Together with the prices that is duality over ordered pairs (money, hash).
func (c *Checker) tie() error {
	alone := c.alone()
	if c.Second == nil {
		if !alone {
			return ErrTie
		}
		return nil
	}
	if alone {
		return wrong("a proof of the choice where there was none")
	}
	if len(c.Second) != c.m {
		return wrong("%d second prices for %d seats", len(c.Second), c.m)
	}
	h := min(40, 58-2*bits.Len(uint(c.m+1)))
	serve := int64(c.m+2) << h
	for a, p := range c.Second {
		switch {
		case p < -(1<<61) || p > 1<<61:
			return wrong("the second price of seat %d is %d, out of bounds", a, p)
		case p < 0 && c.Price[a] == 0:
			return wrong("the second price of seat %d is %d with a price of 0", a, p)
		case p != 0 && c.free[a] > 0:
			return wrong("the second price of seat %d is %d with a free slot", a, p)
		}
	}
	weight := func(t, e int32) int64 { return serve + int64(c.Hash(t, c.Seat[e])>>(64-h)) }
	rest := c.tight
	for t := range int32(c.n) {
		second := int64(0)
		if tied := len(rest) > 0 && rest[0].task == t; !tied && c.utility[t] > 0 {
			continue // it sits where it alone wants to
		}
		if e := c.matched[t]; e >= 0 {
			second = weight(t, e) - c.Second[c.Seat[e]]
			if second < 0 && c.utility[t] == 0 {
				return wrong("the tie-break would leave out task %d", t)
			}
		}
		for ; len(rest) > 0 && rest[0].task == t; rest = rest[1:] {
			if e := rest[0].edge; weight(t, e)-c.Second[c.Seat[e]] > second {
				return wrong("the tie-break prefers seat %d for task %d", c.Seat[e], t)
			}
		}
	}
	return nil
}

// alone reports whether no other matching is as good: the exchanges at equal weight, arcs between seats and
// the outside, form no cycle. It takes away arcs that nothing leads to until none is left.
func (c *Checker) alone() bool {
	if len(c.tight) == 0 && !c.even {
		return true // arcs lead from seats with a free slot to full ones alone
	}
	outside := int32(c.m)
	c.pairs = c.pairs[:0]
	arc := func(from, to int32) { c.pairs = append(c.pairs, [2]int32{from, to}) }
	rest := c.tight
	for t := range int32(c.n) {
		from, spare := outside, false // spare: whoever goes need not be replaced
		if e := c.matched[t]; e >= 0 {
			from = c.Seat[e]
			spare = c.free[from] > 0
			if c.utility[t] == 0 {
				arc(from, outside)
				if spare {
					arc(outside, outside)
				}
			}
		}
		for ; len(rest) > 0 && rest[0].task == t; rest = rest[1:] {
			a := c.Seat[rest[0].edge]
			arc(from, a)
			if spare {
				arc(outside, a)
			}
		}
	}
	for a := range int32(c.m) {
		if c.free[a] > 0 {
			arc(a, outside)
		} else if c.Price[a] == 0 {
			arc(outside, a) // one may go and leave a slot free
		}
	}
	c.head, c.in, c.arcs = zeroed(c.head, c.m+3), zeroed(c.in, c.m+1), zeroed(c.arcs, len(c.pairs))
	in, fill := c.in, c.head[1:] // fill: where the arcs of every tail begin, in the end where they end
	for _, p := range c.pairs {
		fill[p[0]+1]++
		in[p[1]]++
	}
	for a := range c.m + 1 {
		fill[a+1] += fill[a]
	}
	for _, p := range c.pairs {
		c.arcs[fill[p[0]]] = p[1]
		fill[p[0]]++
	}
	c.ready = c.ready[:0]
	for a := range in {
		if in[a] == 0 {
			c.ready = append(c.ready, int32(a))
		}
	}
	seen := 0
	for ; seen < len(c.ready); seen++ {
		a := c.ready[seen]
		for _, b := range c.arcs[c.head[a]:c.head[a+1]] {
			if in[b]--; in[b] == 0 {
				c.ready = append(c.ready, b)
			}
		}
	}
	return seen == c.m+1
}
