package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"souk/agentd/vllmsim"
	"souk/integration/lab/compare"
	"souk/integration/lab/traces"
	"souk/integration/lab/virtual"
)

// Engines of a trace that somebody brings, where a fleet does not say: Llama 3.1 8B with its whole context on
// a card that has room for half a million tokens.
const (
	ownSlots   = 16
	ownRoom    = 512 << 10 // tokens of a cache
	ownContext = 128 << 10
	ownPause   = 200 * time.Millisecond // before the next question, where nobody says how long
	ownProfile = "rtxpro6000-llama-3.1-8b"
)

// brought is a trace that somebody brings.
type brought struct {
	*traces.Trace
	scripts []*virtual.Script
	block   int // tokens
	played  int // requests that can be played
	long    int // that are too long for the engines
	silent  int // turns without a recorded answer
	speed   float64
}

func replayCommand() *cobra.Command {
	o := virtual.CrowdOptions{Rules: append(virtual.RuleNames(), virtual.MarketName)}
	seeds := []uint{3}
	var only []string
	var format, jsonFile, htmlFile string
	b := brought{speed: 1}
	names, abouts := traces.Formats()
	var list strings.Builder
	for i, name := range names {
		fmt.Fprintf(&list, "  %-16s %s\n", name, abouts[i])
	}
	c := &cobra.Command{
		Use:   "replay FILE",
		Short: "Play anybody's trace under every rule and the market, in virtual time",
		Long: `Reads a file, plain or packed by gzip, and plays what it has on simulated engines, once with every rule in
front and once with the market. No time passes, and no model answers: lengths of answers are those recorded.

Formats, known by the first line:
` + list.String() + `
A line that is none of the format is an error that names it. Rows that cannot be played (a time that goes back, a
prompt without tokens, more tokens than an engine has room for) are left out, counted, and said.

When requests come is the trace's own where it says so, --speed times as fast, and each seed begins with another of
them where there are more than --tasks. --rate and --sessions put arrivals of ours in their place. Where a trace
says nothing of it, arrivals are ours: at 0.6, 0.9 and 1.1 of what the engines can serve.
` + worldUsage(nil) + "\n" + virtual.Legend,
		Example: `  lab replay conversation_trace.jsonl --speed 4
  lab replay AzureLLMInferenceTrace_conv.csv.gz --fleet mixed --terms tempers --html azure.html
  lab replay dialogues.jsonl --rate 8 --only two-block,greedy,market
  lab replay chunk-1-trace.csv --tasks 1000 --json figures.json
  jq -c . traces/trace_*.json > sessions.jsonl && lab replay sessions.jsonl --sessions 200`,
		Args: cobra.ExactArgs(1),
	}
	fleet := worldFlags(c, &o.World)
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if !(b.speed > 0 && b.speed <= 1e6) {
			return fmt.Errorf("--speed %v: it is above 0, and at most a million", b.speed)
		}
		if err := withFleet(&o.World, *fleet); err != nil {
			return err
		}
		if o.Seeds, err = seedsOf(seeds); err != nil {
			return err
		}
		for _, rule := range only {
			base, _, _ := strings.Cut(rule, ":")
			if known := append(virtual.RuleNames(), virtual.MarketName); !slices.Contains(known, base) {
				return fmt.Errorf("--only %s: there is no such rule; there are %s", rule, strings.Join(known, ", "))
			}
		}
		if len(only) > 0 {
			o.Rules = only
		}
		if b.Trace, err = traces.ReadFile(args[0], format); err != nil {
			return err
		}
		if c.Flags().Changed("speed") && (!b.Timed || o.Rate > 0 || o.Sessions > 0) {
			return errors.New("--speed is of the times that a trace has: this one has none, or --rate or --sessions are " +
				"in their place")
		}
		worlds, err := b.worlds(o.World)
		if err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
		debug.SetGCPercent(1000)
		o.Progress = progressOf("rules")
		rows, err := virtual.Compare(c.Context(), worlds, o)
		if err != nil {
			return err
		}
		if jsonFile != "" {
			if err := writeJSON(jsonFile, rows); err != nil {
				return err
			}
		}
		if htmlFile != "" {
			m := compare.Made{Name: "replay", Title: "Played again: " + b.Name, About: b.about(o.World),
				Rows:    rows,
				Command: strings.Replace(made(c), "lab replay", "lab replay "+filepath.Base(args[0]), 1)}
			html, err := m.Page().HTML()
			if err == nil {
				err = os.WriteFile(htmlFile, html, 0o644)
			}
			if err != nil {
				return fmt.Errorf("--html: %w", err)
			}
		}
		fmt.Fprintln(c.OutOrStdout(), b.about(o.World))
		virtual.Write(c.OutOrStdout(), rows)
		return nil
	}
	f := c.Flags()
	f.StringVar(&format, "format", "", "how the file is written, where its first line does not tell: "+
		strings.Join(names, ", "))
	f.Float64Var(&b.speed, "speed", b.speed, "recorded times, so many times as fast")
	onlyFlag(f, &only, "rules to play it by")
	f.UintSliceVar(&seeds, "seeds", seeds, "how many runs of each rule, from seeds 1, 2, ...; or several seeds: 3,7,9")
	f.StringVar(&jsonFile, "json", "", "also write the figures of every run to this file")
	f.StringVar(&htmlFile, "html", "", "also write a page with plots to this file")
	return c
}

// worlds returns the worlds to play of it.
func (b *brought) worlds(w virtual.World) ([]virtual.World, error) {
	b.block = 16
	for i := range b.Chains {
		b.block = max(b.block, b.Chains[i].Block)
	}
	if len(b.Chains) > 0 && !b.Timed {
		b.block = max(b.block, 512) // a prompt of a hundred thousand tokens has two hundred of them
	}
	chains := slices.DeleteFunc(b.Chains, func(c traces.Chain) bool { return b.block%c.Block != 0 })
	if n := len(b.Chains) - len(chains); n > 0 {
		b.Left = append(b.Left, traces.Left{Why: fmt.Sprintf("sessions whose blocks are no part of %d tokens", b.block),
			Rows: n})
	}
	b.scripts = append(virtual.NewScripts(b.Dialogues, false, b.block), virtual.NewChains(chains, b.block)...)
	for _, d := range b.Dialogues {
		for _, t := range d.Turns {
			if t.Answer == "" {
				b.silent++
			}
		}
	}
	room, context := ownRoom, ownContext
	for _, e := range w.Fleet.Engines {
		if e.Blocks > 0 {
			room = min(room, (e.Blocks-1)*b.block)
		}
		context = min(context, cmp.Or(e.Context, ownContext))
	}
	if b.scripts, b.long = virtual.Trim(b.scripts, room, context); len(b.scripts) == 0 {
		return nil, fmt.Errorf("every prompt with its answer is longer than the context of an engine, %d tokens, or its "+
			"cache, %d", context, room)
	}
	b.played = virtual.Requests(b.scripts)
	profile, err := vllmsim.ProfileNamed(ownProfile)
	if err != nil {
		return nil, err
	}
	w.Trace = virtual.NewTrace(b.Name, b.brief(), func(engines int) (virtual.Setting, error) {
		s := virtual.Setting{Engines: engines, Scripts: b.scripts, Context: ownContext, Think: ownPause,
			Hop: 300 * time.Microsecond, Scrape: 2 * time.Second, Patient: 10 * time.Minute,
			Engine: virtual.EngineConfig{Profile: profile, Slots: ownSlots,
				MaxBatched: profile.MaxNumBatchedTokens,
				Blocks:     1 + ownRoom/b.block, BlockSize: b.block}}
		if b.Timed {
			s.Timed, s.Anywhere, s.Tasks = b.speed, true, min(w.Tasks, b.played)
		}
		return s, nil
	})
	if b.Timed || w.Rate > 0 || w.Sessions > 0 {
		return []virtual.World{w}, nil
	}
	return w.At([]float64{0.6, 0.9, 1.1})
}

// brief says in a line what it is.
func (b *brought) brief() string {
	return fmt.Sprintf("%s, %d requests in %d sessions", b.Format, b.played, len(b.scripts))
}

// about says where it comes from, what of it is played, and what is ours.
func (b *brought) about(w virtual.World) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s, %s: %d rows read.\n\n", b.Name, b.brief(), b.Rows)
	for _, why := range b.Why() {
		fmt.Fprintf(&s, "* %s.\n", why)
	}
	if b.long > 0 {
		fmt.Fprintf(&s, "* %d requests left out: more tokens than an engine has room for, or a turn after such a one.\n",
			b.long)
	}
	if b.silent > 0 {
		fmt.Fprintf(&s, "* %d turns have no recorded answer: they are answered with one token.\n", b.silent)
	}
	switch {
	case w.Rate > 0:
		fmt.Fprintf(&s, "* When sessions begin is **ours**: %g a second, at random.\n", w.Rate)
	case w.Sessions > 0:
		fmt.Fprintf(&s, "* When sessions begin is **ours**: %d callers begin one after another.\n", w.Sessions)
	case b.Drawn:
		fmt.Fprintf(&s, "* When requests come, and how long they are, is **ours**: drawn from the rates and lengths of the "+
			"trace, %g times as fast.\n", b.speed)
	case b.Timed:
		fmt.Fprintf(&s, "* When requests come is the trace's own, %g times as fast; of %d requests each seed plays %d, one "+
			"after another from one that it chooses.\n", b.speed, b.played, min(w.Tasks, b.played))
	default:
		s.WriteString("* When sessions begin is **ours**: at random, at 0.6, 0.9 and 1.1 of what the engines can serve.\n")
	}
	switch {
	case b.Timed && w.Rate == 0 && w.Sessions == 0:
	case b.Timed:
		s.WriteString("* How long a session pauses is **ours**, too: as long after an answer as the next request came " +
			"after the one before, a minute at most.\n")
	case b.Paused:
		s.WriteString("* How long a session pauses between an answer and its next request is the trace's own.\n")
	default:
		fmt.Fprintf(&s, "* How long a session pauses before its next question is **ours**: %v on the mean.\n", ownPause)
	}
	return s.String()
}
