package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/cmd/console"
	"souk/market"
)

func writeOffCommand(s *shared) *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "writeoff HUB",
		Short: "Give clients back what they had at a hub whose journal is gone for good",
		Long: `Ends a hub whose journal is lost: its disk burned, and there is no copy. Without --yes it
says what that would come to, and nothing moves. HUB is the name of the hub's journal, by default its domain.

Each client gets back what went to the hub for it and did not come back, less what it had been charged there
when the hub last spoke to the treasury, some seconds before it was lost. Money that was held for tasks that
ran comes back whole. The rest is booked as lost with the hub: what its agents were due there, its surplus and
its fees. That is yours to make good, by other means; ledger reg lost:HUB shows how much it is.

This cannot be undone. Should the journal turn up after all, the treasury takes nothing of it any more, and a
hub that starts on it says so and sells nothing. So it is refused while the hub lives: while the registry names
it as leading, or the treasury heard of it in the last 15 seconds. If the disk can be saved, save the disk.`,
		Example: `  souk writeoff math
  souk writeoff math --yes --nats nats://127.0.0.1:4222`,
		Args: console.Takes(1, 1),
	}
	c.Flags().BoolVar(&yes, "yes", false, "do it; without, it only says what that would come to")
	ask := s.waiting(c, "the treasury to know that the hub is silent")
	c.RunE = func(c *cobra.Command, args []string) error {
		hub := args[0]
		if err := bus.CheckID("hub", hub); err != nil {
			return err
		}
		ctx, link, end, err := ask()
		if err != nil {
			return err
		}
		defer end()
		r, err := link.WriteOff(ctx, hub, yes)
		if err != nil {
			if yes {
				err = mayBeMade(err, "souk writeoff "+hub+" --yes")
			}
			return err
		}
		fmt.Fprint(c.OutOrStdout(), writtenOff(hub, &r, yes))
		return nil
	}
	return c
}

// writtenOff says what a write-off came to, or would.
func writtenOff(hub string, r *bus.FundsReply, yes bool) string {
	if r.Lost && r.Number == 0 && r.Back == 0 {
		return fmt.Sprintf("%s is written off: %s were lost with it\n", hub, r.Gone)
	}
	by := "the treasury has heard of no charges there"
	if r.Known != nil {
		by = "by what the hub had said at " + r.Known.String()
	}
	does := fmt.Sprintf("%s back to %s, %s lost with %s (%s)\n", r.Back, market.Some(int(r.Number),
		"client"), r.Gone,
		hub, by)
	if yes {
		return does
	}
	next := "souk writeoff " + hub + " --yes does it, for good"
	if r.Message != "" {
		next = "it would be refused now: " + r.Message
	}
	return "that would be " + does + next + "\n"
}
