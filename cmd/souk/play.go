package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"souk/cmd/console"
	"souk/cmd/local"
	"souk/cmd/replay"
	"souk/market"
)

// play plays dialogues with a bar of progress, counts every turn in the tallies, and says how long it took.
func play(ctx context.Context, ds []replay.Dialogue, cfg replay.Config, ask replay.Market,
	tallies ...*replay.Tally) (replay.Played, time.Duration, error) {
	turns := 0
	for _, d := range ds {
		turns += len(d.Turns)
	}
	progress := console.Bar(turns, "turns")
	cfg.Turn = func(d replay.Dialogue, c replay.Client, a replay.Answer) {
		for _, t := range tallies {
			t.Add(d, c, a)
		}
		_ = progress.Add(1)
	}
	begin := time.Now()
	played, err := replay.Play(ctx, ds, cfg, ask)
	wall := time.Since(begin)
	_ = progress.Finish()
	return played, wall, err
}

// fundAll deposits an amount for each client, once under a run's name.
func fundAll(ctx context.Context, link *local.Link, clients []replay.Client, amount market.Credits,
	run string) error {
	for _, x := range clients {
		if _, err := link.Fund(ctx, x.ID, amount, run+"-"+x.ID); err != nil {
			return fmt.Errorf("fund %s: %w", x.ID, err)
		}
	}
	return nil
}

// writeJSON prints v for people and programs.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
