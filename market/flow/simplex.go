package flow

import "math"

// poll asks stop about every pollEdges edges.
const pollEdges = 1 << 16

type poll struct {
	stop func() bool
	left int
}

func (q *poll) stopped(edges int64) bool {
	if q.left -= int(min(edges, pollEdges)); q.left > 0 || q.stop == nil {
		return false
	}
	q.left = pollEdges
	return q.stop()
}

// Simplex solves p by the primal network simplex on the tree of seats, then lowers the prices to the least.
// It gives up after so many pivots and returns false; about 30 a task is the worst seen.
//
// No sum leaves an int64. A seat's price is the sum along its path to the outside, of at most seats links, of
// the difference between a link task's two weights, so |price| <= seats x max weight < 2^62, and what a row
// gains, a weight minus a price minus such a difference, is below 2^63.
func (s *Solver) Simplex(p *Problem, pivots int, stop func() bool) (done bool, err error) {
	s.reset(p)
	s.tree.start(len(p.Slots))
	return s.improve(p, pivots, stop)
}

// from solves p beginning with a matching, which the fewer pivots improve the better it is.
func (s *Solver) from(p *Problem, match []int32) {
	s.begin(p, match, nil)
	if done, _ := s.improve(p, 64*p.Tasks()+10_000, nil); !done { // without stop there is no error
		_, _ = s.Insert(p, -1, nil)
	}
}

// improve pivots from the basis that there is.
func (s *Solver) improve(p *Problem, pivots int, stop func() bool) (done bool, err error) {
	s.Pivots = 0
	q := poll{stop: stop, left: pollEdges}
	n := p.Tasks()
	for {
		used, hot, ok := s.sweep(p, pivots, &q)
		if !ok {
			return false, ErrStopped
		}
		if used == 0 {
			break
		}
		pivots -= used
		// While few rows still pivot, stay with those.
		for len(hot) > 0 && len(hot) < n/2 && pivots > 0 {
			keep := hot[:0]
			for _, k := range hot {
				b, w, d := s.worst(p, k)
				if d <= 0 {
					continue
				}
				s.enter(k, b, w, d)
				pivots--
				keep = append(keep, k)
				if q.stopped(int64(p.Off[k+1] - p.Off[k])) {
					return false, ErrStopped
				}
			}
			hot = keep
		}
		if pivots <= 0 {
			return false, nil
		}
	}
	copy(s.Price, s.tree.price)
	s.lower(p)
	s.based = true
	return true, nil
}

// sweep visits every row once, chunks of 8 rows in scrambled order, and enters the worst edge of every block
// of rows. It returns the number of pivots and the rows that would gain.
func (s *Solver) sweep(p *Problem, pivots int, q *poll) (used int, hot []int32, ok bool) {
	const chunk, block = 8, 2
	n := p.Tasks()
	chunks := (n + chunk - 1) / chunk
	stride := scramble(chunks)
	hot = s.tree.hot[:0]
	defer func() { s.tree.hot = hot }()
	for i, c := 0, 0; i < chunks; i, c = i+1, (c+stride)%chunks {
		for lo := c * chunk; lo < min(n, (c+1)*chunk); lo += block {
			var row, seat int32
			var weight, most int64
			hi := min(n, (c+1)*chunk, lo+block)
			for k := int32(lo); int(k) < hi; k++ {
				b, w, d := s.worst(p, k)
				if d <= 0 {
					continue
				}
				hot = append(hot, k)
				if d > most {
					row, seat, weight, most = k, b, w, d
				}
			}
			if most > 0 {
				s.enter(row, seat, weight, most)
				if used++; used >= pivots {
					return used, hot, true
				}
			}
			if q.stopped(int64(p.Off[hi] - p.Off[lo])) {
				return used, hot, false
			}
		}
	}
	return used, hot, true
}

// scramble gives a stride near n/golden ratio that visits all of 0..n-1.
func scramble(n int) int {
	for k := int(float64(n)*0.618) + 1; ; k++ {
		a, b := k, n
		for b != 0 {
			a, b = b, a%b
		}
		if a <= 1 {
			return k
		}
	}
}

// worst finds what row k would gain most by, and how much: a seat with the edge's weight, or the outside.
// Most rows gain nothing, so the most is found first, without branches, and its place only where it counts.
func (s *Solver) worst(p *Problem, k int32) (b int32, w, d int64) {
	price := s.tree.price
	lo, hi := p.Off[k], p.Off[k+1]
	seat, weight := p.Seat[lo:hi], p.Weight[lo:hi]
	weight = weight[:len(seat)]
	u := int64(0)
	if a := s.Match[k]; a >= 0 {
		u = s.weight[k] - price[a]
	}
	best := most(seat, weight, price)
	if best <= u {
		return 0, 0, 0
	}
	if best == 0 {
		return int32(len(p.Slots)), 0, -u
	}
	// Rows begin at different seats, so that rows of equal weights do not all want the same one.
	from := int(uint32(k) * 0x9e3779b1 % uint32(len(seat)))
	for i := from; ; i++ {
		if i == len(seat) {
			i = 0
		}
		if weight[i]-price[seat[i]] == best {
			return seat[i], weight[i], best - u
		}
	}
}

// most is the most that a row would gain at some prices, at least the outside's 0. Two running maxima let the
// processor look at two edges at a time: 0.7 ns an edge, the time it takes to read it, and less where prices
// need not be looked up.
func most(seat []int32, weight, price []int64) int64 {
	even, odd := int64(0), int64(0)
	if n := len(seat); n > 0 && int(seat[n-1]-seat[0]) == n-1 { // all that stand side by side, as mostly
		price, weight = price[seat[0]:][:n], weight[:n]
		i := 0
		for ; i+1 < len(weight) && i+1 < len(price); i += 2 {
			even, odd = max(even, weight[i]-price[i]), max(odd, weight[i+1]-price[i+1])
		}
		if i < len(weight) && i < len(price) {
			even = max(even, weight[i]-price[i])
		}
		return max(even, odd)
	}
	i := 0
	for ; i+1 < len(seat) && i+1 < len(weight); i += 2 {
		even = max(even, weight[i]-price[seat[i]])
		odd = max(odd, weight[i+1]-price[seat[i+1]])
	}
	if i < len(seat) && i < len(weight) {
		even = max(even, weight[i]-price[seat[i]])
	}
	return max(even, odd)
}

// lower takes the prices of any best dual down to the least (Leonard 1983): by how much the price of a seat
// can fall is the length of the shortest chain from it to where nothing can fall, which is a seat of price 0
// or a task that is left out. One Dijkstra over seats finds all of them and reads every row once:
//
//	dist(a) = min( price(a), price(a) - w(k,a) of a task k left out, dist(b) + u(k) - (w(k,a) - price(a)) of
//	a task k on b )
func (s *Solver) lower(p *Problem) {
	in := &s.insert
	m := len(p.Slots)
	most := int64(0)
	for _, price := range s.Price {
		most = max(most, price)
	}
	if most == 0 {
		return
	}
	in.dist, in.place, in.heap = grow(in.dist, m), grow(in.place, m), grow(in.heap, m)
	copy(in.dist, s.Price)
	for k, a := range s.Match {
		if a < 0 {
			s.reach(p, int32(k), 0, math.MinInt64)
		}
	}
	in.heap = in.heap[:m] // of all seats
	for a := range in.heap {
		in.heap[a], in.place[a] = int32(a), int32(a)
	}
	for i := m/2 - 1; i >= 0; i-- {
		in.down(int32(i))
	}
	s.group(m)
	for len(in.heap) > 0 {
		a := in.pop()
		d := in.dist[a]
		for _, k := range s.member[s.start[a]:s.start[a+1]] {
			s.reach(p, k, d+s.weight[k]-s.Price[a], d)
		}
	}
	for a := range s.Price {
		s.Price[a] -= in.dist[a]
	}
}

// reach shortens the distances of task k's seats to base minus their gain; with settled > MinInt64 the heap
// is kept.
func (s *Solver) reach(p *Problem, k int32, base, settled int64) {
	in, price, lo, hi := &s.insert, s.Price, p.Off[k], p.Off[k+1]
	seat, weight, dist := p.Seat[lo:hi], p.Weight[lo:hi], in.dist[:len(price)]
	weight = weight[:len(seat)]
	for i, b := range seat {
		if d := base - weight[i] + price[b]; d < dist[b] {
			dist[b] = d
			if settled != math.MinInt64 {
				in.up(in.place[b])
			}
		}
	}
}
