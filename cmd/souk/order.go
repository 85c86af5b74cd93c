package main

import (
	"context"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/bus/tip"
	"souk/cmd/local"
)

// order holds the flags of what an operator says of an amount.
type order struct{ tip.Order }

// orderFlags gives a command the flags --ref and --note.
func orderFlags(c *cobra.Command, ref string) *order {
	o := &order{}
	c.Flags().StringVar(&o.Ref, "ref", "", ref)
	c.Flags().StringVar(&o.Note, "note", "", "a line for the books")
	return o
}

// command has the treasury do what an operator says.
func (o *order) command(ctx context.Context, link *local.Link, op string, q bus.FundsRequest) (bus.FundsReply,
	error) {
	say := o.Order
	q.Order = &say
	return link.Command(ctx, op, q)
}
