package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"souk/integration/lab/soak"
)

func soakCommand() *cobra.Command {
	var o soak.Options
	var events bool
	c := &cobra.Command{
		Use:   "soak",
		Short: "Keep a market of processes under load while its parts are killed, and account for everything",
		Long: `Starts a market of processes in a directory of its own, whose commands stand beside this one,
and keeps it under mixed load: short and long answers, some cancelled, some bound to one agent. Meanwhile
agentds, engines and hubs are killed at moments made from the seed, and started again; with --outages NATS and
etcd as well, which are away for five seconds or twenty.

At the end every task has exactly one last word that agrees with the journals, every hold has ended, ledger
check is clean, and no process has grown since it was warm. Anything else is an error, and the directory is
kept.

With --events other things are asked of another market: engines with small caches publish what becomes of
their blocks, and dialogues go on at a low rate while engines and nodes are killed, caches emptied and events
lost. What the hub believed to be cached is compared with what engines found, task by task, and what agents
know with what engines hold.`,
		Example: "  lab soak --duration 10m\n  lab soak --duration 1m --seed 7 --outages\n" +
			"  lab soak --duration 1h --events\n  lab soak --policies",
		Args: cobra.NoArgs,
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
			if events {
				var r soak.BeliefReport
				r, err = soak.Belief(c.Context(), soak.BeliefOptions{Bin: o.Bin, Dir: o.Dir,
					Duration: o.Duration, Seed: o.Seed, Pause: 3 * time.Second, Every: 30 * time.Second,
					Progress: o.Progress})
				r.Write(c.OutOrStdout())
			} else {
				var r soak.Report
				r, err = soak.Run(c.Context(), o)
				r.Write(c.OutOrStdout())
			}
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
	c.Flags().BoolVar(&events, "events", false, "compare what is believed of engines' caches with what they hold")
	c.Flags().BoolVar(&o.Policies, "policies", false,
		"every runtime policy is on, and clients give hints, false ones too")
	c.Flags().IntVar(&o.Callers, "callers", 24, "that ask one task after another")
	return c
}
