package round

import (
	"cmp"
	"slices"
	"time"

	"souk/hub/estimate"
	"souk/market"
)

const (
	// seats of an agent that stand one by one; after these two, four and so on are taken together. Of those
	// to come two are enough: with eight tasks had no more, and rounds took half as long again.
	singleFree, singleLater = 8, 2
	// to come, of an agent: a plan for more reaches further than any forecast
	mostLater = 1 << 10
)

// Seats lists the seats of the agents of a round, in memory that the next one uses again.
type Seats struct {
	all     []market.Seat
	first   []int32 // of each agent, in all; and of what would be the next one's
	alike   [][]int32
	placing []placing
	latest  time.Duration // when the last of all comes
}

// placing is an agent's place among those of its class that run something.
type placing struct{ beside, rank int }

// of are an agent's seats, those that are free first.
func (s *Seats) of(agent int) []market.Seat {
	return slices.Clip(s.all[s.first[agent]:s.first[agent+1]])
}

// set sets the seats of all agents for so many tasks: those that are free, one behind the other by the time
// that a prompt takes, or a place in the engine's queue, and those to come. Ends of agents that are alike are
// taken together: the first of four comes four times as soon as that of one. With n agents alike that run
// something, of which r do so longer than agent a, the k-th seat to come of a comes after k*n + r + 1 such
// ends. What is overdue ends no sooner than it has run so far.
func (s *Seats) set(from *estimate.Snapshot, tasks int) {
	s.rank(from)
	s.all, s.first, s.latest = s.all[:0], append(s.first[:0], 0), 0
	for i := range from.Agents {
		s.seat(from, i, tasks)
		s.first = append(s.first, int32(len(s.all)))
	}
}

// one sets the seats of one agent alone, after rank.
func (s *Seats) one(from *estimate.Snapshot, agent, tasks int) []market.Seat {
	s.all, s.first = s.all[:0], append(s.first[:0], 0)
	s.seat(from, agent, tasks)
	return s.all
}

// rank finds of each agent how many of its class run something, and how many of these for longer.
func (s *Seats) rank(from *estimate.Snapshot) {
	agents := from.Agents
	s.alike = slices.Grow(s.alike[:0], len(from.Classes))[:len(from.Classes)]
	for c := range s.alike {
		s.alike[c] = s.alike[c][:0]
	}
	s.placing = s.placing[:0]
	for i := range agents {
		s.placing = append(s.placing, placing{1, 0}) // who runs nothing stands alone
		if c := agents[i].Class; agents[i].Since != 0 {
			s.alike[c] = append(s.alike[c], int32(i))
		}
	}
	for _, alike := range s.alike {
		slices.SortFunc(alike, func(a, b int32) int {
			return cmp.Or(cmp.Compare(agents[a].Since, agents[b].Since), cmp.Compare(a, b))
		})
		for rank, k := range alike {
			s.placing[k] = placing{len(alike), rank}
		}
	}
}

// seat sets the seats of an agent, no more than tasks may want. None to come comes before one that is free.
func (s *Seats) seat(from *estimate.Snapshot, agent, tasks int) {
	a, at, free := &from.Agents[agent], s.placing[agent], time.Duration(0)
	c, most := &from.Classes[a.Class], min(tasks, 2*tasks/len(from.Agents)+1+a.Slots)
	slots, over := a.Slots-a.Overdue, max(0, a.Running-a.Slots) // more have to end first
	if slots < 1 {                                              // nothing else runs
		slots, free = 1, min(a.Age, market.MaxIn)
	}
	end := func(k int) time.Duration {
		return max(free, times(c.Service, k*at.beside+at.rank+1, slots*at.beside))
	}
	if a.Running < a.Slots {
		each(min(a.Free, most), singleFree, func(middle, size int) {
			in := times(c.Prefill, middle, 1)
			s.add(market.Seat{Slots: size, In: in})
			free = max(free, in)
		})
	} else if a.Free > 0 { // in its engine's queue
		s.add(market.Seat{Slots: 1, In: end(0)})
		over++
	}
	each(min(most-a.Free, mostLater), singleLater, func(middle, size int) {
		s.add(market.Seat{Slots: size, In: end(middle + over), Later: true})
	})
}

// each shows n slots: the first one by one, then two, four and so on. The middle one stands for all.
func each(n, single int, show func(middle, size int)) {
	for k, size := 0, 1; k < n; k += size {
		if k >= single {
			size = min(2*size, n-k)
		}
		show(k+(size-1)/2, size)
	}
}

// times is d * n / of, at most [market.MaxIn]. None is negative, and of is not 0.
func times(d time.Duration, n, of int) time.Duration {
	return min(time.Duration(market.Part(market.Credits(d), int64(n), int64(of))), market.MaxIn)
}

// add appends a seat to those of the agent at hand. One of the same time as the last is one with it.
func (s *Seats) add(x market.Seat) {
	x.In = min(x.In.Truncate(time.Microsecond), market.MaxIn)
	s.latest = max(s.latest, x.In)
	own := s.all[s.first[len(s.first)-1]:]
	if k := len(own) - 1; k >= 0 && own[k].In == x.In && own[k].Later == x.Later {
		own[k].Slots += x.Slots
		return
	}
	s.all = append(s.all, x)
}

// free counts the free seats, which stand first.
func free(seats []market.Seat) int {
	k := slices.IndexFunc(seats, func(s market.Seat) bool { return s.Later })
	if k < 0 {
		return len(seats)
	}
	return k
}
