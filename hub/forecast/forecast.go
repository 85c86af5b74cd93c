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
	"time"

	"souk/hub/estimate"
	"souk/hub/predict"
	"souk/market"
)

// Room learns first tokens and answers, and has the classes of the hub's agents.
type Room struct {
	Lines   *predict.Classes // of agents that are forecast alike
	Outputs *predict.Outputs // how long answers are

	prior   predict.Prior
	gates   predict.Gates
	hold    float64 // what a task without max_tokens may cost, in its cards or a usual one's
	classes map[Traits]*Class
	made    int
	aside   bool
}

// New has learned nothing.
func New(prior predict.Prior, gates predict.Gates, hold float64) *Room {
	return &Room{Lines: predict.NewClasses(prior, gates), Outputs: predict.NewOutputs(gates), prior: prior,
		gates: gates, hold: hold, classes: map[Traits]*Class{}}
}

// ForAQuote is a room that knows the same, and whose classes are of one quote: nothing remembers who asked.
func (r *Room) ForAQuote() *Room {
	x := *r
	x.classes, x.aside = map[Traits]*Class{}, true
	return &x
}

// Aside reports whether the room is one for quotes.
func (r *Room) Aside() bool { return r.aside }

// Estimate returns a task's expected need and cost on an agent of a class that holds so much of its prompt,
// at a moment in nanoseconds.
func (r *Room) Estimate(now int64, t *Task, c *Class, h estimate.Held) estimate.Estimate {
	most, least := c.Bound(t)
	e := estimate.Estimate{Prompt: h.Tokens + t.Carried, Cached: h.Cached, MaxTokens: t.MaxTokens, Most: most,
		Quality: c.Quality(t.Domain)}
	if t.Open() {
		e.MaxTokens = openContext
	}
	if c.Context > 0 {
		// An engine refuses a request whose prompt and max_tokens together exceed its context; the margin is
		// for the estimate's error.
		e.MaxTokens = max(1, min(e.MaxTokens, c.Context-e.Prompt-e.Prompt/16-16))
	}
	f := t.Features(&e)
	f.Answer = r.Answer(now, t, c)
	e.First, e.Work, e.Output = c.Line.Idle(f)
	e.Prefill = c.Line.Work(e.Prompt-e.Cached, e.Cached)
	e.Own = e.First + time.Duration(e.Output)*r.ITL(c.Line)
	e.Service = c.Service.Of(e.Own)
	e.Cost = c.Cost(e.Prompt, e.Cached, e.Output)
	if c.Settle != market.SettleQuoted { // which pays the quote, whatever the prompt turns out to be
		e.Floor = c.worst(least, min(1, e.MaxTokens))
	}
	e.Worst = r.worst(t, c, &e)
	return e
}

func (r *Room) worst(t *Task, c *Class, e *estimate.Estimate) market.Credits {
	most := c.worst(e.Most, e.MaxTokens)
	if t.Open() {
		most = min(most, max(c.Cost(e.Prompt, 0, e.Output), t.Usual).Times(r.hold))
	}
	return max(e.Cost, e.Floor, most)
}

// ITL is the mean time between tokens of agents that are forecast so; where none was seen, a quarter of the
// slowest expected.
func (r *Room) ITL(l predict.Line) time.Duration { return cmp.Or(l.ITL(), r.prior.Slowest/4) }

// Trees says of the trees on what forecasts leave over how many there are for first tokens, of how many of
// them it is added now, and how often that began; and the same of that for lengths of answers.
type Trees struct {
	Firsts, FirstsOpen, FirstsOpened int
	LengthsOpen                      bool
	LengthsOpened                    int
}

// Trees says it.
func (r *Room) Trees() (t Trees) {
	t.Firsts, t.FirstsOpen, t.FirstsOpened = r.Lines.Gates()
	t.LengthsOpen, t.LengthsOpened = r.Outputs.Gate()
	return t
}
