package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"souk/integration/soak"
)

func soakCommand() *cobra.Command {
	var o soak.Options
	c := &cobra.Command{
		Use:   "soak",
		Short: "Keep a market of processes under load while its parts are killed, and account for everything",
		Long: `Starts a market of processes in a directory of its own, whose commands stand beside this one,
and keeps it under mixed load: short and long answers, some cancelled, some bound to one agent. Meanwhile
agentds, engines and hubs are killed at moments made from the seed, and started again; with --outages NATS and
etcd as well, which are away for five seconds or twenty.

At the end every task has exactly one last word that agrees with the journals, every hold has ended, ledger
check is clean, and no process has grown since it was warm. Anything else is an error, and the directory is
kept.`,
		Example: "  lab soak --duration 10m\n  lab soak --duration 1m --seed 7 --outages",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			if o.Callers < 1 || o.Duration < time.Second {
				return fmt.Errorf("--callers is at least 1, --duration at least 1s")
			}
			if !c.Flags().Changed("seed") {
				o.Seed = uint64(time.Now().UnixNano())
			}
			o.Bin, o.Progress = filepath.Dir(self), c.ErrOrStderr()
			if o.Dir, err = os.MkdirTemp("", "lab-soak-"); err != nil {
				return err
			}
			fmt.Fprintf(c.ErrOrStderr(), "seed %d, logs and journals in %s\n", o.Seed, o.Dir)
			r, err := soak.Run(c.Context(), o)
			r.Write(c.OutOrStdout())
			if err != nil {
				return fmt.Errorf("%w\nlogs and journals are in %s", err, o.Dir)
			}
			return os.RemoveAll(o.Dir)
		},
	}
	c.Flags().DurationVar(&o.Duration, "duration", 10*time.Minute, "of the load")
	c.Flags().Uint64Var(&o.Seed, "seed", 0,
		"of what is asked, and of what is killed when (default: a new one)")
	c.Flags().BoolVar(&o.Outages, "outages", false,
		"NATS and etcd are away at times, too, one of them or both")
	c.Flags().IntVar(&o.Callers, "callers", 24, "that ask one task after another")
	return c
}
