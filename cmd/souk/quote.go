package main

import (
	"context"
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"souk/bus"
	"souk/cmd/console"
	"souk/cmd/local"
	"souk/cmd/replay"
)

func quoteCommand(s *shared) *cobra.Command {
	var q question
	c := &cobra.Command{
		Use:   "quote [PROMPT]",
		Short: "Say what a question would cost and when its answer would begin, without asking it",
		Long: `Asks the hubs of a running market what a question would be given if it were submitted now: of
each model the time to the first token, what it would be charged (as expected, at least, and at most, which is
what would be held of the client's money), cost and premium of that, how much of the prompt is in a cache, and
whether the question's terms would buy it. It is an estimate: nothing is bought or reserved, and what others ask in the
next moment changes it. The client may have spent all its money. Without PROMPT it is read from stdin.`,
		Example: `  souk quote "What is a souk?"
  souk quote --worth 0.01 --patience 500ms "Quickly: 17 * 23?"
  echo "Summarise this" | souk quote --model gpt-oss-120b --json`,
		Args: onePrompt,
		RunE: func(c *cobra.Command, args []string) error {
			task, err := q.read(c, args)
			if err != nil {
				return err
			}
			if err := s.mustBeKnown(c.Context(), task.Client, "a quote itself costs nothing"); err != nil {
				return err
			}
			link, err := asClient(c, s, task.Client)
			if err != nil {
				return err
			}
			defer link.Close()
			client, err := link.Client(link.Name)
			if err != nil {
				return err
			}
			quote, err := client.Quote(c.Context(), task)
			if err != nil && len(quote.Hubs) == 0 {
				return err
			}
			if q.asJSON {
				err = writeJSON(c.OutOrStdout(), struct {
					Estimate bool `json:"estimate"`
					bus.Quote
				}{true, quote})
			} else {
				err = nil // what other hubs refuse is shown
				showQuote(c.OutOrStdout(), &quote)
			}
			if err == nil && quote.Code != "" {
				return console.Exit(1)
			}
			return err
		},
	}
	q.flags(c.Flags())
	c.Flags().BoolVar(&q.asJSON, "json", false, "print the quote as JSON")
	return c
}

// mustBeKnown refuses a name that no client has, and adds what came of it: creds would be made of it, and a
// typing mistake would be a client's name from then on.
func (s *shared) mustBeKnown(ctx context.Context, client, sofar string) error {
	if fresh, err := s.market().NewClient(client); err != nil || !fresh {
		return err
	}
	link, err := s.dial(bus.RoleOperator, local.Operator)
	if err != nil {
		return err
	}
	defer link.Close()
	if _, err = link.Balance(ctx, client); bus.CodeOf(err) == bus.CodeUnknownClient {
		return fmt.Errorf("%s: souk fund %s AMOUNT makes it a client; %s", bus.MessageOf(err), client, sofar)
	}
	return err
}

// showQuote prints a quote, and what hubs say that have none.
func showQuote(w io.Writer, q *bus.Quote) {
	t := replay.Table(w, 2, "hub", "model", "first token", "of it waiting", "expected", "at least", "at most",
		"of it cost", "premium", "cached", "quality", "would buy")
	buys := map[bool]string{true: "yes", false: "no"}
	valid := int64(0)
	for _, h := range q.Hubs {
		for _, m := range h.Models {
			t.AppendRow(table.Row{h.Hub, m.Model, replay.MS(m.TTFTMS), replay.MS(m.WaitMS), m.Price.Expected,
				m.Price.Min, m.Price.Max, m.Cost, m.Premium, fmt.Sprintf("%.0f %%", 100*m.CachedShare),
				fmt.Sprintf("%.2f", m.Quality), buys[m.WouldWin]})
		}
		if h.Code == "" && (valid == 0 || h.ValidMS < valid) {
			valid = h.ValidMS
		}
	}
	if valid > 0 {
		t.SetColumnConfigs([]table.ColumnConfig{
			{Number: 12, Align: text.AlignCenter, AlignHeader: text.AlignCenter}})
		t.Render()
		fmt.Fprintf(w, "An estimate, of use for %d ms: nothing is bought or reserved. Amounts are credits.\n",
			valid)
	}
	for _, h := range q.Hubs {
		if h.Code != "" {
			fmt.Fprintf(w, "hub %s: %s: %s\n", h.Hub, h.Code, h.Message)
		}
	}
}
