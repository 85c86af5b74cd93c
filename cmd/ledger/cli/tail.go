package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"souk/bus/follow"
	"souk/cmd/console"
	"souk/ledger"
	"souk/ledger/inspect"
)

func (e *env) tailCommand() *cobra.Command {
	var goOn bool
	var n int
	c := &cobra.Command{
		Use:   "tail [PATH...]",
		Short: "The last records; with -f, also those to come",
		RunE: func(cmd *cobra.Command, paths []string) error {
			if n < 0 || n > 1_000_000 {
				return fmt.Errorf("-n %d: take 0 to 1000000", n)
			}
			if goOn && e.output == "csv" {
				return fmt.Errorf("-f does not go with csv: take ndjson")
			}
			sources, err := e.open(paths)
			if err != nil {
				return err
			}
			p := newPrinter(cmd.OutOrStdout(), e.output, "")
			if p.format == "json" {
				p.format = "ndjson" // one line each: a tail has no end
			}
			for _, s := range sources {
				if err := tail(cmd.Context(), s, p, n); err != nil {
					return err
				}
			}
			if goOn {
				return followAll(cmd.Context(), sources, p)
			}
			p.end()
			return nil
		},
	}
	c.Flags().BoolVarP(&goOn, "follow", "f", false, "go on with what is written from now, until Ctrl-C")
	c.Flags().IntVarP(&n, "lines", "n", 10, "records of each journal to begin with")
	return c
}

// tail prints the last n records of what is written by now.
func tail(ctx context.Context, s *inspect.Source, p *printer, n int) error {
	type item struct {
		frame  ledger.Frame // without records
		record ledger.Record
	}
	var last []item
	err := s.Records(ctx, func(f *ledger.Frame, r *ledger.Record) error {
		head := *f
		head.Records = nil
		last = append(last, item{head, *r})
		if len(last) > 2*n+1024 {
			last = append(last[:0], last[len(last)-n:]...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, x := range last[max(0, len(last)-n):] {
		p.print(s.Name, &x.frame, &x.record, nil)
	}
	return nil
}

// followAll prints what is written from now on, as long as that can be printed.
func followAll(ctx context.Context, sources []*inspect.Source, p *printer) error {
	for follow.Pause(ctx, 200*time.Millisecond) {
		if out, ok := p.w.(*console.Output); ok && out.Err() != nil {
			return nil
		}
		for _, s := range sources {
			err := s.Records(ctx, func(f *ledger.Frame, r *ledger.Record) error {
				p.print(s.Name, f, r, nil)
				return nil
			})
			if err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
	return nil
}
