package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"souk/bus"
)

func distributeCommand(s *shared) *cobra.Command {
	var to string
	var number uint64
	c := &cobra.Command{
		Use:   "distribute HUB [AMOUNT]",
		Short: "Let surplus of a hub leave, or say how much there is",
		Long: `Takes credits out of the surplus of a hub, exactly this amount or nothing: to a client
with --to, whose money with the treasury grows by it, else out of the market; paying it on is then yours
to do. HUB is the name of the hub's journal. Without an amount it says what surplus there is, and nothing
moves.

The surplus is what clients paid beyond costs and the flat fee because others wanted the same slots. It is
not the hub's: a hub that kept it would gain by bidding against its clients. So it leaves by the treasury's
command alone. Give it away by a rule that nothing reported in those rounds can move, and later than them.

The hub records it first, the treasury then, and both under one number, which is printed. With --number a
distribution is made once however often the command is repeated: so one whose answer was lost is asked for
again. A hub that does not run distributes nothing.`,
		Example: `  souk distribute math
  souk distribute math 2.50
  souk distribute math 2.50 --to alice --number 4 --nats nats://127.0.0.1:4222`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 2 {
				return fmt.Errorf("name a hub's journal, and an amount: souk distribute math 2.50")
			}
			return nil
		},
	}
	c.Flags().StringVar(&to, "to", "", "client that it goes to; without, it leaves the market")
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
		link, err := s.dial("souk-distribute")
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
		amount, err := amountOf("distribution", args[1])
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
	var e *bus.Error
	switch refused := errors.As(err, &e); {
	case refused && e.Code == bus.CodeUnknownClient:
		return firstDeposit(err, to)
	case refused && e.Code != bus.CodeUnavailable, errors.Is(err, bus.ErrNoResponders):
		return err
	}
	return fmt.Errorf("%w: whether it was made is not known; to make it once, or hear that it was: %s", err,
		again)
}
