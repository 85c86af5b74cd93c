package main

import (
	"github.com/spf13/cobra"

	"souk/integration/vllmsim"
)

func engineCommand() *cobra.Command { return vllmsim.Command() }
