package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/bus/natsauth"
	"souk/cmd/console"
	"souk/cmd/local"
)

// unwell is the exit status of `souk status` where the market answers and something in it is not well.
const unwell = 3

// statusWithin bounds how long the parts of a market are waited for.
const statusWithin = 10 * time.Second

func statusCommand(s *shared) *cobra.Command {
	var reg registry
	format := "page"
	c := &cobra.Command{
		Use:   "status",
		Short: "How the market is, on one page: what is not well, parts, models, money, credentials",
		Long: `Says how a market is: what is not well and what to do about it, which parts run and who leads,
the agents and free slots of each domain, models and prices, the money, and which credentials end soon. It asks
all parts at once, takes some two seconds, and changes nothing. A part that does not answer is named.

What it can say depends on what it may ask. With --data of a market that runs there, or keys of it, that is all.
With --nats and creds of an operator, parts and nodes are listed where --etcd names the registry, too; with
those of a viewer the treasury is not asked.

Exit status: 0 all is well; 3 something is not, and the page begins with it; 1 the market cannot be asked.
Whether the ledger is right is for souk's other command: ledger check.`,
		Example: `  souk status
  souk status -o json --nats tls://10.0.0.1:4222 --creds operator.creds --etcd 10.0.0.1:2379`,
		Args: console.Takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if format != "page" && format != "json" {
				return fmt.Errorf("--output %q: write page or json", format)
			}
			r, err := s.ask(c, &reg, time.Now())
			if err != nil {
				return err
			}
			if format == "json" {
				err = writeJSON(c.OutOrStdout(), r)
			} else {
				err = statusPage{r}.page(c.OutOrStdout())
			}
			if err == nil && !r.Well {
				err = console.Exit(unwell)
			}
			return err
		},
	}
	c.Flags().StringVarP(&format, "output", "o", format, "page or json")
	reg.flags(c.Flags())
	return s.reach(c)
}

// ask finds out how the market is.
func (s *shared) ask(c *cobra.Command, reg *registry, now time.Time) (*local.Report, error) {
	at, closed, err := s.lookOn(c, reg)
	if err != nil {
		return nil, err
	}
	defer closed()
	ctx, cancel := context.WithTimeout(c.Context(), statusWithin)
	defer cancel()
	survey, err := at.Link.Survey(ctx, at.Registry, at.Money, at.Link.State.Domains)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", bus.Redact(at.Link.State.NATS), err)
	}
	if at.NoEtcd != nil {
		survey.Silent = append(survey.Silent, local.Silence{Part: "etcd", Why: at.NoEtcd.Error()})
	}
	return at.Report(survey, now), nil
}

// lookOn connects as an operator, or as a viewer where the creds are of one, and to the registry if one is
// named.
func (s *shared) lookOn(c *cobra.Command, reg *registry) (at *local.Lookout, closed func(), err error) {
	link, err := s.dial(bus.RoleOperator, local.Operator)
	money := err == nil
	if errors.Is(err, natsauth.ErrRole) {
		link, err = s.dial(bus.RoleViewer, local.Viewer)
	}
	if err != nil {
		return nil, nil, err
	}
	at = &local.Lookout{Reach: s.market(), Link: link, Money: money}
	if s.nats != "" && len(reg.etcd) == 0 && os.Getenv("SOUK_MARKET_ETCD") == "" {
		return at, func() { link.Close() }, nil
	}
	r, err := reg.dial(c, s.data, bus.TreasuryKey)
	if err != nil {
		at.NoEtcd = err
		return at, func() { link.Close() }, nil
	}
	at.Registry = r
	return at, func() {
		r.Close()
		link.Close()
	}, nil
}
