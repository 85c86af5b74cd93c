package main

import (
	"github.com/spf13/cobra"

	"souk/agentd/vllmsim"
	"souk/cmd/daemon"
)

func engineCommand() *cobra.Command {
	c := vllmsim.Command()
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		daemon.ShareCores() // a simulated engine is one process of many on its machine
		return run(c, args)
	}
	return c
}
