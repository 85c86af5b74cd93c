package virtual

import (
	"time"

	"souk/integration/vllmsim/kv"
	"souk/market"
)

// Policy decides which engine serves a request. It is called from one goroutine with the time; what it draws
// comes from a seed of its own.
type Policy interface {
	// Arrive returns the engine that serves r from now on, or Wait: then Wake will say.
	Arrive(now time.Time, r *Request, v *View) (engine int)
	// First and Done say that r's first token and its end have come by.
	First(now time.Time, r *Request, v *View)
	Done(now time.Time, r *Request, usage market.Usage, v *View)
	// Scraped says that the engines were asked how they are: see View.
	Scraped(now time.Time, v *View)
	// Wake returns what waited and goes to an engine now, and when to be asked again if nothing happens
	// before; zero if there is no need. It is called after every other method, and then.
	Wake(now time.Time) (place []Placed, next time.Time)
	// Near says that it stands beside the engines; else each word takes a hop.
	Near() bool
}

// Wait is what Arrive returns for a request that is placed later, if at all.
const Wait = -1

// Placed is a request that waited and goes to an engine, or to none: it is refused.
type Placed struct {
	Request *Request
	Engine  int           // Wait: refused
	Again   time.Duration // then its caller comes back after so long; 0: never
}

// View is what stands before a rule: what it sent itself and what came by, what the engines last said of
// themselves, and its own index of what each holds, which is made of what it sent there alone: prompts from
// their first token on. A policy beside the engines has its own eyes: it finds scrapes here, and nothing
// else.
type View struct {
	Engines []EngineView
	block   int
}

// EngineView is one engine as who routes knows it.
type EngineView struct {
	InFlight int // requests sent and not ended
	Tokens   int // of their prompts
	Ahead    int // of these, tokens not expected in the cache, of requests without a first token
	Blocks   int // of prompts in flight

	Rate      float64 // prompt tokens a second, on an idle engine
	Scrape    Scrape
	ScrapedAt time.Time

	index *kv.Cache
	cold  map[*Request]int // by request without a first token
}

// Scrape is what an engine says of itself.
type Scrape struct {
	Running, Waiting int
	Usage            float64 // of the cache, by running requests
	Output           int     // tokens so far
}

// NewView is before anything was sent.
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

// Match is how many of them an engine holds, by the index.
func (v *View) Match(engine int, r *Request) int {
	return v.Engines[engine].index.Match(r.Blocks(v.block))
}

// Tree is how many blocks an engine holds, by the index.
func (v *View) Tree(engine int) int { return v.Engines[engine].index.Known() }

// Sent, Began and Ended take into account what became of a request, by what came by.
func (v *View) Sent(r *Request) {
	e := &v.Engines[r.Engine]
	cold := r.Prompt - v.Match(r.Engine, r)*v.block
	e.InFlight, e.Tokens, e.Blocks = e.InFlight+1, e.Tokens+r.Prompt, e.Blocks+v.Need(r)
	e.Ahead += cold
	e.cold[r] = cold
}

// Began says that its first token came.
func (v *View) Began(r *Request) {
	e := &v.Engines[r.Engine]
	e.Ahead -= e.cold[r]
	delete(e.cold, r)
	e.index.Put(r.Blocks(v.block))
}

// Ended says that its last one did.
func (v *View) Ended(r *Request) {
	e := &v.Engines[r.Engine]
	e.InFlight, e.Tokens, e.Blocks = e.InFlight-1, e.Tokens-r.Prompt, e.Blocks-v.Need(r)
	e.index.Put(r.Hashes[:(r.Prompt+r.Output-1)/v.block])
}
