package virtual

import (
	"cmp"
	"slices"
	"time"

	"souk/agentd/vllmsim"
	"souk/agentd/vllmsim/kv"
	"souk/market"
)

// Policy decides which engine serves a request. It is called by one goroutine with the time. Its random
// numbers come from a seed of its own.
type Policy interface {
	// Arrive returns the engine that serves r, or Wait: then Wake places r later.
	Arrive(now time.Time, r *Request, v *View) (engine int)
	// First and Done tell the policy that r's first token, and its end, have passed it.
	First(now time.Time, r *Request, v *View)
	Done(now time.Time, r *Request, usage market.Usage, v *View)
	// Scraped tells the policy that the engines' metrics were read; they are in v.
	Scraped(now time.Time, v *View)
	// Wake returns which waiting requests go to an engine now, and when to call it next; zero: no need to. It
	// is called at that time, and after each call of another method.
	Wake(now time.Time) (place []Placed, next time.Time)
	// Near reports whether the policy runs on the engines' machines. Else each message takes a hop.
	Near() bool
}

// Wait is returned by Arrive for a request that is placed later, if at all.
const Wait = -1

// Placed is a request that waited and now goes to an engine, or is refused.
type Placed struct {
	Request *Request
	Engine  int           // Wait: refused
	Again   time.Duration // then its caller comes back after so long; 0: never
}

// View is a rule's knowledge: the engines and their prices, the requests that passed it, the engines' metrics
// when they were last read, an index of what each engine holds, and forecasts made of these. The index is
// made of the requests sent: a prompt from its first token on, an answer from its end on. A hub has as much.
// A policy that is Near finds the metrics here, and nothing else.
type View struct {
	Engines []EngineView

	now   time.Time
	block int
	able  []int // engines that the request which is asked fits; nil: all
	known map[*Request]sent
	said  map[int]mean // tokens of answers, by caller
	every mean         // of all callers
}

// EngineView is a rule's knowledge of one engine.
type EngineView struct {
	InFlight int // requests that were sent and have not ended
	Tokens   int // of their prompts
	Ahead    int // prompt tokens not expected in the cache, of requests without a first token
	Blocks   int // of prompts in flight

	Slots   int
	Room    int // blocks of its cache
	Context int // tokens that a prompt may have
	Card    market.Price
	Score   float64
	// whose answers its own are as good as, where it was recorded how good those were
	Recorded string
	Profile  vllmsim.Profile // how long a step takes

	Scrape    Scrape
	ScrapedAt time.Time

	index   *kv.Cache
	service mean // seconds that a request holds a slot
}

// sent is a request that was sent.
type sent struct {
	at   time.Time
	cold int // prompt tokens not expected in the cache, until its first token
}

// mean is a moving mean: of its first values the plain one.
type mean struct{ of, n float64 }

// meanOf is the number of values over which a moving mean reaches, roughly.
const meanOf = 50

func (m *mean) add(x float64) {
	m.n = min(m.n+1, meanOf)
	m.of += (x - m.of) / m.n
}

// Scrape is the metrics of an engine.
type Scrape struct {
	Running, Waiting int
	Usage            float64 // of the cache, by running requests
	Output           int     // tokens so far
}

// Before anything has ended a task is expected to hold a slot so long, and to get an answer of so many
// tokens.
const (
	firstService = 3   // seconds
	firstOutput  = 200 // tokens
)

// usualContext is the context, in tokens, where none is given.
const usualContext = 8192

// NewView is the view before anything was sent.
func NewView(s *Setting) *View {
	v := &View{Engines: make([]EngineView, s.Engines), block: s.Engine.BlockSize, known: map[*Request]sent{},
		said: map[int]mean{}, every: mean{of: firstOutput}}
	for i := range v.Engines {
		c, o, told := s.engine(i), s.offer(i), s.told(i)
		v.Engines[i] = EngineView{Slots: c.Slots, Room: c.Blocks - 1,
			Context: cmp.Or(o.Context, usualContext), Card: told.Card, Score: told.Score,
			Recorded: o.Recorded, Profile: c.Profile,
			index: kv.New(c.Blocks, c.BlockSize), service: mean{of: firstService}}
	}
	return v
}

// Block returns the number of tokens in a block.
func (v *View) Block() int { return v.block }

// Need is the number of full blocks of r's prompt.
func (v *View) Need(r *Request) int { return len(r.Blocks(v.block)) }

// Match returns how many of those blocks an engine holds, by the index.
func (v *View) Match(engine int, r *Request) int {
	return v.Engines[engine].index.Match(r.Blocks(v.block))
}

// Tree returns the number of blocks that an engine holds, by the index.
func (v *View) Tree(engine int) int { return v.Engines[engine].index.Known() }

// Fits reports whether a prompt is not too long for an engine.
func (v *View) Fits(engine int, r *Request) bool { return r.Prompt < v.Engines[engine].Context }

// Able are the engines that may serve the request which is asked.
func (v *View) Able() []int {
	if v.able != nil {
		return v.able
	}
	all := make([]int, len(v.Engines))
	for i := range all {
		all[i] = i
	}
	return all
}

// At says what time it is: by it requests that pass are timed.
func (v *View) At(now time.Time) { v.now = now }

// Look finds the engines that may serve a request, and reports whether there is one.
func (v *View) Look(r *Request) bool {
	v.able = nil
	for i := range v.Engines {
		if !v.Fits(i, r) {
			v.able = slices.DeleteFunc(v.Able(), func(i int) bool { return !v.Fits(i, r) })
			return len(v.able) > 0
		}
	}
	return true
}

// Cold returns how many tokens of r's prompt an engine would have to compute.
func (v *View) Cold(engine int, r *Request) int { return r.Prompt - v.Match(engine, r)*v.block }

// Service returns how long a request is expected to hold a slot of an engine, in seconds.
func (v *View) Service(engine int) float64 { return v.Engines[engine].service.of }

// ofOthers is the weight, in answers to its own caller, of the mean over all in a forecast.
const ofOthers = 8

// Output returns the expected number of tokens of the answer: a mean over those of its caller, and of all
// others. The conversions here and in [View.First] keep the compiler from fusing a product into a sum, which
// would round differently on other machines.
func (v *View) Output(r *Request) int {
	own := v.said[r.Caller]
	return int((float64(own.of*own.n) + float64(v.every.of*ofOthers)) / (own.n + ofOthers))
}

// Cost returns the expected cost of r on an engine, by its card.
func (v *View) Cost(engine int, r *Request) market.Credits {
	return v.Engines[engine].Card.Cost(market.Usage{Prompt: r.Prompt, Cached: v.Match(engine, r) * v.block,
		Output: v.Output(r)})
}

// First returns how long after now the first token of r is expected, if an engine begins with it now: half a
// step is under way, and requests sent before are computed before.
func (v *View) First(engine int, r *Request) time.Duration {
	e := &v.Engines[engine]
	us := float64(1.5*e.Profile.Base) + float64(float64(e.Ahead+v.Cold(engine, r))*e.Profile.Prefill)
	return time.Duration(us * float64(time.Microsecond))
}

// Value returns the worth of the answer by the terms of r, if an engine begins with it so long after now.
func (v *View) Value(now time.Time, engine int, r *Request, after time.Duration) market.Credits {
	return r.Terms.Value(market.Quote{TTFT: now.Sub(Start) - r.Arrived + after + v.First(engine, r),
		Cost: v.Cost(engine, r), Quality: v.Engines[engine].Score})
}

// Gain returns the value of the request on the engine less its cost.
func (v *View) Gain(now time.Time, engine int, r *Request, after time.Duration) market.Credits {
	return v.Value(now, engine, r, after) - v.Cost(engine, r)
}

// Worth reports whether the answer is worth its cost on some engine, if that begins with it now.
func (v *View) Worth(now time.Time, r *Request) bool {
	for i := range v.Engines {
		if v.Fits(i, r) && v.Gain(now, i, r, 0) >= 0 {
			return true
		}
	}
	return false
}

// Free counts the slots of an engine to which nothing was sent.
func (v *View) Free(engine int) int { return v.Engines[engine].Slots - v.Engines[engine].InFlight }

// Sent notes that a request was sent to its engine.
func (v *View) Sent(r *Request) {
	e := &v.Engines[r.Engine]
	cold := v.Cold(r.Engine, r)
	r.believed = r.Prompt - cold
	e.InFlight, e.Tokens, e.Blocks = e.InFlight+1, e.Tokens+r.Prompt, e.Blocks+v.Need(r)
	e.Ahead += cold
	v.known[r] = sent{v.now, cold}
}

// Began notes that its first token came.
func (v *View) Began(r *Request) {
	e, k := &v.Engines[r.Engine], v.known[r]
	e.Ahead -= k.cold
	v.known[r] = sent{at: k.at}
	e.index.Put(r.Blocks(v.block))
}

// Ended notes that its last token came.
func (v *View) Ended(r *Request) {
	e := &v.Engines[r.Engine]
	e.InFlight, e.Tokens, e.Blocks = e.InFlight-1, e.Tokens-r.Prompt, e.Blocks-v.Need(r)
	e.index.Put(r.Hashes[:(r.Prompt+r.Output-1)/v.block])
	e.service.add(v.now.Sub(v.known[r].at).Seconds())
	delete(v.known, r)
	own := v.said[r.Caller]
	own.add(float64(r.Output))
	v.said[r.Caller] = own
	v.every.add(float64(r.Output))
}
