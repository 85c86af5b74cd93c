package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/cmd/console"
	"souk/cmd/local"
	"souk/cmd/replay"
)

// The two parts of a run. The crowd is several times what the default market has slots for, so that tasks
// wait together and rounds have something to decide.
const (
	calmDialogues   = 30
	calmConcurrency = 6
	crowdPerSlot    = 2
	realDialogues   = 60
	runClients      = 12
	runMaxTokens    = 200
	runRetries      = 5
	mixSeed         = 1
)

type runFlags struct {
	marketFlags
	exit        bool
	concurrency int
	limit       int
}

func runCommand(s *shared) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run",
		Short: "Bring a market up, play real dialogues through it, report, and check its ledger",
		Long: `Brings a market up and plays the bundled dialogues through it, as clients with different
terms (what an answer is worth to them, and how long they will wait): first calmly, then beyond what it has
slots for. Then it reports, checks every record of the ledger, explains one contested round, and prints
commands to try in another terminal. The market stays up until Ctrl-C.

It takes seconds and needs no GPU: the engines are simulated unless --vllm names real ones. The data directory
is kept, and the next start on it goes on where this one ended. It listens on loopback alone.`,
		Example: `  souk run
  souk run --exit --data /tmp/souk
  souk run --vllm http://127.0.0.1:8000 --vllm http://127.0.0.1:8001`,
		Args: console.Takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return run(c, s, f) },
	}
	f.add(c)
	c.Flags().BoolVar(&f.exit, "exit", false, "end after the check, with the verdict as exit status")
	c.Flags().IntVar(&f.concurrency, "concurrency", 0,
		"dialogues at a time in the crowded part (default two for each slot)")
	c.Flags().IntVar(&f.limit, "limit", 0,
		fmt.Sprintf("play only the first so many dialogues (default all; %d with --vllm, whose engines may "+
			"be slow)", realDialogues))
	return c
}

// run is the whole show. What it prints goes to stdout; logs and progress to stderr.
func run(c *cobra.Command, s *shared, f runFlags) error {
	err := atLeast(bound{"limit", float64(f.limit), 0}, bound{"concurrency", float64(f.concurrency), 0})
	if err != nil {
		return err
	}
	cfg, err := f.load()
	if err != nil {
		return err
	}
	ds, err := replay.Bundled()
	if err != nil {
		return err
	}
	log, err := s.logger(c.ErrOrStderr())
	if err != nil {
		return err
	}
	if f.limit == 0 && len(f.vllm) > 0 {
		f.limit = realDialogues
	}
	if f.limit > 0 && f.limit < len(ds) {
		ds = ds[:f.limit]
	}
	f.concurrency = cmp.Or(f.concurrency, crowdPerSlot*slots(cfg))
	show := show{s: s, f: f, out: c.OutOrStdout(), dialogues: ds,
		opts: local.Options{Dir: s.data, Config: cfg, Log: log, Known: ds}}
	return show.once(c.Context())
}

// show is one run of the market from its start to its check.
type show struct {
	s         *shared
	f         runFlags
	out       io.Writer
	dialogues []replay.Dialogue
	opts      local.Options
	step      int
	contested local.Shown // the round that was explained
}

func (w *show) heading(title, what string) {
	w.step++
	heading(w.out, w.step, title, what)
}

func (w *show) once(ctx context.Context) error {
	begin := time.Now()
	w.heading("The market", "NATS, etcd, the treasury, the door, the hubs and the agents, all in this "+
		"process, on loopback.")
	m, err := local.Start(ctx, w.opts)
	if err != nil {
		return err
	}
	fmt.Fprintf(w.out, "Ready after %.2f s at %s; data in %s.\n%s\n", time.Since(begin).Seconds(),
		m.State.NATS, w.s.data, elsewhere(m.Config, m.State))
	agentTable(w.out, m.Config)
	for _, d := range m.Config.Domains {
		r := m.Config.Rule(d)
		fmt.Fprintf(w.out, "%s: pricing %s, settle %s, clarke %s\n", d.Name, r.Pricing, r.Settle, r.Clarke)
	}
	fmt.Fprintf(w.out, "Each is a setting of its domain: `hub:` under a domain of your file, or its key "+
		"in etcd while it runs.\n")

	verdict := w.play(ctx, m)
	if verdict == nil && !w.f.exit && ctx.Err() == nil {
		w.paste(m)
		select {
		case <-ctx.Done():
			fmt.Fprintf(w.out, "\nStopping.\n")
		case <-m.Failed():
		}
		return errors.Join(m.Err(), m.Close())
	}
	err = errors.Join(verdict, m.Err(), m.Close())
	if err == nil {
		fmt.Fprintf(w.out, "\nAll of it held: exit status 0 after %.1f s.\n", time.Since(begin).Seconds())
	}
	return err
}

// play runs everything between the market's start and its end; its error is the verdict.
func (w *show) play(ctx context.Context, m *local.Market) error {
	w.heading("Clients", "Each has its own terms: what an answer is worth to it, how much it minds "+
		"waiting, how long it is patient.")
	clients := replay.Mix(mixSeed, runClients)
	funding := fmt.Sprintf("run-%x", m.State.Started.UnixNano())
	if err := fundAll(ctx, m.Link, clients, runDeposit, funding); err != nil {
		return err
	}
	clientTable(w.out, clients)
	fmt.Fprintf(w.out, "Each has just deposited %s credits at the treasury.\n", runDeposit)
	calm := min(calmDialogues, len(w.dialogues)/4)
	tally := replay.NewTally()
	started := time.Now()
	cfg := replay.Config{
		Clients: clients, MaxTokens: runMaxTokens, Run: fmt.Sprintf("run-%x", started.UnixNano()),
		Retries:     runRetries,
		Concurrency: calmConcurrency,
	}
	w.heading("A calm market",
		fmt.Sprintf("%d dialogues, at most %d at a time for %d slots: tasks are placed as they come; "+
			"premiums are the little that they cost one another.",
			calm, calmConcurrency, slots(m.Config)))
	played, err := w.part(ctx, m, w.dialogues[:calm], cfg, tally)
	if err != nil {
		return err
	}
	w.heading("A crowded market",
		fmt.Sprintf("%d dialogues, %d at a time for the same %d slots: who waits is matched to a "+
			"slot that is free or to one to come, and pays what others lose by it.",
			len(w.dialogues)-calm, w.f.concurrency, slots(m.Config)))
	cfg.Concurrency, cfg.Run = w.f.concurrency, cfg.Run+"-c"
	more, err := w.part(ctx, m, w.dialogues[calm:], cfg, tally)
	if err != nil {
		return err
	}
	wall := time.Since(started)
	played.Dialogues += more.Dialogues
	played.BrokenOff += more.BrokenOff

	if w.contested, err = local.TallyRounds(w.s.data, tally, started); err != nil {
		return err
	}
	w.heading("Report", "What the clients saw, what they paid, and how the rounds went.")
	report := tally.Report(wall, played)
	report.Write(w.out)

	w.heading("The ledger", "Every journal read again from its first byte: rounds proved, sums added up, "+
		"hands shaken.")
	if err := local.CheckLedger(ctx, w.s.data, w.out); err != nil {
		return err
	}
	if contested := w.contested; contested.Round != nil {
		r := &contested.Round.Round
		w.heading("A contested round",
			fmt.Sprintf("Round %d of %s: who wanted what, who got it, and why the price is what it is.",
				r.Number, r.Domain))
		x, err := contested.Explain()
		if err != nil {
			return fmt.Errorf("explain round %d of %s: %w", r.Number, r.Domain, err)
		}
		fmt.Fprint(w.out, x.String())
	}
	return judge(report)
}

// part plays some dialogues and says in a line what came of them.
func (w *show) part(ctx context.Context, m *local.Market, ds []replay.Dialogue, cfg replay.Config,
	tally *replay.Tally) (replay.Played, error) {
	part := replay.NewTally()
	played, wall, err := play(ctx, ds, cfg, m.Ask, part, tally)
	if err != nil {
		return played, err
	}
	r := part.Report(wall, played)
	fmt.Fprintf(w.out, "%d tasks served in %.1f s, TTFT p50 %.0f ms and p99 %.0f ms, %.0f %% of the prompt "+
		"tokens from cache, cost %s, premiums %s: %.2f times the price card.\n",
		r.Total.Served, r.Seconds, r.Total.TTFT.P50, r.Total.TTFT.P99, 100*r.Total.Share, r.Total.Cost,
		r.Total.Premium, r.Total.Bill.All)
	return played, nil
}

// judge says what a run must have shown.
func judge(r replay.Report) error {
	var errs []error
	expect := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New(what))
		}
	}
	expect(r.Total.Served > 0, errNoneServed.Error())
	expect(r.Several() > 0, "no round had more than one task: the market was never crowded")
	expect(r.Contested() > 0, "no slot had a price above zero")
	expect(r.Total.Premium > 0, "nobody paid a premium")
	expect(r.Total.Cached > 0, "no prompt token came from a cache")
	return errors.Join(errs...)
}

// paste ends a run that stays up.
func (w *show) paste(m *local.Market) {
	w.heading("Your turn", "The market stays up until Ctrl-C. In another terminal:")
	for _, l := range w.lines(m) {
		fmt.Fprintln(w.out, "  "+l)
	}
}

func slots(c local.Config) (n int) {
	for _, a := range c.Agents {
		n += a.Slots
	}
	return n
}

// lines are commands to paste into another terminal.
func (w *show) lines(m *local.Market) []string {
	lines := []string{
		w.s.line(`submit "Which goods would you carry home from the souk of Marrakesh?"`),
		w.s.line(`replay --concurrency 32`),
	}
	if m.CredsFile != "" {
		lines = append(lines, fmt.Sprintf(`nats --server %s --creds %s --inbox-prefix %s request souk.v1.task.%s `+
			`'{"messages":[{"role":"user","content":"What is a souk?"}],"max_tokens":60}'`, m.State.NATS,
			m.CredsFile, bus.InboxOf(local.FirstClient), local.FirstClient))
	}
	if m.KeyFile != "" {
		lines = append(lines, fmt.Sprintf(`curl %s/v1/chat/completions -H "Authorization: Bearer $(cat %s)" `+
			`-d '{"messages":[{"role":"user","content":"What is a souk?"}]}'`, m.State.HTTP, m.KeyFile))
	}
	if w.contested.Round != nil {
		lines = append(lines, fmt.Sprintf("bin/ledger round %d --explain %s", w.contested.Round.Round.Number,
			w.contested.Path))
	}
	return append(lines, "bin/ledger check "+w.s.data)
}
