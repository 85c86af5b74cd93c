package virtual

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"souk/agentd/vllmsim"
	"souk/market"
)

// Fleet lists the engines behind a rule or a market, and their prices. One without engines stands for those
// of the trace, all alike, paid by Card.
type Fleet struct {
	Name, About string
	Engines     []FleetEngine
}

// FleetEngine is an engine and what it asks. What is left zero is the trace's.
type FleetEngine struct {
	Name    string // no other has it
	Model   string
	Profile string // how fast it is, by its name in vllmsim
	// instead: as it was measured; then Blocks are of its own size
	Measured *vllmsim.Profile
	Faster   float64 // so many times as fast as that says; 0: as fast
	Slots    int     // requests that run at once
	Blocks   int     // of its cache, each of 16 tokens, or of what the trace has

	Card    market.Price // credits a million tokens
	Score   float64      // quality of its answers, 0 to 1
	Context int          // tokens that a prompt and its answer may have

	// whose answers its own are as good as, where it was recorded how good those were, question by question
	Recorded string
}

// Fleets lists the fleets that have a name. Prices are what providers published in August 2026, as
// genai-prices has them: of Llama 3.1 8B novita's at Hugging Face, of Qwen3 32B nscale's and nebius's there,
// of Llama 3.1 70B novita's and avian's. None publishes a price of cached tokens; a tenth is taken, as for
// models of which some do.
var Fleets = []Fleet{
	{Name: "alike", About: "engines of one kind, as the trace has them"},
	{"mixed", "four engines with Llama 8B, two with Qwen 32B, two with Llama 70B, at providers' prices",
		slices.Concat(several(4, small8B), several(1, qwenSlow), several(1, qwenFast),
			several(1, large), several(1, largeFast))},
	{"two-speeds", "Qwen 32B on four slow engines and four fast ones, at one price",
		slices.Concat(several(4, qwenSlow.at(card(0.10, 0.30))), several(4, qwenFast))},
	{"dear-and-cheap", "Llama 8B on eight engines, four of which ask three times as much",
		slices.Concat(several(4, small8B), several(4, small8B.at(card(0.06, 0.15)).named("dear-8b")))},
}

var (
	small8B = FleetEngine{Name: "llama-8b", Model: "llama-3.1-8b", Profile: "rtxpro6000-llama-3.1-8b",
		Card: card(0.02, 0.05), Score: 0.62, Recorded: "llama-3.1-8b-instruct"}
	qwenSlow = FleetEngine{Name: "qwen-32b-rtx", Model: "qwen3-32b", Profile: "rtxpro6000x2-qwen3-32b",
		Card: card(0.08, 0.25), Score: 0.72, Recorded: "mistral-small-24b-instruct-2501-bf16"}
	qwenFast = FleetEngine{Name: "qwen-32b-h100", Model: "qwen3-32b", Profile: "h100x2-qwen3-32b",
		Card: card(0.10, 0.30), Score: 0.72, Recorded: "mistral-small-24b-instruct-2501-bf16"}
	large = FleetEngine{Name: "llama-70b-h100", Model: "llama-3.1-70b", Profile: "h100x4-llama-3.1-70b",
		Card: card(0.34, 0.39), Score: 0.80, Recorded: "llama-3.3-70b-instruct"}
	largeFast = FleetEngine{Name: "llama-70b-b200", Model: "llama-3.1-70b", Profile: "b200x4-llama-3.1-70b",
		Card: card(0.45, 0.45), Score: 0.80, Recorded: "llama-3.3-70b-instruct"}
)

// card is a price in dollars a million tokens, of which a cached one costs a tenth. A credit is a dollar.
func card(in, out float64) market.Price {
	price := func(x float64) market.Credits { return market.Credits(math.Round(x * float64(market.Credit))) }
	return market.Price{Miss: price(in), Hit: price(in / 10), Out: price(out)}
}

func (e FleetEngine) at(p market.Price) FleetEngine { e.Card = p; return e }

func (e FleetEngine) named(name string) FleetEngine { e.Name = name; return e }

func several(n int, e FleetEngine) (out []FleetEngine) {
	for i := range n {
		out = append(out, e.named(fmt.Sprintf("%s-%d", e.Name, i+1)))
	}
	return out
}

// FleetNamed finds a fleet by its name, or reads it from the file of that name.
func FleetNamed(name string) (Fleet, error) {
	var names []string
	for _, f := range Fleets {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	f, err := ReadFleet(name)
	if errors.Is(err, errNoFile) {
		return f, fmt.Errorf("fleet %q is none of %v, and no file", name, names)
	}
	return f, err
}

// Limits of a fleet, far above what a market is played with.
const (
	mostEngines = 4096
	mostSlots   = 4096
	mostBlocks  = 1 << 22
	mostContext = 1 << 22
)

// Validate says what is wrong with a fleet, and with which of its engines.
func (f *Fleet) Validate() error {
	if len(f.Engines) == 0 {
		return errors.New("engines: there is none")
	}
	if len(f.Engines) > mostEngines {
		return fmt.Errorf("engines: %d are more than %d", len(f.Engines), mostEngines)
	}
	seen := map[string]int{}
	for i := range f.Engines {
		e := &f.Engines[i]
		if err := e.validate(); err != nil {
			return fmt.Errorf("engines[%d].%w", i, err)
		}
		if k, taken := seen[e.Name]; taken {
			what := "each engine has a name of its own"
			if f.Engines[k].Card != e.Card {
				what = "one name has one card"
			}
			return fmt.Errorf("engines[%d].name: %q is that of engines[%d], too: %s", i, e.Name, k, what)
		}
		seen[e.Name] = i
	}
	return nil
}

func (e *FleetEngine) validate() error {
	if e.Name == "" {
		return errors.New("name: it has none")
	}
	if e.Profile != "" {
		if _, err := vllmsim.ProfileNamed(e.Profile); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
	}
	if !(e.Faster == 0 || e.Faster >= 0.01 && e.Faster <= 100) {
		return fmt.Errorf("faster: %v is not from 0.01 to 100, or 0 (as the profile says)", e.Faster)
	}
	for _, n := range []struct {
		field   string
		is, max int
	}{{"slots", e.Slots, mostSlots}, {"blocks", e.Blocks, mostBlocks}, {"context", e.Context, mostContext}} {
		if n.is < 0 || n.is > n.max {
			return fmt.Errorf("%s: %d is not from 0 (as the trace has it) to %d", n.field, n.is, n.max)
		}
	}
	if !(e.Score > 0 && e.Score <= 1) {
		return fmt.Errorf("score: %v is not above 0 and at most 1", e.Score)
	}
	if err := e.Card.Validate(); err != nil {
		return fmt.Errorf("card: %w", err)
	}
	return nil
}

// behind puts a setting's tasks before a fleet.
func (f *Fleet) behind(s *Setting) {
	if len(f.Engines) == 0 {
		return
	}
	s.Engines, s.Fleet = len(f.Engines), make([]FleetEngine, len(f.Engines))
	for i, e := range f.Engines {
		e.Slots, e.Blocks = cmp.Or(e.Slots, s.Engine.Slots), cmp.Or(e.Blocks, s.Engine.Blocks)
		e.Context = cmp.Or(e.Context, s.Context)
		s.Fleet[i] = e
	}
}

// engine is the i-th of a setting.
func (s *Setting) engine(i int) EngineConfig {
	c := s.Engine
	if i < len(s.Fleet) {
		e := &s.Fleet[i]
		c.Slots, c.Blocks = e.Slots, e.Blocks
		if p, err := vllmsim.ProfileNamed(e.Profile); err == nil {
			c.Profile, c.MaxBatched = p, p.MaxNumBatchedTokens
		}
		if e.Measured != nil {
			c.Profile, c.MaxBatched = *e.Measured, e.Measured.MaxNumBatchedTokens
		}
		if e.Faster > 0 {
			p := &c.Profile
			for _, us := range []*float64{&p.Base, &p.Prefill, &p.Attention, &p.Decode, &p.Resident} {
				*us /= e.Faster
			}
		}
	}
	return c
}

// offer returns the i-th engine's price and quality.
func (s *Setting) offer(i int) FleetEngine {
	if i < len(s.Fleet) {
		return s.Fleet[i]
	}
	return FleetEngine{Model: model, Slots: s.Engine.Slots,
		Blocks: s.Engine.Blocks, Card: Card, Score: Score, Context: s.Context}
}

// Nth returns the i-th engine, and what it offers.
func (s *Setting) Nth(i int) (EngineConfig, FleetEngine) { return s.engine(i), s.offer(i) }

// slots returns how many requests run at once.
func (s *Setting) slots() (n int) {
	for i := range s.Engines {
		n += s.engine(i).Slots
	}
	return n
}
