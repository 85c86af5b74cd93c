package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/bus/tip"
	"souk/cmd/console"
)

func distributeCommand(s *shared) *cobra.Command {
	var to string
	var number uint64
	var yes bool
	c := &cobra.Command{
		Use:   "distribute HUB [AMOUNT]",
		Short: "Pay out the surplus of a hub, or say how much there is",
		Long: `Without AMOUNT it says how much surplus a hub has, and nothing moves. HUB is the name of the
hub's journal, by default its domain.

The surplus is what clients paid beyond costs and the flat fee because others wanted the same slots. It does
not belong to the hub: a hub that kept it would gain by bidding against its clients. So only the treasury can
take it out, and its configuration (surplus) says whose it is:

  agents   the hub's agents, by the slots that they have offered; it is added to what they have earned
  clients  the hub's clients, in equal parts, as money at the treasury
  kept     yours: AMOUNT takes exactly this many credits out, or nothing; with --to they go to a client's money,
           without they leave the market, and paying them to somebody is up to you

By agents and clients, --yes shares out what there was at the last distribution, and slots count that were
offered since. So no report of a round moves who gets the surplus of that round, and it does not pay to lie in
order to get more. The first one therefore shares out nothing, and begins the count. The record names the rule
and the slots, and ledger check recomputes both. Where no agent has offered a slot since, nothing is shared out
among agents, and the surplus is carried to the next distribution; at a hub that ends there is none: have the
treasury keep what is left (surplus: kept), and take it out.

A distribution has a number, which is printed; the hub records it first, then the treasury. If the answer was
lost, repeat the command with --number and that number: the money moves only once. The hub must be running.`,
		Example: `  souk distribute math
  souk distribute math --yes
  souk distribute math 2.50
  souk distribute math 2.50 --to alice --number 4 --nats nats://127.0.0.1:4222`,
		Args: console.Takes(1, 2),
	}
	c.Flags().StringVar(&to, "to", "", "client that gets it; without, it leaves the market")
	c.Flags().Uint64Var(&number, "number", 0,
		"number of the distribution, to make it once; without, the next")
	c.Flags().BoolVar(&yes, "yes", false, "share out, where a rule says among whom")
	o := orderFlags(c, "reference of the payment, for the books")
	ask := s.waiting(c, "the hub to answer")
	c.RunE = func(c *cobra.Command, args []string) error {
		hub := args[0]
		if err := bus.CheckID("hub", hub); err != nil {
			return err
		}
		if to != "" {
			if err := bus.CheckID("--to", to); err != nil {
				return err
			}
		}
		ctx, link, end, err := ask()
		if err != nil {
			return err
		}
		defer end()
		if len(args) == 1 && !yes {
			reply, err := link.Surplus(ctx, hub)
			if err == nil {
				rule := ""
				if reply.Message != "" && reply.Message != tip.Kept {
					rule = fmt.Sprintf(", of which --yes shares %s out among %s", reply.Back, reply.Message)
				}
				fmt.Fprintf(c.OutOrStdout(), "%s has a surplus of %s%s; its next distribution is number %d\n",
					hub, reply.Surplus, rule, reply.Number)
			}
			return err
		}
		q := bus.FundsRequest{Hub: hub, Client: to, Sure: yes}
		if len(args) == 2 {
			if q.Amount, err = amountOf("amount", "distribution", args[1]); err != nil {
				return err
			}
		}
		if number == 0 {
			reply, err := link.Surplus(ctx, hub)
			if err != nil {
				return fmt.Errorf("%w: nothing was distributed", err)
			}
			number = reply.Number
		}
		q.ID = bus.DistributeID(hub, number)
		reply, err := o.command(ctx, link, bus.OpDistribute, q)
		if err != nil {
			again := fmt.Sprintf("souk distribute %s --number %d", strings.Join(args, " "), number)
			if yes {
				again += " --yes"
			}
			if to != "" {
				again += " --to " + to
			}
			return distributeFailed(err, to, again)
		}
		whither := "out of the market"
		if to != "" {
			whither = "to " + to
		}
		amount := q.Amount
		if r := reply.Order; yes && r != nil && r.Order != nil {
			if amount, whither = r.Amount, "among its "+r.Order.Rule; amount == 0 {
				whither += ", and carried the rest to the next"
			}
		}
		fmt.Fprintf(c.OutOrStdout(), "distributed %s of the surplus of %s %s (number %d)\n", amount, hub,
			whither, number)
		return nil
	}
	return c
}

// distributeFailed says what became of a distribution, and what to do.
func distributeFailed(err error, to, again string) error {
	if bus.CodeOf(err) == bus.CodeUnknownClient {
		return firstDeposit(err, to)
	}
	return mayBeMade(err, again)
}
