package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"souk/cmd/console"
	"souk/integration/lab/clock"
	"souk/integration/lab/compare"
	"souk/integration/lab/fit"
	"souk/integration/lab/virtual"
)

func crowdCommand() *cobra.Command {
	c := compareCommand(comparison{name: "crowd", title: "When slots are short", about: crowdAbout,
		traces: virtual.Traces, rules: append(virtual.RuleNames(), virtual.MarketName), seeds: 5,
		loads: []float64{0.6, 0.9, 1.1}, engines: 8, more: crowdMore})
	c.Example = "  lab crowd --out integration/results\n" +
		"  lab crowd --only open --fleet mixed --terms tempers --rate 16\n" +
		"  lab crowd --only crowd,two-block,greedy-first:2,market\n" +
		"  lab crowd --only market,market:terms.multiple=20:terms.second=0.1 --seeds 3,7,9\n" +
		"  lab crowd --seeds 1 --engines 16 --length 1h --only crowd,market"
	return c
}

func cliffCommand() *cobra.Command {
	c := compareCommand(comparison{name: "cliff", title: "When sessions outgrow the caches", about: cliffAbout,
		traces: virtual.Cliffs, rules: append(virtual.RuleNames(), virtual.MarketName), seeds: 5,
		loads: []float64{0.9}, engines: 2})
	c.Short = "Compare them where the open sessions outgrow the caches"
	c.Example = "  lab cliff --out integration/results\n" +
		"  lab cliff --only agents,two-block,capped,market"
	return c
}

// comparison is a command that compares rules on traces.
type comparison struct {
	name, title, about string
	traces             []virtual.Trace
	rules              []string
	seeds              uint
	loads              []float64
	engines            int
	// what stands on the page beside the traces; nil: nothing
	more func(ctx context.Context, o virtual.CrowdOptions) ([]virtual.Row, []compare.Section, error)
}

// worldFlags are the flags of what is played; withFleet reads them.
func worldFlags(c *cobra.Command, w *virtual.World) (fleet *string) {
	f := c.Flags()
	fleet = f.String("fleet", "alike", "the engines: a name, or a file; see above")
	f.IntVar(&w.Engines, "engines", cmp.Or(w.Engines, 8), "how many engines, of a fleet alike")
	f.StringVar((*string)(&w.Terms), "terms", "", "what callers say: none, tempers or spread; nothing: the trace's")
	f.StringVar((*string)(&w.Callers), "callers", string(virtual.OwnKeys),
		"whose tasks they are: own, each caller a client, or one-key, all of them one")
	f.Float64Var(&w.Rate, "rate", 0, "arrivals: so many dialogues begin in a second, at random")
	f.IntVar(&w.Sessions, "sessions", 0, "instead: so many callers, who ask when they have been answered")
	f.IntVar(&w.Tasks, "tasks", 3000,
		"tasks of one run; a trace that is a crowd has twelve for each caller at least")
	f.DurationVar(&w.Length, "length", 0, "virtual time of one run, instead of --tasks")
	f.BoolVar(&w.Named, "named", false, "callers tell the market the names of their sessions")
	return fleet
}

// withFleet finds a world's fleet, and checks what else its flags said.
func withFleet(w *virtual.World, fleet string) (err error) {
	switch {
	case w.Engines < 1 || w.Tasks < 1:
		return errors.New("--engines and --tasks are at least 1")
	case w.Rate > 0 && w.Sessions > 0:
		return errors.New("--rate is of arrivals and --sessions of callers who ask again: one of them")
	case w.Length > 0:
		w.Tasks = 0
	}
	if w.Fleet, err = virtual.FleetNamed(fleet); err != nil {
		return fmt.Errorf("--fleet: %w", err)
	}
	return nil
}

// seedsOf returns the seeds that were named, or the first n.
func seedsOf(said []uint) (seeds []uint64, err error) {
	if slices.Contains(said, 0) || len(said) == 0 {
		return nil, errors.New("--seeds are at least 1")
	}
	if len(said) == 1 {
		for i := range said[0] {
			seeds = append(seeds, uint64(i+1))
		}
		return seeds, nil
	}
	for _, seed := range said {
		seeds = append(seeds, uint64(seed))
	}
	return seeds, nil
}

// loadsOf checks loads.
func loadsOf(loads []float64) error {
	if len(loads) == 0 || slices.ContainsFunc(loads, func(x float64) bool { return !(x > 0 && x <= 10) }) {
		return errors.New("--loads are above 0, and at most 10")
	}
	return nil
}

// worldUsage lists what can be played.
func worldUsage(traces []virtual.Trace) string {
	var list strings.Builder
	list.WriteString("\nFleets; a file is {\"engines\": [{\"name\", \"count\", \"model\", \"profile\", \"slots\", \"blocks\",\n" +
		"\"context\", \"score\", \"recorded\", \"card\": {\"miss\", \"hit\", \"out\"}}]}:\n")
	for _, f := range virtual.Fleets {
		fmt.Fprintf(&list, "  %-23s %s\n", f.Name, f.About)
	}
	if len(traces) > 0 {
		list.WriteString("\nTraces:\n")
	}
	for _, t := range traces {
		about := t.About
		if t.Callers > 0 {
			about += fmt.Sprintf("; %d callers for eight engines", t.Callers)
		}
		fmt.Fprintf(&list, "  %-23s %s\n", t.Name, about)
	}
	list.WriteString("\nRules; one with a knob is played at each of its values, or as RULE:VALUE:\n")
	for _, r := range virtual.Rules() {
		fmt.Fprintf(&list, "  %-23s %s\n", r.Name, r.About)
		if r.Source != "" {
			fmt.Fprintf(&list, "  %-23s   %s\n", "", r.Source)
		}
		if r.Knob != "" {
			fmt.Fprintf(&list, "  %-23s   %v: %s\n", "", r.Values, r.Knob)
		}
	}
	return list.String() + `  market                  this market, as it is delivered
  market:PATH=VALUE:...   with other settings of its hub, by their path in the hub's file
  market:named            where callers tell it the names of their sessions
  market:ends             where they tell with the last turn of a session that it is the last
  market:events           where engines publish what becomes of their blocks, and agents say what they hold
`
}

// compareCommand compares rules on traces.
func compareCommand(what comparison) *cobra.Command {
	o := virtual.CrowdOptions{Rules: what.rules, Loads: what.loads,
		World: virtual.World{Engines: what.engines}}
	seeds := []uint{what.seeds}
	var only []string
	var out output
	var jsonFile, profile string
	var fleet *string
	var real bool
	var urls []string
	var kill string
	c := &cobra.Command{
		Use:   what.name,
		Short: "Compare the market with published rules for sharing engines, in virtual time",
		Long: `Plays recorded dialogues on simulated engines, turn by turn, once with every rule in front and once with
the market: the real hub and agents, their messages encoded and their journal audited. Rules see what a hub
sees. No time passes: an hour takes minutes. One seed gives the same figures on any machine.

--only names traces and rules: all traces where it names none, and all rules where it names none. Traces
whose callers are not half again as many as the slots are played with arrivals: at each of --loads, a part of
what the engines can serve; or as --rate or --sessions say. Callers share one cache group, as if they were one
client; TRACE@4 puts them into four in turn, and with TRACE@own each is one, which is how a market keeps
clients apart unless its operator joins some.
` + worldUsage(what.traces) + `
` + virtual.Legend,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if err := withFleet(&o.World, *fleet); err != nil {
				return err
			}
			if o.Seeds, err = seedsOf(seeds); err != nil {
				return err
			}
			if err := loadsOf(o.Loads); err != nil {
				return err
			}
			if o.Traces, o.Rules, err = tracesAndRules(only, what.traces, what.rules); err != nil {
				return err
			}
			page := compare.Made{Name: what.name, Title: what.title, Command: made(c), About: what.about}
			if kill != "" && len(urls) == 0 {
				return errors.New("--kill is for --vllm")
			}
			var servers *clock.Servers
			if len(urls) > 0 {
				if servers, err = findServers(c.Context(), &o.World, urls, real); err != nil {
					return err
				}
			}
			if real {
				page.Name, page.Title = "clock", "By the clock"
				page.About, page.Clock = clockAbout, "figures differ from run to run"
				if servers != nil {
					page.Name, page.Title, page.About = "servers", "On running servers", serversAbout
					page.Clock = fit.When(time.Now())
				}
				o.Loads = nil
				o.Play = func(s virtual.Setting, rule string, named bool) (virtual.Measures, error) {
					return clock.Play(c.Context(), servers, s, rule, named)
				}
			}
			debug.SetGCPercent(1000) // a run is short and small, and makes much that it soon forgets
			stop, err := profiled(profile)
			if err != nil {
				return err
			}
			defer stop()
			o.Progress = progressOf("runs")
			if page.Rows, err = virtual.Crowd(c.Context(), o); err != nil {
				return err
			}
			if what.more != nil && whole(c) {
				more, sections, err := what.more(c.Context(), o)
				if err != nil {
					return err
				}
				page.Rows, page.Sections = append(page.Rows, more...), sections
			}
			if servers != nil && len(page.Rows) == 0 {
				return fmt.Errorf("nothing was played to its end:%s", servers.Said())
			}
			if kill != "" {
				if err := servers.Kill(c.Context(), kill); err != nil {
					return fmt.Errorf("--kill: %w", err)
				}
			}
			if jsonFile != "" {
				if err := writeJSON(jsonFile, page.Rows); err != nil {
					return err
				}
			}
			if out.dir == "" {
				virtual.Write(c.OutOrStdout(), page.Rows)
				if servers != nil {
					fmt.Fprint(c.OutOrStdout(), servers.Said())
				}
				return nil
			}
			p := page.Page()
			if servers != nil {
				p.Text += servers.Said()
			}
			return out.put(c, p)
		},
	}
	f := c.Flags()
	out.flag(f, what.name)
	onlyFlag(f, &only, "traces to play, and rules to play them by")
	f.Float64SliceVar(&o.Loads, "loads", o.Loads, "arrivals of a trace that has none: of what the engines can serve")
	f.UintSliceVar(&seeds, "seeds", seeds,
		"how many runs of each rule on each trace, from seeds 1, 2, ...; or several seeds: 3,7,9")
	fleet = worldFlags(c, &o.World)
	f.BoolVar(&real, "real", false, "by the clock: on stand-in engines over HTTP, behind a whole market in "+
		"this process or a router that follows the rule; the page is named clock")
	f.StringSliceVar(&urls, "vllm", nil, "with --real: on these running vLLM servers, http://HOST:PORT, in the order "+
		"of the fleet's engines, instead of stand-ins; the page is named servers")
	f.StringVar(&kill, "kill", "", "with --vllm: the market is played once more, and this shell command, which ends a "+
		"server, is run when two fifths of the tasks were asked")
	f.StringVar(&jsonFile, "json", "", "also write the figures of every run to this file")
	f.StringVar(&profile, "profile", "",
		"also write where the processor's time went to this file, for go tool pprof")
	return c
}

// findServers finds running servers, as many as the fleet has engines: of a fleet alike there are that many.
func findServers(ctx context.Context, w *virtual.World, urls []string, real bool) (*clock.Servers, error) {
	if !real {
		return nil, errors.New("--vllm is for --real: in virtual time there are no servers")
	}
	slots := 0
	for _, e := range w.Fleet.Engines {
		slots = max(slots, e.Slots)
	}
	switch n := len(w.Fleet.Engines); {
	case n == 0:
		w.Engines = len(urls)
	case n != len(urls):
		return nil, fmt.Errorf("--vllm names %d servers, and fleet %s has %d engines", len(urls), w.Fleet.Name, n)
	}
	return clock.FindServers(ctx, urls, fit.Sizes{Seqs: cmp.Or(slots, 8), Batched: 2048})
}

// whole says whether a command was told nothing of what to play, so that all of its page is asked for.
func whole(c *cobra.Command) bool {
	for _, name := range []string{"only", "fleet", "terms", "callers", "rate", "sessions", "loads", "length",
		"named",
		"real"} {
		if c.Flags().Changed(name) {
			return false
		}
	}
	return true
}

// tracesAndRules finds traces and rules by their names, in the order in which they were named. A
// rule's knob and a market's settings stand behind its name and a colon, a trace's cache groups behind an @.
func tracesAndRules(only []string, all []virtual.Trace, rules []string) (traces, by []string, err error) {
	known := append(virtual.RuleNames(), virtual.MarketName)
	for _, name := range only {
		if base, _, _ := strings.Cut(name, ":"); slices.Contains(known, base) {
			by = append(by, name)
		} else {
			traces = append(traces, name)
		}
	}
	if traces == nil {
		for _, t := range all {
			traces = append(traces, t.Name)
		}
	}
	if by == nil {
		by = rules
	}
	for _, name := range traces {
		if _, err := virtual.TraceNamed(name); err != nil {
			return nil, nil, fmt.Errorf("--only %s: it is none of the rules %v, and %w", name, known, err)
		}
	}
	return traces, by, nil
}

// profiled writes where the processor's time goes to a file until stop is called, if one is named.
func profiled(file string) (stop func(), err error) {
	if file == "" {
		return func() {}, nil
	}
	f, err := os.Create(file)
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		return nil, fmt.Errorf("--profile: %w", err)
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
	}, nil
}

// progressOf shows how much is done.
func progressOf(what string) func(done, total int) {
	var bar *progressbar.ProgressBar
	return func(done, total int) {
		if bar == nil {
			bar = console.Bar(total, what)
		}
		_ = bar.Set(done)
	}
}

// writeJSON writes figures to a file.
func writeJSON(file string, v any) error {
	data, err := json.MarshalIndent(v, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}
