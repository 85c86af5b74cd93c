package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"souk/cmd/local"
	"souk/cmd/replay"
)

// heading prints a numbered step, with one sentence on what it is.
func heading(w io.Writer, n int, title, what string) {
	line := fmt.Sprintf("%d  %s", n, title)
	fmt.Fprintf(w, "\n%s\n%s\n", line, strings.Repeat("─", len([]rune(line))))
	if what != "" {
		fmt.Fprintln(w, what)
	}
}

// agentTable shows who sells what.
func agentTable(w io.Writer, c local.Config) {
	t := replay.Table(w, 9, "agent", "hub", "model", "slots", "miss", "hit", "output", "price row", "engine")
	for _, a := range c.Agents {
		card, err := a.Card()
		if err != nil {
			continue // Validate refused it long ago
		}
		engine := a.Engine.URL
		if engine == "" {
			engine = fmt.Sprintf("simulated %s", a.Engine.Profile)
		}
		row := cmp.Or(a.PriceRow, "own")
		t.AppendRow(table.Row{a.ID, a.Scores[0].Domain, a.Model, a.Slots, card.Miss, card.Hit, card.Out, row,
			engine})
	}
	var cs []table.ColumnConfig
	for n := 4; n <= 7; n++ {
		cs = append(cs, table.ColumnConfig{Number: n, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(cs)
	t.Render()
	fmt.Fprintln(w, "Prices are in credits per million tokens: of a prompt token computed, of one found in "+
		"the cache, of an output token.")
	if c.Speedup != 1 && len(c.Agents) > 0 && c.Agents[0].Engine.URL == "" {
		fmt.Fprintf(w, "Simulated engines run %g times as fast as the machines that they were measured on.\n",
			c.Speedup)
	}
}
