package flow

import "math"

// insertion holds what Insert needs beside the Solver's own.
type insertion struct {
	first, next, prev []int32 // tasks of a seat as a doubly linked list
	dist              []int64
	via               []int32 // the task that a seat was reached by
	heap              []int32
	place             []int32 // of a seat in heap; -1 unseen, -2 settled
	seen              []int32 // seats whose place is not -1
}

// Insert solves p by adding one task at a time along the shortest augmenting path. Prices start at 0 and rise
// only as far as each task forces them, so they are least after every step and need no further pass. Where
// nothing contends it reads every edge about once; where much does, a task may reread all of them. It gives
// up after reading budget edges and returns false; a negative budget is none.
func (s *Solver) Insert(p *Problem, budget int64, stop func() bool) (done bool, err error) {
	q := poll{stop: stop, left: pollEdges}
	if budget < 0 {
		budget = math.MaxInt64
	}
	s.reset(p)
	in := &s.insert
	n, m := p.Tasks(), len(p.Slots)
	in.first, in.place, in.via = grow(in.first, m), grow(in.place, m), grow(in.via, m)
	in.dist = grow(in.dist, m)
	in.next, in.prev = grow(in.next, n), grow(in.prev, n)
	for a := range m {
		in.first[a], in.place[a] = -1, -1
	}
	for t := int32(0); int(t) < n; t++ {
		before := budget
		seat, weight := p.Seat[p.Off[t]:p.Off[t+1]], p.Weight[p.Off[t]:p.Off[t+1]]
		budget -= int64(len(seat))
		// The outside option: a task that would gain nothing at any seat stays out.
		if gain := most(seat, weight, s.Price); gain > 0 {
			i := 0
			for weight[i]-s.Price[seat[i]] != gain {
				i++
			}
			if a := seat[i]; s.free[a] > 0 {
				s.free[a]--
				s.sit(t, a, weight[i])
			} else {
				budget = s.augment(p, t, gain, budget)
			}
		}
		if budget < 0 {
			return false, nil
		}
		if q.stopped(before - budget) {
			return false, ErrStopped
		}
	}
	return true, nil
}

// sit puts a task that sits nowhere on a.
func (s *Solver) sit(t, a int32, w int64) {
	in := &s.insert
	s.Match[t], s.weight[t] = a, w
	in.prev[t], in.next[t] = -1, in.first[a]
	if f := in.first[a]; f >= 0 {
		in.prev[f] = t
	}
	in.first[a] = t
}

func (s *Solver) unseat(t int32) {
	in := &s.insert
	a := s.Match[t]
	if in.prev[t] >= 0 {
		in.next[in.prev[t]] = in.next[t]
	} else {
		in.first[a] = in.next[t]
	}
	if in.next[t] >= 0 {
		in.prev[in.next[t]] = in.prev[t]
	}
	s.Match[t], s.weight[t] = -1, 0
}

// augment places task t, whose best seat is full, by the cheapest chain of moves: it ends in a free slot, or
// some task (perhaps t itself) is left out. The length of a chain is the utility lost along it, in units of
// the reduced weights, which are never negative; gain, the utility of t itself, is what leaving t out would
// lose.
func (s *Solver) augment(p *Problem, t int32, gain int64, budget int64) int64 {
	in := &s.insert
	end, dropped, length := int32(-1), t, gain
	relax := func(k int32, base int64) {
		for e := p.Off[k]; e < p.Off[k+1]; e++ {
			b := p.Seat[e]
			d := base - (p.Weight[e] - s.Price[b])
			if d >= length {
				continue
			}
			if s.free[b] > 0 { // a free slot has price 0: the chain can end here
				end, dropped, length = b, -1, d
				in.via[b] = k
				continue
			}
			at := in.place[b]
			if at == -2 || at >= 0 && d >= in.dist[b] {
				continue
			}
			in.dist[b], in.via[b] = d, k
			if at == -1 {
				in.seen = append(in.seen, b)
				in.heap = append(in.heap, b)
				at = int32(len(in.heap) - 1)
			}
			in.up(at)
		}
		budget -= int64(p.Off[k+1] - p.Off[k])
	}
	relax(t, gain)
	for len(in.heap) > 0 {
		a := in.pop()
		d := in.dist[a]
		if d >= length {
			break
		}
		for k := in.first[a]; k >= 0; k = in.next[k] {
			u := s.weight[k] - s.Price[a]
			if d+u < length {
				end, dropped, length = a, k, d+u
			}
			relax(k, d+u)
		}
	}
	for _, a := range in.seen {
		in.place[a] = -1
		if in.dist[a] < length {
			s.Price[a] += length - in.dist[a]
		}
	}
	in.seen, in.heap = in.seen[:0], in.heap[:0]
	if dropped == t {
		return budget
	}
	if dropped >= 0 {
		s.unseat(dropped)
	} else {
		s.free[end]--
	}
	for a := end; ; {
		k := in.via[a]
		from := s.Match[k]
		if k != t {
			s.unseat(k)
		}
		s.sit(k, a, p.weightOf(k, a))
		if k == t {
			return budget
		}
		a = from
	}
}

// weightOf finds the weight of an edge that exists.
func (p *Problem) weightOf(t, a int32) int64 {
	w, _ := p.edge(t, a)
	return w
}

// up restores the heap after the distance of the seat at index i fell.
func (in *insertion) up(i int32) {
	a := in.heap[i]
	d := in.dist[a]
	for i > 0 {
		parent := (i - 1) / 2
		b := in.heap[parent]
		if in.dist[b] <= d {
			break
		}
		in.heap[i], in.place[b] = b, i
		i = parent
	}
	in.heap[i], in.place[a] = a, i
}

// pop takes the nearest seat off the heap.
func (in *insertion) pop() int32 {
	top := in.heap[0]
	in.place[top] = -2
	last := int32(len(in.heap) - 1)
	a := in.heap[last]
	in.heap = in.heap[:last]
	if last == 0 {
		return top
	}
	in.heap[0], in.place[a] = a, 0
	in.down(0)
	return top
}

// down restores the heap below index i.
func (in *insertion) down(i int32) {
	last := int32(len(in.heap))
	a := in.heap[i]
	d := in.dist[a]
	for {
		c := 2*i + 1
		if c >= last {
			break
		}
		if c+1 < last && in.dist[in.heap[c+1]] < in.dist[in.heap[c]] {
			c++
		}
		b := in.heap[c]
		if in.dist[b] >= d {
			break
		}
		in.heap[i], in.place[b] = b, i
		i = c
	}
	in.heap[i], in.place[a] = a, i
}
