package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"souk/ledger"
	"souk/ledger/inspect"
)

// filter chooses records.
type filter struct {
	from, to uint64 // frames; to 0: no end
	id       string // of a record, or the beginning of one that goes on with '/'
	kind     string
	account  string
}

func (f *filter) has(seq uint64, r *ledger.Record) bool {
	if seq < f.from || f.to != 0 && seq > f.to || f.kind != "" && r.Kind.String() != f.kind {
		return false
	}
	if f.id != "" && r.ID != f.id && !strings.HasPrefix(r.ID, f.id+"/") {
		return false
	}
	return f.account == "" ||
		slices.ContainsFunc(r.Legs, func(l ledger.Leg) bool { return l.Account == f.account })
}

// parseRange reads "17", "17-20" or "17-".
func (f *filter) parseRange(s string) (err error) {
	if s == "" {
		return nil
	}
	from, to, isRange := strings.Cut(s, "-")
	if f.from, err = strconv.ParseUint(from, 10, 64); err == nil {
		f.to = f.from
		if isRange {
			f.to = 0
			if to != "" {
				f.to, err = strconv.ParseUint(to, 10, 64)
			}
		}
	}
	if err != nil || f.from == 0 || f.to != 0 && f.to < f.from {
		return fmt.Errorf("--seq %q: want a frame's number, which count from 1, or a range like 17-20 or 17-",
			s)
	}
	return nil
}

// validate judges what is not a range.
func (f *filter) validate() error {
	if kinds := ledger.KindNames(); f.kind != "" && !slices.Contains(kinds, f.kind) {
		return fmt.Errorf("--kind %q: take %s", f.kind, strings.Join(kinds, ", "))
	}
	return nil
}

func (e *env) printCommand() *cobra.Command {
	var f filter
	var seq string
	c := &cobra.Command{
		Use:   "print [PATH...]",
		Short: "The records themselves, with all their legs",
		Example: `  ledger print --journal hub-maths --seq 17
  ledger print --id hub-maths/8/0            a hold and its end
  ledger print --account surplus -O ndjson`,
		RunE: func(cmd *cobra.Command, paths []string) error {
			if err := cmp.Or(f.parseRange(seq), f.validate()); err != nil {
				return err
			}
			p := newPrinter(cmd.OutOrStdout(), e.output, "")
			err := e.each(cmd.Context(), paths,
				func(s *inspect.Source, frame *ledger.Frame, r *ledger.Record) error {
					switch {
					case f.to != 0 && frame.Seq > f.to:
						return inspect.ErrStop
					case f.has(frame.Seq, r):
						p.print(s.Name, frame, r, nil)
					}
					return nil
				})
			if err == nil {
				p.end()
			}
			return err
		},
	}
	c.Flags().StringVar(&seq, "seq", "", "only this frame, or a range like 17-20 or 17-")
	c.Flags().StringVar(&f.id, "id", "", "only the record of this id and those made from it")
	c.Flags().StringVar(&f.kind, "kind", "",
		"only records of this kind: round, hold, capture, void, grant, ...")
	c.Flags().StringVar(&f.account, "account", "", "only records that move this account")
	return c
}
