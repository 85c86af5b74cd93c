package hub

import (
	"slices"
	"time"

	"souk/bus"
	"souk/hub/admission"
	"souk/hub/estimate"
	"souk/hub/forecast"
)

// class is the class of an agent.
func (n *meeting) class(a *agent) *forecast.Class {
	if a.forecast != nil && a.forecast.Line.Stands(a.fits) {
		return a.forecast
	}
	return n.classify(a)
}

// classify finds it where what makes it may have changed.
func (n *meeting) classify(a *agent) *forecast.Class {
	line, ranges := a.predictor.Line(), a.predictor.Ranges()
	fits, keep := a.predictor.Fits(), !n.forecasts.Aside()
	if a.forecast != nil && a.forecast.Line == line && a.forecast.Ranges == ranges {
		if keep {
			a.fits = fits
		}
		return a.forecast
	}
	rated, scores := a.answers.Rated()
	x := forecast.Traits{Line: line, Ranges: ranges, Service: a.Service(), Model: a.Reg().Model,
		Price: a.Reg().Price, Tariff: a.Seller().Tariff, Context: a.Reg().MaxModelLen, Scores: scores,
		Settle: n.cfg.Settle}
	x.Parses = slices.Contains(a.Reg().Features, bus.Parsers)
	x.Text = slices.Contains(a.Reg().Features, bus.Text)
	if a.Reg().Template != nil {
		x.Template, x.Measured = *a.Reg().Template, true
	}
	c, full := n.forecasts.Class(x, a.Reg().Domains, rated, 2*len(n.fleet.All())+16)
	if full {
		for _, b := range n.fleet.All() {
			b.forecast = nil
		}
	}
	if keep {
		a.forecast, a.fits = c, fits
	}
	return c
}

// obstacle returns why t may not go to a, an agent of class c that holds h of its prompt, slots aside.
func (t *task) obstacle(a *agent, c *forecast.Class, h estimate.Held) estimate.Obstacle {
	if !a.Joined() || t.only != nil && t.only != a ||
		len(t.FailedAt) > 0 && slices.Contains(t.FailedAt, a.ID()) {
		return estimate.Elsewhere
	}
	return c.May(&t.asks, h.Tokens)
}

// reach shows what t is expected to need and to cost on the agents that may serve it, if anybody looks. x
// hears what keeps it from the others. Of a class's agents that hold nothing of its prompt one tells all.
func (n *meeting) reach(t *task, x *admission.Survey, show func(a *agent, e *estimate.Estimate)) {
	s, p := &n.round, &t.Msg.Prompt
	s.depths = n.prefixes.Depths(s.depths, p.Prefixes)
	told := make([]*forecast.Class, 0, 16)        // the first that were looked at, and the last
	alone := t.only != nil || len(t.FailedAt) > 0 // what keeps it from one agent is not its class
	for _, a := range n.fleet.All() {
		c, depth := n.class(a), s.depths[a.place]
		if depth == 0 && !alone && a.Joined() {
			if slices.Contains(told, c) {
				continue
			}
			told = append(told[:min(len(told), cap(told)-1)], c)
		}
		held := a.expect(c, p, depth)
		if x.May(t.obstacle(a, c, held), a.Reg().MaxModelLen) && show != nil {
			s.alone = n.forecasts.Estimate(n.turn.Nano(), &t.asks, c, held)
			show(a, &s.alone)
		}
	}
}

// goes reports whether t may go to a. What a holds is looked up only for an agent that may serve t at all.
func (n *meeting) goes(t *task, a *agent) bool {
	c := n.class(a)
	return c.May(&t.asks, 0) == estimate.None && t.obstacle(a, c, n.heldBy(t, a)) == estimate.None
}

// estimate forecasts the need and cost of t on a, which holds h of its prompt.
func (n *meeting) estimate(t *task, a *agent, h estimate.Held) estimate.Estimate {
	return n.forecasts.Estimate(n.turn.Nano(), &t.asks, n.class(a), h)
}

// expect forecasts how many tokens a prompt has on an agent that is believed to hold so many of its
// prefixes, and how many of them it holds.
func (a *agent) expect(c *forecast.Class, p *bus.Prompt, depth int32) (h estimate.Held) {
	if h.Tokens = c.Line.Tokens(p.Tokens); depth > 0 {
		h.Tokens, h.Cached = a.cache.ExpectAt(p, depth, h.Tokens)
	}
	return h
}

// heldBy returns the part of a prompt that an agent is believed to hold.
func (n *meeting) heldBy(t *task, a *agent) estimate.Held {
	for _, h := range n.prefixes.Look(&t.asks.Holders, &t.Msg.Prompt) {
		if h.Place == a.place {
			return a.expect(n.class(a), &t.Msg.Prompt, h.Depth)
		}
	}
	return a.expect(n.class(a), &t.Msg.Prompt, 0)
}

// later is when the first token of a task that was estimated so is expected, beside what an agent has in
// hand.
func (a *agent) later(e *estimate.Estimate, in estimate.Delay) time.Duration {
	return a.predictor.Line().Later(e.First, e.Work, in)
}
