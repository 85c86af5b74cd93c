package virtual

import (
	"maps"
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
	line  []*Request
	next  time.Time // when to look again, if nothing comes or ends before
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

// admit finds a place for a request; false: there is none.
func (c *capped) admit(now time.Time, r *Request) (engine int, ok bool) {
	need := (r.Prompt + c.view.Output(r)) / c.view.Block()
	if s := c.seats[r.Play]; s != nil && !c.view.Fits(s.engine, r) {
		delete(c.seats, r.Play)
	}
	s := c.seats[r.Play]
	if s == nil {
		s = &seat{engine: Wait}
		used := make([]int, len(c.view.Engines)) // blocks
		for _, other := range c.seats {
			used[other.engine] += other.blocks
		}
		for i, n := range used {
			room := c.view.Engines[i].Room * 19 / 20 // the rest is for what runs longer than was expected
			fits := c.view.Fits(i, r) && (n+need <= room || n == 0)
			if fits && (s.engine == Wait || n < used[s.engine]) {
				s.engine = i
			}
		}
		if s.engine == Wait {
			return Wait, false
		}
		c.seats[r.Play] = s
	}
	s.blocks, s.last, s.running = need, now, s.running+1
	return s.engine, true
}

func (c *capped) Arrive(_ time.Time, r *Request, v *View) int {
	c.view, c.line, c.next = v, append(c.line, r), time.Time{}
	return Wait
}

func (c *capped) Done(now time.Time, r *Request, _ market.Usage, _ *View) {
	c.next = time.Time{}
	if s := c.seats[r.Play]; s != nil && s.engine == r.Engine {
		s.running, s.last = s.running-1, now
	}
}

func (c *capped) Wake(now time.Time) (out []Placed, next time.Time) {
	if len(c.line) == 0 || now.Before(c.next) {
		return nil, c.next
	}
	maps.DeleteFunc(c.seats, func(_ int, s *seat) bool { return s.running == 0 && now.Sub(s.last) > c.idle })
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
	c.next = next
	return out, next
}
