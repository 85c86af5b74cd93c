package cli

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"
)

// closeCommand says whose command it is to close a month: ledger only reads.
func closeCommand() *cobra.Command {
	var month string
	c := &cobra.Command{
		Use:   "close --month MONTH",
		Short: "Say how a month is closed: by souk close",
		RunE: func(*cobra.Command, []string) error {
			return fmt.Errorf("closing a month is an order to the treasury, which writes it down: "+
				"souk close --month %s", cmp.Or(month, "2026-11"))
		},
	}
	c.Flags().StringVar(&month, "month", "", "month, like 2026-11")
	return c
}
