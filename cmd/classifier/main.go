// Command classifier is the door of the market, and the workshop of its model.
package main

import (
	"errors"

	"github.com/spf13/cobra"

	"souk/cmd/daemon"
)

// version is set by the linker; see the Makefile.
var version = ""

func main() { daemon.Main(root()) }

// errBar is a bar that was asked for and missed.
var errBar = errors.New("below the bar")

// root is the daemon, and beside it the workshop.
func root() *cobra.Command {
	c := daemon.Command(role())
	for _, sub := range []*cobra.Command{trainCommand(), evalCommand()} {
		run := sub.RunE
		sub.RunE = func(c *cobra.Command, args []string) error {
			err := run(c, args)
			if errors.Is(err, errBar) {
				return daemon.Failed(err)
			}
			return err
		}
		c.AddCommand(sub)
	}
	return c
}
