package gpus

import (
	"fmt"
	"slices"
	"time"

	"souk/integration/lab/virtual"
	"souk/market"
)

// Player is a rule as it is played.
type Player struct {
	Name   string // on the page
	Rule   string
	Silent bool // callers state no terms
	Slots  int  // requests that run at once on each engine; 0: whichever it does best with
}

// Players lists the rules that are compared; the first is this market, the last what it is if nobody says
// anything.
var Players = []Player{{Name: virtual.MarketName, Rule: virtual.MarketName},
	{Name: "two-block", Rule: "two-block"}, {Name: "greedy-first", Rule: "greedy-first:4"},
	{Name: "lmetric", Rule: "lmetric"}, {Name: "dynamo", Rule: "dynamo"},
	{Name: "market, no terms", Rule: virtual.MarketName, Silent: true}}

// Kept says what came of a run. Of a run that was over before its end, as the promise was broken by then, the
// first two say that alone.
type Kept struct {
	First   float64 `json:"first"`         // of tasks whose first token came in time; who is refused has none
	Tokens  float64 `json:"tokens"`        // of later tokens, those that came in time
	Broken  bool    `json:"broken"`        // before the end
	Why     string  `json:"why,omitempty"` // it is broken: by first tokens, later ones, or both
	Refused float64 `json:"refused"`
	P99     float64 `json:"p99"`     // of first tokens, ms
	Share   float64 `json:"share"`   // of prompt tokens, found in a cache
	Quality float64 `json:"quality"` // of an answer
}

// Keeps says whether the promise was kept.
func (k *Kept) Keeps() bool { return !k.Broken && k.First >= keeps && k.Tokens >= keeps }

// watch is a policy, and how often the promise was broken under it.
type watch struct {
	virtual.Policy
	s                 *virtual.Setting
	from              int // the first task that counts
	late, slow        int // first tokens, or refusals; later tokens
	mostLate, mostGap int
}

// Watch implements what a market asks for.
func (o *watch) Watch(all []*virtual.Engine) {
	if m, ok := o.Policy.(interface{ Watch([]*virtual.Engine) }); ok {
		m.Watch(all)
	}
}

// Holds says what the rule says.
func (o *watch) Holds() bool {
	h, ok := o.Policy.(interface{ Holds() bool })
	return ok && h.Holds()
}

// First implements virtual.Policy.
func (o *watch) First(now time.Time, q *virtual.Request, v *virtual.View) {
	if q.ID >= o.from && q.First-q.Arrived > patient+o.s.Alone(q) {
		o.late++
	}
	o.Policy.First(now, q, v)
}

// Done implements virtual.Policy.
func (o *watch) Done(now time.Time, q *virtual.Request, u market.Usage, v *virtual.View) {
	if q.ID >= o.from {
		o.slow += q.Late
	}
	o.Policy.Done(now, q, u, v)
}

// Wake implements virtual.Policy.
func (o *watch) Wake(now time.Time) ([]virtual.Placed, time.Time) {
	place, next := o.Policy.Wake(now)
	for _, p := range place {
		if p.Engine == virtual.Wait && p.Request.ID >= o.from {
			o.late++
		}
	}
	return place, next
}

// broken reports that the promise cannot be kept any more.
func (o *watch) broken() bool { return o.late > o.mostLate || o.slow > o.mostGap }

// play plays a rule before a fleet.
func (w *World) play(x Player, seed uint64, fleet []Engine, tasks int) (k Kept, err error) {
	s, tokens, err := w.setting(x, seed, fleet, tasks)
	if err != nil {
		return k, err
	}
	p, end, err := policy(x.Rule, s)
	if err != nil {
		return k, err
	}
	o := &watch{Policy: p, s: &s, from: s.Tasks / 10}
	few := 1 - keeps
	o.mostLate, o.mostGap = int(float64(s.Tasks-o.from)*few), int(float64(tokens)*few)
	s.Enough = o.broken
	all, _, err := virtual.Run(s, o)
	if err == nil {
		err = end()
	}
	if err != nil {
		return k, fmt.Errorf("%s on %s, seed %d, %d engines: %w", x.Name, w.Name, seed, len(fleet), err)
	}
	return kept(&s, all, o), nil
}

// policy makes a rule by its name, or this market. end closes it.
func policy(rule string, s virtual.Setting) (p virtual.Policy, end func() error, err error) {
	if rule == virtual.MarketName {
		m, err := virtual.NewMarket(virtual.NewMarketOptions(s))
		return m, func() error {
			_, err := m.Close()
			return err
		}, err
	}
	p, err = virtual.NewRule(rule, s.Seed)
	return p, func() error { return nil }, err
}

func kept(s *virtual.Setting, all []*virtual.Request, o *watch) (k Kept) {
	k.Broken = o.broken()
	var first []float64
	counted, inTime, tokens, late, prompt, cached := 0, 0, 0, 0, 0, 0
	for _, q := range all[min(o.from, len(all)):] {
		counted++
		if q.Refused {
			k.Refused++
			continue
		}
		if q.First-q.Arrived <= patient+s.Alone(q) {
			inTime++
		}
		first = append(first, float64(q.First-q.Arrived)/1e6)
		tokens, late = tokens+q.Output-1, late+q.Late
		prompt, cached = prompt+q.Prompt, cached+q.Cached
		k.Quality += s.Fleet[q.Engine].Score
	}
	share := func(a, of int) float64 { return float64(a) / float64(max(1, of)) }
	k.First, k.Tokens = share(inTime, counted), 1-share(late, tokens)
	switch first, later := o.late > o.mostLate, o.slow > o.mostGap || !k.Broken && k.Tokens < keeps; {
	case first && later:
		k.Why = "both"
	case first:
		k.Why = "first"
	case later:
		k.Why = "later"
	}
	k.Refused /= float64(max(1, counted))
	k.Share, k.Quality = share(cached, prompt), k.Quality/float64(max(1, len(first)))
	if slices.Sort(first); len(first) > 0 {
		k.P99 = first[(len(first)-1)*99/100]
	}
	return k
}
