package fleet

import (
	"cmp"
	"time"

	"souk/market"
)

// Service learns how long tasks keep a slot of agents that are alike: the mean, and, without the prompts of
// others that were computed meanwhile and are charged to those, how far a forecast above or below the mean
// forecast came true. The zero Service has seen none.
type Service struct {
	kept, own     time.Duration // means, with the prompts of others and without; 0: none has ended
	prefill, line time.Duration // means: for which prompts were computed, and by the line of the class

	// of the tasks that ended lately, in seconds: how many count, the means of what was forecast and what
	// came, the spread of the first and how the second went with it
	n, forecast, came, spread, with float64

	place int32 // in a snapshot, from 1
}

const (
	usualService    = 3 * time.Second // before one has ended
	meanOf, tellsBy = 20, 64          // a mean is of some so many tasks, and what forecasts are worth
	silent          = 20              // tasks that count as ones of which the forecasts said nothing
	outlier         = 8               // times the mean, or the usual where that is more
)

// Mean returns how long a task keeps a slot on average; Own leaves out the prompts of others.
func (s *Service) Mean() time.Duration { return cmp.Or(s.kept, usualService) }
func (s *Service) Own() time.Duration  { return cmp.Or(s.own, usualService) }

// Prefill returns how long a task's prompt is computed on average.
func (s *Service) Prefill() time.Duration { return s.prefill }

// Computed takes in for how long a prompt was computed, and for how long by the line of the class, which
// counts what else the engine does meanwhile: what an agent reports makes it no longer.
func (s *Service) Computed(takes, line time.Duration) {
	s.prefill, s.line = mean(s.prefill, min(takes, line)), mean(s.line, line)
}

// PrefillOf returns how long a prompt is computed that takes so long by the line of the class.
func (s *Service) PrefillOf(line time.Duration) time.Duration {
	if s.line <= 0 {
		return line
	}
	return time.Duration(float64(line) * (seconds(s.prefill) / seconds(s.line)))
}

// Of returns how long a task with such a forecast is expected to keep a slot by itself: the mean, plus the
// difference to the mean forecast, scaled by how far such differences came true.
func (s *Service) Of(forecast time.Duration) time.Duration {
	mean := s.Own()
	if s.spread <= 0 || s.with <= 0 {
		return mean
	}
	// where forecasts were nearly alike what they tell is noise
	part := min(1, s.with/s.spread) * (s.n / (s.n + silent))
	by := time.Duration(float64(part*(seconds(forecast)-s.forecast)) * float64(time.Second))
	return min(max(mean/10, mean+by), 10*mean)
}

// Kept takes in how long a task kept its slot.
func (s *Service) Kept(d time.Duration) {
	s.kept = mean(s.Mean(), max(time.Millisecond, d))
}

// Ended takes in how long it kept that by itself, and how long it was forecast to; 0: it is not known.
func (s *Service) Ended(forecast, own time.Duration) {
	s.own = mean(s.Own(), max(time.Millisecond, own))
	if forecast <= 0 {
		return
	}
	const keep = 1 - 1.0/tellsBy
	x, y := seconds(forecast), seconds(own)
	s.n = float64(s.n*keep) + 1
	dx, dy := x-s.forecast, y-s.came
	s.forecast += dx / s.n
	s.came += dy / s.n
	s.spread = float64(s.spread*keep) + float64(dx*(x-s.forecast))
	s.with = float64(s.with*keep) + float64(dx*(y-s.came))
}

// mean is a mean of some twenty times with one more; 0: of none. No time counts for more than eight times the
// mean, or the usual where that is more: among many short ones long ones are no outliers.
func mean(of, d time.Duration) time.Duration {
	if d = within(d); of == 0 {
		return d
	}
	return of + (min(d, outlier*max(of, usualService))-of)/meanOf
}

// within returns a time, at most as far as a round looks ahead; seconds is that in seconds.
func within(d time.Duration) time.Duration { return min(max(0, d), market.MaxIn) }
func seconds(d time.Duration) float64      { return within(d).Seconds() }
