package forecast

import (
	"cmp"
	"slices"
	"time"

	"souk/bus"
	"souk/hub/estimate"
	"souk/hub/predict"
	"souk/hub/prefix"
	"souk/hub/quality"
	"souk/ledger"
	"souk/market"
)

// Sold is an agent as the hub sells its slots, to be read.
type Sold interface {
	ID() string
	Joined() bool // else it has left, and tasks may run on it still
	Stays() bool  // it is sold, and by its word neither drains nor has an engine that does not answer
	Reg() *bus.Registration
	Seller() market.Seller
}

// Agent holds what is known of one agent: how fast it is, what it holds, how good its answers are.
type Agent struct {
	// what rounds and quotes read of every agent stands first, and so together in memory
	class          *Class // nil: to be found
	*predict.Means        // how fast it is
	Place          int32  // of its cache
	Sold

	Cache     *prefix.Cache
	prewarmed bool // it has a text of the hub's own, and was given nothing since
	rate      predict.Rate
	learned   string // the model that this is of, where it was read from a file
	Answers   quality.Standing
}

// Enrol makes a an agent of an id of which nothing is known.
func (r *Room) Enrol(a *Agent, id string, sold Sold) {
	a.Sold, a.Means = sold, predict.NewMeans()
	a.hold(r.Prefixes.New(1, 0))
	i, _ := slices.BinarySearchFunc(r.agents, id,
		func(b *Agent, id string) int { return cmp.Compare(b.ID(), id) })
	r.agents = slices.Insert(r.agents, i, a)
}

// hold has another cache stand for the agent's than the last.
func (a *Agent) hold(c *prefix.Cache) { a.Cache, a.Place = c, int32(c.Place()) }

// Drop forgets an agent.
func (r *Room) Drop(a *Agent) {
	a.Cache.Drop()
	r.Lines.Leave(a.Means)
	r.agents = slices.DeleteFunc(r.agents, func(b *Agent) bool { return a == b })
}

// Register takes in an agent's registration after another; fresh: it is of another process.
func (r *Room) Register(a *Agent, was *bus.Registration, fresh bool) {
	reg := a.Reg()
	switch {
	case fresh || reg.Model != was.Model || reg.BlockSize != was.BlockSize: // nothing is known of its cache
		a.Cache.Drop()
		a.hold(r.Prefixes.New(reg.BlockSize, reg.KVTokens))
	case was.KVTokens != reg.KVTokens: // it was started again with other flags, beside its agentd
		a.Cache.Resize(reg.KVTokens)
	}
	if reg.Model != cmp.Or(was.Model, a.learned) {
		r.Lines.Leave(a.Means)
		a.Means = predict.NewMeans()
		a.Answers.Said = nil
	}
	a.Answers.Register(reg.Domains)
	r.rate(a)
	r.Priced(a)
}

// Priced says that an agent's card has changed: it is forecast like others of that card.
func (r *Room) Priced(a *Agent) {
	reg := a.Reg()
	r.Lines.Enter(predict.Key{Model: reg.Model, Hardware: a.Seller().Class, Context: reg.MaxModelLen,
		Price: reg.Price}, a.Means)
	a.class = nil
}

// Anew has an agent's class be found anew, as its tariff may have changed.
func (a *Agent) Anew() { a.class = nil }

// rate finds out how good an agent's answers are from now on, and reports whether that has changed.
func (r *Room) rate(a *Agent) bool {
	changed := a.Answers.Rate(r.Judging)
	if changed {
		a.class = nil
	}
	return changed
}

// Judged takes in a client's word of an answer in such a domain, and Paid that a client has paid for one to a
// task with such a label, of which it sets the domain. Both report whether answers count otherwise by that.
func (r *Room) Judged(a *Agent, domain string, m *bus.Feedback) bool {
	a.Answers.Judge(r.Judging, domain, m)
	return r.rate(a)
}

func (r *Room) Paid(a *Agent, domain *string, label, client string, cost market.Credits) bool {
	*domain = a.Answers.Served(label, client, float64(cost))
	return r.rate(a)
}

// Recount has agents that a text was put on agree with the one that a task goes to on how many tokens they
// have in common. That one may have learned it of its engine, and these guess it by bytes: with a few tokens
// too many they would look dearer, and be given nothing from which to learn.
func (r *Room) Recount(a *Agent, p *bus.Prompt) {
	a.prewarmed = false
	for _, b := range r.agents {
		if b.prewarmed && b.Reg().Model == a.Reg().Model {
			b.Cache.Recount(p, a.Cache)
		}
	}
}

// Of is the class of an agent.
func (r *Room) Of(a *Agent) *Class {
	line := a.Line()
	if c := a.class; c != nil && c.Line == line {
		return c
	}
	return r.find(a, line)
}

// mostClasses bounds those that are remembered: most of so many are of cards and tariffs that are no more.
const mostClasses = 1 << 12

// find finds it where what makes it may have changed.
func (r *Room) find(a *Agent, line predict.Line) *Class {
	reg := a.Reg()
	rated, scores := a.Answers.Rated()
	x := Traits{Line: line, Model: reg.Model, Price: reg.Price,
		Tariff: a.Seller().Tariff, Context: reg.MaxModelLen, Scores: scores, Settle: r.Settle,
		Parses: slices.Contains(reg.Features, bus.Parsers), Text: slices.Contains(reg.Features, bus.Text),
		Opaque: slices.Contains(reg.Features, bus.Opaque), Pools: reg.Pools}
	for _, kind := range []string{bus.KindChat, bus.KindCompletion} {
		if no := bus.Without(kind); slices.Contains(reg.Features, no) {
			x.Without = no
		}
	}
	if reg.Template != nil {
		x.Template, x.Measured = *reg.Template, true
	}
	c, full := r.Class(x, reg.Domains, rated, mostClasses)
	if full {
		for _, b := range r.agents {
			b.class = nil
		}
	}
	if !r.aside {
		a.class = c
	}
	return c
}

// Seen returns the forecast of an estimate as a round's record says it, beside what the agent has in hand.
func (a *Agent) Seen(e *estimate.Estimate, in estimate.Delay) ledger.Seen {
	f := a.Timed(e.First, e.Work, e.Output, in)
	x := ledger.Seen{Prompt: e.Prompt, Cached: e.Cached, Output: f.Output, First: f.TTFT, Least: f.Low,
		Most: f.High, Evidence: ledger.EvidenceSent}
	switch {
	case a.Cache.Rules():
		x.Evidence = ledger.EvidenceEvents
	case a.Cache.Speaks():
		x.Evidence = ledger.EvidencePartly
	}
	return x
}

// Second is the income of an agent's engine from a second of computing prompts, at such a card.
func (a *Agent) Second(card market.Price) market.Credits {
	const sample = 1024
	takes, _ := a.computes(sample, 0)
	if takes <= 0 {
		return 0
	}
	return card.Cost(market.Usage{Prompt: int(min(sample/takes.Seconds(), bus.MaxTokens))})
}

// Expected holds the forecasts of a task at the agent that it is sent to.
type Expected struct {
	estimate.Estimate                  // when it was awarded; of none where the journal alone tells of it
	Features          predict.Features // of the task
	TTFT              time.Duration    // once the engine begins it
	Queued            time.Duration    // at most, in the engine's own queue; 0: it was not sent there
	Waited            time.Duration    // there, until the hub heard that a slot was free; 0: it did not

	said     predict.Forecast // when it was dispatched
	Computes time.Duration    // for which its prompt is computed, likewise, as it counts for the class
	Run      *prefix.Run      // of it, in what its agent is believed to hold
}

// Expect says what is expected of a task at an agent with so much in hand, the latest that its first token is
// quoted to come, and within which time it comes nearly always: where too few were seen, at worst.
func (r *Room) Expect(now int64, t *Task, a *Agent, in estimate.Delay) (x Expected, first,
	within time.Duration) {
	x.Estimate = r.At(now, t, a)
	x.Features, x.TTFT = t.Features(&x.Estimate), a.Line().Later(x.First, x.Work, in)
	first = worstFirst(a.Means, t, &x.Estimate, in)
	within, known := a.Watch(x.TTFT)
	if !known {
		within = first
	}
	return x, first, within
}

// worstFirst is several times what is expected, with nothing cached, as the client may know that what is
// inferred is wrong, and the most tokens for a picture, as nobody knows how many it has.
func worstFirst(m *predict.Means, t *Task, e *estimate.Estimate, in estimate.Delay) time.Duration {
	f := t.Features(e)
	if f.Cached = 0; t.Media {
		f.Prompt, f.Counted = max(f.Prompt, e.Most), 0
	}
	first, work, _ := m.Line().Idle(f)
	return 2*time.Second + firstTimes*m.Line().Later(first, work, in)
}

// Sends has an agent of such a load be given a task under a hold: it is in what that is believed to hold. It
// returns how long its prompt takes to compute, and when its first token is expected.
func (r *Room) Sends(now int64, t *Task, a *Agent, x *Expected, h *ledger.Hold,
	in estimate.Load) (work, ttft time.Duration) {
	f := &x.Features
	f.Load = in
	work, x.Computes = a.computes(f.Counted-f.Cached, f.Cached)
	x.said = a.Forecast(*f)
	x.Run = a.Cache.Sent(t.Prompt, h.Prompt, h.Output, now+x.First.Nanoseconds())
	return work, x.said.TTFT
}

// firstTimes bounds how many times longer than expected a first token may take.
const firstTimes = 4

// AtMost bounds how long a first token takes after so many tokens of prompts, none of them cached, by the
// agent's forecast, its interval and its own rate, or what it did not do in time; false: that is not known.
func (a *Agent) AtMost(tokens int) (first time.Duration, known bool) {
	line := a.First(predict.Features{Counted: tokens})
	own, known := a.rate.Slowest(tokens)
	seen, _ := a.Watch(line)
	return max(firstTimes*max(line, own), seen), known
}

// computes returns how long the agent computes tokens behind cached ones, and how long that counts for its
// class: the line of the class counts what else an engine does meanwhile, and what an agent says makes it no
// longer.
func (a *Agent) computes(tokens, cached int) (takes, counts time.Duration) {
	line := a.Line().Work(tokens, cached)
	if by, ok := a.rate.Takes(tokens); ok {
		return by, min(by, line)
	}
	return line, line
}

// clocksDiffer bounds how much longer something may take by an agent's clock than by the hub's.
const clocksDiffer = time.Second

// Believed bounds the microseconds that an agent reports by the time since its task was sent. An agent that
// was believed to need an hour would get no more tasks to show otherwise.
func Believed(us int64, since time.Duration) time.Duration {
	return min(time.Duration(us)*time.Microsecond, since+clocksDiffer)
}

// Times are how long the task's first token took, by its agent's account, 0 where none came yet, and how long
// of that, or so far, the task was in its engine's own queue.
func (x *Expected) Times(c *bus.Completion, ran time.Duration) (first, queued time.Duration) {
	if c != nil {
		first = Believed(max(0, c.TTFTUS), ran)
	}
	switch {
	case x.Queued == 0:
	case x.Waited > 0:
		queued = min(cmp.Or(first, ran), x.Waited)
	case first == 0: // no other has left it a slot
		queued = ran
	default:
		queued = max(0, first-x.TTFT)
	}
	return first, queued
}

// Answered is the outcome of a task that was sent to an agent.
type Answered struct {
	*bus.Completion
	*Expected
	Hold *ledger.Hold
	Ran  time.Duration // since it was sent
	Cold func() bool   // whether the engine had answered nothing since it was started again
}

// Answered teaches what is forecast of an agent and of answers, and what is known of its cache, by a task of
// which nothing was said before, and that is not the rest of another; t: none is known. It returns how much
// is believed of how long the first token took; false: nothing is.
func (r *Room) Answered(at int64, t *Task, a *Agent, y *Answered) (first time.Duration, learned bool) {
	same := y.Hold.Boot == a.Reg().Boot
	// The engine may be slower than the hold had time for. Its next holds get more time, within a bound.
	switch {
	case y.Outcome == bus.OutcomeFailed && same && y.TTFTUS == 0:
		a.rate.Cut(y.Ran, y.Features.Counted-y.Features.Cached)
	case y.Outcome == bus.OutcomeFailed && same && y.Code == bus.CodeTimeout:
		a.Learn(y.Features, predict.Observation{Cut: true, ITL: time.Duration(y.ITLUS) * time.Microsecond})
	}
	if y.Outcome == bus.OutcomeFailed || y.Usage.Prompt <= 0 || !same {
		return 0, false
	}
	cached, held := y.Usage.Cached, y.Usage.Cached
	if y.NoCacheReport || y.Unmetered {
		cached, held = -1, y.Features.Cached
	}
	if y.Hold.Asserted > 0 && (cached >= 0 || y.Outcome == bus.OutcomeDone) {
		a.Cache.Judge(y.Hold.Asserted, cached)
	}
	if t.Prompt == nil || t.Carried > 0 {
		return 0, false
	}
	own, most, now, sent := t.Only != nil, y.Hold.MaxTokens, time.Duration(at), time.Duration(at)-y.Ran
	first = Believed(y.TTFTUS, y.Ran)
	if y.Queued > 0 { // its prompt was computed since a slot was free
		if first = max(0, first-y.Waited); y.Waited == 0 {
			first = 0
		}
	}
	o := predict.Observation{
		Prompt: y.Usage.Prompt, Cached: y.Usage.Cached, Output: y.Usage.Output,
		NoCacheReport: y.NoCacheReport,
		// An answer of finish "length" below its max_tokens ended at its client's max_price: its length is a
		// bid. One that an agent cuts ends at what was found in it, and the hub's own was to have one token.
		Cut: y.Outcome != bus.OutcomeDone || y.Finish == "length" && y.Usage.Output < most ||
			y.Finish == bus.FinishFiltered || own || a.Reg().Pools != "",
		TTFT: first, ITL: Believed(y.ITLUS, y.Ran),
		// what the hub asks of its own is asked of an engine with nothing else to do
		WarmUp: y.Cold() || own, Said: y.said,
	}
	a.Learn(y.Features, o)
	if !o.Cut && a.Typical() {
		r.Outputs.Learn(t.Source, min(o.Output, most), a.Line().Usual(t.Assumed()))
	}
	if first > 0 {
		came := min(sent+time.Duration(y.TTFTUS)*time.Microsecond, now)
		a.rate.Learn(sent+y.Waited, came, y.Usage.Prompt-held)
	}
	a.Cache.Served(y.Run, t.Source.Session, t.Prompt, y.Usage.Prompt, y.Usage.Output, cached)
	a.prewarmed = a.prewarmed || own
	y.Run = nil
	return first, true
}
