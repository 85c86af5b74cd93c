package follow

import "sync/atomic"

// mostIdle bounds the goroutines that a crew keeps when there is nothing to do.
const mostIdle = 128

// Crew runs functions at once, each on a goroutine of its own, and keeps some of those for the next. One that
// has served a task has a stack that is large enough for another: growing a new one costs as much as reading
// the task. There are never more than functions that run, and mostIdle.
type Crew struct {
	jobs chan func() // to idle ones
	over chan struct{}
	idle atomic.Int32
}

// NewCrew returns one of nobody yet; End ends it.
func NewCrew() *Crew { return &Crew{jobs: make(chan func()), over: make(chan struct{})} }

// Go runs f, and does not wait for it.
func (c *Crew) Go(f func()) {
	select {
	case c.jobs <- f:
	default:
		go c.work(f)
	}
}

func (c *Crew) work(f func()) {
	for {
		f()
		if c.idle.Add(1) > mostIdle {
			c.idle.Add(-1)
			return
		}
		select {
		case f = <-c.jobs:
			c.idle.Add(-1)
		case <-c.over:
			return
		}
	}
}

// End keeps no goroutine any more: those that are idle end, and the others when their functions do. Go still
// runs what it is given.
func (c *Crew) End() { close(c.over) }
