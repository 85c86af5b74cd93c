package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"souk/bus"
	"souk/cmd/console"
	"souk/cmd/local"
	"souk/cmd/replay"
	"souk/market"
)

// dialogues reads a file, or the bundled ones where none is named.
func dialogues(file, format string) ([]replay.Dialogue, error) {
	if file == "" && format != string(replay.Souk) {
		return nil, fmt.Errorf("--format %s: it says how a file is written, and none is named", format)
	}
	if file == "" {
		return replay.Bundled()
	}
	return replay.ReadFile(file, replay.Format(format))
}

func replayCommand(s *shared) *cobra.Command {
	var (
		format      string
		concurrency int
		clients     int
		limit       int
		maxTokens   int
		retries     int
		model       string
		deposit     string
		rate        float64
		asJSON      bool
		judge       bool
	)
	c := &cobra.Command{
		Use:   "replay [FILE]",
		Short: "Play recorded dialogues through a running market, and report",
		Long: `Plays dialogues through a running market: many clients with different terms, each
dialogue's turns in order, the answers received fed back. Without FILE the bundled dialogues are played.

Souk's own format is one dialogue a line, of which only "turns" is required; a turn is a string or an object:

  {"id":"d1","domain":"law","system":"Be brief.","turns":["First question?",{"user":"Second?","answer":"as recorded"}]}

The rows of public sets are read as they are with --format. Files may be packed by gzip. The exit status
is 1 where the market went away before the end or served nothing; what was played is reported all the
same.`,
		Example: `  souk replay --concurrency 32
  souk replay dialogues.jsonl --rate 5 --json
  souk replay --format coqa coqa-dev.jsonl`,
		Args: console.Takes(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
			file := ""
			if len(args) > 0 {
				file = args[0]
			}
			ds, err := dialogues(file, format)
			if err != nil {
				return err
			}
			if limit > 0 && limit < len(ds) {
				ds = ds[:limit]
			}
			err = atLeast(bound{"concurrency", float64(concurrency), 1}, bound{"rate", rate, 0},
				bound{"clients", float64(clients), 1}, bound{"limit", float64(limit), 0},
				bound{"max-tokens", float64(maxTokens), 0}, bound{"retries", float64(retries), 0})
			if err != nil {
				return err
			}
			credits, err := amountOf("--deposit", "deposit", deposit)
			if err != nil {
				return err
			}
			link, err := s.dial(bus.RoleGateway, "souk-replay")
			if err != nil {
				return err
			}
			defer link.Close()
			mix := replay.Mix(mixSeed, clients)
			if err := fundAll(c.Context(), link, mix, credits, "opening"); err != nil {
				return err
			}
			tally, started := replay.NewTally(), time.Now()
			cfg := replay.Config{
				Clients: mix, Concurrency: concurrency, MaxTokens: maxTokens, Model: model, Retries: retries,
				Run: fmt.Sprintf("replay-%x", started.UnixNano()),
			}
			if judge {
				cfg.Judge = func(a replay.Answer) { _ = link.Judge(&a.Result, *a.Quality) }
			}
			if rate > 0 {
				for i := range ds {
					cfg.Arrivals = append(cfg.Arrivals, time.Duration(float64(i)/rate*float64(time.Second)))
				}
			}
			played, wall, err := play(c.Context(), ds, cfg, link.Ask, tally)
			if c.Context().Err() != nil {
				err = nil // Ctrl-C: the report is of what was played until then
			}
			if s.nats != "" && !c.Flags().Changed("data") {
				fmt.Fprintln(c.ErrOrStderr(),
					"souk: rounds are not in the report: --data names the directory of the market's "+
						"journals where this machine has it")
			} else if _, err := local.TallyRounds(s.data, tally, started); err != nil {
				fmt.Fprintln(c.ErrOrStderr(), "souk: rounds are not in the report:", err)
			}
			report := tally.Report(wall, played)
			if asJSON {
				err = errors.Join(err, writeJSON(c.OutOrStdout(), report))
			} else {
				report.Write(c.OutOrStdout())
			}
			if err == nil && report.Total.Asked > 0 && report.Total.Served == 0 {
				err = errNoneServed
			}
			return err
		},
	}
	c.Flags().StringVar(&format, "format", string(replay.Souk),
		"how the rows are written: "+strings.Join(replay.FormatNames(), ", "))
	c.Flags().IntVar(&concurrency, "concurrency", 16, "dialogues at a time")
	c.Flags().IntVar(&clients, "clients", runClients, "clients that ask, of four kinds in turn")
	c.Flags().IntVar(&limit, "limit", 0, "play only the first so many dialogues; 0 plays all")
	c.Flags().IntVar(&maxTokens, "max-tokens", runMaxTokens, "of one answer; 0 leaves it to the market")
	c.Flags().IntVar(&retries, "retries", runRetries,
		"times to ask again where a refusal says that it may help")
	c.Flags().StringVar(&model, "model", "", "ask for this model alone")
	c.Flags().StringVar(&deposit, "deposit", runDeposit.String(), "credits each client is funded with, once")
	c.Flags().Float64Var(&rate, "rate", 0,
		"dialogues begun a second; 0 begins one as soon as another has ended")
	c.Flags().BoolVar(&judge, "judge", false, "tell hubs how good each answer is by the one recorded, as gold "+
		"where quality.judges of the hub names the client")
	c.Flags().BoolVar(&asJSON, "json", false, "report as JSON")
	return c
}

var errNoneServed = errors.New("no task was served: the refusals in the report say why")

// bound is the least that a flag may be.
type bound struct {
	flag         string
	value, least float64
}

// atLeast names the first flag that is below its bound, or no number.
func atLeast(all ...bound) error {
	for _, b := range all {
		if !(b.value >= b.least) {
			return fmt.Errorf("--%s: %v is not %v or more", b.flag, b.value, b.least)
		}
	}
	return nil
}

// runDeposit lasts a client of a replay for some ten thousand answers.
const runDeposit = 5 * market.Credit

func clientTable(w io.Writer, clients []replay.Client) {
	t := replay.Table(w, 1, "client", "worth of an answer", "delta", "patience")
	for _, c := range clients {
		t.AppendRow(table.Row{c.ID, *c.Terms.Worth, *c.Terms.Delta,
			time.Duration(*c.Terms.PatienceMS) * time.Millisecond})
	}
	t.Render()
}
