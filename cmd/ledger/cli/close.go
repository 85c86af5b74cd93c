package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"
)

// closeCommand has souk close a month: the ledger command only reads, and the treasury writes.
func closeCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "close --month MONTH",
		Short:              "Close a month: the same as souk close",
		Hidden:             true,
		DisableFlagParsing: true, // they are souk's
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := soukPath()
			if err != nil {
				return fmt.Errorf("souk close closes a month, and the command souk is neither beside this one nor in "+
					"PATH: %w", err)
			}
			c := exec.CommandContext(cmd.Context(), path, append([]string{"close"}, args...)...)
			c.Stdin, c.Stdout, c.Stderr = os.Stdin, cmd.OutOrStdout(), cmd.ErrOrStderr()
			err = c.Run()
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
				return status(max(exit.ExitCode(), ExitViolations))
			}
			return err
		},
	}
}

// soukPath finds the command souk: beside this one, or else in PATH.
func soukPath() (string, error) {
	if own, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(own), "souk")); err == nil {
			return path, nil
		}
	}
	return exec.LookPath("souk")
}
