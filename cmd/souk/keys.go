package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/cmd/console"
	"souk/cmd/local"
)

func listKeys(with withRegistry) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List keys by id: whose they are, what they allow, and whose cache they share",
		Args:  console.Takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return with(c, func(ctx context.Context, r bus.Registry) error {
				keys, err := local.Keys(ctx, r)
				if err != nil {
					return err
				}
				groups, err := local.Groups(ctx, r)
				if err != nil {
					return err
				}
				w := tabwriter.NewWriter(c.OutOrStdout(), 0, 8, 2, ' ', 0)
				fmt.Fprintln(w, "ID\tCLIENT\tEXPIRES\tMODELS\tMAX PRICE\tRATE\tOPEN\tBUDGET\tCACHE")
				for _, k := range keys {
					price, rate, open, budget := "-", "-", "-", "-"
					if b := k.Budget; b != nil {
						budget = b.Amount.String() + " " + cmp.Or(b.Every, "once")
					}
					if k.MaxPrice != nil {
						price = k.MaxPrice.String()
					}
					if k.Rate > 0 {
						rate = fmt.Sprintf("%v/s", k.Rate)
					}
					if k.Open > 0 {
						open = fmt.Sprint(k.Open)
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, cmp.Or(k.Client, "cannot be read"),
						expiry(k, time.Now()), cmp.Or(strings.Join(k.Models, ","), "all"), price, rate, open,
						budget, cmp.Or(groups[k.Client], "own"))
				}
				return w.Flush()
			})
		},
	}
}

func expiry(k bus.APIKey, now time.Time) string {
	switch {
	case k.ExpiresMS == 0:
		return "never"
	case k.Expired(now.UnixMilli()):
		return "over"
	}
	return time.UnixMilli(k.ExpiresMS).UTC().Format(time.RFC3339)
}

func rotateKey(with withRegistry) *cobra.Command {
	keep := 24 * time.Hour
	var file string
	c := &cobra.Command{
		Use:   "rotate ID",
		Short: "Give a key a new secret, and show it once; the one before stays good for a while",
		Long: `Gives a key a new secret, and shows it once. The one before stays good for --keep, and what it
has in hand then ends. A key has two secrets at most: who rotates it again within that time ends the first of
them at once.`,
		Args: takesKeyID,
		RunE: func(c *cobra.Command, args []string) error {
			if keep < 0 {
				return fmt.Errorf("--keep: %v is below 0: 0s ends the secret before at once", keep)
			}
			if err := mayWrite(file, args[0]); err != nil {
				return err
			}
			return with(c, func(ctx context.Context, r bus.Registry) error {
				secret, err := local.RotateKey(ctx, r, args[0], keep)
				if err != nil {
					return err
				}
				return giveAway(c, file, secret)
			})
		},
	}
	c.Flags().DurationVar(&keep, "keep", keep, "how long the secret before stays good")
	c.Flags().StringVar(&file, "file", "", "write it there, for its owner's eyes alone, and show the path")
	return c
}

func revokeKey(with withRegistry, bank local.Treasurer) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID",
		Short: "Take a key away; answers that it has in hand end, and what is left of its budget goes back",
		Long: `Takes a key away: answers that it has in hand end, and what is left of its budget goes back. Its
client stays in the cache group that it was put into, with its other keys or creds and with later ones, and the
command says so; ` + "`souk key group CLIENT --own`" + ` takes it out.`,
		Args: takesKeyID,
		RunE: func(c *cobra.Command, args []string) error {
			return with(c, func(ctx context.Context, r bus.Registry) error {
				client := ""
				if all, err := local.Keys(ctx, r); err == nil { // else nothing is said of the group
					for _, k := range all {
						if k.ID == args[0] {
							client = k.Client
						}
					}
				}
				if err := local.RevokeKey(ctx, r, bank, args[0]); err != nil {
					return err
				}
				if client != "" {
					tellGroup(ctx, c.ErrOrStderr(), r, client)
				}
				return nil
			})
		},
	}
}
