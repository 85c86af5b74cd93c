package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"souk/ledger"
	"souk/ledger/inspect"
)

// codeOf is the exit code for what a check found.
func codeOf(s *inspect.Summary) int {
	switch {
	case slices.ContainsFunc(s.Findings, func(f ledger.Finding) bool { return f.Damage }):
		return ExitDamaged
	case s.Count > 0:
		return ExitViolations
	}
	return ExitClean
}

func (e *env) checkCommand() *cobra.Command {
	o := inspect.Options{Level: ledger.MaxLevel}
	var verbose, strict bool
	var policies, against []string
	c := &cobra.Command{
		Use:   "check [PATH...]",
		Short: "Audit all journals; no output and exit code 0 mean that nothing is wrong",
		Long: `check reads every journal from its first byte and trusts nothing else.

  level 0  frames        every byte of the log as it was written: checksums, sequence without gaps, epochs
                         never fall, known kinds; nothing but zeros behind the last frame, no file too many,
                         none longer than it can be, nothing in the place of one that is none; snapshots say
                         the same as the log
  level 1  Merkle        each checkpoint beside the log, and each of --against, is of a beginning of it; with
                         --policy, their writer has signed them, and witnesses as the policy asks
  level 2  state         every record legal, no account below zero, a hold ends once, capture within its hold
  level 3  conservation  payments = earnings + surplus + fees, per record, round and journal
  level 4  auctions      the certificate of every round, that its holds are its awards, and that what a second
                         of a slot costs, each toll and what of it is not charged are what the rounds before
                         taught; where one is lost, which of those after it cannot be checked
  level 5  across        grants and accepts, returns and reclaims, surplus that left, one to one; of a hub
                         that ended nothing in flight; a journal that another names is here, unless it was
                         written off, and goes as far as the others have noted; an index beside a journal
                         says what that does
  level 6  metering      quote = predicted tokens x price card, cost = usage x price card; agents whose
                         account cannot be true

Where PATH is a directory of several journals, it is meant to have all of a market's: one that another
names by a grant or an accept, and that is not there, is a violation, unless --elsewhere names it. A
journal that is chosen by --journal, or by its own directory, is judged by itself, and what it says of
others is undecided.

The sums protect against accidents, and level 1 against whoever can write the files: up to the last
checkpoint whose witnesses are not in league with him nothing was changed, left out or cut off, if --policy
has their keys, or --against a checkpoint that he cannot reach. Behind it, and without checkpoints, frames
that were written anew with sums that fit, an end that was cut off where a frame ends and zeroed, and a
journal that was deleted and that nobody names are not found. Nor is, in such frames, what nothing else
depends on: of a hold its model, attempt, boot, digest, expiry and reader, and how far it is above what was
paid; of a capture how it ended and when it began; reasons, notes, deposits; of a round what was expected
of those who got nothing, how long somebody would have waited, and what was left out. ARCHITECTURE.md has
the whole list, under Trust. A write that a crash tore, which the next start trims, is undecided.

Exit: 0 clean, 1 violations, 2 usage or unreadable, 3 damaged or tampered, 4 undecided (with --strict).
Damage outranks violations.`,
		Example: `  ledger check
  ledger check --level 3 /backup/journal
  ledger check -O json copy-of-hub-maths
  ledger check --policy policy --against mine.tlog-proof
  ledger check --elsewhere treasury /var/lib/souk    on a machine with hubs alone`,
		RunE: func(cmd *cobra.Command, paths []string) error {
			if o.Level < 0 || o.Level > ledger.MaxLevel {
				return fmt.Errorf("--level %d: take 0 to %d", o.Level, ledger.MaxLevel)
			}
			errs := cmd.ErrOrStderr()
			var shown progress
			o.Journal, o.Hash, o.Opened = e.journal, verbose, shown.watch
			var err error
			if o.Policies, err = readPolicies(policies); err != nil {
				return err
			}
			if o.Against, err = notes(against); err != nil {
				return err
			}
			sum, err := inspect.Check(cmd.Context(), e.paths(paths), o)
			shown.end()
			if err = e.hint(paths, err); err != nil {
				return err
			}
			e.writeFindings(cmd.OutOrStdout(), &sum)
			out := errs
			if verbose && e.output == "table" {
				out = cmd.OutOrStdout()
				e.writeRead(out, cmd.Root().Version, &sum)
			}
			if verbose || isTerminal(errs) {
				fmt.Fprintln(out, sum.Line())
			}
			code := codeOf(&sum)
			if code == ExitClean && strict && len(sum.Undecided) > 0 {
				code = ExitUndecided
			}
			if verbose || code == ExitUndecided {
				for _, u := range sum.Undecided {
					fmt.Fprintln(out, u)
				}
			}
			if code != ExitClean {
				return status(code)
			}
			return nil
		},
	}
	c.Flags().IntVar(&o.Level, "level", ledger.MaxLevel, "highest level to check, 0 to 6")
	c.Flags().StringSliceVar(&o.Elsewhere, "elsewhere", nil,
		"journals that are kept on other machines, and not missing here")
	policyFlag(c, &policies)
	c.Flags().StringArrayVar(&against, "against", nil,
		"checkpoint, or proof, that was kept elsewhere: its journal must go on it; may be given again")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false,
		"say what was checked and by which program, with hashes, and what could not be: to be filed")
	c.Flags().BoolVar(&strict, "strict", false, "exit 4 if something could not be checked")
	return c
}

// writeRead says what was read, when, and by which program.
func (e *env) writeRead(w io.Writer, version string, sum *inspect.Summary) {
	fmt.Fprintf(w, "ledger check of %s by ledger %s\n", stamp(time.Now().UnixNano()), version)
	for _, r := range sum.Read {
		dir, err := filepath.Abs(r.Dir)
		if err != nil {
			dir = r.Dir
		}
		fmt.Fprintf(w, "%s: journal %s, frames 1 to %d, sha256 %s\n", dir, r.Journal, r.Frames, r.SHA256)
	}
}

// writeFindings prints nothing where nothing was found, except as JSON, which is always one document.
func (e *env) writeFindings(w io.Writer, sum *inspect.Summary) {
	if e.output == "json" {
		writeJSON(w, object{
			[]string{"findings", "count", "across", "undecided", "journals"},
			[]any{append([]ledger.Finding{}, sum.Findings...), sum.Count, sum.Across,
				append([]string{}, sum.Undecided...), reportObjects(sum.Reports)}})
		return
	}
	if e.output == "table" {
		for _, f := range sum.Findings {
			fmt.Fprintln(w, f)
		}
		if more := sum.Count - len(sum.Findings); more > 0 {
			fmt.Fprintf(w, "and %d more\n", more)
		}
		return
	}
	if len(sum.Findings) == 0 {
		return
	}
	s := newSheet(w, e.output, "level", "invariant", "journal", "seq", "record", "expected", "found", "show")
	for _, f := range sum.Findings {
		s.add(f.Level, f.Invariant, f.Journal, f.Seq, f.Record, f.Expected, f.Found, f.Show)
	}
	s.end()
}

// reportColumns are the columns of check and stats, a row for each journal.
var reportColumns = []string{"journal", "role", "frames", "records", "rounds", "open holds", "overdue",
	"payments", "earned", "surplus", "fees", "remitted", "refunded", "findings", "closed", "first", "last"}

func reportCells(r *ledger.Report) []any {
	return []any{r.Journal.Journal, r.Journal.Role, r.Frames, r.Records, r.Rounds, r.Open, r.Overdue,
		r.Payments, r.Earned, r.Surplus, r.Fees, r.Remitted, r.Refunded, r.Count, r.Closed, stamp(r.First),
		stamp(r.Last)}
}

func reportObjects(reports []ledger.Report) (list []object) {
	for i := range reports {
		list = append(list, object{reportColumns, reportCells(&reports[i])})
	}
	return list
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && filepath.Base(f.Name()) != "null"
}
