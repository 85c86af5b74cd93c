package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/cmd/local"
	"souk/market"
)

func payoutCommand(s *shared) *cobra.Command {
	var to string
	c := &cobra.Command{
		Use:   "payout CLIENT AMOUNT",
		Short: "Pay credits of a client out of the market, or move them to another client",
		Long: `Takes credits of a client out of the market, exactly this amount or nothing, and records it at
the treasury. Paying them to the client by other means is yours to do. With --to they stay in the market and
become another client's.

Where the treasury has less, the hubs give back what they have of the client's money and no task needs;
that takes a second or two, longer while a hub that lives does not answer. What runs goes on. With --id
the payout is made once however often the command is repeated; without, the id is printed, so that a
payout whose answer was lost can be asked for again.`,
		Example: `  souk payout alice 2.50
  souk payout alice 2.50 --to bob
  souk payout alice 2.50 --id refund-17 --nats nats://127.0.0.1:4222`,
	}
	c.Flags().StringVar(&to, "to", "", "client that gets it; without, it leaves the market")
	ask := s.waiting(c, "hubs to give money back")
	s.amountCommand("payout", c, ask, func(ctx context.Context, link *local.Link, o *order, client string,
		amount market.Credits, id string) error {
		op, done, again := bus.OpPayout, "paid "+amount.String()+" out for "+client, amount.String()
		if to != "" {
			if err := bus.CheckID("--to", to); err != nil {
				return err
			}
			op, done, again = bus.OpMove, fmt.Sprintf("moved %s of %s to %s", amount, client, to),
				again+" --to "+to
		}
		reply, err := o.command(ctx, link, op, bus.FundsRequest{ID: id, Client: client, To: to,
			Amount: amount})
		if err != nil {
			return payoutFailed(err, client, again, id)
		}
		fmt.Fprintf(c.OutOrStdout(), "%s: %s at the treasury, %s allotted to hubs (payout %s)\n", done,
			reply.Prepaid, reply.Allotted, id)
		return nil
	})
	return c
}

// payoutFailed says what became of a payout, and what to do.
func payoutFailed(err error, client, amount, id string) error {
	switch bus.CodeOf(err) {
	case bus.CodeUnknownClient:
		return firstDeposit(err, client)
	case bus.CodeInsufficientFunds:
		return fmt.Errorf("%w: nothing was paid out; souk balance %s shows where its money is", err, client)
	}
	return mayBeMade(err, fmt.Sprintf("souk payout %s %s --id %s", client, amount, id))
}
