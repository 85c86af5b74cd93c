package round

import "souk/market"

// Spread learns how different the terms are of those who begin one after the other: by how much a second
// costs the later one more, of what it costs on the mean, from 0 where all say the same, or nothing. It is of
// earlier rounds. The zero Spread has seen nobody.
type Spread struct{ more, mean, last float64 }

const (
	spreadOf     = 64 // a mean is of some so many tasks
	spreadAtMost = 10 // times the mean is what one counts for: with what it says none moves that for long
)

// Learn takes in what a second costs a task that begins: what was not served, or not yet, says nothing.
func (s *Spread) Learn(second market.Credits) {
	x := float64(second)
	if s.mean == 0 {
		s.mean, s.last = x, x
	}
	x = min(x, spreadAtMost*s.mean)
	s.more += (max(0, x-s.last) - s.more) / spreadOf
	s.mean += (x - s.mean) / spreadOf
	s.last = x
}

// Of is the mean of how much more a second costs the later of two, as a part of what it costs.
func (s *Spread) Of() float64 {
	if s.mean <= 0 {
		return 0
	}
	return s.more / s.mean
}
