package virtual

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"souk/market"
)

// Rule is a way to share engines that is not a market. Whoever has another writes it into a file of its own
// that adds it in an init, as those here do: it then stands on every page.
type Rule struct {
	Name, About string
	Source      string    // where it was published, and the version that is followed
	Knob        string    // what can be turned; "": nothing
	Values      []float64 // of the knob, those that are tried
	Holds       bool      // it keeps tasks until a slot is free, so it sends none to a full engine
	New         func(seed uint64, knob float64) Policy
}

// rules holds the rules that were added, by name.
var rules []Rule

// Add puts a rule into the table. It panics where the rule cannot be played, as that is a program's mistake.
func Add(r Rule) {
	i, taken := slices.BinarySearchFunc(rules, r.Name, func(r Rule, name string) int {
		return cmp.Compare(r.Name, name)
	})
	switch {
	case taken:
		panic(fmt.Sprintf("virtual: two rules are called %q", r.Name))
	case r.Name == "" || strings.ContainsAny(r.Name, ": ,") || r.Name == MarketName || r.New == nil:
		panic(fmt.Sprintf("virtual: a rule %q: it needs a name without colon, comma or space, and New",
			r.Name))
	case (r.Knob == "") != (len(r.Values) == 0):
		panic(fmt.Sprintf("virtual: rule %q: a knob has values, and values are of a knob", r.Name))
	}
	rules = slices.Insert(rules, i, r)
}

// Rules returns every rule that was added.
func Rules() []Rule { return slices.Clone(rules) }

// RuleNames are their names.
func RuleNames() (names []string) {
	for _, r := range rules {
		names = append(names, r.Name)
	}
	return names
}

// Turned are the names of a rule at each value of its knob, such as posted:2, or its own where it has none.
func (r *Rule) Turned() (names []string) {
	for _, x := range r.Values {
		names = append(names, r.Name+":"+strconv.FormatFloat(x, 'g', -1, 64))
	}
	if names == nil {
		names = []string{r.Name}
	}
	return names
}

// turned finds a rule by its name, behind which may stand a value of its knob. Without one it is all values.
func turned(name string) (of Rule, names []string, err error) {
	base, value, set := strings.Cut(name, ":")
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.Name == base })
	if i < 0 {
		return of, nil, fmt.Errorf("rule %q is none of %v", name, append(RuleNames(), MarketName))
	}
	of = rules[i]
	if !set {
		return of, of.Turned(), nil
	}
	x, err := strconv.ParseFloat(value, 64)
	if of.Knob == "" || err != nil || math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
		what := "it has no knob"
		if of.Knob != "" {
			what = "a number of at least 0 stands behind the colon, " + of.Knob
		}
		return of, nil, fmt.Errorf("rule %q: %s", name, what)
	}
	of.Values = []float64{x}
	return of, []string{name}, nil
}

// NewRule makes a rule by its name, as it is played: it sees of requests what a router sees. Of several
// values of its knob it has the first.
func NewRule(name string, seed uint64) (Policy, error) {
	of, _, err := turned(name)
	if err != nil {
		return nil, err
	}
	return of.Play(seed), nil
}

// Play makes a rule as it is played, with the first value of its knob; it need not be in the table.
func (r Rule) Play(seed uint64) Policy {
	knob := 0.0
	if len(r.Values) > 0 {
		knob = r.Values[0]
	}
	return &blind{Policy: r.New(seed, knob), rule: r, seen: map[*Request]*Request{},
		real: map[*Request]*Request{}}
}

// blind is a rule before which stands what nobody can know: of a request it sees what its caller sent, not
// how long its answer will be, nor what its caller will ask next.
type blind struct {
	Policy
	rule       Rule
	seen, real map[*Request]*Request
}

// Holds says what the rule says.
func (b *blind) Holds() bool { return b.rule.Holds }

// see is a request as the rule sees it.
func (b *blind) see(r *Request, v *View) *Request {
	k := b.seen[r]
	if k == nil {
		k = &Request{ID: r.ID, Caller: r.Caller, Play: r.Play, Turn: r.Turn, Group: r.Group,
			Terms: r.stated(), Temper: r.Temper, Engine: Wait, asked: r.asked, Job: Job{Prompt: r.Prompt,
				Hashes: r.Hashes[:r.Prompt/v.block]}}
		b.seen[r], b.real[k] = k, r
	}
	k.Arrived = r.Arrived
	return k
}

// Arrive implements Policy.
func (b *blind) Arrive(now time.Time, r *Request, v *View) int {
	k := b.see(r, v)
	k.Engine = b.Policy.Arrive(now, k, v)
	return k.Engine
}

// First implements Policy.
func (b *blind) First(now time.Time, r *Request, v *View) { b.Policy.First(now, b.see(r, v), v) }

// Done implements Policy.
func (b *blind) Done(now time.Time, r *Request, usage market.Usage, v *View) {
	k := b.see(r, v)
	k.Cached, k.Output = usage.Cached, usage.Output
	b.Policy.Done(now, k, usage, v)
	b.forget(k)
}

// Wake implements Policy.
func (b *blind) Wake(now time.Time) (place []Placed, next time.Time) {
	place, next = b.Policy.Wake(now)
	for i := range place {
		p := &place[i]
		k := p.Request
		k.Engine = p.Engine
		if p.Request = b.real[k]; p.Engine == Wait && p.Again == 0 {
			b.forget(k)
		}
	}
	return place, next
}

func (b *blind) forget(k *Request) {
	delete(b.seen, b.real[k])
	delete(b.real, k)
}

// charge returns what a served task pays, given its cost: the cost, unless the rule has a price.
func (b *blind) charge(cost market.Credits) market.Credits {
	if c, ok := b.Policy.(interface {
		Charge(cost market.Credits) market.Credits
	}); ok {
		return c.Charge(cost)
	}
	return cost
}

// Plain does nothing: rules embed it, and override what differs.
type Plain struct{}

// First implements Policy.
func (Plain) First(time.Time, *Request, *View) {}

// Done implements Policy.
func (Plain) Done(time.Time, *Request, market.Usage, *View) {}

// Scraped implements Policy.
func (Plain) Scraped(time.Time, *View) {}

// Wake implements Policy.
func (Plain) Wake(time.Time) (place []Placed, next time.Time) { return nil, time.Time{} }

// Near implements Policy.
func (Plain) Near() bool { return false }

// choice is a Policy that sends every request at once, by what it knows at that moment.
type choice struct {
	Plain
	Lots
	choose func(c *choice, r *Request, v *View) int
	last   int         // engine that was chosen last
	home   map[int]int // engine of a play
}

func (c *choice) Arrive(_ time.Time, r *Request, v *View) int {
	c.last = c.choose(c, r, v)
	return c.last
}

// atOnce adds a rule that sends every request at once.
func atOnce(name, about, source string, choose func(c *choice, r *Request, v *View) int) {
	Add(Rule{Name: name, About: about, Source: source, New: func(seed uint64, _ float64) Policy {
		return &choice{Lots: NewLots(seed), choose: choose, last: -1, home: map[int]int{}}
	}})
}

// Lots decide among equals.
type Lots struct{ random *rand.Rand }

// NewLots makes lots from a seed.
func NewLots(seed uint64) Lots { return Lots{rand.New(rand.NewPCG(seed, 0x72756c65))} }

// Least is the engine with the least measure of those in among; among equals it draws one.
func (l Lots) Least(among []int, of func(engine int) float64) int {
	best, equal := among[0], 1
	measure := of(best)
	for _, i := range among[1:] {
		switch m := of(i); {
		case m < measure:
			best, measure, equal = i, m, 1
		case m == measure:
			if equal++; l.random.IntN(equal) == 0 {
				best = i
			}
		}
	}
	return best
}

// Longest are the engines that hold most of a prompt, and how many blocks.
func (v *View) Longest(r *Request) (engines []int, blocks int) {
	blocks = -1
	for _, i := range v.Able() {
		switch m := v.Match(i, r); {
		case m > blocks:
			engines, blocks = append(engines[:0], i), m
		case m == blocks:
			engines = append(engines, i)
		}
	}
	return engines, blocks
}

// Load counts the requests in flight at an engine.
func (v *View) Load(engine int) float64 { return float64(v.Engines[engine].InFlight) }
