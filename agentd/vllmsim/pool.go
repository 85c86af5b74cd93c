package vllmsim

import (
	"fmt"
	"slices"
	"time"
)

// Pool is engines behind one server, of which some compute prompts and others answer: --sim-prefill and
// --sim-decode. Each has the size and the speed that one alone would have. As in vLLM (NIXL) the last token
// of a prompt is computed where its answer is given, and of a prompt nothing is sent that is there already.
type Pool struct {
	Prefill, Decode int     // engines; 0: one engine does both
	Token           int     // bytes of keys and values of a token; default TokenOf8B
	Link            float64 // bytes a second that an engine which computes can send; default Link400
}

// Bytes of keys and values of a token at 16 bits: layers * 2 * heads * their size * 2.
const (
	TokenOf8B  = 32 * 2 * 8 * 128 * 2 // Llama 3.1 8B
	TokenOf70B = 80 * 2 * 8 * 128 * 2 // Llama 3.1 70B
)

// Link400 is a network of 400 Gbit/s.
const Link400 = 400e9 / 8

// Validate says what is wrong with it.
func (p Pool) Validate() error {
	switch {
	case p.Prefill < 0 || p.Decode < 0 || (p.Prefill > 0) != (p.Decode > 0):
		return fmt.Errorf("sim-prefill is %d and sim-decode %d: a pool has at least one of each", p.Prefill,
			p.Decode)
	case p.Prefill+p.Decode > 64:
		return fmt.Errorf("a pool of %d engines; it must be at most 64", p.Prefill+p.Decode)
	case p.Token < 1 || !(p.Link > 0):
		return fmt.Errorf("sim-kv-token is %d and sim-kv-link %v: both must be above 0", p.Token, p.Link)
	}
	return nil
}

// pool is engines that share what comes. The first that answers stands for all of them.
type pool struct {
	Pool
	prefill, decode []*engine
	sent            []time.Time // by engine that computes: when what it sends has gone
	moving          []moving
}

// moving is a sequence whose keys and values are on their way.
type moving struct {
	s   *sequence
	to  *engine
	due time.Time
}

// newPool makes first one of the engines that answer.
func newPool(c Pool, first *engine, another func() *engine) {
	p := &pool{Pool: c, decode: []*engine{first}, sent: make([]time.Time, c.Prefill)}
	for range c.Decode - 1 {
		p.decode = append(p.decode, another())
	}
	for i := range c.Prefill {
		e := another()
		e.hands = func(now time.Time, s *sequence) { p.hand(now, i, s) }
		p.prefill = append(p.prefill, e)
	}
	for _, e := range p.engines() {
		e.stats = first.stats
	}
	first.pool = p
}

func (p *pool) engines() []*engine { return slices.Concat(p.prefill, p.decode) }

func (p *pool) all() (out []*sequence) {
	for _, e := range p.engines() {
		out = append(append(out, e.Running...), e.Waiting...)
	}
	for _, m := range p.moving {
		if !m.s.ended {
			out = append(out, m.s)
		}
	}
	return out
}

// add has the engine compute a sequence's prompt that has fewest tokens ahead of it.
func (p *pool) add(s *sequence, now time.Time) {
	best, least := p.prefill[0], -1
	for _, e := range p.prefill {
		ahead := 0
		for _, x := range append(slices.Clone(e.Running), e.Waiting...) {
			ahead += x.prompt - x.run.Computed
		}
		if least < 0 || ahead < least {
			best, least = e, ahead
		}
	}
	best.now, s.at = now, best
	best.Add(s, s.prompt)
}

// hand sends what was computed to the engine that answers fewest.
func (p *pool) hand(now time.Time, from int, s *sequence) {
	p.prefill[from].Drop(s)
	s.found, s.at = s.run.Cached, nil
	to, least := p.decode[0], -1
	for _, e := range p.decode {
		n := len(e.Running) + len(e.Waiting)
		for _, m := range p.moving {
			if m.to == e {
				n++
			}
		}
		if least < 0 || n < least {
			to, least = e, n
		}
	}
	size := to.Cache.Size()
	tokens := s.prompt - 1 - to.Cache.Match(s.Prefix((s.prompt-1)/size))*size
	if now.After(p.sent[from]) {
		p.sent[from] = now
	}
	p.sent[from] = p.sent[from].Add(time.Duration(float64(tokens) * float64(p.Token) / p.Link * 1e9))
	p.moving = append(p.moving, moving{s: s, to: to, due: p.sent[from]})
}

// step brings all engines to now, see [engine.step].
func (p *pool) step(now time.Time, out []*sequence) (wake time.Time, _ []*sequence) {
	sooner := func(t time.Time) {
		if !t.IsZero() && (wake.IsZero() || t.Before(wake)) {
			wake = t
		}
	}
	turn := func(e *engine) {
		var next time.Time
		next, out = e.turn(now, out)
		sooner(next)
	}
	for _, e := range p.prefill {
		turn(e)
	}
	p.moving = slices.DeleteFunc(p.moving, func(m moving) bool {
		switch {
		case m.s.ended:
			return true
		case now.Before(m.due):
			sooner(m.due)
			return false
		}
		m.s.run.Handed, m.s.at = m.s.prompt-1, m.to
		m.to.now = now
		m.to.Add(m.s, m.s.prompt)
		return true
	})
	for _, e := range p.decode {
		turn(e)
	}
	return wake, out
}
