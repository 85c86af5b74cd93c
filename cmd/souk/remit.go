package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/cmd/console"
	"souk/cmd/local"
	"souk/ledger"
)

func remitCommand(s *shared) *cobra.Command {
	var o *order
	var hub string
	c := &cobra.Command{
		Use:   "remit AGENT [AMOUNT]",
		Short: "Pay an agent what it has earned, or say how much that is",
		Long: `Without AMOUNT it says what each hub owes an agent, and nothing moves. With AMOUNT it records
that so much of it is paid: exactly this, or nothing where less is owed. Paying it by other means is yours to do;
--ref is the reference under which you do, an invoice or the bank's.

A reference is paid once: the same command again says that it was made, and another amount under it is refused.
So repeat the command with the same --ref if its answer was lost. The hub records it first, then the treasury;
the hub must be running. Where several hubs owe the agent something, --hub names the one that pays. Pay what is
owed before you end a hub (souk-hub close).`,
		Example: `  souk remit local-1
  souk remit local-1 12.50 --ref INV-2026-11 --month 2026-11
  souk remit local-1 12.50 --ref INV-2026-11 --hub math --nats nats://127.0.0.1:4222`,
		Args: console.Takes(1, 2),
	}
	o = orderFlags(c, "reference of the payment, by which it is made once")
	c.Flags().StringVar(&o.Month, "month", "", "month for which it is, like 2026-11")
	c.Flags().StringVar(&hub, "hub", "", "hub that owes it; without, the only one that owes the agent "+
		"something")
	ask := s.waiting(c, "hubs to answer")
	c.RunE = func(c *cobra.Command, args []string) error {
		agent := args[0]
		if err := bus.CheckID("agent", agent); err != nil {
			return err
		}
		if o.Month != "" && !ledger.ValidMonth(o.Month) {
			return fmt.Errorf("--month: %.20q is none: write one like 2026-11", o.Month)
		}
		o.Agent = agent
		ctx, link, end, err := ask()
		if err != nil {
			return err
		}
		defer end()
		owed, err := o.owed(ctx, link)
		if err != nil {
			return fmt.Errorf("%w: nothing was remitted", err)
		}
		if len(args) == 1 {
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "HUB\tOWES "+agent)
			for _, h := range owed {
				is := h.Owed.String()
				if h.AtMS == 0 {
					is = "does not answer"
				}
				fmt.Fprintf(w, "%s\t%s\n", h.Hub, is)
			}
			return w.Flush()
		}
		amount, err := amountOf("amount", "remittance", args[1])
		if err != nil {
			return err
		}
		if o.Ref == "" {
			return fmt.Errorf("--ref: name the reference of the payment, by which it is made once")
		}
		if hub == "" {
			hub, err = owes(owed, agent)
			if err != nil {
				return err
			}
		}
		reply, err := o.command(ctx, link, bus.OpRemit, bus.FundsRequest{ID: "remit", Hub: hub,
			Amount: amount})
		if err != nil {
			return mayBeMade(err, fmt.Sprintf("souk remit %s %s --ref %s --hub %s", agent, args[1], o.Ref,
				hub))
		}
		fmt.Fprintf(c.OutOrStdout(), "remitted %s to %s, which hub %s owed (order %d, reference %s)\n",
			amount, agent,
			hub, reply.Number, o.Ref)
		return nil
	}
	return c
}

// owed asks what hubs owe an agent. The treasury takes in on the way what a hub has recorded and it has not.
func (o *order) owed(ctx context.Context, link *local.Link) ([]bus.HubFunds, error) {
	say := o.Order
	say.Ref, say.Note, say.Month = "", "", ""
	reply, err := link.Command(ctx, bus.OpRemit, bus.FundsRequest{ID: "owed-" + o.Agent, Order: &say})
	return reply.Hubs, err
}

// owes finds the hub that is meant without --hub.
func owes(all []bus.HubFunds, agent string) (string, error) {
	var hubs, may []string
	for _, h := range all {
		switch {
		case h.Owed > 0:
			hubs = append(hubs, h.Hub)
			may = append(may, fmt.Sprintf("%s owes %s", h.Hub, h.Owed))
		case h.AtMS == 0:
			may = append(may, h.Hub+" does not answer")
		}
	}
	switch {
	case len(hubs) == 1 && len(may) == 1:
		return hubs[0], nil
	case len(all) == 1:
		return all[0].Hub, nil
	case len(may) == 0:
		return "", &bus.Error{Code: bus.CodeInsufficientFunds, Message: fmt.Sprintf("no hub owes agent %s "+
			"anything; if "+
			"it was paid before under this reference, name its hub by --hub", agent)}
	}
	return "", fmt.Errorf("agent %s: name the hub that pays by --hub: %s", agent, strings.Join(may, ", "))
}
