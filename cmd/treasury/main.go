// Command treasury keeps the clients' prepaid money and allots it to hubs.
package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"souk/bus"
	"souk/cmd/daemon"
	"souk/ledger/journal"
	"souk/ledger/treasury"
	bank "souk/ledger/treasury/serve"
)

func main() { daemon.Main(daemon.Command(role())) }

// config is the treasury's file.
type config struct {
	daemon.Common `yaml:",inline"`
	Market        daemon.Market   `yaml:"market"`
	Data          string          `yaml:"data"` // the journal is in DATA/journal/NAME
	LeaseTTL      time.Duration   `yaml:"lease_ttl"`
	Treasury      treasury.Config `yaml:"treasury"`

	Checkpoints daemon.Checkpoints `yaml:"checkpoints"`
}

const example = daemon.MarketExample +
	`data: /var/lib/souk               # the journal is kept in DATA/journal/treasury
lease_ttl: 5s                     # how long a treasury that died keeps others out, and one that is cut off serves on
treasury:                         # every field has a default, see below
  currency: USD                   # what a credit is (ISO 4217), from the journal's first record on for good
  surplus: kept                   # whose the surplus of hubs is: agents, clients or kept (souk distribute)
  drain: 5s                       # for answering what has arrived when it is told to stop
` + daemon.CheckpointsExample

func role() daemon.Role[*config] {
	return daemon.Role[*config]{
		Name:  "treasury",
		As:    bus.RoleTreasury,
		Short: "The clients' money: deposits, payouts, and allotments to hubs",
		Long: `treasury keeps what clients have deposited and allots it to hubs, so that no client is ever
charged more than it deposited, over all hubs. A market has one, which etcd elects: a second one stands by as
long as the first lives. One that etcd does not hear for lease_ttl answers nobody until it is elected anew. Its
journal is the clients' money; back it up.`,
		Example: example,
		New: func() *config {
			return &config{Common: daemon.Default(), Market: daemon.DefaultMarket(),
				LeaseTTL: 5 * time.Second, Treasury: treasury.Default()}
		},
		Serve: serve,
	}
}

func serve(ctx context.Context, p *daemon.Process, c *config) (err error) {
	j, err := journal.Open(filepath.Join(c.Data, "journal", c.Treasury.Journal),
		journal.Config{Log: p.Log, Meter: p.Meter()})
	if err != nil {
		return daemon.InData(err)
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	signs, err := c.Checkpoints.Keeper(j, c.Treasury.Journal, c.Market.Creds,
		filepath.Join(c.Data, c.Treasury.Journal+".witnessed"), false, p.Log, p.Meter())
	if err != nil {
		return daemon.InData(err)
	}
	defer func() { err = errors.Join(err, signs.Close()) }()
	p.Lacks(signs.Unready)
	l, err := p.Connect(ctx, c.Market, bus.RoleTreasury, c.IDs())
	if err != nil {
		return err
	}
	defer l.Close()
	s, err := bank.New(c.Treasury, bank.Deps{Bus: l.Bus, Registry: l.Registry, Journal: j,
		LeaseTTL: c.LeaseTTL, Log: p.Log, Signs: signs, Operator: l.Operator, Expires: l.Expires,
		Meter: p.Meter()})
	if err != nil {
		return err
	}
	p.Lacks(s.Unready)
	p.Serving(s.Ready(), func() any { return s.Stats() })
	p.Lacks(func() string {
		if j.HasRoom() {
			return ""
		}
		return "the journal's disk is nearly full, and no money is taken in or allotted: free some space"
	})
	return s.Run(ctx)
}

func (c *config) IDs() bus.IDs { return bus.IDs{Name: c.Treasury.Journal} }

// Complete judges the file.
func (c *config) Complete() error {
	var errs []error
	if c.Data == "" {
		errs = append(errs, errors.New("data: not set: write the directory for the journal, "+
			"or set SOUK_DATA"))
	}
	if c.LeaseTTL < 2*time.Second || c.LeaseTTL > time.Hour {
		errs = append(errs, fmt.Errorf("lease_ttl: %v is not within 2s, the least that etcd grants, and 1h",
			c.LeaseTTL))
	}
	return errors.Join(append(errs, c.Treasury.Validate(), c.Market.Validate(), c.Checkpoints.Validate())...)
}

// Drain is the time for answering what has arrived, and for giving the leadership back.
func (c *config) Drain() time.Duration { return c.Treasury.Drain + 3*time.Second }
