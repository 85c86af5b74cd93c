package virtual

import (
	"time"

	"souk/market"
)

// capped admits sessions without a market: one has a place on an engine while it was heard of within the idle
// time, as long as what such sessions last asked fits in that engine's cache. Who finds no place waits, first
// come, first served. It reads no terms, and knows no end of a session but the idle time.
type capped struct {
	Plain
	idle  time.Duration
	view  *View
	seats map[int]*place // by play
	used  []int          // blocks, by engine
	line  []*Request
}

// place is a session's on an engine.
type place struct {
	engine, blocks, running int
	last                    time.Time
}

// cappedRoom is how much of a cache sessions may have: the rest is for what runs longer than was expected.
const cappedRoom = 0.95

func init() {
	Add(Rule{Name: "capped", About: "sessions are let in by the blocks that they need; first come, first served",
		Source: "admission by KV blocks, as in vLLM's and SGLang's schedulers, for sessions across engines",
		Knob:   "seconds after which a silent session gives its place up", Values: []float64{10, 30, 60},
		New: func(_ uint64, idle float64) Policy {
			return &capped{idle: seconds(idle), seats: map[int]*place{}}
		}})
}

// leave ends the places of those that are silent.
func (c *capped) leave(now time.Time) {
	for play, s := range c.seats {
		if s.running == 0 && now.Sub(s.last) > c.idle {
			c.used[s.engine] -= s.blocks
			delete(c.seats, play)
		}
	}
}

// admit finds a place for a request; false: there is none.
func (c *capped) admit(now time.Time, r *Request) (engine int, ok bool) {
	need := (r.Prompt + c.view.Output(r)) / c.view.Block()
	s := c.seats[r.Play]
	if s == nil {
		best := -1
		for i := range c.view.Engines {
			room := int(cappedRoom * float64(c.view.Engines[i].Room))
			fits := c.view.Fits(i, r) && (c.used[i]+need <= room || c.used[i] == 0)
			if fits && (best < 0 || c.used[i] < c.used[best]) {
				best = i
			}
		}
		if best < 0 {
			return 0, false
		}
		s = &place{engine: best}
		c.seats[r.Play] = s
	}
	c.used[s.engine] += need - s.blocks
	s.blocks, s.last, s.running = need, now, s.running+1
	return s.engine, true
}

// Arrive implements Policy.
func (c *capped) Arrive(now time.Time, r *Request, v *View) int {
	if c.view = v; c.used == nil {
		c.used = make([]int, len(v.Engines))
	}
	c.leave(now)
	if _, has := c.seats[r.Play]; has || len(c.line) == 0 {
		if i, ok := c.admit(now, r); ok {
			return i
		}
	}
	c.line = append(c.line, r)
	return Wait
}

// Done implements Policy.
func (c *capped) Done(now time.Time, r *Request, _ market.Usage, _ *View) {
	s := c.seats[r.Play]
	s.running, s.last = s.running-1, now
}

// Wake implements Policy.
func (c *capped) Wake(now time.Time) (out []Placed, next time.Time) {
	if len(c.line) == 0 {
		return nil, next
	}
	c.leave(now)
	for len(c.line) > 0 {
		i, ok := c.admit(now, c.line[0])
		if !ok {
			return out, now.Add(time.Second)
		}
		out = append(out, Placed{Request: c.line[0], Engine: i})
		c.line = c.line[1:]
	}
	return out, next
}
