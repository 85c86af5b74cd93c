package flow

import "math"

// Others answers a problem that was solved once more, without some of its tasks: a matching of greatest
// weight of the others, and prices that prove it. They need not be the least. The zero value is ready; it
// keeps its buffers. Not for concurrent use; results live until the next call.
//
// At the prices of the whole every other task still has what it likes best. What is wrong are the slots that
// those who are gone left free at a price above 0. Each is passed on by the chain of moves that adds most: a
// task moves there, another to its seat, and so on, to a task that was left out or a slot that stays free.
// The length of a chain is what it adds less than the price of the slot. One Dijkstra finds the shortest,
// from the free slot on, and reads the edges of the seats that it comes to. It ends where a seat's chain of
// witnesses still stands, which adds all of that seat's price: mostly at once.
type Others struct {
	Match []int32 // as Solver's: of those who are gone -1
	Price []int64

	base   *Solver
	weight []int64
	gains  []int64 // by each task: the weight that it has less the price there
	gone   []bool
	by     []Witness // of each seat: in the whole; Rank is 0 where there is none
	would  []int64   // its weight there

	start, task []int32 // the edges by seat: from start[a] to start[a+1]
	edge        []int64 // their weights

	search   insertion // of which it uses the heap
	to       []int32   // where the task moves that would free a slot of a seat
	endSeat  int32
	endTask  int32 // -1: nobody comes to endSeat; -2: its witnesses do
	shortest int64
}

// Of sets what Without is about: p as base has solved and settled it, and its witnesses.
func (o *Others) Of(base *Solver, p *Problem, witnesses []Witness) {
	n, m := p.Tasks(), len(p.Slots)
	o.base = base
	o.gone, o.by, o.would = grow(o.gone, n), grow(o.by, m), grow(o.would, m)
	clear(o.gone)
	clear(o.by)
	for _, w := range witnesses {
		o.by[w.Seat], o.would[w.Seat] = w, p.weightOf(w.Task, w.Seat)
	}
	o.start = grow(o.start, m+2)
	clear(o.start)
	start := o.start[1:] // shifted by one while it is filled, so that it ends in place
	for _, a := range p.Seat {
		start[a+1]++
	}
	for a := range m {
		start[a+1] += start[a]
	}
	o.task, o.edge = grow(o.task, len(p.Seat)), grow(o.edge, len(p.Seat))
	for k := range int32(n) {
		for e := p.Off[k]; e < p.Off[k+1]; e++ {
			at := &start[p.Seat[e]]
			o.task[*at], o.edge[*at] = k, p.Weight[e]
			*at++
		}
	}
	in := &o.search
	in.dist, in.via, in.place, o.to = grow(in.dist, m), grow(in.via, m), grow(in.place, m), grow(o.to, m)
	for a := range in.place {
		in.place[a] = -1
	}
}

// Without finds the answer without some tasks. stop is asked after every slot; once it says yes there is
// none, and Without returns ErrStopped.
func (o *Others) Without(gone []int32, stop func() bool) error {
	o.Match, o.weight = append(o.Match[:0], o.base.Match...), append(o.weight[:0], o.base.weight...)
	o.Price = append(o.Price[:0], o.base.Price...)
	for _, k := range gone {
		o.gone[k], o.Match[k], o.weight[k] = true, -1, 0
	}
	o.gains = grow(o.gains, len(o.Match))
	o.gain()
	var err error
	for _, k := range gone {
		if a := o.base.Match[k]; a >= 0 && o.Price[a] > 0 && err == nil {
			if o.refill(a) {
				o.gain()
			}
			if stop != nil && stop() {
				err = ErrStopped
			}
		}
	}
	for _, k := range gone {
		o.gone[k] = false
	}
	return err
}

// Welfare is the weight of the matching.
func (o *Others) Welfare() (sum int64) {
	for _, w := range o.weight {
		sum += w
	}
	return sum
}

// gain finds what each task gains at the prices as they are.
func (o *Others) gain() {
	for k, a := range o.Match {
		if o.gains[k] = 0; a >= 0 {
			o.gains[k] = o.weight[k] - o.Price[a]
		}
	}
}

// refill passes on a slot of a that is free. It reports whether a price fell by that.
func (o *Others) refill(a int32) bool {
	in := &o.search
	o.shortest = math.MaxInt64
	o.come(a, 0)
	for len(in.heap) > 0 {
		b := in.pop()
		d := in.dist[b]
		if d >= o.shortest {
			break
		}
		task, edge := o.task[o.start[b]:o.start[b+1]], o.edge[o.start[b]:o.start[b+1]]
		edge = edge[:len(task)]
		base := d + o.Price[b]
		for i, k := range task {
			length := base + o.gains[k] - edge[i]
			if length >= o.shortest {
				continue
			}
			switch from := o.Match[k]; {
			case o.gone[k] || from == b:
			case from < 0:
				o.shortest, o.endSeat, o.endTask = length, b, k
			case in.place[from] == -1 || in.place[from] >= 0 && length < in.dist[from]:
				in.via[from], o.to[from] = k, b
				o.come(from, length)
			}
		}
	}
	for _, b := range in.seen {
		in.place[b] = -1
		if d := in.dist[b]; d < o.shortest {
			o.Price[b] -= o.shortest - d
		}
	}
	in.seen, in.heap = in.seen[:0], in.heap[:0]
	o.move(a)
	return o.shortest > 0
}

// come notes a way to a seat, and whether a chain ends there.
func (o *Others) come(b int32, d int64) {
	in := &o.search
	in.dist[b] = d
	if in.place[b] == -1 {
		in.seen, in.heap = append(in.seen, b), append(in.heap, b)
		in.place[b] = int32(len(in.heap) - 1)
	}
	in.up(in.place[b])
	if d < o.shortest && o.stands(b) {
		o.shortest, o.endSeat, o.endTask = d, b, -2
	}
	if d+o.Price[b] < o.shortest {
		o.shortest, o.endSeat, o.endTask = d+o.Price[b], b, -1
	}
}

// stands reports whether the witnesses of a seat's price, and of those that it leans on, are where they were
// and still would move.
func (o *Others) stands(a int32) bool {
	for {
		w := &o.by[a]
		if w.Rank == 0 || o.gone[w.Task] || o.Match[w.Task] != w.From {
			return false
		}
		gains := o.would[a] - o.Price[a]
		if w.From < 0 {
			return gains == 0
		}
		if gains != o.gains[w.Task] {
			return false
		}
		if a = w.From; o.Price[a] == 0 {
			return true
		}
	}
}

// move makes the moves of the chain that was found, which begins at a.
func (o *Others) move(a int32) {
	sit := func(k, b int32, price int64, gains int64) { o.Match[k], o.weight[k] = b, gains+price }
	b := o.endSeat
	switch {
	case o.endTask >= 0:
		sit(o.endTask, b, o.Price[b], 0)
	case o.endTask == -2:
		for x := b; o.Price[x] > 0; {
			w := &o.by[x]
			gains := int64(0)
			if w.From >= 0 {
				gains = o.weight[w.Task] - o.Price[w.From]
			}
			if sit(w.Task, x, o.Price[x], gains); w.From < 0 {
				break
			}
			x = w.From
		}
	}
	for b != a {
		k, to := o.search.via[b], o.to[b]
		sit(k, to, o.Price[to], o.weight[k]-o.Price[b])
		b = to
	}
}
