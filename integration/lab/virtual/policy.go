package virtual

import (
	"time"

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

// Wait is what Arrive returns for a request that is placed later, if at all.
const Wait = -1

// Placed is a request that waited and now goes to an engine, or is refused.
type Placed struct {
	Request *Request
	Engine  int           // Wait: refused
	Again   time.Duration // then its caller comes back after so long; 0: never
}

// View is what a rule knows: what it sent and what has passed it, the engines' metrics when they were last
// read, and an index of what each engine holds. The index is made of what was sent there: a prompt from its
// first token on, an answer from its end on. A policy that is Near finds the metrics here, and nothing else.
type View struct {
	Engines []EngineView
	block   int
}

// EngineView is what a rule knows of one engine.
type EngineView struct {
	InFlight int // requests that were sent and have not ended
	Tokens   int // of their prompts
	Ahead    int // prompt tokens not expected in the cache, of requests without a first token
	Blocks   int // of prompts in flight

	Rate      float64 // prompt tokens a second, on an idle engine
	Scrape    Scrape
	ScrapedAt time.Time

	index *kv.Cache
	cold  map[*Request]int // by request without a first token
}

// Scrape is the metrics of an engine.
type Scrape struct {
	Running, Waiting int
	Usage            float64 // of the cache, by running requests
	Output           int     // tokens so far
}

// NewView is the view before anything was sent.
func NewView(engines int, cfg EngineConfig) *View {
	v := &View{Engines: make([]EngineView, engines), block: cfg.BlockSize}
	for i := range v.Engines {
		v.Engines[i] = EngineView{Rate: 1e6 / cfg.Profile.Prefill,
			index: kv.New(cfg.Blocks, cfg.BlockSize), cold: map[*Request]int{}}
	}
	return v
}

// Need is the number of full blocks of r's prompt.
func (v *View) Need(r *Request) int { return len(r.Blocks(v.block)) }

// Match is how many of those blocks an engine holds, by the index.
func (v *View) Match(engine int, r *Request) int {
	return v.Engines[engine].index.Match(r.Blocks(v.block))
}

// Tree is how many blocks an engine holds, by the index.
func (v *View) Tree(engine int) int { return v.Engines[engine].index.Known() }

// Sent notes that a request was sent to its engine.
func (v *View) Sent(r *Request) {
	e := &v.Engines[r.Engine]
	cold := r.Prompt - v.Match(r.Engine, r)*v.block
	r.believed = r.Prompt - cold
	e.InFlight, e.Tokens, e.Blocks = e.InFlight+1, e.Tokens+r.Prompt, e.Blocks+v.Need(r)
	e.Ahead += cold
	e.cold[r] = cold
}

// Began notes that its first token came.
func (v *View) Began(r *Request) {
	e := &v.Engines[r.Engine]
	e.Ahead -= e.cold[r]
	delete(e.cold, r)
	e.index.Put(r.Blocks(v.block))
}

// Ended notes that its last token came.
func (v *View) Ended(r *Request) {
	e := &v.Engines[r.Engine]
	e.InFlight, e.Tokens, e.Blocks = e.InFlight-1, e.Tokens-r.Prompt, e.Blocks-v.Need(r)
	e.index.Put(r.Hashes[:(r.Prompt+r.Output-1)/v.block])
}
