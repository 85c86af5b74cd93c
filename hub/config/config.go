// Package config says what a hub sells and within which limits: what its file may say, what holds where that
// says nothing, and what is wrong with it.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"souk/bus"
	"souk/hub/account"
	"souk/hub/admission"
	"souk/hub/fleet"
	"souk/hub/policy"
	"souk/hub/predict"
	"souk/hub/prewarm"
	"souk/hub/quality"
	"souk/hub/queue"
	"souk/hub/regime"
	"souk/hub/settle"
	"souk/hub/status"
	"souk/hub/tariff"
	"souk/hub/turn"
	"souk/ledger"
	"souk/market"
)

// Config says what a hub sells and within which limits. [Default] gives every field but the first three.
type Config struct {
	Domain  string   `yaml:"domain"`  // the domain it clears
	Hub     string   `yaml:"hub"`     // name of this instance
	Journal string   `yaml:"journal"` // name of its journal, unique in the market
	Labels  []string `yaml:"labels"`  // classifier labels served beside the domain's own
	General bool     `yaml:"general"` // takes tasks of low confidence

	Batch       queue.Rule `yaml:"batch"`
	tariff.Rule `yaml:",inline"`
	Fee         market.Credits `yaml:"fee"`      // flat, on every award, part of the toll
	Regime      regime.Params  `yaml:"regime"`   // acts through the toll alone
	Regimes     regime.Control `yaml:"regimes"`  // what follows from how full the domain is
	Policies    policy.Params  `yaml:"policies"` // runtime policies, by where they are asked; off by default

	Prewarm prewarm.Params  `yaml:"prewarm"` // texts that many begin with, put on agents that are idle
	Hedge   settle.Hedging  `yaml:"hedge"`   // tasks whose first token is late go to other agents
	Quality quality.Judging `yaml:"quality"` // whose word counts for how good answers are
	Terms   admission.Terms `yaml:"terms"`   // what a task without terms is given

	admission.Deadlines `yaml:",inline"`
	fleet.Limits        `yaml:",inline"`
	account.Times       `yaml:",inline"`

	// tasks that wait beyond those for which a slot is free: a longer queue only outlives its deadlines
	MaxWaiting int `yaml:"max_waiting"`
	// dispatches of one task that agents refuse before its client is told
	MaxRefusals int `yaml:"max_refusals"`

	// Tasks of one client that wait, for its money or a slot; 0: a quarter of max_waiting.
	MaxWaitingPerClient int `yaml:"max_waiting_per_client"`

	// a hold outlives the slowest possible answer by so much: the ledger's rule
	HoldGrace time.Duration `yaml:"hold_grace"`
	Epoch     time.Duration `yaml:"epoch"` // how long a class's tariff holds, under pricing tariff

	StatusEvery time.Duration `yaml:"status_every"` // at least this often

	LeaseTTL     time.Duration `yaml:"lease_ttl"`     // of the hub's election and claims
	DrainTimeout time.Duration `yaml:"drain_timeout"` // a stopping hub waits so long for what runs

	Parts Parts `yaml:"-"` // what the file chooses by name
}

// MaxAgents bounds the agents of a round, so that the solver's sums hold for the dearest tasks
// ([market.MaxWorth]).
const MaxAgents = 4000

// Parts are the parts that a hub's file names, and that the hub knows by these interfaces alone. Package
// cmd/choices has them all. Without them there is no policy, no toll follows a regime, and forecasts go by
// lines and means alone.
type Parts struct {
	Policies policy.Known
	Toll     regime.Toll
	Gates    predict.Gates
}

// Default is a hub's configuration but for its names.
func Default() Config {
	return Config{
		Batch:     queue.Default(),
		Rule:      tariff.Rule{Rule: market.DefaultRule},
		Regime:    regime.Default(),
		Regimes:   regime.DefaultControl(),
		Prewarm:   prewarm.Default(),
		Hedge:     settle.Hedging{On: true},
		Quality:   quality.Default(),
		Terms:     admission.DefaultTerms(),
		Deadlines: admission.Deadlines{Deadline: 60 * time.Second, MaxDeadline: time.Hour},
		Limits: fleet.Limits{MaxAgents: 1024, Silence: 5 * time.Second, SlowestITL: time.Second,
			Suspect: 1100 * time.Millisecond}, // an agent speaks every second
		Times: account.Times{AccountIdle: 60 * time.Second, FundsWait: 3 * time.Second},

		MaxWaiting:  2048,
		MaxRefusals: 16,

		HoldGrace: 60 * time.Second,
		Epoch:     30 * time.Second,

		StatusEvery: time.Second,

		LeaseTTL:     5 * time.Second,
		DrainTimeout: 30 * time.Second,
	}
}

// Validate judges a configuration and changes nothing. It names every field that is wrong.
func (c Config) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	names := [][2]string{{"domain", c.Domain}, {"hub", c.Hub}, {"journal", c.Journal}}
	for _, l := range c.Labels {
		names = append(names, [2]string{"labels", l})
	}
	for _, id := range names {
		errs = append(errs, bus.CheckID(id[0], id[1]))
	}
	if !ledger.ValidID(c.Journal) || c.Journal == ledger.Treasury {
		wrong("journal: %q is not a name for a hub's journal", c.Journal)
	}
	if len(c.Journal) > 24 {
		wrong("journal: %q has %d bytes, at most 24 are taken, as ids of requests are made from it",
			c.Journal, len(c.Journal))
	}
	for _, part := range []struct {
		name string
		err  error
	}{
		{"batch", c.Batch.Validate()},
		{"regime", c.Regime.Validate()}, {"terms", c.Terms.Validate()},
		{"prewarm", c.Prewarm.Validate()}, {"quality", c.Quality.Validate()},
		{"policies", c.Policies.Validate(&c.Parts.Policies)},
		{"regimes", c.Regimes.Validate()},
	} {
		all := []error{part.err}
		if joined, ok := part.err.(interface{ Unwrap() []error }); ok {
			all = joined.Unwrap()
		}
		for _, err := range all {
			if err != nil {
				wrong("%s: %w", part.name, err)
			}
		}
	}
	errs = append(errs, c.Rule.Validate())
	if c.Parts.Toll == nil && (c.Regimes.Adapt || !c.Regime.Idle()) {
		wrong("regime and regimes.adapt: this program has no toll that follows them")
	}
	if c.Fee < 0 || c.Fee > market.MaxWorth {
		wrong("fee: %s is not from 0 to %s credits", c.Fee, market.MaxWorth)
	}
	within := bus.CheckBounds[time.Duration]
	errs = append(errs, bus.CheckBounds("max_waiting", c.MaxWaiting, 1, 1<<20),
		bus.CheckBounds("max_waiting_per_client", c.WaitingPerClient(), 1, 1<<20),
		bus.CheckBounds("max_agents", c.MaxAgents, 1, MaxAgents),
		bus.CheckBounds("max_refusals", c.MaxRefusals, 1, 1000),
		within("deadline", c.Deadline, time.Millisecond, c.MaxDeadline),
		within("max_deadline", c.MaxDeadline, time.Millisecond, 24*time.Hour),
		within("funds_wait", c.FundsWait, time.Millisecond, time.Minute),
		within("account_idle", c.AccountIdle, time.Second, 24*time.Hour),
		within("hold_grace", c.HoldGrace, time.Second, time.Hour),
		within("slowest_itl", c.SlowestITL, time.Millisecond, time.Minute),
		within("suspect", c.Suspect, 100*time.Millisecond, time.Hour),
		within("silence", c.Silence, time.Second, time.Hour),
		within("status_every", c.StatusEvery, status.Least, time.Minute),
		within("lease_ttl", c.LeaseTTL, time.Second, time.Hour),
		within("drain_timeout", c.DrainTimeout, 0, time.Hour),
		within("epoch", c.Epoch, tariff.EpochLeast, time.Hour))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return nil
}

// Overlay is the configuration with a domain's settings over it: with what these leave out, or all of it when
// m is nil, as it is.
func (c Config) Overlay(m *bus.MarketConfig) (Config, error) {
	if m == nil {
		return c, nil
	}
	if m.Domain != c.Domain {
		return c, fmt.Errorf("settings of domain %s: this is %s", m.Domain, c.Domain)
	}
	c.Batch.MaxBatch = cmp.Or(m.MaxBatch, c.Batch.MaxBatch)
	if m.MaxWaitMS != nil {
		c.Batch.MaxWait = time.Duration(*m.MaxWaitMS) * time.Millisecond
	}
	if m.Eager != nil {
		c.Batch.Eager = *m.Eager
	}
	c.Rule = c.Rule.Overlay(m)
	if err := errors.Join(c.Batch.Validate(), c.Rule.Validate()); err != nil {
		return c, fmt.Errorf("settings of domain %s: %w", m.Domain, err)
	}
	return c, nil
}

// WaitingPerClient bounds the waiting tasks of one client.
func (c Config) WaitingPerClient() int { return cmp.Or(c.MaxWaitingPerClient, max(1, c.MaxWaiting/4)) }

// Serves reports whether an agent whose first domain is label belongs here.
func (c Config) Serves(label string) bool {
	return label == c.Domain || slices.Contains(c.Labels, label)
}

// Sells says what is wrong with the registration of an agent whose slots are to be sold here; nil: nothing.
func (c Config) Sells(reg *bus.Registration) error {
	err := cmp.Or(reg.Validate(), reg.Price.Validate())
	switch {
	case err != nil:
		return err
	case reg.Slots < 1:
		return errors.New("no slots")
	case !c.Serves(reg.Domains[0].Domain):
		return fmt.Errorf("its first domain is %s, not served here", reg.Domains[0].Domain)
	}
	return nil
}

// Refusal answers a task that never reached the Node: what was wrong with it, and when to try again.
func (c Config) Refusal(t *bus.Task, wrong error, retry time.Duration) *bus.Answer {
	at, m := turn.Turn{Domain: c.Domain}, bus.Task{Client: t.Client, ID: t.ID}
	if !bus.ValidID(m.Client) || !bus.ValidID(m.ID) {
		m.Client, m.ID = "unknown", "unknown" // what could not be read has no ids to speak of
	}
	return &bus.Answer{Result: at.Refusal(&m, bus.CodeOf(wrong), retry, "%s", bus.MessageOf(wrong))}
}
