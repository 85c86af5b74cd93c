package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"souk/cmd/console"
	"souk/ledger"
	"souk/ledger/inspect"
	"souk/ledger/journal"
)

func (e *env) diffCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "diff A B",
		Short: "The first record in which two journals differ",
		Long: `diff compares journals byte by byte, each of A with that of its name in B, and says which record is
the first that differs, or where one goes on and the other ends. A and B are paths, as other commands take
them. Exit status: 0 the same, 1 different, 2 unreadable.`,
		Example: `  ledger diff souk-data /backup/souk-data
  ledger diff souk-data/journal/general /mnt/standby/journal/general`,
		Args: console.Takes(2, 2),
		RunE: func(cmd *cobra.Command, paths []string) error {
			if cmd.Flags().Changed("output") {
				return errors.New("--output: a difference is text alone: leave it out")
			}
			same, err := e.diff(cmd.Context(), cmd.OutOrStdout(), paths)
			switch {
			case errors.Is(err, journal.ErrDamaged):
				return errors.New(err.Error()) // it cannot be read, which is no finding here
			case err == nil && !same:
				return status(ExitViolations)
			}
			return err
		},
	}
}

// diff compares the journals at two paths.
func (e *env) diff(ctx context.Context, w io.Writer, paths []string) (same bool, err error) {
	var sides [2]map[string]string // directories by name
	var names []string
	for i, path := range paths {
		sources, err := inspect.Open([]string{path}, e.journal)
		if err != nil {
			return false, e.hint(paths, err)
		}
		sides[i] = map[string]string{}
		for _, s := range sources {
			sides[i][s.Name] = s.Dir
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	same = true
	for _, name := range slices.Compact(names) {
		d := difference{w: w, name: name, paths: [2]string(paths),
			dirs: [2]string{sides[0][name], sides[1][name]}}
		if err := d.find(ctx); err != nil {
			return false, err
		}
		same = same && !d.found
	}
	return same, nil
}

// difference is the first between two journals of one name.
type difference struct {
	w     io.Writer
	name  string
	paths [2]string // as they were given
	dirs  [2]string // "": there is none
	found bool
}

func (d *difference) say(format string, args ...any) {
	d.found = true
	fmt.Fprintf(d.w, "%s: %s\n", d.name, fmt.Sprintf(format, args...))
}

func (d *difference) find(ctx context.Context) error {
	var readers [2]*journal.Reader
	for i, dir := range d.dirs {
		if dir == "" {
			d.say("only %s has it", d.paths[1-i])
			return nil
		}
		var err error
		if readers[i], err = journal.NewReader(dir); err != nil {
			return err
		}
	}
	for ctx.Err() == nil {
		var at [2]journal.Entry // zero behind the end
		for i, r := range readers {
			var err error
			if at[i], err = r.Next(); err != nil && err != io.EOF {
				return err
			}
		}
		switch a, b := &at[0], &at[1]; {
		case a.Seq == 0 && b.Seq == 0:
			return nil
		case a.Seq != b.Seq || a.Epoch != b.Epoch || !bytes.Equal(a.Data, b.Data):
			return d.frames(at)
		}
	}
	return ctx.Err()
}

// frames says in what two frames differ, or that one of them is not there.
func (d *difference) frames(at [2]journal.Entry) error {
	var frames [2]ledger.Frame
	for i := range at {
		var err error
		if at[i].Seq == 0 {
			d.say("%s ends after frame %d, and all of it is in %s, which goes on:", d.paths[i], at[1-i].Seq-1,
				d.paths[1-i])
		} else if frames[i], err = at[i].Frame(); err != nil {
			return err
		}
	}
	x, y, n := &frames[0], &frames[1], 0
	for n < min(len(x.Records), len(y.Records)) &&
		bytes.Equal(ledger.AppendRecord(nil, &x.Records[n]), ledger.AppendRecord(nil, &y.Records[n])) {
		n++
	}
	if n == len(x.Records) && n == len(y.Records) {
		d.say("frame %d has the same records, and is of epoch %d and %s in %s, of epoch %d and %s in %s",
			x.Seq, x.Epoch, exact(x.Time), d.paths[0], y.Epoch, exact(y.Time), d.paths[1])
		return nil
	}
	both := !d.found
	if both {
		d.say("frame %d differs, first in record %d:", x.Seq, n+1)
	}
	for i := range frames {
		f, colon := &frames[i], ":"
		if n >= len(f.Records) {
			colon = ": no such record"
		}
		if both {
			fmt.Fprintln(d.w, d.paths[i]+colon)
		}
		if n < len(f.Records) {
			newPrinter(d.w, "table", "").print(d.name, f, &f.Records[n], nil)
		}
	}
	return nil
}

// exact is a moment to the last digit.
func exact(nanos int64) string { return time.Unix(0, nanos).UTC().Format(time.RFC3339Nano) }
