package hub

import (
	"errors"
	"fmt"
	"time"

	"souk/bus"
	"souk/hub/batch"
)

// settings are what an operator may change while a hub runs: the domain's entry in the registry.
type settings struct {
	batch batch.Rule
	rule  Rule
}

// Configure applies the domain's settings from the registry to every later round; what is left out of them,
// or all of it when m is nil, is as the hub's own file says. Rounds and holds that exist keep the rules in
// their records. Settings that cannot be applied change nothing.
func (n *Node) Configure(now time.Time, m *bus.MarketConfig) error {
	s := n.file
	if m != nil {
		if m.Domain != n.cfg.Domain {
			return fmt.Errorf("settings of domain %s: this is %s", m.Domain, n.cfg.Domain)
		}
		if m.MaxBatch != 0 {
			s.batch.MaxBatch = m.MaxBatch
		}
		if m.MaxWaitMS != nil {
			s.batch.MaxWait = time.Duration(*m.MaxWaitMS) * time.Millisecond
		}
		if m.Eager != nil {
			s.batch.Eager = *m.Eager
		}
		s.rule = s.rule.Overlay(m)
		if err := errors.Join(s.batch.Validate(), s.rule.Validate()); err != nil {
			return fmt.Errorf("settings of domain %s: %w", m.Domain, err)
		}
	}
	n.advance(now)
	n.cfg.Batch, n.cfg.Rule = s.batch, s.rule
	n.batch.Set(s.batch)
	n.tariffs()
	if n.leading {
		for _, a := range n.roster {
			n.callFor(a)
		}
		n.news()
	}
	return nil
}
