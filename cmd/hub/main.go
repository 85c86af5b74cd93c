// Command hub clears the market of one domain.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/cmd/choices"
	"souk/cmd/daemon"
	"souk/hub"
	hubserve "souk/hub/serve"
	"souk/ledger/journal"
)

func main() { daemon.Main(command()) }

// command is the daemon with what this one has of its own.
func command() *cobra.Command {
	closing := false
	c := daemon.Command(role(&closing))
	c.Flags().BoolVar(&closing, "close", false,
		"end the hub: settle, give everything back, close the journal, and end with 0; or say why not")
	return c
}

// config is the hub's file.
type config struct {
	daemon.Common `yaml:",inline"`
	Market        daemon.Market `yaml:"market"`
	Data          string        `yaml:"data"` // the journal is in DATA/journal/NAME
	Hub           hub.Config    `yaml:"hub"`

	Checkpoints daemon.Checkpoints `yaml:"checkpoints"`
}

const example = daemon.MarketExample +
	`data: /var/lib/souk               # the journal is kept in DATA/journal/NAME
hub:                              # every other field has a default, see below
  domain: math
  hub: math-a                     # name of this instance; default DOMAIN-1
  labels: [math, science]         # of the classifier; agents whose first domain is one of them join this hub
  general: false                  # takes tasks of which the classifier is not sure; one hub of a market does
  # policies: {place: fair}       # or pd: which agents a task may go to; keep: kvcache or ahead: what stays cached
` + daemon.CheckpointsExample

func role(closing *bool) daemon.Role[*config] {
	return daemon.Role[*config]{
		Name:  "hub",
		As:    bus.RoleHub,
		Short: "The market of one domain: it awards tasks to agents, prices and records every award",
		Long: `hub collects the tasks of one domain into rounds, clears each round so that the tasks
together are worth most beyond their costs, and records every round before it acts on it. It needs a NATS
server, an etcd server, and a data directory of its own. In a market there is also a treasury, a classifier
(the door that sends it tasks) and agentd on the nodes that serve them.

A second hub of the same domain stands by until the first is gone. It needs a data directory and a journal
name (SOUK_HUB_JOURNAL) of its own.

--close ends a hub for good. Stop its daemon and every hub that stands by for it, then run it with the same
file and --close. It takes no task, settles what still runs, hands all client money that it has back to the
treasury, and waits until its surplus has left (souk distribute) and agents have what they are due (souk
remit): a closed journal cannot say that they were paid. Then the treasury counts it as ended, and its journal
is closed: nothing can be appended to it again. It says what it waits for. If it is stopped or killed on the
way, run it with --close again. The flat fee stays on record: ledger bal fee.`,
		Example: example,
		New: func() *config {
			return &config{Common: daemon.Default(), Market: daemon.DefaultMarket(), Hub: choices.Hub()}
		},
		Serve: func(ctx context.Context, p *daemon.Process, c *config) error {
			return serve(ctx, p, c, *closing)
		},
	}
}

func serve(ctx context.Context, p *daemon.Process, c *config, closing bool) (err error) {
	j, err := journal.Open(filepath.Join(c.Data, "journal", c.Hub.Journal),
		journal.Config{Log: p.Log, Meter: p.Meter()})
	if err != nil {
		return daemon.InData(err)
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	signs, err := c.Checkpoints.Keeper(j, c.Hub.Journal, c.Market.Creds,
		filepath.Join(c.Data, c.Hub.Journal+".witnessed"), true, p.Log, p.Meter())
	if err != nil {
		return daemon.InData(err)
	}
	defer func() { err = errors.Join(err, signs.Close()) }()
	p.Lacks(signs.Unready)
	l, err := p.Connect(ctx, c.Market, bus.RoleHub, c.IDs())
	if err != nil {
		return err
	}
	defer l.Close()
	s, err := hubserve.New(c.Hub, hubserve.Deps{Bus: l.Bus, Registry: l.Registry, Journal: j, Log: p.Log,
		Spans: p.Spans, Signs: signs, Expires: l.Expires, Close: closing,
		Learned: filepath.Join(c.Data, c.Hub.Journal+".learned"),
		Meter:   p.Meter()})
	if err != nil {
		return err
	}
	p.Serving(s.Ready(), func() any { return s.Stats() })
	p.Lacks(s.Unready)
	if err := s.Run(ctx); err != nil {
		return err
	}
	st := s.Stats()
	p.Log.Info("counts since the start", "tasks", st.Arrived, "served", st.Tasks[""],
		"rounds", st.Stats.Rounds, "cost", st.Cost, "premium", st.Premium)
	return nil
}

func (c *config) IDs() bus.IDs { return bus.IDs{Name: c.Hub.Journal, Domain: c.Hub.Domain} }

// Complete names the instance and the journal after the domain where they have no names.
func (c *config) Complete() error {
	if c.Hub.Hub == "" && c.Hub.Domain != "" {
		c.Hub.Hub = c.Hub.Domain + "-1"
	}
	c.Hub.Journal = cmp.Or(c.Hub.Journal, c.Hub.Domain)
	var errs []error
	if c.Data == "" {
		errs = append(errs, fmt.Errorf("data: not set: write the directory for the journal, "+
			"or set SOUK_DATA"))
	}
	if c.Hub.Domain == "" {
		errs = append(errs, errors.New("domain: not set: write the domain that this hub clears"))
	} else {
		errs = append(errs, c.Hub.Validate())
	}
	return errors.Join(append(errs, c.Market.Validate(), c.Checkpoints.Validate())...)
}

// Drain is the time for what runs, and for resigning.
func (c *config) Drain() time.Duration { return c.Hub.DrainTimeout + 3*time.Second }
