package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/cmd/console"
	"souk/cmd/ledger/cli"
	"souk/cmd/local"
	"souk/cmd/replay"
	"souk/integration/lab/load"
	"souk/market"
)

// loadFlags are the flags of `lab load`.
type loadFlags struct {
	load.Config
	market            local.Reach
	dialogues, format string
	clients           int
	mixed             bool // they name terms
	pids              []string
	model, deposit    string
	maxTokens         int
	whole             bool
	noFailover        bool
	asJSON            bool
}

// openMost is the most tasks of an open loop under way at once, where no other number is given.
const openMost = 4096

func loadCommand() *cobra.Command {
	f := loadFlags{market: local.Reach{Data: cli.Data(), NATS: os.Getenv("SOUK_MARKET_NATS"),
		CA: os.Getenv("SOUK_MARKET_CA")}}
	creds := os.Getenv("SOUK_MARKET_CREDS")
	c := &cobra.Command{
		Use:   "load",
		Short: "Put a running market under load, and measure latencies, goodput and CPU",
		Long: `Sends tasks to a running market for a time, and reports what its clients saw and what its
processes used.

With --rate tasks come at their own times, like those of many who do not know of one another (an open
loop, Poisson arrivals); latencies count from the moment when a task was due. Without it --concurrency
callers each send when their last answer has ended (a closed loop); their latencies are corrected for
coordinated omission as HdrHistogram does it, with the median time of a whole answer as interval. Nothing
of the --ramp is measured.

Questions are the turns of dialogues with the recorded answers before them, each dialogue a session;
after the last they begin anew in other sessions. A frame that is missing or comes twice is a failure:
exit status 1. Ctrl-C cancels what runs and reports what was measured so far.`,
		Example: `  lab load --concurrency 64 --duration 30s
  lab load --rate 50 --ramp 10s --duration 1m --slo-ttft 500ms --slo-itl 50ms
  lab load --nats nats://127.0.0.1:4222 --pid hub=4711 --json --concurrency 16`,
		Args: console.Takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if creds != "" {
				f.market.Creds = strings.Split(creds, ",")
			}
			if c.Flags().Changed("data") && !c.Flags().Changed("nats") {
				f.market.NATS = ""
			}
			if f.Rate > 0 && !c.Flags().Changed("concurrency") {
				f.Concurrency = openMost
			}
			if err := f.Validate(); err != nil {
				return fmt.Errorf("%w: see --rate, --concurrency, --ramp and --duration", err)
			}
			link, err := f.dial()
			if err != nil {
				return err
			}
			defer link.Close()
			return f.run(c, link)
		},
	}
	g := c.Flags()
	g.StringVar(&f.market.Data, "data", f.market.Data, "data directory of the market (environment: SOUK_DATA)")
	g.StringVar(&f.market.NATS, "nats", f.market.NATS,
		"NATS server of a market of daemons or containers; without, the market of --data is meant "+
			"(environment: SOUK_MARKET_NATS)")
	g.StringVar(&creds, "creds", creds, "files of creds, separated by commas; without, the keys in --data have "+
		"them or make them (environment: SOUK_MARKET_CREDS)")
	g.Float64Var(&f.Rate, "rate", 0, "open loop: tasks sent a second; 0: a closed loop")
	g.IntVar(&f.Concurrency, "concurrency", 16,
		fmt.Sprintf("callers of the closed loop; of an open one the most tasks under way (default there %d)",
			openMost))
	g.DurationVar(&f.Ramp, "ramp", 2*time.Second, "time in which the load rises; not measured")
	g.DurationVar(&f.Duration, "duration", 30*time.Second, "time in which tasks are sent, the ramp included")
	g.Uint64Var(&f.Seed, "seed", 1, "of the arrivals")
	g.DurationVar(&f.SLO.TTFT, "slo-ttft", 0, "a good answer's first token comes within it; 0: whenever")
	g.DurationVar(&f.SLO.ITL, "slo-itl", 0,
		"a good answer's mean time between tokens is within it; 0: whatever")
	g.StringVar(&f.dialogues, "dialogues", "", "file of dialogues (default: the bundled ones)")
	g.StringVar(&f.format, "format", string(replay.Souk),
		"how the rows are written: "+strings.Join(replay.FormatNames(), ", "))
	g.IntVar(&f.clients, "clients", 12, "clients that ask")
	g.BoolVar(&f.mixed, "mixed", false,
		"they name terms, of four kinds in turn, as those of souk run; without, tasks have the market's own")
	g.IntVar(&f.maxTokens, "max-tokens", 200, "of one answer; 0 leaves it to the market")
	g.BoolVar(&f.whole, "ignore-eos", false, "every answer has --max-tokens, whatever the engine would say")
	g.StringVar(&f.model, "model", "", "ask for this model alone")
	g.StringVar(&f.deposit, "deposit", (100 * market.Credit).String(), "credits each client is funded with")
	g.StringArrayVar(&f.pids, "pid", nil,
		"process to measure, PID or NAME=PID; may be repeated (default: those of the market of --data)")
	g.BoolVar(&f.noFailover, "no-failover", false, "tasks end with the agent that fails them")
	g.BoolVar(&f.asJSON, "json", false, "report as JSON")
	return c
}

// dial connects to the market and finds its processes.
func (f *loadFlags) dial() (*local.Link, error) {
	for _, p := range f.pids {
		name, number, named := strings.Cut(p, "=")
		if !named {
			name, number = "process "+p, p
		}
		pid, err := strconv.Atoi(number)
		if err != nil || pid < 1 {
			return nil, fmt.Errorf("--pid %q: want a process id like 4711, or a name with it like hub=4711",
				p)
		}
		f.Processes = append(f.Processes, load.Process{Name: name, PID: pid})
	}
	link, err := f.market.Dial(bus.RoleGateway, "souk-load")
	if err != nil {
		return nil, err
	}
	if len(f.pids) == 0 && f.market.NATS == "" {
		f.Processes = processesOf(f.market.Data, link.State)
	}
	return link, nil
}

// processesOf are the processes of the market that runs on a data directory; one that is started again is
// followed.
func processesOf(dir string, s local.State) []load.Process {
	if len(s.Processes) == 0 {
		return []load.Process{{Name: "market", PID: s.PID}}
	}
	var out []load.Process
	for _, p := range s.Processes {
		out = append(out, load.Process{Name: p.Name, PID: p.PID, Apart: p.Engine, Find: func() int {
			now, err := local.ReadState(dir)
			if err != nil {
				return 0
			}
			for _, q := range now.Processes {
				if q.Name == p.Name {
					return q.PID
				}
			}
			return 0
		}})
	}
	return out
}

// withoutFailover asks tasks that end with the agent that fails them.
func withoutFailover(m load.Market) load.Market {
	return func(ctx context.Context, t bus.Task, each func(bus.Chunk)) (replay.Answer, error) {
		t.Failover = "off"
		return m(ctx, t, each)
	}
}

func (f *loadFlags) run(c *cobra.Command, link *local.Link) error {
	ds, err := replay.Bundled()
	if f.dialogues != "" {
		ds, err = replay.ReadFile(f.dialogues, replay.Format(f.format))
	}
	if err != nil {
		return err
	}
	if f.clients < 1 {
		return errors.New("--clients is at least 1")
	}
	credits, err := market.ParseCredits(f.deposit)
	if err != nil || credits <= 0 {
		return fmt.Errorf("--deposit %s: write an amount above 0, as 2.50", f.deposit)
	}
	run := fmt.Sprintf("load-%x", time.Now().UnixNano())
	shape := load.Shape{Clients: f.payers(), Model: f.model, MaxTokens: f.maxTokens,
		Whole: f.whole, Run: run}
	q, err := load.NewQuestions(ds, shape)
	if err != nil {
		return err
	}
	for _, x := range shape.Clients {
		if _, err := link.Fund(c.Context(), x.ID, credits, run+"-"+x.ID); err != nil {
			return fmt.Errorf("fund %s: %w", x.ID, err)
		}
	}
	done := f.progress(c.ErrOrStderr())
	ask := load.Market(link.AskWith)
	if f.noFailover {
		ask = withoutFailover(ask)
	}
	r, err := load.Run(c.Context(), f.Config, q, ask)
	done()
	if err != nil {
		return err
	}
	if f.asJSON {
		e := json.NewEncoder(c.OutOrStdout())
		e.SetIndent("", "  ")
		if err := e.Encode(r); err != nil {
			return err
		}
	} else {
		r.Write(c.OutOrStdout())
	}
	switch {
	case c.Context().Err() != nil:
		return console.Exit(130)
	case r.Broken > 0:
		return console.Exit(1)
	case r.Answered == 0:
		return errors.New("no task was answered")
	}
	return nil
}

// payers are the clients that ask.
func (f *loadFlags) payers() []replay.Client {
	if f.mixed {
		return replay.Mix(1, f.clients)
	}
	all := make([]replay.Client, f.clients)
	for i := range all {
		all[i] = replay.Client{ID: fmt.Sprintf("load-%d", i+1), Kind: "load"}
	}
	return all
}

// progress shows a line that changes each second on a terminal, and every ten seconds a line of its own
// elsewhere. The function returned ends it.
func (f *loadFlags) progress(w io.Writer) func() {
	terminal := false
	if file, ok := w.(*os.File); ok {
		info, err := file.Stat()
		terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	n := 0
	f.Progress = func(line string) {
		switch n++; {
		case terminal:
			fmt.Fprintf(w, "\r\033[K%s", line)
		case n%10 == 0:
			fmt.Fprintln(w, line)
		}
	}
	return func() {
		if terminal {
			fmt.Fprint(w, "\r\033[K")
		}
	}
}
