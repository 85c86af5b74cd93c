package virtual

import (
	"slices"
	"time"

	"souk/market"
)

// capped admits sessions without a market: one has a place on an engine while it was heard of within the idle
// time, as long as what such sessions last asked fits in that engine's cache. Who finds no place waits, first
// come, first served. It knows no end of a session but the idle time.
type capped struct {
	Plain
	idle  time.Duration
	view  *View
	seats map[int]*seat // by play
	used  []int         // blocks, by engine
	line  []*Request
}

type seat struct { // of a session
	engine, blocks, running int
	last                    time.Time
}

func init() {
	Add(Rule{Name: "capped", About: "sessions are let in by the blocks that they need; first come, first served",
		Source: "admission by KV blocks, as in vLLM's and SGLang's schedulers, for sessions across engines",
		Knob:   "seconds after which a silent session gives its place up", Values: []float64{10, 30, 60},
		New: func(_ uint64, s float64) Policy { return &capped{idle: seconds(s), seats: map[int]*seat{}} }})
}

// leave takes a session's place away.
func (c *capped) leave(play int) {
	c.used[c.seats[play].engine] -= c.seats[play].blocks
	delete(c.seats, play)
}

// admit finds a place for a request; false: there is none.
func (c *capped) admit(now time.Time, r *Request) (engine int, ok bool) {
	need := (r.Prompt + c.view.Output(r)) / c.view.Block()
	if s := c.seats[r.Play]; s != nil && !c.view.Fits(s.engine, r) {
		c.leave(r.Play)
	}
	if c.seats[r.Play] == nil {
		best := Wait
		for i := range c.view.Engines {
			room := c.view.Engines[i].Room * 19 / 20 // the rest is for what runs longer than was expected
			fits := c.view.Fits(i, r) && (c.used[i]+need <= room || c.used[i] == 0)
			if fits && (best == Wait || c.used[i] < c.used[best]) {
				best = i
			}
		}
		if best == Wait {
			return Wait, false
		}
		c.seats[r.Play] = &seat{engine: best}
	}
	s := c.seats[r.Play]
	c.used[s.engine] += need - s.blocks
	s.blocks, s.last, s.running = need, now, s.running+1
	return s.engine, true
}

func (c *capped) Arrive(_ time.Time, r *Request, v *View) int {
	if c.view = v; c.used == nil {
		c.used = make([]int, len(v.Engines))
	}
	c.line = append(c.line, r)
	return Wait
}

func (c *capped) Done(now time.Time, r *Request, _ market.Usage, _ *View) {
	if s := c.seats[r.Play]; s != nil && s.engine == r.Engine {
		s.running, s.last = s.running-1, now
	}
}

func (c *capped) Wake(now time.Time) (out []Placed, next time.Time) {
	for play, s := range c.seats {
		if s.running == 0 && now.Sub(s.last) > c.idle {
			c.leave(play)
		}
	}
	c.line = slices.DeleteFunc(c.line, func(r *Request) bool {
		i, ok := Wait, next.IsZero() || c.seats[r.Play] != nil // who has a place goes before
		if ok && c.view.Worth(now, r) {
			i, ok = c.admit(now, r)
		}
		if ok {
			out = append(out, Placed{Request: r, Engine: i})
		} else {
			next = now.Add(time.Second)
		}
		return ok
	})
	return out, next
}
