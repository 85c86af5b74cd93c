package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/bus/tip"
	"souk/cmd/console"
	"souk/ledger"
	"souk/market"
)

func closeCommand(s *shared) *cobra.Command {
	var o tip.Order
	c := &cobra.Command{
		Use:   "close --month MONTH",
		Short: "Close a month in the books",
		Long: `Has the treasury write a record with the trial balance of its journal: what every account has or
owes, a checksum of all of them, and how far each hub's journal is. ledger check recomputes it, and ledger print
--kind month shows it. The ledger command itself only reads, so closing is this command's: the treasury writes.

A month is closed once, when it is over (UTC), with all before it, and never opened again. What is paid or given
back for it later names it and is a correction: souk refund does by itself, souk remit by --month.`,
		Example: `  souk close --month 2026-11
  souk close --month 2026-11 --note "agreed with the auditor"`,
		Args: console.Takes(0, 0),
	}
	c.Flags().StringVar(&o.Month, "month", "", "month, like 2026-11")
	c.Flags().StringVar(&o.Note, "note", "", "a line for the books")
	ask := s.waiting(c, "the treasury")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if !ledger.ValidMonth(o.Month) {
			return fmt.Errorf("--month: %.20q is none: write it like 2026-11", o.Month)
		}
		ctx, link, end, err := ask()
		if err != nil {
			return err
		}
		defer end()
		reply, err := link.Command(ctx, bus.OpMonth, bus.FundsRequest{ID: "month", Order: &o})
		if err != nil {
			return mayBeMade(err, "ledger print --kind month")
		}
		fmt.Fprintf(c.OutOrStdout(), "closed %s: %s, debits %s, credits %s\n", o.Month,
			market.Some(int(reply.Number), "account"), reply.Debits, reply.Credits)
		return nil
	}
	return c
}
