package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/cmd/console"
	"souk/cmd/local"
)

func distributeCommand(s *shared) *cobra.Command {
	var to string
	var number uint64
	c := &cobra.Command{
		Use:   "distribute HUB [AMOUNT]",
		Short: "Pay out the surplus of a hub, or say how much there is",
		Long: `Without AMOUNT it says how much surplus a hub has, and nothing moves. With AMOUNT it takes
exactly this many credits out of it, or nothing. With --to they go to a client's money at the treasury.
Without --to they leave the market, and paying them to somebody is up to you. HUB is the name of the hub's
journal, by default its domain.

The surplus is what clients paid beyond costs and the flat fee because others wanted the same slots. It does
not belong to the hub: a hub that kept it would gain by bidding against its clients. So only the treasury can
take it out. Decide who gets it by a rule on which nothing that was bid or reported in those rounds has any
influence, and only after them. Otherwise it would pay to lie in order to get more.

A distribution has a number, which is printed; the hub records it first, then the treasury. If the answer was
lost, repeat the command with --number and that number: the money moves only once. The hub must be running.`,
		Example: `  souk distribute math
  souk distribute math 2.50
  souk distribute math 2.50 --to alice --number 4 --nats nats://127.0.0.1:4222`,
		Args: console.Takes(1, 2),
	}
	c.Flags().StringVar(&to, "to", "", "client that gets it; without, it leaves the market")
	c.Flags().Uint64Var(&number, "number", 0,
		"number of the distribution, to make it once; without, the next")
	within := waiting(c, "the hub to answer")
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
		link, err := s.dial(bus.RoleOperator, local.Operator)
		if err != nil {
			return err
		}
		defer link.Close()
		ctx, cancel := within()
		defer cancel()
		if len(args) == 1 {
			reply, err := link.Surplus(ctx, hub)
			if err == nil {
				fmt.Fprintf(c.OutOrStdout(), "%s has a surplus of %s; its next distribution is number %d\n",
					hub, reply.Surplus, reply.Number)
			}
			return err
		}
		amount, err := amountOf("amount", "distribution", args[1])
		if err != nil {
			return err
		}
		if number == 0 {
			reply, err := link.Surplus(ctx, hub)
			if err != nil {
				return fmt.Errorf("%w: nothing was distributed", err)
			}
			number = reply.Number
		}
		if _, err := link.Distribute(ctx, hub, to, amount, number); err != nil {
			again := fmt.Sprintf("souk distribute %s %s --number %d", hub, args[1], number)
			if to != "" {
				again += " --to " + to
			}
			return distributeFailed(err, to, again)
		}
		whither := "out of the market"
		if to != "" {
			whither = "to " + to
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
