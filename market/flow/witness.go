package flow

// Witness shows that a positive price could not be lower: Task would take the slot at any lower price. It is
// left out (From -1), or it sits at From, whose own price is no lower than shown by a witness of smaller
// rank.
type Witness struct {
	Seat, Task, From int32
	Rank             int32 // 1 where the chain starts: at a task left out, or at a seat of price 0
}

// Witnesses finds one witness for each positive price, in order of seats: over the shortest chain, the first
// such task, so that they depend on nothing but problem, matching and prices. It comes after Settle.
func (s *Solver) Witnesses(out []Witness) []Witness {
	t := &s.tie
	seats := len(s.Price)
	out = out[:0]
	for a := range seats {
		if s.Price[a] > 0 {
			out = append(out, Witness{Seat: int32(a)})
		}
	}
	if len(out) == 0 {
		return out
	}
	s.group(seats)
	// rank of a seat: 0 proven from the start, k+1 by out[k].
	t.into = grow(t.into, seats+1)
	clear(t.into)
	for i, w := range out {
		t.into[w.Seat] = int32(i + 1)
	}
	t.queue = t.queue[:0]
	level := int32(1)
	claim := func(k int32) {
		at := s.Match[k]
		q := &t.problem
		for _, b := range q.Seat[q.Off[k]:q.Off[k+1]] {
			i := t.into[b] - 1
			if i < 0 || b == at {
				continue
			}
			w := &out[i]
			if w.Rank == 0 {
				w.Rank, w.Task, w.From = level, k, at
				t.queue = append(t.queue, b)
			} else if w.Rank == level && k < w.Task {
				w.Task, w.From = k, at
			}
		}
	}
	for k, a := range s.Match {
		if a < 0 || s.Price[a] == 0 {
			claim(int32(k))
		}
	}
	for done := 0; done < len(t.queue); {
		level++
		for end := len(t.queue); done < end; done++ {
			a := t.queue[done]
			for _, k := range s.member[s.start[a]:s.start[a+1]] {
				claim(k)
			}
		}
	}
	return out
}
