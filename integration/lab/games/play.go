package games

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"souk/bus"
	"souk/hub/regime"
	"souk/integration/lab/virtual"
)

// rule routes tasks to the engines.
type rule struct {
	name    string
	market  bool
	other   bool // one of package virtual, by its name
	params  regime.Params
	control regime.Control // of a market
	adapts  bool           // the paper's controller
}

// The rules that are compared where load changes.
var (
	static  = rule{name: "dynamo", params: regime.Default()}
	theirs  = rule{name: "dynamo, adaptive", params: regime.Default(), adapts: true}
	ours    = rule{name: "market", market: true, params: regime.Default(), control: regime.DefaultControl()}
	adapted = func() rule {
		r := ours
		r.name, r.control.Adapt = "market, adaptive", true
		return r
	}()
)

// with is a rule with other parameters throughout.
func (r rule) with(p regime.Params) rule {
	r.params = p
	return r
}

// moment is a change of the load that a router reports.
type moment struct {
	at    time.Duration
	state regime.State
}

// played is one run.
type played struct {
	all     []*virtual.Request
	engines int
	said    []moment
}

// play runs a rule before a topology.
func play(t Topology, s virtual.Setting, r rule) (p played, err error) {
	lots := rand.New(rand.NewPCG(s.Seed, 0x67616d65))
	jitter := func() float64 { return math.Exp(0.03 * lots.NormFloat64()) }
	p.engines = s.Engines
	if r.other {
		other, err := virtual.NewRule(r.name, s.Seed)
		if err == nil {
			p.all, _, err = virtual.Run(s, t.before(other, jitter))
		}
		return p, err
	}
	if !r.market {
		d := newDynamo(s.Engines, r.params, s.Seed)
		if r.adapts {
			d.adaptive = &adaptive{moved: func(now time.Time, to regime.State) {
				p.said = append(p.said, moment{now.Sub(virtual.Start), to})
			}}
		}
		p.all, _, err = virtual.Run(s, t.before(d, jitter))
		return p, err
	}
	o := virtual.NewMarketOptions(s)
	o.Hub.Regime, o.Hub.Regimes = r.params, r.control
	var m *virtual.Market
	o.Status = func(now time.Time, _ *bus.Status) {
		if m == nil {
			return
		}
		at := now.Sub(virtual.Start)
		state := regime.State(m.Regime().Level)
		if n := len(p.said); n == 0 || p.said[n-1].state != state {
			p.said = append(p.said, moment{at, state})
		}
	}
	if m, err = virtual.NewMarket(o); err != nil {
		return p, err
	}
	if p.all, _, err = virtual.Run(s, t.before(m, jitter)); err == nil {
		_, err = m.Close()
	}
	if err != nil {
		err = fmt.Errorf("%s, seed %d: %w", r.name, s.Seed, err)
	}
	return p, err
}

// seen returns how long after a moment a regime was first seen, within some time; NaN: never.
func (p *played) seen(after, within time.Duration) float64 {
	if p.state(after) > regime.Below {
		return 0
	}
	for _, m := range p.said {
		if m.at >= after && m.at < after+within && m.state > regime.Below {
			return (m.at - after).Seconds()
		}
	}
	return math.NaN()
}

// worst is the highest state within a span.
func (p *played) worst(at span) (s regime.State) {
	s = p.state(at.from)
	for _, m := range p.said {
		if m.at >= at.from && m.at < at.to {
			s = max(s, m.state)
		}
	}
	return s
}

// state returns the state that was reported at a time.
func (p *played) state(at time.Duration) (s regime.State) {
	for _, m := range p.said {
		if m.at <= at {
			s = m.state
		}
	}
	return s
}
