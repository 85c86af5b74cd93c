package treasury

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"souk/bus"
	"souk/bus/tip"
	"souk/ledger"
	"souk/market"
)

// Config of a treasury. Default gives every limit; Validate judges and changes nothing.
type Config struct {
	Journal string `yaml:"journal"` // name of the treasury's journal
	// Currency of a credit, by its code of ISO 4217. The journal's first record says it for good.
	Currency string `yaml:"currency"`
	// Believe has a treasury work whose journal may be an older copy, though no hub has said that it is the
	// newest: the number of the last frame in it, and good for no other. 0: it waits for hubs.
	Believe uint64 `yaml:"believe"`
	// Grants remembered for each hub, at least, for hubs whose answer was lost: what one sync of a hub's
	// journal may leave unaccepted, many times over.
	Grants int `yaml:"grants"`
	// MaxHubs bounds the hubs served, since each costs memory and any name may ask.
	MaxHubs int `yaml:"max_hubs"`
	// SecondAbove is the amount above which what an operator commands needs the signature of a second one
	// (souk approve): deposits, payouts, moves, remittances, refunds, distributions of surplus that is kept
	// (a rule says the amount itself). 0: nothing needs one.
	SecondAbove market.Credits `yaml:"second_operator_above"`
	// Surplus says whose the surplus of hubs is: "agents", "clients" or, where it is empty, "kept"; see souk
	// distribute.
	Surplus string `yaml:"surplus"`
	// Drain bounds the time for answering what has arrived when the server is told to stop.
	Drain time.Duration `yaml:"drain"`
}

// grantsPerReply keeps a reply far below the bus's largest message.
const grantsPerReply = 1024

// Default is a good configuration.
func Default() Config {
	return Config{
		Journal:  ledger.Treasury,
		Currency: ledger.DefaultCurrency,
		Grants:   1 << 14,
		MaxHubs:  1024,
		Drain:    5 * time.Second,
	}
}

// Validate names every field that makes no sense.
func (c Config) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("treasury: "+format, args...))
	}
	if !ledger.ValidID(c.Journal) {
		wrong("journal: %.80q is not a name: use 1 to 64 letters, digits, '-' or '_'", c.Journal)
	}
	if !ledger.ValidCurrency(c.Currency) {
		wrong("currency: %.80q is no code of a currency: write three capital letters, like USD", c.Currency)
	}
	for _, err := range []error{bus.CheckBounds("grants", c.Grants, grantsPerReply, 1<<24),
		bus.CheckBounds("max_hubs", c.MaxHubs, 1, 1<<20),
		bus.CheckBounds("second_operator_above", c.SecondAbove, 0, market.MaxCredits),
		bus.CheckBounds("drain", c.Drain, time.Nanosecond, time.Hour)} {
		if err != nil {
			wrong("%w", err)
		}
	}
	if !slices.Contains([]string{"", tip.Kept, tip.ByAgents, tip.ByClients}, c.Surplus) {
		wrong("surplus: %.40q is none of kept, agents and clients", c.Surplus)
	}
	return errors.Join(errs...)
}
