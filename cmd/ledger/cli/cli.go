// Package cli is the ledger command, for its own binary and for others that check a ledger on the way.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"souk/ledger"
	"souk/ledger/journal"
)

// Exit codes of the command.
const (
	ExitClean      = 0
	ExitViolations = 1
	ExitUsage      = 2 // or something that cannot be read
	ExitDamaged    = 3 // or tampered with
	ExitUndecided  = 4 // with --strict: something could not be checked
)

// DefaultData is where a market keeps its data when it is not told.
const DefaultData = "souk-data"

// status is an error that stands for an exit code and says nothing more.
type status int

func (s status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// violation is an error found in a journal by a command that is not check.
type violation struct{ error }

func (v violation) Unwrap() error { return v.error }

// Run runs the command, which says that it is of that version, and returns its exit code.
func Run(ctx context.Context, version string, args []string, out, errs io.Writer) int {
	root := Command()
	root.Version = version
	root.SetVersionTemplate("ledger {{.Version}}\n")
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	var s status
	switch {
	case err == nil:
		return ExitClean
	case errors.As(err, &s):
		return int(s)
	case errors.Is(err, journal.ErrDamaged):
		fmt.Fprintln(errs, "ledger:", err)
		return ExitDamaged
	}
	fmt.Fprintln(errs, "ledger:", err)
	if v := (*ledger.Violation)(nil); errors.As(err, &v) || errors.As(err, new(violation)) {
		return ExitViolations
	}
	return ExitUsage
}

// env is what all commands share: where the journals are and how to print.
type env struct {
	data    string
	journal string
	output  string
	witness bool // snapshots are compared with their journals
}

// Command is the root of the command's verbs.
func Command() *cobra.Command {
	e := &env{}
	root := &cobra.Command{
		Use:   "ledger",
		Short: "Check and show the journals of a market",
		Long: `ledger reads the journals of a market: what was promised, what was done, who owes whom, and the proof.

It works beside a running market and on a copied directory, with no daemon, network or key, and changes nothing. PATH is a
data directory (with journal/NAME in it), the directory of several journals, or that of one; without PATH it is --data.
Amounts are credits.`,
		Example: `  ledger check                      silence and exit 0 mean that everything is as it should be
  ledger bal 'client:*'             who has what
  ledger round 17 --explain         why each price is what it is
  ledger trace dev/task-1           one task, bid to receipt`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	f := root.PersistentFlags()
	f.StringVar(&e.data, "data", DefaultData, "data directory of the market, where no PATH is given")
	f.StringVar(&e.journal, "journal", "", "only the journal of this name")
	f.StringVarP(&e.output, "output", "O", "table", "table, json, ndjson or csv")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if !slices.Contains(formats, e.output) {
			return fmt.Errorf("--output %q: take %s", e.output, strings.Join(formats, ", "))
		}
		return nil
	}
	root.AddCommand(e.checkCommand(), e.balCommand(), e.regCommand(), e.roundCommand(), e.printCommand(), e.traceCommand(), e.statsCommand(), e.tailCommand())
	return root
}

// source is one journal to read.
type source struct {
	dir    string
	name   string // of its first record; the directory's until that is read
	role   string
	reader *journal.Reader
	first  []byte // the first frame, read to learn the name
	at     uint64
	epoch  int64
	err    error  // the first frame could not be read
	last   uint64 // frame read last
	done   bool   // damage was found: nothing behind it is read

	tick func(bytes int64) // told now and then how many more were read; nil: nobody asks
}

// watch shows a bar on a terminal while a command reads. The first thing that is written to w takes it away, as does stop.
func watch(cmd *cobra.Command, sources []*source) (w io.Writer, stop func()) {
	w = cmd.OutOrStdout()
	if !isTerminal(cmd.ErrOrStderr()) {
		return w, func() {}
	}
	step, finish := progress(cmd.ErrOrStderr(), "reading")
	var done, total int64
	for _, s := range sources {
		if s.reader != nil {
			total += s.reader.Size()
		}
		s.tick = func(bytes int64) {
			done += bytes
			step(done, total)
		}
	}
	stop = sync.OnceFunc(func() {
		for _, s := range sources {
			s.tick = nil
		}
		finish()
	})
	return &after{w, stop}, stop
}

// after is a writer before whose first byte something is done.
type after struct {
	io.Writer
	first func()
}

func (a *after) Write(b []byte) (int, error) {
	a.first()
	return a.Writer.Write(b)
}

// open finds and opens the journals at paths.
func (e *env) open(paths []string) ([]*source, error) {
	all, _, err := e.openAll(paths)
	return all, err
}

// openAll also reports whether these are all journals of some directory, and not some that were chosen.
func (e *env) openAll(paths []string) (all []*source, whole bool, err error) {
	if len(paths) == 0 {
		paths = []string{e.data}
	}
	seen := map[string]bool{}
	for _, p := range paths {
		dirs, err := journal.Find(p)
		if errors.Is(err, fs.ErrNotExist) && p == e.data {
			return nil, false, fmt.Errorf("%w; name the directory, or --data", err)
		}
		if err != nil {
			return nil, false, err
		}
		single := len(dirs) == 1 && (dirs[0] == p || dirs[0] == filepath.Dir(p))
		whole = whole || !single && e.journal == ""
		for _, dir := range dirs {
			if seen[dir] {
				continue
			}
			seen[dir] = true
			s, err := openSource(dir, e.witness)
			if err != nil {
				return nil, false, err
			}
			if e.journal == "" || s.name == e.journal {
				all = append(all, s)
			}
		}
	}
	if len(all) == 0 {
		return nil, false, fmt.Errorf("no journal %s at %s", e.journal, strings.Join(paths, ", "))
	}
	return all, whole, nil
}

// openSource opens one journal; witness says that its snapshots are compared with it.
func openSource(dir string, witness bool) (*source, error) {
	s := &source{dir: dir, name: base(dir)}
	r, err := journal.NewReader(dir)
	if errors.Is(err, journal.ErrDamaged) {
		s.err = err
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	s.reader = r
	if witness {
		r.Witness()
	}
	entry, err := r.Next()
	if err == io.EOF {
		return s, nil
	}
	if err != nil {
		if !errors.Is(err, journal.ErrDamaged) {
			return nil, err
		}
		s.err = err
		return s, nil
	}
	s.first, s.at, s.epoch = slices.Clone(entry.Data), entry.Seq, entry.Epoch
	if f, err := entry.Frame(); err == nil && len(f.Records) > 0 && f.Records[0].Open != nil {
		s.name, s.role = f.Records[0].Open.Journal, f.Records[0].Open.Role
	}
	return s, nil
}

// each calls f with every stored frame's bytes that was not given yet. It returns at the journal's present end.
func (s *source) each(ctx context.Context, f func(seq uint64, epoch int64, data []byte) error) error {
	if s.err != nil {
		return s.err
	}
	if s.first != nil {
		first := s.first
		s.first = nil
		if err := f(s.at, s.epoch, first); err != nil {
			return err
		}
	}
	bytes := int64(0)
	for n := 0; ; n++ {
		if n%1024 == 0 {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if s.tick != nil {
				s.tick(bytes)
				bytes = 0
			}
		}
		entry, err := s.reader.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		bytes += int64(len(entry.Data))
		if err := f(entry.Seq, entry.Epoch, entry.Data); err != nil {
			return err
		}
	}
}

// frames calls f with every frame, decoded.
func (s *source) frames(ctx context.Context, f func(*ledger.Frame) error) error {
	return s.each(ctx, func(seq uint64, epoch int64, data []byte) error {
		frame, err := journal.Entry{Seq: seq, Epoch: epoch, Data: data, Segment: s.dir}.Frame()
		if err != nil {
			return err
		}
		return f(&frame)
	})
}

func base(dir string) string {
	dir = strings.TrimRight(dir, string(os.PathSeparator))
	return dir[strings.LastIndexByte(dir, os.PathSeparator)+1:]
}

// only returns the one journal that a command without --journal can mean.
func only(sources []*source, role string) (*source, error) {
	var fit []*source
	var names []string
	for _, s := range sources {
		if s.role == role || role == "" {
			fit = append(fit, s)
			names = append(names, s.name)
		}
	}
	switch len(fit) {
	case 0:
		return nil, fmt.Errorf("no journal of a %s here", role)
	case 1:
		return fit[0], nil
	}
	return nil, fmt.Errorf("several journals: choose one with --journal: %s", strings.Join(names, ", "))
}
