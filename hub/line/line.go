// Package line forecasts how long a task that waits has yet to wait for an agent, and says what a task that
// runs costs those who wait.
//
// Each task that waits has a home, the agent whose line it stands in. A home is not a promise: it only says
// for whom the agent's next free slots are likely to be. Nothing here reads what a task in the round offers.
// Agents and clients are numbers that the hub gives them for one round.
package line

import (
	"errors"
	"fmt"
	"math"
	"time"

	"souk/market"
)

// Params say what a hub does about the crowd in front of it. Each is off at 0. The figures are measured, not
// derived: `lab crowd` shows what each does on recorded dialogues, and on some that none was tuned on.
type Params struct {
	// a task may prefer a full agent to a free one
	Waiting bool `yaml:"waiting"`
	// charge for each second of computing its prompt that a task would not take elsewhere: so many times what
	// a second is worth, as others wait behind it and find less in the cache
	Compute float64 `yaml:"compute"`
	// charge for going before those who came first, so many times what the time between is worth
	Age float64 `yaml:"age"`
	// charge for slowing each task that runs beside it by so much, where a tier does not charge for as much
	Beside time.Duration `yaml:"beside"`
}

// Default keeps as much cache in use where slots or caches are short as where they are not.
func Default() Params {
	return Params{Waiting: true, Compute: 4, Age: 2.5, Beside: 1500 * time.Microsecond}
}

// Validate judges parameters and changes nothing.
func (p Params) Validate() error {
	var errs []error
	if !(p.Compute >= 0 && p.Compute <= 1000) {
		errs = append(errs, fmt.Errorf("compute: %v is not from 0 to 1000", p.Compute))
	}
	if !(p.Age >= 0 && p.Age <= 1000) {
		errs = append(errs, fmt.Errorf("age: %v is not from 0 to 1000", p.Age))
	}
	if p.Beside < 0 || p.Beside > time.Second {
		errs = append(errs, fmt.Errorf("beside: %v is not from 0 to 1s", p.Beside))
	}
	return errors.Join(errs...)
}

// Tolls are what tasks cost each other in one round. They are fixed before any bid of the round is read.
type Tolls struct {
	Params
	Worth market.Credits // of a second that a task waits, by those served lately: Worths.Mean
	Stake market.Credits // what a task has to lose by waiting, by the same
}

// Computed charges for time to compute a prompt that the task would not take elsewhere.
func (t *Tolls) Computed(extra time.Duration) market.Credits { return t.toll(t.Compute, extra) }

// mostAhead bounds what is charged for going before others, however much longer they wait: else no bid at all
// would be served next where cheap tasks have waited for a minute beside dear ones that did not.
const mostAhead = 10 * time.Second

// Ahead charges for going before one that waits so much longer: at most three quarters of what tasks have to
// lose. If it charged for more, nobody would be served next where those who were served lately were as dear,
// and many that are cheap have waited for long.
func (t *Tolls) Ahead(by time.Duration) market.Credits {
	return max(t.toll(t.Age, min(by, mostAhead)), -t.Stake/4*3)
}

// Among charges for running beside so many.
func (t *Tolls) Among(running int) market.Credits { return t.toll(float64(running), t.Beside) }

// toll is -times * Worth * d, from -[market.MaxWorth] to 0.
func (t *Tolls) toll(times float64, d time.Duration) market.Credits {
	if t.Worth <= 0 || d <= 0 || !(times > 0) {
		return 0
	}
	return -market.Credits(min(float64(t.Worth)*times*d.Seconds(), float64(market.MaxWorth)))
}

// Far is a wait without an end in sight.
const Far time.Duration = math.MaxInt64 / 8

// times is d * n / m, at most Far. n and m are not negative.
func times(d time.Duration, n, m float64) time.Duration {
	if x := float64(d) * n / m; x < float64(Far) {
		return time.Duration(x)
	}
	return Far
}
