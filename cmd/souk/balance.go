package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/bus/natsauth"
	"souk/cmd/console"
	"souk/cmd/local"
	"souk/market"
)

func balanceCommand(s *shared) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "balance CLIENT",
		Short: "Say what a client has, and where its money lies",
		Long: `Says how much money a client has, and where it lies. The treasury keeps deposits and
gives part of them to the hubs that serve the client's tasks. Of each such hub it is shown what is available
for tasks, held for tasks that run, and spent so far. What is available at a hub is still the client's: the
hub gives it back when another hub or a payout needs it.

The treasury asks the hubs and waits a second for them. For a hub that does not answer, the most that it can
have is shown. That money is not lost: it is there again when the hub is. No money is moved.

An operator may ask for any client, and a client, with creds of its own, for itself.`,
		Example: `  souk balance alice
  souk balance alice --json --nats nats://127.0.0.1:4222
  souk balance alice --nats nats://127.0.0.1:4222 --creds alice.creds`,
		Args: console.Takes(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := bus.CheckID("client", args[0]); err != nil {
				return err
			}
			link, err := s.dial(bus.RoleOperator, local.Operator)
			if errors.Is(err, natsauth.ErrRole) {
				link, err = s.dial(bus.RoleClient, args[0])
			}
			if err != nil {
				return err
			}
			defer link.Close()
			reply, err := link.Holdings(c.Context(), args[0])
			if err != nil {
				return firstDeposit(err, args[0])
			}
			if asJSON {
				return writeJSON(c.OutOrStdout(), reply)
			}
			return showBalance(c.OutOrStdout(), reply)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the treasury's answer as JSON")
	return c
}

// firstDeposit says what to do about a client that nobody knows.
func firstDeposit(err error, client string) error {
	if bus.CodeOf(err) == bus.CodeUnknownClient {
		return fmt.Errorf("%w: souk fund %s AMOUNT", err, client)
	}
	return err
}

// showBalance prints a balance. What a hub that did not answer has is not known, so it is in no sum.
func showBalance(w io.Writer, r bus.FundsReply) error {
	atHubs, silent := market.Credits(0), market.Credits(0)
	unasked := r.Allotted // that of hubs that are not named, as there are too many
	for _, h := range r.Hubs {
		unasked -= h.Allotted
		if h.AtMS == 0 {
			silent += h.Allotted
		} else {
			atHubs += h.Avail + h.Held
		}
	}
	fmt.Fprintf(w, "%s has %s: %s at the treasury, %s at hubs", r.Client, r.Prepaid+atHubs, r.Prepaid, atHubs)
	if silent > 0 {
		fmt.Fprintf(w, ", and at most %s at hubs that did not answer", silent)
	}
	if unasked > 0 {
		fmt.Fprintf(w, ", and at most %s at hubs that were not asked", unasked)
	}
	fmt.Fprintln(w)
	if len(r.Hubs) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "hub\tavailable\theld\tspent\tas of")
	for _, h := range r.Hubs {
		if h.AtMS == 0 {
			heard := "not heard since the treasury's start"
			if h.HeardMS > 0 {
				heard = "last heard " + clock(h.HeardMS)
			}
			fmt.Fprintf(t, "%s\t?\t?\t?\tno answer, %s; at most %s\n", h.Hub, heard, h.Allotted)
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", h.Hub, h.Avail, h.Held, max(0, h.Allotted-h.Avail-h.Held),
			clock(h.AtMS))
	}
	return t.Flush()
}

// clock says a time for people.
func clock(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05Z07:00") }
