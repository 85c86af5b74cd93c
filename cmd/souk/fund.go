package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/market"
)

func fundCommand(s *shared) *cobra.Command {
	var id string
	c := &cobra.Command{
		Use:   "fund CLIENT AMOUNT",
		Short: "Deposit credits for a client at the treasury",
		Long: `Deposits credits for a client, who exists from then on. One credit stands for one US dollar of
the price rows.

With --id the deposit is made once however often the command is repeated.`,
		Example: `  souk fund alice 2.50
  souk fund alice 2.50 --nats nats://127.0.0.1:4222`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("name a client and an amount: souk fund alice 2.50")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := bus.CheckID("client", args[0]); err != nil {
				return err
			}
			amount, err := market.ParseCredits(args[1])
			if err != nil {
				return fmt.Errorf("amount: %w", err)
			}
			if amount <= 0 {
				return fmt.Errorf("amount: %s: a deposit is above 0", amount)
			}
			link, err := s.dial("souk-fund")
			if err != nil {
				return err
			}
			defer link.Close()
			if id == "" {
				id = fmt.Sprintf("fund-%x", time.Now().UnixNano())
			}
			reply, err := link.Fund(c.Context(), args[0], amount, id)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(),
				"deposited %s for %s: %s at the treasury, %s allotted to hubs (deposit %s)\n",
				amount, args[0], reply.Prepaid, reply.Allotted, id)
			return nil
		},
	}
	c.Flags().StringVar(&id, "id", "", "id of the deposit, to make it once")
	return c
}
