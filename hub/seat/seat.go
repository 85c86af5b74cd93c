// Package seat admits sessions, not requests: where the open sessions need more than the caches hold, each
// turn pushes out what another is about to ask for, and nobody finds anything.
//
// A seat is a session's right to begin turns on one agent, counted in blocks of the agent's cache
// ([Table]). A session that has one keeps it while it is likely to come back ([Index]); one that has none
// waits until there is room for it, or until the agents have time to spare, as then nobody is in its way
// (Denning, The working set model for program behavior, 1968). Nothing here reads what a task offers.
package seat

import (
	"errors"
	"fmt"
	"time"
)

// Params say what a hub does where sessions outgrow the caches. Each part is off alone.
type Params struct {
	Sessions bool `yaml:"sessions"` // a session's first turn waits for a seat

	// an agent that has to compute prompts for so long is given no other, as the next may find a better one
	// meanwhile; 0: however long
	Depth time.Duration `yaml:"depth"`
	// agents that on the mean have less to compute than that let in whoever comes: see [Table.Open]
	Spare time.Duration `yaml:"spare"`
	Full  float64       `yaml:"full"` // the share of its blocks that an agent has seats for
	Wait  time.Duration `yaml:"wait"` // a session that has found no seat for so long is refused
}

// Default is a hub that knows no seats, and has agents compute without a pause.
func Default() Params {
	return Params{Depth: 300 * time.Millisecond, Spare: time.Second, Full: 1,
		Wait: 5 * time.Second}
}

// Ahead is how long an agent has to compute at most before it is given more; 0: however long. Where sessions
// wait for seats it is no less than Spare: an agent that was never given so much would always seem to have
// time to spare.
func (p Params) Ahead() time.Duration {
	if p.Sessions && p.Depth > 0 {
		return max(p.Depth, p.Spare)
	}
	return p.Depth
}

// Validate judges parameters and changes nothing.
func (p Params) Validate() error {
	var errs []error
	for _, d := range []struct {
		name     string
		v, least time.Duration
	}{{"depth", p.Depth, 0}, {"spare", p.Spare, 0}, {"wait", p.Wait, time.Second}} {
		if d.v < d.least || d.v > time.Hour {
			errs = append(errs, fmt.Errorf("%s: %v is not from %v to 1h", d.name, d.v, d.least))
		}
	}
	if !(p.Full >= 0 && p.Full <= 2) {
		errs = append(errs, fmt.Errorf("full: %v is not from 0 to 2", p.Full))
	}
	return errors.Join(errs...)
}

// Exp is e^x for x from -700 to 700, the same on every machine, which math.Exp is not.
func Exp(x float64) float64 {
	if x < 0 {
		return 1 / Exp(-x)
	}
	halved := 0
	for ; x > 0.25; halved++ {
		x /= 2
	}
	sum, term := 1.0, 1.0
	for i := 1; i <= 12; i++ {
		term = float64(term * x / float64(i))
		sum += term
	}
	for range halved {
		sum = float64(sum * sum)
	}
	return sum
}

// RetryAfter is when a session that was refused should come back: when those ahead of it have their seats, as
// so many came free in the last minute. lot spreads it by a quarter either way, so that those who were
// refused together do not come back together.
func RetryAfter(ahead, freed int, lot uint64) time.Duration {
	const least, most = time.Second, 10 * time.Minute
	d := most
	if freed > 0 {
		d = min(d, time.Duration(float64(ahead)*float64(time.Minute)/float64(freed)))
	}
	d = max(d, least)
	return d*3/4 + time.Duration(lot%uint64(d/2+1))
}

// Freed counts the seats that came free in the last minute, by seconds.
type Freed struct {
	seconds [60]int32
	sum     int
	last    int64 // second
}

// Add takes in that so many came free.
func (f *Freed) Add(now time.Duration, seats int) {
	f.seconds[f.at(now)] += int32(seats)
	f.sum += seats
}

// Count is how many it were.
func (f *Freed) Count(now time.Duration) int {
	f.at(now)
	return f.sum
}

// at is the place of now, after what is older than a minute was forgotten.
func (f *Freed) at(now time.Duration) int64 {
	second := int64(now / time.Second)
	if second-f.last >= int64(len(f.seconds)) {
		f.seconds, f.sum, f.last = [60]int32{}, 0, second
	}
	for f.last < second {
		f.last++
		s := &f.seconds[f.last%int64(len(f.seconds))]
		f.sum -= int(*s)
		*s = 0
	}
	return f.last % int64(len(f.seconds))
}
