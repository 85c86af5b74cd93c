package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"souk/cmd/console"
	"souk/integration/lab/clock"
	"souk/integration/lab/virtual"
)

func crowdCommand() *cobra.Command {
	c := compareCommand("crowd", virtual.Traces, append(virtual.RuleNames(), virtual.MarketName), 5)
	c.Example = "  lab crowd --page integration/results/crowd.md\n" +
		"  lab crowd --traces crowd --rules two-block,market\n" +
		"  lab crowd --rules market,market:terms.worth=20:terms.patience=2s --seeds 3,7,9\n" +
		"  lab crowd --seeds 1 --engines 16 --length 1h --rules market --traces crowd"
	return c
}

func cliffCommand() *cobra.Command {
	c := compareCommand("cliff", virtual.Cliffs, virtual.CliffRules, 1)
	c.Short = "Compare them where the open sessions outgrow the caches"
	c.Example = "  lab cliff --page integration/results/cliff.md\n" +
		"  lab cliff --traces agents --rules two-block,market:seats --engines 2"
	return c
}

// compareCommand compares rules on traces.
func compareCommand(name string, traces []virtual.Trace, rules []string, runs uint) *cobra.Command {
	o := virtual.CrowdOptions{Engines: 8, Rules: rules}
	seeds := []uint{runs}
	var jsonFile, page, profile string
	var real bool
	var list strings.Builder
	for _, t := range traces {
		o.Traces = append(o.Traces, t.Name)
		fmt.Fprintf(&list, "  %-23s %s\n", t.Name, t.About)
	}
	fmt.Fprintln(&list, "\nRules:")
	for _, r := range virtual.Rules {
		fmt.Fprintf(&list, "  %-23s %s\n", r.Name, r.About)
	}
	c := &cobra.Command{
		Use:   name + " [--page FILE [TABLE]...]",
		Short: "Compare the market with published rules for sharing engines, in virtual time",
		Long: `Plays recorded dialogues on simulated engines (Llama 3.1 8B on an RTX PRO 6000, as measured;
8 slots each), turn by turn, once with every rule in front and once with the market: the real hub and agents,
their messages encoded and their journal audited. No time passes: an hour takes minutes. One seed gives the
same figures on any machine.

Traces, for eight engines; others have callers in proportion. Callers share one cache group, as if they were
one client; TRACE@4 puts them into four in turn, and with TRACE@own each is one, which is how a market keeps
clients apart unless its operator joins some. Engines, indexes and marks of different groups have nothing in
common, under rules as under the market:
` + list.String() + `  market                  this market, as it is delivered
  market:PATH=VALUE:...   with other settings of its hub, by their path in the hub's file
  market:named            where callers tell it the names of their sessions
  market:ends             where they tell with the last turn of a session that it is the last
  market:events           where engines publish what becomes of their blocks, and agents say what they hold
  market:unsized          where agents do not say how many blocks their engines have
  market:room=0.8         where they say so many of each that there are
  market:seats, depth     with these parts of the block seats: of its hub's file
  market:untolled         without the tolls for computing and age of the block crowd:

` + virtual.Legend,
		Args: func(_ *cobra.Command, tables []string) error {
			if page == "" && len(tables) > 0 {
				return fmt.Errorf("%q: tables are named where --page is given", tables)
			}
			return nil
		},
		RunE: func(c *cobra.Command, tables []string) error {
			if page != "" {
				return writePage(c.Context(), page, tables)
			}
			if slices.Contains(seeds, 0) || len(seeds) == 0 || o.Engines < 1 || o.Tasks < 1 {
				return fmt.Errorf("--seeds, --engines and --tasks are at least 1")
			}
			if o.Length > 0 {
				o.Tasks = 0
			}
			if real {
				o.Play = func(s virtual.Setting, rule string, named bool) (virtual.Figures, error) {
					return clock.Play(c.Context(), s, rule, named)
				}
			}
			if len(seeds) == 1 {
				n := seeds[0]
				seeds = nil
				for i := range n {
					seeds = append(seeds, i+1)
				}
			}
			for _, seed := range seeds {
				o.Seeds = append(o.Seeds, uint64(seed))
			}
			debug.SetGCPercent(1000) // a run is short and small, and makes much that it soon forgets
			if profile != "" {
				file, err := os.Create(profile)
				if err != nil {
					return err
				}
				defer file.Close()
				if err := pprof.StartCPUProfile(file); err != nil {
					return err
				}
				defer pprof.StopCPUProfile()
			}
			var progress *progressbar.ProgressBar
			o.Progress = func(done, total int) {
				if progress == nil {
					progress = console.Bar(total, "runs")
				}
				_ = progress.Set(done)
			}
			rows, err := virtual.Crowd(c.Context(), o)
			if err != nil {
				return err
			}
			if jsonFile != "" {
				data, err := json.MarshalIndent(rows, "", "\t")
				if err != nil {
					return err
				}
				if err := os.WriteFile(jsonFile, append(data, '\n'), 0o644); err != nil {
					return err
				}
			}
			virtual.Write(c.OutOrStdout(), rows)
			return nil
		},
	}
	f := c.Flags()
	f.StringSliceVar(&o.Traces, "traces", o.Traces, "what is asked")
	f.StringSliceVar(&o.Rules, "rules", o.Rules, "who decides which engine serves it")
	f.UintSliceVar(&seeds, "seeds", seeds,
		"how many runs of each rule on each trace, from seeds 1, 2, ...; or several seeds: 3,7,9")
	f.IntVar(&o.Engines, "engines", o.Engines, "engines, all alike")
	f.IntVar(&o.Tasks, "tasks", 3000, "tasks of one run")
	f.DurationVar(&o.Length, "length", 0, "virtual time of one run, instead of --tasks")
	f.BoolVar(&o.Named, "named", false, "callers tell the market the names of their sessions")
	f.BoolVar(&real, "real", false, "by the clock: on stand-in engines over HTTP, behind a whole market in "+
		"this process or a router that follows the rule")
	f.StringVar(&page, "page", "", "make the tables of this page anew, each by the command that stands "+
		"before it; those named as arguments, or all")
	f.StringVar(&jsonFile, "json", "", "also write the figures of every run to this file")
	f.StringVar(&profile, "profile", "",
		"also write where the processor's time went to this file, for go tool pprof")
	return c
}
