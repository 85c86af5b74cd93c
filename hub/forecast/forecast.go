// Package forecast makes estimates: what a task is expected to need, to cost and to be worth on an agent. It
// is pure, and one reads the path of an estimate here from its beginning to its end:
//
//	Task            what a task asks: its prompt, its answer, the model
//	Class           what is known of agents that are estimated alike: line, card, tariff, context, template,
//	                quality, service
//	estimate.Held   what an agent of the class holds of the prompt, as the index of caches has it
//	-> May          what keeps the task from the class, if anything does
//	-> Estimate     tokens, times and costs where nothing is in hand
//	predict.Delay   what the agent has in hand, by its own dispatches
//	-> Line.Later   when the first token comes behind that
//
// A task is estimated once for all agents of a class that hold as much of its prompt, and anew where what was
// learned since says otherwise: see [Sheet].
package forecast

import (
	"cmp"
	"math"
	"slices"

	"souk/bus"
	"souk/hub/estimate"
	"souk/hub/predict"
	"souk/hub/prefix"
	"souk/hub/quality"
	"souk/market"
)

// Params say by what a room begins.
type Params struct {
	Gates   predict.Gates
	Hold    float64         // what a task without max_tokens may cost, in its cards or a usual one's
	Settle  string          // the rule by which costs are settled
	Judging quality.Judging // whose word counts for how good answers are
}

// Room learns what is known of agents and answers, and has the classes of the hub's agents.
type Room struct {
	Lines    *predict.Classes // of agents that are forecast alike
	Outputs  *predict.Outputs // how long answers are
	Prefixes *prefix.Index    // what agents are believed to hold
	Params

	agents  []*Agent // all that are enrolled, by id
	enrol   func(id string) *Agent
	classes map[Traits]*Class
	aside   bool
	one     estimate.Estimate
}

// New has learned nothing. enrol returns the agent of an id, new if need be.
func New(p Params, enrol func(id string) *Agent) *Room {
	return &Room{Lines: predict.NewClasses(p.Gates), Outputs: predict.NewOutputs(p.Gates),
		Prefixes: prefix.NewIndex(prefix.DefaultLimits()), classes: map[Traits]*Class{}, Params: p,
		enrol: enrol}
}

// ForAQuote is a room that knows the same, and whose classes are of one quote: nothing remembers who asked.
func (r *Room) ForAQuote() *Room {
	x := *r
	x.classes, x.aside = map[Traits]*Class{}, true
	return &x
}

// Estimate returns a task's expected need and cost on an agent of a class that holds so much of its prompt,
// at a moment in nanoseconds.
func (r *Room) Estimate(now int64, t *Task, c *Class, h estimate.Held) estimate.Estimate {
	most, least := c.Bound(t)
	prompt := h.Tokens + t.Carried
	if c.Context > 0 && c.Pools == "" { // else it is of many texts
		prompt = min(prompt, c.Context-1)
	}
	e := estimate.Estimate{Prompt: prompt, Cached: min(h.Cached, prompt), MaxTokens: t.MaxTokens, Most: most,
		Quality: c.Quality(t.Domain)}
	if t.Open() {
		e.MaxTokens = openContext
	}
	// where the estimate leaves little room, the agent has the prompt counted
	e.MaxTokens = min(e.MaxTokens, max(bus.AnswerRoom(c.Context, e.Prompt), c.Context/8))
	f := t.Features(&e)
	f.Answer = r.Answer(now, t, c)
	if e.First, e.Work, e.Output = c.Line.Idle(f); c.Pools != "" {
		e.Output = 0
	}
	e.Prefill = c.Line.Work(e.Prompt-e.Cached, e.Cached)
	e.Cost = c.Cost(e.Prompt, e.Cached, e.Output)
	if c.Settle != market.SettleQuoted { // which pays the quote, whatever the prompt turns out to be
		e.Floor = c.worst(least, min(1, e.MaxTokens))
	}
	e.Worst = c.worst(e.Most, e.MaxTokens)
	if t.Open() {
		e.Worst = min(e.Worst, max(c.Cost(e.Prompt, 0, e.Output), t.Usual).Times(r.Hold))
	}
	e.Worst = max(e.Worst, e.Cost, e.Floor)
	return e
}

// obstacle returns why a task may not go to an agent, slots aside.
func (t *Task) obstacle(a *Agent, c *Class) estimate.Obstacle {
	if !a.Joined() || t.Only != nil && t.Only != a || t.Failed != nil && slices.Contains(*t.Failed, a.ID()) {
		return estimate.Elsewhere
	}
	return c.May(t)
}

// Goes reports whether a task may go to an agent.
func (r *Room) Goes(t *Task, a *Agent) bool { return t.obstacle(a, r.Of(a)) == estimate.None }

// Fit finds the context that an agent must have to be given a task. Where some that it may use have room for
// its prompt, as long as that may turn out, and for all of its max_tokens, that is the shortest of theirs,
// and else the longest there is: a task is refused by an engine, or its answer cut, only where all would do
// so, whether they have a free slot or not. No bid decides that.
func (r *Room) Fit(t *Task) {
	t.Least = 0
	short, whole, longest := false, math.MaxInt, 0
	told := make(classes, 0, 16)
	for _, a := range r.agents {
		c := r.Of(a)
		if !slices.Contains(told, c) && a.Stays() && t.obstacle(a, c) == estimate.None {
			told = told.with(c)
			context, prompt := cmp.Or(c.Context, math.MaxInt), c.Line.Tokens(t.Prompt.Tokens)+t.Carried
			if longest = max(longest, context); c.Pools == "" && // a guess at the most, as in Bound
				(prompt*5/4+64 >= context || bus.AnswerRoom(c.Context, prompt) < t.MaxTokens) {
				short = true
			} else {
				whole = min(whole, context)
			}
		}
	}
	if short {
		t.Least = min(whole, longest)
	}
}

// At forecasts the need and cost of a task at an agent, by what that holds of its prompt.
func (r *Room) At(now int64, t *Task, a *Agent) estimate.Estimate {
	return r.Estimate(now, t, r.Of(a), r.Held(t, a))
}

// Held returns the part of a prompt that an agent is believed to hold.
func (r *Room) Held(t *Task, a *Agent) estimate.Held {
	return a.expect(r.Of(a), t.Prompt, r.Prefixes.Look(&t.Held, t.Prompt)[a.Place])
}

// depths returns how many of a prompt's prefixes each agent holds, by the place of its cache. A quote has
// nothing go by other names.
func (r *Room) depths(t *Task) []int32 {
	if r.aside {
		return r.Prefixes.Depths(nil, t.Prompt.Prefixes)
	}
	return r.Prefixes.Look(&t.Held, t.Prompt)
}

// expect forecasts what an agent has of a prompt that is believed to hold so many of its prefixes.
func (a *Agent) expect(c *Class, p *bus.Prompt, depth int32) (h estimate.Held) {
	if h.Tokens = c.Line.Tokens(p.Tokens); depth > 0 {
		h.Tokens, h.Cached = a.Cache.ExpectAt(p, depth, h.Tokens)
	}
	return h
}

// classes are the first that were looked at, as many as there is room for, and the last.
type classes []*Class

func (x classes) with(c *Class) classes { return append(x[:min(len(x), cap(x)-1)], c) }

// Reach shows what a task would need and cost on the agents that may serve it, if anybody looks; may hears of
// each what keeps it from there, its context, and the tokens that it expects in the prompt. Of a class's
// agents that hold nothing one tells all.
func (r *Room) Reach(now int64, t *Task, may func(o estimate.Obstacle, context, prompt int) bool,
	show func(*Agent, *estimate.Estimate)) {
	depths := r.depths(t)
	told := make(classes, 0, 16)
	// whether something else than its class may keep it from an agent
	alone := t.Only != nil || t.Failed != nil && len(*t.Failed) > 0
	for _, a := range r.agents {
		c, depth := r.Of(a), depths[a.Place]
		if depth == 0 && !alone {
			if slices.Contains(told, c) { // one that has left keeps nothing from anywhere
				continue
			}
			if a.Joined() {
				told = told.with(c)
			}
		}
		held := a.expect(c, t.Prompt, depth)
		if may(t.obstacle(a, c), c.Context, held.Tokens+t.Carried) && show != nil {
			r.one = r.Estimate(now, t, c, held)
			show(a, &r.one)
		}
	}
}

// Card returns the greatest quality expected of agents that serve the model of a task, and the price at the
// cheapest with nothing cached and an answer as long as is expected, a flat fee included; 0: there is none.
func (r *Room) Card(now int64, t *Task, fee market.Credits) (best float64, card market.Credits) {
	card = -1
	told := make(classes, 0, 16)
	for _, a := range r.agents {
		c := r.Of(a)
		if slices.Contains(told, c) || !a.Joined() || t.Model != "" && t.Model != c.Model || c.cuts(t) ||
			!bus.Serves(c.Pools, t.Kind) {
			continue
		}
		told, best = told.with(c), max(best, c.Quality(t.Domain))
		at := c.Cost(c.Line.Tokens(t.Prompt.Tokens), 0, r.Answer(now, t, c)) + fee
		if card < 0 || at < card {
			card = at
		}
	}
	return best, max(0, card)
}

// Typical is the task whose time to a first token a hub names, so that hubs can be compared.
var Typical = predict.Features{Prompt: 500, MaxTokens: 256}

// Typically returns what a typical task costs at the cheapest agent, a flat fee included; 0: there is none.
func (r *Room) Typically(fee market.Credits) market.Credits {
	least := market.Credits(-1)
	for _, a := range r.agents {
		c := a.Reg().Price.Cost(market.Usage{Prompt: Typical.Prompt, Output: Typical.MaxTokens}) +
			a.Seller().Tariff + fee
		if a.Joined() && a.Reg().Pools == "" && (least < 0 || c < least) {
			least = c
		}
	}
	return max(0, least)
}
