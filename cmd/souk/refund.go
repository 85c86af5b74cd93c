package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/bus/tip"
	"souk/cmd/console"
	"souk/ledger"
)

func refundCommand(s *shared) *cobra.Command {
	var o *order
	c := &cobra.Command{
		Use:   "refund RECEIPT AMOUNT",
		Short: "Give a client back some of what it paid for a task",
		Long: `Gives the client of a task back so much of what it was charged: from what the agent has earned
(--from agent), or from the surplus of the hub (--from surplus). All refunds of a receipt together are at most
what was charged. The client has it at the hub at once, as money for its tasks; souk payout takes it out.

RECEIPT is JOURNAL/ROUND/SLOT, as souk submit and ledger trace print it. The hub looks the payment up in its
journal, however old that is, records the refund with the month of the payment, and then the treasury does: a
refund in a month that is closed is a correction that says so. By its --ref it is made once, so repeat the same
command if its answer was lost.`,
		Example: `  souk refund math/17/0 0.02 --from agent --ref complaint-9 --why "the answer was cut"
  souk refund math/17/0 0.01 --from surplus --ref complaint-9b --why "goodwill"`,
		Args: console.Takes(2, 2),
	}
	o = orderFlags(c, "reference of the refund, by which it is made once")
	c.Flags().StringVar(&o.From, "from", "", "who pays: agent or surplus")
	c.Flags().StringVar(&o.Note, "why", "", "why; --note is the same")
	ask := s.waiting(c, "the hub to answer")
	c.RunE = func(c *cobra.Command, args []string) error {
		o.Receipt = args[0]
		hub, _, _, ok := ledger.ParseHoldID(o.Receipt)
		switch {
		case !ok:
			return fmt.Errorf("receipt: %.80q is none: write JOURNAL/ROUND/SLOT", o.Receipt)
		case o.From != tip.FromAgent && o.From != tip.FromSurplus:
			return fmt.Errorf("--from: say who pays, agent or surplus")
		case o.Ref == "" || o.Note == "":
			return fmt.Errorf("--ref and --why: name a reference, by which it is made once, and a reason")
		}
		amount, err := amountOf("amount", "refund", args[1])
		if err != nil {
			return err
		}
		ctx, link, end, err := ask()
		if err != nil {
			return err
		}
		defer end()
		reply, err := o.command(ctx, link, bus.OpRefund, bus.FundsRequest{ID: "refund", Hub: hub,
			Amount: amount})
		if err != nil {
			return mayBeMade(err, fmt.Sprintf("souk refund %s %s --from %s --ref %s --why %q", o.Receipt,
				args[1], o.From, o.Ref, o.Note))
		}
		client, month := "its client", ""
		if r := reply.Order; r != nil && r.Order != nil {
			client, month = r.Client, r.Order.Month
		}
		fmt.Fprintf(c.OutOrStdout(), "refunded %s to %s for %s of %s, from %s (order %d of %s, reference "+
			"%s)\n", amount, client, o.Receipt, month, o.From, reply.Number, hub, o.Ref)
		return nil
	}
	return c
}
