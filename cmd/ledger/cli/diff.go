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
		if err == nil {
			err = inspect.Unreadable(sources)
		}
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

func (d *difference) say(format string, args ...any) error {
	d.found = true
	_, err := fmt.Fprintf(d.w, "%s: %s\n", d.name, fmt.Sprintf(format, args...))
	return err
}

func (d *difference) find(ctx context.Context) error {
	var readers [2]*journal.Reader
	for i, dir := range d.dirs {
		if dir == "" {
			return d.say("only %s has it", d.paths[1-i])
		}
		var err error
		if readers[i], err = journal.NewReader(dir); err != nil {
			return err
		}
	}
	for {
		var at [2]journal.Entry
		var ends [2]bool
		for i, r := range readers {
			var err error
			switch at[i], err = r.Next(); {
			case err == io.EOF:
				ends[i] = true
			case err != nil:
				return err
			}
		}
		switch a, b := &at[0], &at[1]; {
		case ends[0] && ends[1]:
			return nil
		case ends[0]:
			return d.goesOn(0, b)
		case ends[1]:
			return d.goesOn(1, a)
		case a.Epoch != b.Epoch || !bytes.Equal(a.Data, b.Data):
			return d.frames(a, b)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// goesOn says that one of the two is the beginning of the other, which has a frame more.
func (d *difference) goesOn(short int, more *journal.Entry) error {
	f, err := more.Frame()
	if err != nil {
		return err
	}
	if err := d.say("%s ends after frame %d, and all of it is in %s, which goes on:", d.paths[short], more.Seq-1,
		d.paths[1-short]); err != nil || len(f.Records) == 0 {
		return err
	}
	return newPrinter(d.w, "table", "").print(d.name, &f, &f.Records[0], nil)
}

// frames says in what two frames differ.
func (d *difference) frames(a, b *journal.Entry) error {
	var frames [2]ledger.Frame
	for i, e := range []*journal.Entry{a, b} {
		var err error
		if frames[i], err = e.Frame(); err != nil {
			return err
		}
	}
	x, y := &frames[0], &frames[1]
	at := 0
	for at < min(len(x.Records), len(y.Records)) &&
		bytes.Equal(ledger.AppendRecord(nil, &x.Records[at]), ledger.AppendRecord(nil, &y.Records[at])) {
		at++
	}
	if at == len(x.Records) && at == len(y.Records) {
		return d.say("frame %d has the same records, and is of epoch %d and %s in %s, of epoch %d and %s in %s",
			x.Seq, x.Epoch, exact(x.Time), d.paths[0], y.Epoch, exact(y.Time), d.paths[1])
	}
	if err := d.say("frame %d differs, first in record %d:", x.Seq, at+1); err != nil {
		return err
	}
	for i := range frames {
		var err error
		if f := &frames[i]; at == len(f.Records) {
			_, err = fmt.Fprintf(d.w, "%s: no such record\n", d.paths[i])
		} else if _, err = fmt.Fprintf(d.w, "%s:\n", d.paths[i]); err == nil {
			err = newPrinter(d.w, "table", "").print(d.name, f, &f.Records[at], nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// exact is a moment to the last digit.
func exact(nanos int64) string { return time.Unix(0, nanos).UTC().Format(time.RFC3339Nano) }
