package round

import (
	"cmp"
	"slices"
	"time"

	"souk/bus/bounded"
	"souk/hub/estimate"
)

// Shares counts the slots that each client had, on the mean of some ten seconds that fade, of those that had
// one last. The zero Shares knows nobody. No word of a client moves it, but what its tasks kept of slots.
type Shares struct {
	ended *bounded.Cache[string, string, share] // of tasks that have ended, by client

	// memory for Turns
	place  map[string]int32 // of each client in shares
	shares []float64
	client []int32   // of each waiter: its client's place
	over   []float64 // likewise: the client's share by then, where it is too much
	even   float64   // the most that is not
	order  []int
}

type share struct {
	slots float64
	at    int64 // nanoseconds: when the last of them ended
}

const (
	lately     = 10 * time.Second // over which slots are shared fairly
	mostShares = 1 << 14          // clients that are remembered
	// evenly is up to how many times the mean a share is as good as any: of clients that want one slot each,
	// who had longer answers of late waits no longer
	evenly = 1.5
)

// partOf returns a task's part in its client's share, having kept a slot for so long until now.
func partOf(kept time.Duration) float64 { return float64(kept) / float64(lately+kept) }

// Ended takes in that a task of a client ends, which has kept a slot for so long.
func (s *Shares) Ended(now int64, client string, kept time.Duration) {
	if s.ended == nil {
		s.ended = bounded.New[string, string, share](mostShares, 1)
	}
	x, _ := s.ended.Add(client, client)
	*x = share{x.faded(now) + partOf(kept), now}
}

// Of returns the faded part of a client's ended tasks.
func (s *Shares) Of(now int64, client string) float64 {
	if x := s.ended.Peek(client); x != nil {
		return x.faded(now)
	}
	return 0
}

func (x *share) faded(now int64) float64 {
	return x.slots * float64(lately) / float64(int64(lately)+max(0, now-x.at))
}

// usualService counts for a slot that a task is given in the moment.
const usualService = 3 * time.Second

// Turns is the order, by index, in which those who wait go whose seconds cost the same: whose client has up
// to half more than the mean of all that run or wait, by how long they have waited; then the others, the
// smaller share first. Each task of a client that goes before another of it counts as one that has kept a
// slot for as long as is usual, so those who get slots at once take turns, too. It is valid until the next.
func (s *Shares) Turns(now int64, running []estimate.Run, waiters []estimate.Waiter) []int {
	if s.place == nil {
		s.place = map[string]int32{}
	}
	clear(s.place)
	s.shares, s.client, s.order = s.shares[:0], s.client[:0], s.order[:0]
	all := 0.0
	count := func(client string) int32 {
		at, ok := s.place[client]
		if !ok {
			x := s.Of(now, client)
			at, all = int32(len(s.shares)), all+x
			s.place[client], s.shares = at, append(s.shares, x)
		}
		return at
	}
	for i := range waiters {
		s.order, s.client = append(s.order, i), append(s.client, count(waiters[i].Client))
	}
	for i := range running {
		x := partOf(running[i].For)
		s.shares[count(running[i].Client)] += x
		all += x
	}
	shares, order := s.shares, s.order
	s.even = all / float64(max(1, len(shares))) * evenly
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(waiters[b].InLine, waiters[a].InLine)
	})
	s.over = append(s.over[:0], make([]float64, len(waiters))...)
	over := s.over
	for _, i := range order {
		client := s.client[i]
		if x := shares[client]; x > s.even {
			over[i] = x
		}
		shares[client] += partOf(usualService)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(over[a], over[b]) })
	return order
}

// Grows is the part of what a second has become dearer to a waiter by its waiting that counts, of those that
// Turns was last asked for: of a client with twice as much as is even, half. So a client's flood does not
// have the others wait in one line with it.
func (s *Shares) Grows(waiter int32) float64 {
	if x := s.over[waiter]; x > 0 {
		return s.even / x
	}
	return 1
}
