package virtual

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"

	"souk/market"
)

// rule is a Policy that sends every request at once, by what it knows at that moment.
type rule struct {
	choose func(p *rule, r *Request, v *View) int
	random *rand.Rand
	last   int         // engine that was chosen last
	home   map[int]int // engine of a play
}

func (p *rule) Arrive(_ time.Time, r *Request, v *View) int {
	p.last = p.choose(p, r, v)
	return p.last
}
func (p *rule) First(time.Time, *Request, *View)                {}
func (p *rule) Done(time.Time, *Request, market.Usage, *View)   {}
func (p *rule) Scraped(time.Time, *View)                        {}
func (p *rule) Wake(time.Time) (place []Placed, next time.Time) { return nil, time.Time{} }
func (p *rule) Near() bool                                      { return false }

// Rule is a published rule.
type Rule struct {
	Name, About string
	choose      func(p *rule, r *Request, v *View) int
}

// Rules are all published rules that can be played.
var Rules = []Rule{
	{"random", "any engine", func(p *rule, _ *Request, v *View) int { return p.random.IntN(len(v.Engines)) }},
	{"round-robin", "one after the other",
		func(p *rule, _ *Request, v *View) int { return (p.last + 1) % len(v.Engines) }},
	{"least-loaded", "fewest requests in flight",
		func(p *rule, _ *Request, v *View) int { return least(p.random, v, nil, inFlight(v)) }},
	{"power-of-two", "the less loaded of two drawn by lot (Mitzenmacher 2001)",
		func(p *rule, _ *Request, v *View) int {
			two := p.random.Perm(len(v.Engines))[:min(2, len(v.Engines))]
			return least(p.random, v, two, inFlight(v))
		}},
	{"sticky", "a session stays where it was first; a new one goes to the least loaded", sticky},
	{"two-block", "longest prefix where it is two blocks or more, else the least loaded",
		func(p *rule, r *Request, v *View) int {
			longest := most(v, func(i int) int { return v.Match(i, r) })
			if v.Match(longest[0], r) < 2 {
				longest = nil
			}
			return least(p.random, v, longest, inFlight(v))
		}},
	{"by-seconds", "where its first token comes soonest: uncached tokens, and those of prompts sent before",
		func(p *rule, r *Request, v *View) int {
			return least(p.random, v, nil, func(i int) int {
				return v.Engines[i].Ahead + r.Prompt - v.Match(i, r)*v.block
			})
		}},
	{"by-work", "the same, but its own uncached tokens count four times: others wait behind it, and lose theirs",
		func(p *rule, r *Request, v *View) int {
			return least(p.random, v, nil, func(i int) int {
				return v.Engines[i].Ahead + 4*(r.Prompt-v.Match(i, r)*v.block)
			})
		}},
	{"sticky-until-saturated", "four fifths of the prefix, unless all who hold it are 18 s behind (llm-d)",
		stickyUntilSaturated},
	{"sglang", "longest prefix beyond 0.3 of the prompt, else the smallest tree; least loaded out of balance",
		sglang},
	{"lmetric", "least uncached tokens x (in flight + 1)", func(p *rule, r *Request, v *View) int {
		return least(p.random, v, nil, func(i int) int {
			return (r.Prompt - v.Match(i, r)*v.block) * (v.Engines[i].InFlight + 1)
		})
	}},
	{"dynamo", "least prefill blocks + decode blocks, of work in flight too (Dynamo 0.9, weight 1)",
		func(p *rule, r *Request, v *View) int {
			return least(p.random, v, nil, func(i int) int {
				e := &v.Engines[i]
				prefill := e.Ahead + r.Prompt - v.Match(i, r)*v.block
				return prefill/v.block + e.Blocks + v.Need(r)
			})
		}},
}

// RuleNames are their names.
func RuleNames() (names []string) {
	for _, r := range Rules {
		names = append(names, r.Name)
	}
	return names
}

// NewRule makes a rule by its name.
func NewRule(name string, seed uint64) (Policy, error) {
	for _, r := range Rules {
		if r.Name == name {
			return &rule{choose: r.choose, random: rand.New(rand.NewPCG(seed, 0x72756c65)), last: -1,
				home: map[int]int{}}, nil
		}
	}
	return nil, fmt.Errorf("rule %q is none of %v", name, RuleNames())
}

func inFlight(v *View) func(int) int { return func(i int) int { return v.Engines[i].InFlight } }

// least is the engine with the least measure of those in among; nil means all engines. Among equals it draws
// one.
func least[N cmp.Ordered](random *rand.Rand, v *View, among []int, of func(int) N) int {
	if among == nil {
		among = every(v)
	}
	best, equal := among[0], 1
	measure := of(best)
	for _, i := range among[1:] {
		switch m := of(i); {
		case m < measure:
			best, measure, equal = i, m, 1
		case m == measure:
			if equal++; random.IntN(equal) == 0 {
				best = i
			}
		}
	}
	return best
}

func every(v *View) []int {
	all := make([]int, len(v.Engines))
	for i := range all {
		all[i] = i
	}
	return all
}

// most are the engines with the greatest measure.
func most(v *View, of func(int) int) (out []int) {
	top := -1
	for i := range v.Engines {
		switch m := of(i); {
		case m > top:
			out, top = append(out[:0], i), m
		case m == top:
			out = append(out, i)
		}
	}
	return out
}

func sticky(p *rule, r *Request, v *View) int {
	if _, ok := p.home[r.Play]; !ok {
		p.home[r.Play] = least(p.random, v, nil, inFlight(v))
	}
	return p.home[r.Play]
}

const (
	stickyShare     = 0.8
	stickySaturated = 18 * time.Second
)

func stickyUntilSaturated(p *rule, r *Request, v *View) int {
	ttft := func(i int) float64 { return float64(v.Engines[i].Tokens) / v.Engines[i].Rate }
	tokens := func(i int) int { return v.Engines[i].Tokens }
	var warm, others []int
	for i := range v.Engines {
		if float64(v.Match(i, r)) >= stickyShare*float64(max(1, v.Need(r))) {
			warm = append(warm, i)
		} else {
			others = append(others, i)
		}
	}
	if len(warm) > 0 && len(others) > 0 {
		behind := ttft(least(p.random, v, warm, ttft)) - ttft(least(p.random, v, others, ttft))
		if behind > stickySaturated.Seconds() {
			warm = nil
		}
	}
	return least(p.random, v, warm, tokens)
}

const (
	sglangShare = 0.3
	sglangGap   = 64
	sglangRatio = 1.5
)

func sglang(p *rule, r *Request, v *View) int {
	lowest, highest := v.Engines[0].InFlight, 0
	for i := range v.Engines {
		lowest, highest = min(lowest, v.Engines[i].InFlight), max(highest, v.Engines[i].InFlight)
	}
	if highest-lowest > sglangGap && float64(highest) > sglangRatio*float64(lowest) {
		return least(p.random, v, nil, inFlight(v))
	}
	longest := most(v, func(i int) int { return v.Match(i, r) })
	if float64(v.Match(longest[0], r)) > sglangShare*float64(max(1, v.Need(r))) {
		return least(p.random, v, longest, inFlight(v))
	}
	return least(p.random, v, nil, v.Tree)
}
