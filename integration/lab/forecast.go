package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"souk/cmd/console"
	"souk/integration/lab/forecast"
	"souk/integration/lab/prose"
)

func forecastCommand() *cobra.Command {
	o := forecast.DefaultOptions()
	var seeds []uint
	for _, s := range o.Seeds {
		seeds = append(seeds, uint(s))
	}
	var jsonFile, csvFile, page, python string
	var list strings.Builder
	for _, s := range forecast.Streams {
		fmt.Fprintf(&list, "  %-10s %s\n", s.Name, s.About)
	}
	fmt.Fprintln(&list, "\nWays:")
	for _, w := range forecast.Ways {
		fmt.Fprintf(&list, "  %-10s %s\n", w.Name, w.About)
	}
	c := &cobra.Command{
		Use:   "forecast",
		Short: "Judge ways to expect first tokens and costs on streams of tasks, in virtual time",
		Long: `Plays streams of tasks on simulated engines, and has every way to forecast expect what comes: NMAE of the
time to the first token and of cost, how many of its 90 % intervals cover it, how often gates opened, and how
much more is promised of agents that a way chose itself. The trees of the river library take part where a
Python has it, and are said to be left out where none has.

Streams:
` + list.String(),
		Example: "  lab experiment forecast --page integration/results/forecast.md\n" +
			"  lab experiment forecast --streams short --seeds 1 --gap=false",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Seeds = nil
			for _, s := range seeds {
				o.Seeds = append(o.Seeds, uint64(s))
			}
			p := forecast.Page{Options: o}
			var err error
			if o.Python, err = forecast.FindRiver(c.Context(), python); err != nil {
				p.River = err.Error()
				fmt.Fprintf(c.ErrOrStderr(), "river is left out: %v\n", err)
			}
			debug.SetGCPercent(400) // a run makes much that it soon forgets
			var progress *progressbar.ProgressBar
			o.Progress = func(done, total int) {
				if progress == nil {
					progress = console.Bar(total, "streams")
				}
				_ = progress.Set(done)
			}
			if p.Results, err = forecast.Judge(c.Context(), o); err != nil {
				return err
			}
			p.Command = command(c)
			for _, out := range []struct {
				file  string
				write func(io.Writer) error
			}{
				{jsonFile, func(w io.Writer) error {
					e := json.NewEncoder(w)
					e.SetIndent("", "\t")
					return e.Encode(p.Results)
				}},
				{csvFile, func(w io.Writer) error { return forecast.WriteCSV(w, p.Results) }},
				{page, func(w io.Writer) error {
					var text strings.Builder
					p.Write(&text)
					_, err := io.WriteString(w, prose.Wrap(text.String()))
					return err
				}},
			} {
				if out.file == "" {
					continue
				}
				f, err := os.Create(out.file)
				if err != nil {
					return err
				}
				if err := out.write(f); err != nil {
					f.Close()
					return err
				}
				if err := f.Close(); err != nil {
					return err
				}
			}
			if page == "" {
				p.Write(c.OutOrStdout())
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringSliceVar(&o.Streams, "streams", o.Streams, "what is served")
	f.UintSliceVar(&seeds, "seeds", seeds, "each stream is made from each of these")
	f.IntVar(&o.Tasks, "tasks", o.Tasks, "tasks of a stream")
	f.IntVar(&o.Agents, "agents", o.Agents, "engines, all alike")
	f.Float64Var(&o.Explore, "explore", o.Explore, "share of tasks that go to an agent by lot")
	f.BoolVar(&o.Gap, "gap", o.Gap, "play each stream again, placed by the ways whose gap is shown")
	f.StringVar(&python, "python", "", "the Python that has river; python3 if none is named")
	f.StringVar(&o.Script, "script", o.Script, "that runs river's trees")
	f.StringVar(&page, "page", "", "write the page to this file, instead of printing it")
	f.StringVar(&csvFile, "csv", "", "also write a line for each way, stream and seed to this file")
	f.StringVar(&jsonFile, "json", "", "also write all figures to this file")
	return c
}

// command is what a reader types to have the same again.
func command(c *cobra.Command) string {
	out := "bin/" + c.CommandPath()
	c.Flags().Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "python", "script":
		default:
			out += " --" + f.Name + "=" + strings.Trim(f.Value.String(), "[]")
		}
	})
	return out
}
