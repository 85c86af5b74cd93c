package forecast

import (
	"cmp"
	"slices"

	"souk/bus"
	"souk/hub/estimate"
	"souk/hub/predict"
	"souk/hub/quality"
	"souk/market"
)

// Traits hold whatever an estimate reads of an agent beside what that holds and has in hand.
type Traits struct {
	Line     predict.Line
	Model    string
	Price    market.Price
	Tariff   market.Credits // due for a task beside its cost
	Context  int            // tokens of the longest prompt and answer; 0: it does not say
	Template bus.Template
	Measured bool   // the template is the agent's own
	Parses   bool   // its engine lends its parsers
	Text     bool   // its engine reads text alone
	Opaque   bool   // its engine goes on with no answer of another
	Pools    string // what its engine pools
	Without  string // [bus.Without] of the kind that it has no endpoint for; "": none
	Scores   string // how good its answers are, by domain, as text
	Settle   string
}

// Class holds what agents have in common that are estimated alike; only their caches and loads differ.
type Class struct {
	Traits
	domains []bus.DomainScore
	rated   []float64
}

// Class is the class of agents with such traits, whose answers are that good in each of their domains. full:
// there were more classes than so many, most of them of cards and tariffs that are no more, and all others
// are forgotten.
func (r *Room) Class(x Traits, domains []bus.DomainScore, rated []float64, most int) (c *Class, full bool) {
	if c = r.classes[x]; c != nil {
		return c, false
	}
	if full = len(r.classes) >= most; full {
		clear(r.classes)
	}
	c = &Class{Traits: x, domains: domains, rated: slices.Clone(rated)}
	r.classes[x] = c
	return c, full
}

// Quality returns the expected quality of an answer to a task with such a label.
func (c *Class) Quality(label string) float64 {
	if i := quality.DomainOf(c.domains, label); i >= 0 {
		return c.rated[i]
	}
	return 0
}

// Cost returns the price of so many tokens, tariff included.
func (c *Class) Cost(prompt, cached, output int) market.Credits {
	return c.Price.Cost(market.Usage{Prompt: prompt, Cached: cached, Output: output}) + c.Tariff
}

func (c *Class) worst(prompt, maxTokens int) market.Credits {
	return market.WorstCase(c.Price, prompt, maxTokens) + c.Tariff
}

// May says what keeps a task from an agent of the class.
func (c *Class) May(t *Task) estimate.Obstacle {
	switch {
	case t.Parses && !c.Parses || t.Carried > 0 && c.Opaque:
		return estimate.Parsers
	case t.Model != "" && t.Model != c.Model || !bus.Serves(c.Pools, t.Kind) ||
		c.Without == bus.Without(t.Kind):
		return estimate.Model
	case t.Media && c.Text:
		return estimate.Media
	case c.Context > 0 && t.Prompt.AtLeast+t.Carried >= c.Context: // else its engine judges
		return estimate.Context
	case c.cuts(t):
		return estimate.Short
	}
	return estimate.None
}

// cuts reports whether agents of the class would cut the answer to a task where others would not.
func (c *Class) cuts(t *Task) bool { return c.Context > 0 && c.Context < t.Least }

// Bound is the most tokens that a task's prompt can come to, and how many of them a hold must have room for.
// A hold has room for the most where the client's money allows. The two differ where the bytes of a prompt do
// not bound its tokens: the engine's template writes tools as long as it likes, and only the context bounds
// pictures. There the agent's engine counts the tokens before it computes.
func (c *Class) Bound(t *Task) (most, least int) {
	template := &bus.Assumed
	if c.Pools != "" {
		template = &bus.Pooled
	} else if c.Measured {
		template = &c.Template
	}
	p := t.Prompt
	least, bounded := template.Bound(p)
	guess := c.Line.Tokens(p.Tokens)*5/4 + 64
	most = least
	switch {
	case c.Pools != "":
		return least, least
	case p.Text == 0: // an earlier door read it, and estimated its tokens alone
		most, least = bus.MaxTokens, guess
	case p.Loose == bus.LooseMedia:
		most, least = bus.MaxTokens, bus.MaxTokens
	case !c.Measured:
		most = bus.MaxTokens
	case !bounded:
		most, least = bus.MaxTokens, min(least, guess)
	case p.Tools > 0:
		least = min(least, guess)
	}
	context := cmp.Or(c.Context, max(guess, openContext))
	return min(most+t.Carried, context), min(least+t.Carried, context)
}
