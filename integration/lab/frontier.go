package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"souk/integration/lab/compare"
	"souk/integration/lab/virtual"
)

// frontierCommand plays every rule over its own knob.
func frontierCommand() *cobra.Command {
	o := virtual.CrowdOptions{Rules: append(virtual.RuleNames(), virtual.MarketName),
		Loads: []float64{0.33, 0.5, 0.7, 0.85, 1, 1.1, 1.25}}
	seeds := []uint{3}
	var out output
	var only []string
	var jsonFile string
	c := &cobra.Command{
		Use:   "frontier",
		Short: "Compare welfare a second with the longest first tokens, each rule over its own knob",
		Long: `Plays traces with arrivals from a third of what the engines can serve to a quarter above it, under every rule
at each value of its knob and under the market. A table for each load says what welfare a second there was and
how long one in a hundred waited for a first token; * marks the rules beside which no other has as much of the
one and of the other. The same seeds give the same figures on any machine.
` + worldUsage(virtual.Traces),
		Example: "  lab frontier --out integration/results\n" +
			"  lab frontier --only mtrag,greedy-first,market --fleet mixed,two-speeds --terms tempers",
		Args: cobra.NoArgs,
	}
	fleet := worldFlags(c, &o.World)
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		if o.Rate > 0 || o.Sessions > 0 {
			return errors.New("a frontier has arrivals at --loads: leave --rate and --sessions out")
		}
		if o.Seeds, err = seedsOf(seeds); err != nil {
			return err
		}
		if err := loadsOf(o.Loads); err != nil {
			return err
		}
		if o.Traces, o.Rules, err = tracesAndRules(only, virtual.Traces[:1], o.Rules); err != nil {
			return err
		}
		o.Progress = progressOf("rules")
		var rows []virtual.Row
		for _, name := range strings.Split(*fleet, ",") {
			if err := withFleet(&o.World, name); err != nil {
				return err
			}
			more, err := virtual.Frontier(c.Context(), o)
			if err != nil {
				return err
			}
			rows = append(rows, more...)
		}
		if jsonFile != "" {
			if err := writeJSON(jsonFile, rows); err != nil {
				return err
			}
		}
		if out.dir != "" {
			return out.put(c, compare.Frontier(made(c), rows))
		}
		writeFrontier(c.OutOrStdout(), rows)
		return nil
	}
	f := c.Flags()
	f.Lookup("fleet").Usage = "the engines: a name, or a file; see above; several, by commas"
	out.flag(f, "frontier")
	onlyFlag(f, &only, "traces to play (default mtrag), and rules to play them by")
	f.Float64SliceVar(&o.Loads, "loads", o.Loads, "arrivals, of what the engines can serve")
	f.UintSliceVar(&seeds, "seeds", seeds, "how many runs of each, from seeds 1, 2, ...; or several seeds: 3,7,9")
	f.StringVar(&jsonFile, "json", "", "also write the figures of every run to this file")
	return c
}

// writeFrontier prints a table for each world, the greatest welfare first.
func writeFrontier(w io.Writer, rows []virtual.Row) {
	for from := 0; from < len(rows); {
		to := from
		for to < len(rows) && rows[to].Same(&rows[from]) {
			to++
		}
		of := rows[from:to]
		slices.SortStableFunc(of, func(a, b virtual.Row) int {
			return cmp.Compare(b.All["welfare"].Mean, a.All["welfare"].Mean)
		})
		fmt.Fprintf(w, "\n%s\n    %-24s %16s %16s %9s %6s\n", of[0].Title(), "", "welfare", "p99", "refused", "bill")
		for i, best := range virtual.Undominated(of) {
			mark, all := " ", of[i].All
			if best {
				mark = "*"
			}
			fmt.Fprintf(w, "  %s %-24s %8.1f ± %5.1f %8.0f ± %5.0f %9.3f %6.2f\n", mark, of[i].Label(), all["welfare"].Mean,
				all["welfare"].Within, all["p99"].Mean, all["p99"].Within, all["refused"].Mean,
				all["bill"].Mean)
		}
		from = to
	}
}
