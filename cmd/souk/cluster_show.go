package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"souk/bus"
	"souk/cmd/local"
	"souk/cmd/replay"
)

// show funds the clients, plays dialogues and checks the ledgers; its error is the verdict.
func (c *cluster) show(ctx context.Context, f clusterFlags, cfg clusterConfig, link *local.Link, g *group,
	out io.Writer) error {
	for _, id := range slices.Sorted(maps.Keys(cfg.Clients)) {
		if err := bus.CheckID("clients", id); err != nil {
			return err
		}
		if _, err := link.Fund(ctx, id, cfg.Clients[id], "opening-"+id); err != nil &&
			bus.CodeOf(err) != bus.CodeIDConflict {
			return fmt.Errorf("fund %s: %w", id, err)
		}
	}
	ctx, stop := g.whole(ctx)
	defer stop()
	var verdict error
	if f.limit > 0 {
		verdict = c.play(ctx, f, link, out)
	}
	if err := cmp.Or(g.failure(), verdict); err != nil {
		return err
	}
	heading(out, 3, "The ledger",
		"Every journal read again from its first byte, beside the processes that write them: ledger check.")
	check := exec.CommandContext(ctx, filepath.Join(c.bin, "ledger"), "check", "--verbose", c.dir)
	check.Stdout, check.Stderr = out, out
	if err := check.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(check.Args, " "), err)
	}
	return nil
}

// play plays the bundled dialogues, over NATS like any client, and reports.
func (c *cluster) play(ctx context.Context, f clusterFlags, link *local.Link, out io.Writer) error {
	ds, err := replay.Bundled()
	if err != nil {
		return err
	}
	ds = ds[:min(f.limit, len(ds))]
	heading(out, 2, "Dialogues",
		fmt.Sprintf("%d dialogues, at most %d at a time, asked by %d clients with different terms.", len(ds),
			f.concurrency, runClients))
	clients := replay.Mix(mixSeed, runClients)
	started := time.Now()
	run, tally := fmt.Sprintf("cluster-%x", started.UnixNano()), replay.NewTally()
	if err := fundAll(ctx, link, clients, runDeposit, run); err != nil {
		return err
	}
	played, wall, err := play(ctx, ds, replay.Config{Clients: clients, Concurrency: f.concurrency,
		MaxTokens: runMaxTokens, Retries: runRetries, Run: run}, link.Ask, tally)
	if err != nil {
		return err
	}
	if _, err := local.TallyRounds(c.dir, tally, started); err != nil {
		return err
	}
	report := tally.Report(wall, played)
	report.Write(out)
	if report.Total.Served == 0 {
		return errNoneServed
	}
	return brokenOff(&report)
}

// brokenOff is an error where dialogues ended early for another reason than that their terms lost: that is
// the market's to say, and on a busy machine an answer within a second may be nobody's to give.
func brokenOff(r *replay.Report) error {
	var why []string
	for _, x := range r.Refused {
		switch x.Code {
		case bus.CodeNotWorthIt, bus.CodeNoRoom, bus.CodePastDeadline:
		default:
			why = append(why, fmt.Sprintf("%d %s", x.Count, x.Code))
		}
	}
	if r.BrokenOff == 0 || len(why) == 0 {
		return nil
	}
	return fmt.Errorf("%d dialogues were broken off; refusals: %s", r.BrokenOff, strings.Join(why, ", "))
}
