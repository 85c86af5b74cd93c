package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/cmd/console"
	"souk/cmd/local"
)

// groupKeys moves a client from one cache group to another.
func groupKeys(with withRegistry, mayJoin func(client, group string) error) *cobra.Command {
	own := false
	c := &cobra.Command{
		Use:   "group CLIENT [GROUP]",
		Short: "Put a client into a cache group, or with --own take it out",
		Long: `Puts a client into a cache group, whatever keys or creds it has; with --own its cache is its own
again. ` + "`souk key new --help`" + ` says what the members of a group can learn of one another. Doors hear of it
within a second, those that etcd reaches; another goes by what it knew until then. What engines hold of the client's prompts under the group before is not found any more, not
even by itself: its next prompts are computed anew. Members of the group before keep what they have. Without
GROUP it says which group the client is in.`,
		Example: `  souk key group alice alice-and-co
  souk key group alice --own`,
		Args: console.Takes(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			client := args[0]
			switch {
			case own && len(args) > 1:
				return errors.New("--own: takes the client out of its group: name none beside it")
			case len(args) > 1:
				if err := mayJoin(client, args[1]); err != nil {
					return err
				}
			}
			return with(c, func(ctx context.Context, r bus.Registry) error {
				var now, was string
				var err error
				switch {
				case own:
					was, err = local.LeaveGroup(ctx, r, client)
				case len(args) > 1:
					now = args[1]
					was, err = local.JoinGroup(ctx, r, client, now, true)
				default:
					if err = bus.CheckID("client", client); err == nil {
						var of map[string]string
						of, err = local.Groups(ctx, r)
						now, was = of[client], of[client]
					}
				}
				if err != nil {
					return err
				}
				said := "is in cache group " + now
				if now == "" {
					said = "has a cache of its own"
				}
				if was != now && was != "" {
					said += ", and was in " + was
				}
				_, err = fmt.Fprintln(c.OutOrStdout(), client, said)
				return err
			})
		},
	}
	c.Flags().BoolVar(&own, "own", false, "take it out of its group")
	return c
}
