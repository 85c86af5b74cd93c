// Package tariff is a room of a hub: what agents are paid for a task beside its metered cost, and who of them
// sells, where prices are not the plan's alone.
//
// Under [market.PricingPosted] the operator names a tariff for each class of agents, and all sell. Under
// [market.PricingTariff] the owners of a class's agents compete for each epoch, and the winners sell. The
// room knows agents as sellers alone; the tariffs that are in force stand in the hub's book.
package tariff

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"souk/bus"
	"souk/hub/estimate"
	"souk/hub/turn"
	"souk/market"
)

const (
	// EpochLeast is how long an owner that came too late for an epoch waits at least from its beginning.
	EpochLeast = 2 * time.Second
	// sealWait is how long agents get to seal their asks, and again to open them.
	sealWait = time.Second
)

// Room has the tariffs of a hub. For one goroutine.
type Room struct {
	turn     *turn.Turn
	epoch    time.Duration // how long a class's tariff holds
	rule     Rule          // in force
	agents   iter.Seq[estimate.Seller]
	repriced func()
	sales    map[string]*sale // by class
}

// New returns the room of a hub that has not led yet, with its agents, by id. It calls repriced when
// [Room.Of] may have other answers than before.
func New(t *turn.Turn, epoch time.Duration, r Rule, agents iter.Seq[estimate.Seller],
	repriced func()) *Room {
	return &Room{t, epoch, r, agents, repriced, map[string]*sale{}}
}

// Set puts a rule in force.
func (r *Room) Set(rule Rule) {
	r.rule = rule
	r.repriced()
	for a := range r.agents {
		if a.Joined {
			r.Joined(a.Owner, a.Class)
		}
	}
}

// Of returns what an owner's agents of a class are paid for a task beside its cost, and whether they sell.
func (r *Room) Of(owner, class string) (amount market.Credits, sells bool) {
	switch r.rule.Pricing {
	case market.PricingPosted:
		return r.rule.Tariffs[class], true
	case market.PricingTariff:
		_, t, ok := r.turn.Book.Epoch(class)
		if !ok {
			return r.rule.ceiling(class), false // what it may come to
		}
		return t.Amount, slices.Contains(t.Winners, owner)
	}
	return 0, true
}

// Lead begins a time of leadership: no epoch of an earlier one goes on.
func (r *Room) Lead() {
	for _, s := range r.sales {
		r.turn.Set(&s.timer, time.Time{})
	}
	clear(r.sales)
}

// of yields the agents of a class that are sold.
func (r *Room) of(class string) iter.Seq[estimate.Seller] {
	return func(yield func(estimate.Seller) bool) {
		for a := range r.agents {
			if a.Joined && a.Class == class && !yield(a) {
				return
			}
		}
	}
}

// sells reports whether the hub has epochs of its classes now.
func (r *Room) sells() bool {
	return r.rule.Pricing == market.PricingTariff && r.turn.Leading && !r.turn.Draining
}

// Joined has a class that an owner's agent joins have an epoch to come, soon if the owner is in none.
func (r *Room) Joined(owner, class string) {
	s := r.sales[class]
	if !r.sells() || s == nil && len(r.sales) >= bus.MaxClasses {
		return // as ever: an agent whose class has no epoch sells nothing
	}
	if s == nil {
		s = &sale{class: class}
		s.timer.Due = func() { r.due(s) }
		r.sales[class] = s
	}
	at := turn.Later(r.turn.Now().Add(gather), s.began.Add(EpochLeast))
	if _, t, ok := r.turn.Book.Epoch(class); ok && in(t, owner) {
		at = turn.Later(at, s.began.Add(r.epoch))
		if s.began.IsZero() { // cleared by an earlier leadership
			at = r.turn.Now().Add(r.epoch)
		}
	}
	// whoever comes while one is on its way waits for the next; see rest
	if s.phase == resting && (!s.timer.IsSet() || at.Before(s.timer.At())) {
		r.turn.Set(&s.timer, at)
	}
}

// Left clears an epoch again when a winner's last agent has left and somebody stands by for it.
func (r *Room) Left(owner, class string) {
	e, t, _ := r.turn.Book.Epoch(class)
	if !r.sells() || r.turn.Full || len(t.Standby) == 0 || !slices.Contains(t.Winners, owner) {
		return
	}
	for a := range r.of(class) {
		if a.Owner == owner {
			return
		}
	}
	if r.turn.Book.NextEpoch(class, market.ClassUse{}).Number > e.Number+1 {
		return // the next epoch is sealed already
	}
	r.record(e.Without(owner))
}

// Placed counts what runs on each class's agents, after tasks were placed there.
func (r *Room) Placed() {
	if r.rule.Pricing != market.PricingTariff {
		return
	}
	running := map[*sale]int{}
	for a := range r.agents {
		if s := r.sales[a.Class]; s != nil {
			running[s] += a.Running
			s.peak = max(s.peak, running[s])
		}
	}
}

// in reports whether an owner's asks counted in an epoch.
func in(t market.Tariff, owner string) bool {
	return slices.Contains(t.Winners, owner) || slices.Contains(t.Standby, owner)
}

// Rule says how a domain's rounds are priced and settled. An operator may change it while the hub runs.
type Rule struct {
	market.Rule `yaml:",inline"`

	// under posted: what agents of a class are paid for a task beside its cost; 0 where it is not named
	Tariffs map[string]market.Credits `yaml:"tariffs"`
	// under tariff: the highest ask for a task that counts, and the tariff where nobody lost
	Ceiling  market.Credits            `yaml:"ceiling"`
	Ceilings map[string]market.Credits `yaml:"ceilings"` // the same of classes that have one of their own
}

// Validate judges a rule and changes nothing. It names every field that is wrong.
func (r Rule) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, f := range []struct {
		name, v string
		known   []string
	}{
		{"pricing", r.Pricing, []string{market.PricingVCG, market.PricingTariff, market.PricingPosted}},
		{"settle", r.Settle, []string{market.SettleMetered, market.SettleQuoted}},
		{"clarke", r.Clarke, []string{market.ClarkeClient, market.ClarkeTask}},
	} {
		if !slices.Contains(f.known, f.v) {
			wrong("%s: %q is none of %s", f.name, f.v, strings.Join(f.known, ", "))
		}
	}
	if r.Pricing == market.PricingTariff && r.Ceiling <= 0 {
		wrong("ceiling: pricing %q needs one above 0, in credits for a task: higher asks do not count, and "+
			"where nobody lost it is the tariff", market.PricingTariff)
	}
	if r.Ceiling < 0 || r.Ceiling > market.MaxWorth {
		wrong("ceiling: %s is not from 0 to %s credits", r.Ceiling, market.MaxWorth)
	}
	for _, m := range []struct {
		name    string
		amounts map[string]market.Credits
		pricing string
	}{{"tariffs", r.Tariffs, market.PricingPosted}, {"ceilings", r.Ceilings, market.PricingTariff}} {
		if len(m.amounts) > 0 && r.Pricing != m.pricing {
			wrong("%s: they mean something under pricing %q alone, and pricing is %q",
				m.name, m.pricing, r.Pricing)
		}
		if len(m.amounts) > bus.MaxClasses {
			wrong("%s: %d classes, at most %d are taken", m.name, len(m.amounts), bus.MaxClasses)
		}
		for _, class := range slices.Sorted(maps.Keys(m.amounts)) {
			if a := m.amounts[class]; a < 0 || a > market.MaxWorth {
				wrong("%s.%s: %s is not from 0 to %s credits", m.name, class, a, market.MaxWorth)
			}
		}
	}
	return errors.Join(errs...)
}

// Overlay is the rule with what a domain's entry in the registry says of it. Amounts by class are for one
// pricing: under another than the file's, the file's are left out.
func (r Rule) Overlay(m *bus.MarketConfig) Rule {
	r.Settle, r.Clarke = cmp.Or(m.Settle, r.Settle), cmp.Or(m.Clarke, r.Clarke)
	if m.Pricing != "" && m.Pricing != r.Pricing {
		r.Pricing, r.Tariffs, r.Ceilings = m.Pricing, nil, nil
	}
	if m.Tariffs != nil {
		r.Tariffs = m.Tariffs
	}
	if m.Ceiling != nil {
		r.Ceiling = *m.Ceiling
	}
	if m.Ceilings != nil {
		r.Ceilings = m.Ceilings
	}
	return r
}

// ceiling is R of a class.
func (r Rule) ceiling(class string) market.Credits {
	if c, ok := r.Ceilings[class]; ok {
		return c
	}
	return r.Ceiling
}
