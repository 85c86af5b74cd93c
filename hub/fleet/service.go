package fleet

import (
	"cmp"
	"time"

	"souk/market"
)

// Service learns how long tasks keep a slot of agents that are alike, on the mean. What a task's own forecast
// says of that is worth nothing beside it. The zero Service has seen none.
type Service struct {
	kept, own time.Duration // means, with the prompts of others and without; 0: none has ended
	Prefill   time.Duration // mean for which prompts were computed

	place int32 // in a snapshot, from 1
}

const (
	usualService = 3 * time.Second // before one has ended
	meanOf       = 20              // a mean is of some so many tasks
	outlier      = 8               // times the mean, or the usual where that is more
)

// Mean returns how long a task keeps a slot on average. Own leaves out the prompts of others that were
// computed meanwhile, which are charged to those.
func (s *Service) Mean() time.Duration { return cmp.Or(s.kept, usualService) }
func (s *Service) Own() time.Duration  { return cmp.Or(s.own, usualService) }

// Computed takes in for how long a prompt was computed, once its task has ended: of one in hand nobody is to
// learn how much of it was cached.
func (s *Service) Computed(takes time.Duration) { s.Prefill = mean(s.Prefill, takes) }

// Kept takes in how long a task kept its slot.
func (s *Service) Kept(d time.Duration) {
	s.kept = mean(s.Mean(), max(time.Millisecond, d))
}

// Ended takes in how long it kept that by itself.
func (s *Service) Ended(own time.Duration) { s.own = mean(s.Own(), max(time.Millisecond, own)) }

// mean is a mean of some twenty times with one more; 0: of none. No time counts for more than eight times the
// mean, or the usual where that is more: among many short ones long ones are no outliers.
func mean(of, d time.Duration) time.Duration {
	if d = min(max(0, d), market.MaxIn); of == 0 { // no more than a round looks ahead
		return d
	}
	return of + (min(d, outlier*max(of, usualService))-of)/meanOf
}
