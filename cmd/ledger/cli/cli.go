// Package cli is the ledger command, for its own binary and for others that check a ledger on the way.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"souk/cmd/console"
	"souk/ledger"
	"souk/ledger/inspect"
)

// Exit codes of the command.
const (
	ExitClean      = 0
	ExitViolations = 1
	ExitUsage      = 2 // or something that cannot be read
	ExitDamaged    = 3 // or tampered with
	ExitUndecided  = 4 // with --strict: something could not be checked; there is nothing to prove yet
)

// Data is the value of --data where it is not given: what the environment says, as it does in the image of
// deploy/Dockerfile and in units, else where a market keeps its data when it is not told.
func Data() string { return cmp.Or(os.Getenv("SOUK_DATA"), "souk-data") }

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
	written := &console.Output{W: out}
	root.SetOut(written)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = written.Err()
	}
	var s status
	switch {
	case err == nil:
		return ExitClean
	case errors.As(err, &s):
		return int(s)
	}
	if code, ok := codeOfError(err); ok {
		fmt.Fprintln(errs, "ledger:", err)
		return code
	}
	fmt.Fprintln(errs, "ledger:", console.Unknown("ledger", err))
	if v := (*ledger.Violation)(nil); errors.As(err, &v) || errors.As(err, new(violation)) {
		return ExitViolations
	}
	return ExitUsage
}

// env holds the flags that all commands share: where the journals are and how to print.
type env struct {
	data    string
	journal string
	output  string
}

// Command is the root of the command's verbs.
func Command() *cobra.Command {
	e := &env{}
	root := &cobra.Command{
		Use:   "ledger",
		Short: "Check and show the journals of a market",
		Long: `ledger reads the journals of a market: what was promised, what was done, who owes whom,
and the proof.

It works beside a running market and on a copied directory, with no daemon, network or key, and changes
nothing. PATH is a data directory (with journal/NAME in it), the directory of several journals, or that
of one; without PATH it is --data. A hub's journal is named after its domain unless its file says otherwise.
Amounts are credits. A receipt is JOURNAL/ROUND/SLOT, as souk submit prints it.`,
		Example: `  ledger check                              silence and exit 0 mean that all is as it should be
  ledger bal 'client:*'                     who has what
  ledger trace math/17/0                    one task by its receipt: bid, price, payment
  ledger trace dev/task-1                   the same by client and task
  ledger round 17 --journal math --explain  why each price is what it is; each journal counts its rounds`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	f := root.PersistentFlags()
	f.StringVar(&e.data, "data", Data(),
		"data directory of the market, where no PATH is given (environment: SOUK_DATA)")
	f.StringVar(&e.journal, "journal", "", "only the journal of this name")
	f.StringVarP(&e.output, "output", "O", "table", "table, json, ndjson or csv")
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		if !slices.Contains(formats, e.output) && (e.output != "html" || c.Name() != "statement") {
			return fmt.Errorf("--output %q: take %s", e.output, strings.Join(formats, ", "))
		}
		return nil
	}
	root.SetFlagErrorFunc(console.FlagError)
	root.AddCommand(e.checkCommand(), e.balCommand(), e.regCommand(), e.roundCommand(), e.printCommand(),
		e.traceCommand(), e.statsCommand(), e.tailCommand(), e.proveCommand(), e.verifyCommand())
	root.AddCommand(e.spendCommand(), e.earnCommand(), e.statementCommand(), e.exportCommand(),
		e.diffCommand(), closeCommand())
	return root
}

// paths returns the paths to read: the directory of --data where none are named.
func (e *env) paths(named []string) []string {
	if len(named) == 0 {
		return []string{e.data}
	}
	return named
}

// hint says how to name a directory where that of --data is not there, and who may read one.
func (e *env) hint(named []string, err error) error {
	if errors.Is(err, fs.ErrNotExist) && len(named) == 0 {
		where, abs := filepath.Abs(e.data)
		if abs != nil {
			where = e.data
		}
		return fmt.Errorf("%w: no market has kept its journals in %s: go where it ran, or name its data "+
			"directory by --data", err, where)
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: journals are open to their market's user alone: be that user, or read a copy",
			err)
	}
	return err
}

// open finds and opens the journals at paths, or else those of --data.
func (e *env) open(paths []string) ([]*inspect.Source, error) {
	sources, err := inspect.Open(e.paths(paths), e.journal)
	return sources, e.hint(paths, err)
}

// each reads the records of the journals at paths, or else of those of --data, one journal after another.
func (e *env) each(ctx context.Context, paths []string,
	f func(*inspect.Source, *ledger.Frame, *ledger.Record) error) error {
	sources, err := e.open(paths)
	if err != nil {
		return err
	}
	for _, s := range sources {
		err := s.Records(ctx, func(frame *ledger.Frame, r *ledger.Record) error { return f(s, frame, r) })
		if err != nil {
			return err
		}
	}
	return nil
}

// only returns the one journal that a command without --journal can mean.
func only(sources []*inspect.Source, role string) (*inspect.Source, error) {
	var fit []*inspect.Source
	var names []string
	for _, s := range sources {
		if s.Role == role {
			fit = append(fit, s)
			names = append(names, s.Name)
		}
	}
	switch len(fit) {
	case 0:
		return nil, fmt.Errorf("no journal of a %s here: name its data directory by --data", role)
	case 1:
		return fit[0], nil
	}
	return nil, fmt.Errorf("several journals: choose one with --journal: %s", strings.Join(names, ", "))
}
