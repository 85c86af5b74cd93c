package flow

// Without makes s the answer to p, which is the problem that base has solved but for the tasks in gone, whose
// rows are empty: a matching of greatest weight, and prices that prove it. They need not be the least.
//
// At base's prices every other task still has what it likes best. What is wrong are the slots that gone left
// free at a price above 0. Such a slot is filled by a task that is indifferent to it, whose own slot is
// filled likewise, and so on, to a task that was left out or a slot of price 0. If there is no such chain,
// some price was held up by a task that is gone, and the least prices make one, or let this price fall to 0.
// A slot takes two looks at every edge at most, where solving anew takes dozens.
func (s *Solver) Without(base *Solver, p *Problem, gone []int32) {
	s.Match, s.weight = append(s.Match[:0], base.Match...), append(s.weight[:0], base.weight...)
	s.Price, s.free = append(s.Price[:0], base.Price...), append(s.free[:0], base.free...)
	s.Pivots = 0
	for _, k := range gone {
		a := s.Match[k]
		if a < 0 {
			continue
		}
		s.Match[k], s.weight[k] = -1, 0
		if s.Price[a] > 0 && !s.refill(p, a) {
			s.lower(p)
			if s.Price[a] > 0 && !s.refill(p, a) {
				panic("flow: a least price that nobody holds up")
			}
		}
		if s.Price[a] == 0 {
			s.free[a]++
		}
	}
}

// refill gives a slot of seat a to a task that is indifferent to it, as Without says.
func (s *Solver) refill(p *Problem, a int32) bool {
	t, in := &s.tie, &s.insert
	s.group(len(p.Slots))
	in.via = grow(in.via, len(p.Slots))
	for b := range in.via {
		in.via[b] = -1
	}
	t.queue = t.queue[:0]
	// reach finds the seats that task k would as gladly have.
	reach := func(k int32) {
		u := s.utility(k)
		for e := p.Off[k]; e < p.Off[k+1]; e++ {
			if b := p.Seat[e]; in.via[b] < 0 && s.Price[b] > 0 && b != s.Match[k] &&
				p.Weight[e]-s.Price[b] == u {
				in.via[b] = k
				t.queue = append(t.queue, b)
			}
		}
	}
	for k, b := range s.Match {
		if b < 0 || s.Price[b] == 0 {
			reach(int32(k))
		}
	}
	for i := 0; i < len(t.queue) && in.via[a] < 0; i++ {
		b := t.queue[i]
		for _, k := range s.member[s.start[b]:s.start[b+1]] {
			reach(k)
		}
	}
	if in.via[a] < 0 {
		return false
	}
	for {
		k := in.via[a]
		from := s.Match[k]
		s.Match[k], s.weight[k] = a, p.weightOf(k, a)
		if from < 0 {
			return true
		}
		if s.Price[from] == 0 {
			s.free[from]++
			return true
		}
		a = from
	}
}
