package fleet

import (
	"time"

	"souk/market"
)

// Service learns how long tasks keep a slot of agents that are alike: the mean, and how far a forecast above
// or below the mean forecast came true. The zero Service has seen none.
type Service struct {
	mean, prefill time.Duration

	// of the tasks that ended lately, in seconds: how many count, the means of what was forecast and what
	// came, the spread of the first and how the second went with it
	n, forecast, came, spread, with float64

	place int32 // in a snapshot, from 1
}

const (
	usualService = 3 * time.Second // before one has ended
	// a mean is of some twenty tasks, and what forecasts are worth of some sixty
	meanOf, tellsBy = 20, 64
	// so many tasks count as ones of which the forecasts said nothing
	silent = 20
)

// Mean returns how long a task keeps a slot on average.
func (s *Service) Mean() time.Duration {
	if s.mean == 0 {
		return usualService
	}
	return max(time.Millisecond, s.mean)
}

// Prefill returns how long a task's prompt is computed on average.
func (s *Service) Prefill() time.Duration { return s.prefill }

// Computed takes in for how long the prompt of a task was to be computed that has ended.
func (s *Service) Computed(prefill time.Duration) {
	if prefill = max(0, min(prefill, market.MaxIn)); s.prefill == 0 {
		s.prefill = prefill
	}
	s.prefill += (prefill - s.prefill) / meanOf
}

// Of returns how long a task with such a forecast is expected to keep a slot: the mean, plus the difference
// to the mean forecast, scaled by how far such differences came true.
func (s *Service) Of(forecast time.Duration) time.Duration {
	mean := s.Mean()
	if s.spread <= 0 || s.with <= 0 {
		return mean
	}
	// where forecasts were nearly alike what they tell is noise
	part := min(1, s.with/s.spread) * (s.n / (s.n + silent))
	by := time.Duration(float64(part*(seconds(forecast)-s.forecast)) * float64(time.Second))
	return min(max(mean/10, mean+by), 10*mean)
}

// Ended takes in how long a task kept its slot, of which so much was forecast; 0: it is not known.
func (s *Service) Ended(forecast, kept time.Duration) {
	kept = min(max(0, kept), market.MaxIn)
	s.mean = s.Mean() + (kept-s.Mean())/meanOf
	if forecast <= 0 {
		return
	}
	const keep = 1 - 1.0/tellsBy
	x, y := seconds(forecast), seconds(kept)
	s.n = float64(s.n*keep) + 1
	dx, dy := x-s.forecast, y-s.came
	s.forecast += dx / s.n
	s.came += dy / s.n
	s.spread = float64(s.spread*keep) + float64(dx*(x-s.forecast))
	s.with = float64(s.with*keep) + float64(dx*(y-s.came))
}

// seconds is a time in seconds, at most what a round looks ahead.
func seconds(d time.Duration) float64 { return min(max(0, d), market.MaxIn).Seconds() }
