package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"souk/ledger"
	"souk/ledger/journal"
)

// Options of Check.
type Options struct {
	Level   int    // 0 to ledger.MaxLevel
	Journal string // only this one; "" all
	// Elsewhere names journals that are kept on other machines: they are not missing here.
	Elsewhere []string
	Workers   int                     // for auctions; 0: one per processor
	Progress  func(done, total int64) // bytes; nil: none. Called from one goroutine
}

// Summary is what a check found.
type Summary struct {
	Reports  []ledger.Report  `json:"-"`
	Across   bool             // level 5 was done
	Findings []ledger.Finding // of all journals, in order
	Count    int              // may be more: each journal keeps the first ledger.MaxFindings
	// Undecided says what could not be checked, and why.
	Undecided []string
	Took      time.Duration

	missing []string // journals
}

// Code is the command's exit code for the summary.
func (s *Summary) Code() int {
	for _, f := range s.Findings {
		if f.Damage {
			return ExitDamaged
		}
	}
	if s.Count > 0 {
		return ExitViolations
	}
	return ExitClean
}

// Line says in one line what was checked.
func (s *Summary) Line() string {
	var frames, records, rounds uint64
	open, overdue := 0, 0
	for _, r := range s.Reports {
		frames, records, rounds, open, overdue = frames+r.Frames, records+r.Records, rounds+r.Rounds, open+r.Open, overdue+r.Overdue
	}
	holds := fmt.Sprintf("%d open holds", open)
	if overdue > 0 {
		holds += fmt.Sprintf(" (%d past their time)", overdue)
	}
	what := "no findings"
	if s.Count == 1 {
		what = "1 finding"
	} else if s.Count > 1 {
		what = fmt.Sprintf("%d findings", s.Count)
	}
	return fmt.Sprintf("%s: %d journals, %d frames, %d records, %d rounds, %s, %s", what, len(s.Reports), frames, records, rounds, holds, s.Took.Round(time.Millisecond))
}

// Check audits the journals at paths, which are as PATH of the command. An error means that they could not be read
// at all; what is wrong in them is in the Summary.
func Check(ctx context.Context, paths []string, o Options) (Summary, error) {
	return (&env{journal: o.Journal}).check(ctx, paths, o)
}

func (e *env) check(ctx context.Context, paths []string, o Options) (Summary, error) {
	e.witness = true
	for try := 0; ; try++ {
		sources, whole, err := e.openAll(paths)
		if err != nil {
			return Summary{}, err
		}
		sum, err := check(ctx, sources, whole, o)
		if err != nil || try == 3 || !e.begun(paths, sum.missing) {
			return sum, err
		}
	}
}

// begun reports whether one of the journals that were missing is there now: it was begun while the others were read.
func (e *env) begun(paths []string, missing []string) bool {
	if len(missing) == 0 {
		return false
	}
	sources, err := e.open(paths)
	return err == nil && slices.ContainsFunc(sources, func(s *source) bool { return s.role != "" && slices.Contains(missing, s.name) })
}

// check audits sources; whole says that they are meant to be all journals of a market, of which none may be missing.
func check(ctx context.Context, sources []*source, whole bool, o Options) (Summary, error) {
	start := time.Now()
	c := &checker{ctx: ctx, o: o}
	for _, s := range sources {
		if s.reader != nil {
			c.total += s.reader.Size()
		}
	}
	var hubs []*ledger.Audit
	var treasury *ledger.Audit
	treasuries := 0
	audits := make([]*ledger.Audit, len(sources))
	// The hubs first, then the treasury, then what the hubs wrote meanwhile: see ledger.Across.
	for i, s := range sources {
		audits[i] = ledger.NewAudit(s.name, o.Level)
		if s.role == ledger.RoleTreasury {
			treasury = audits[i]
			treasuries++
			continue
		}
		if err := c.read(s, audits[i]); err != nil {
			return Summary{}, err
		}
		if s.role == ledger.RoleHub {
			audits[i].Mark()
			hubs = append(hubs, audits[i])
		}
	}
	for _, pass := range []string{ledger.RoleTreasury, ledger.RoleHub} {
		for i, s := range sources {
			if s.role == pass {
				if err := c.read(s, audits[i]); err != nil {
					return Summary{}, err
				}
			}
		}
	}
	var sum Summary
	for i, s := range sources {
		if !s.done && s.reader != nil {
			note, err := s.reader.Tail()
			switch {
			case errors.Is(err, journal.ErrDamaged):
				audits[i].Damage(s.last, err)
			case err != nil:
				return Summary{}, err
			case note != "":
				sum.Undecided = append(sum.Undecided, note)
			}
		}
		r := audits[i].Finish()
		for k := range r.Findings {
			r.Findings[k].Show += " " + quoted(s.dir)
		}
		sum.Reports = append(sum.Reports, r)
		sum.Findings = append(sum.Findings, r.Findings...)
		sum.Count += r.Count
	}
	if o.Level >= ledger.LevelAcross {
		switch {
		case treasuries == 1 && len(hubs) > 0:
			found := ledger.Across(treasury, hubs)
			for i := range found {
				for _, s := range sources {
					if s.name == found[i].Journal {
						found[i].Show += " " + quoted(s.dir)
						break
					}
				}
			}
			sum.Across = true
			sum.Findings = append(sum.Findings, found...)
			sum.Count += len(found)
		case treasuries == 0:
			sum.Undecided = append(sum.Undecided, "level 5: the treasury's journal is not among these: grants and accepts were not compared")
		case len(hubs) == 0:
			sum.Undecided = append(sum.Undecided, "level 5: no hub's journal is among these: grants and accepts were not compared")
		case treasuries > 1:
			sum.Undecided = append(sum.Undecided, fmt.Sprintf("level 5: %d journals of a treasury: check one market at a time", treasuries))
		}
	}
	if o.Level >= ledger.LevelAcross && treasuries <= 1 {
		sum.absent(sources, ledger.Absent(treasury, hubs), whole, o.Elsewhere)
	}
	if o.Level >= ledger.LevelMerkle {
		sum.Undecided = append(sum.Undecided, "level 1: these journals have no checkpoints yet: nothing to compare with")
	}
	sum.Took = time.Since(start)
	return sum, nil
}

// absent notes the journals that are named and not here: missing where all journals are meant to be, else out of sight.
func (s *Summary) absent(sources []*source, all []ledger.Absence, whole bool, elsewhere []string) {
	for _, x := range all {
		here := func(name string) int {
			return slices.IndexFunc(sources, func(s *source) bool { return s.name == name })
		}
		if i := here(x.Journal); i >= 0 && sources[i].err != nil {
			continue // it is here, and its damage was found
		}
		if !whole || slices.Contains(elsewhere, x.Journal) {
			s.Undecided = append(s.Undecided, fmt.Sprintf("level 5: the journal %s, which %s names (it %s), is not among these", x.Journal, x.By, x.Did))
			continue
		}
		f := x.Finding()
		if i := here(x.By); i >= 0 {
			f.Show += " " + quoted(sources[i].dir)
		}
		s.missing = append(s.missing, x.Journal)
		s.Findings = append(s.Findings, f)
		s.Count++
	}
}

// quoted is a path as a shell takes it.
func quoted(path string) string {
	plain := func(c rune) bool {
		return strings.ContainsRune("/._-+=:@%,", c) || unicode.IsLetter(c) || unicode.IsDigit(c)
	}
	if path != "" && strings.IndexFunc(path, func(c rune) bool { return !plain(c) }) < 0 {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// checker reads journals into audits.
type checker struct {
	ctx   context.Context
	o     Options
	done  int64
	total int64
}

// read gives an audit what its journal holds by now. Rounds are checked beside the reading.
func (c *checker) read(s *source, a *ledger.Audit) error {
	if s.done {
		return nil
	}
	if s.err != nil {
		a.Damage(0, s.err)
		s.done = true
		return nil
	}
	wait := func() {}
	if c.o.Level >= ledger.LevelAuctions {
		wait = c.auctions(a)
	}
	n := 0
	err := s.each(c.ctx, func(seq uint64, epoch int64, data []byte) error {
		a.Frame(seq, epoch, data)
		s.last = seq
		c.done += int64(len(data))
		if n++; n%4096 == 0 && c.o.Progress != nil {
			c.o.Progress(c.done, c.total)
		}
		return nil
	})
	wait()
	if errors.Is(err, journal.ErrDamaged) {
		a.Damage(s.last, err)
		s.done = true
		return nil
	}
	return err
}

// auctions checks an audit's rounds on several processors. The function it returns waits for them and hands their
// findings over in the order of the journal.
func (c *checker) auctions(a *ledger.Audit) (wait func()) {
	workers := c.o.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	const chunk = 64 // rounds handed over at once
	jobs := make(chan []ledger.RoundCheck, 2*workers)
	var mu sync.Mutex
	var found []ledger.Finding
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for job := range jobs {
				for i := range job {
					if f := job[i].Findings(); len(f) > 0 {
						mu.Lock()
						found = append(found, f...)
						mu.Unlock()
					}
				}
			}
		})
	}
	var next []ledger.RoundCheck
	a.Rounds = func(r ledger.RoundCheck) {
		if next = append(next, r); len(next) == chunk {
			jobs <- next
			next = nil
		}
	}
	return func() {
		jobs <- next
		close(jobs)
		wg.Wait()
		a.Rounds = nil
		slices.SortStableFunc(found, func(x, y ledger.Finding) int { return cmp.Compare(x.Seq, y.Seq) })
		for _, f := range found {
			a.Add(f)
		}
	}
}

func (e *env) checkCommand() *cobra.Command {
	o := Options{Level: ledger.MaxLevel}
	var verbose, strict bool
	c := &cobra.Command{
		Use:   "check [PATH...]",
		Short: "Audit everything; silence and exit 0 mean that it is as it should be",
		Long: `check reads every journal from its first byte and trusts nothing else.

  level 0  frames        every byte of the log as it was written: checksums, sequence without gaps, epochs never fall, known kinds;
                         nothing but zeros behind the last frame, no file too many; snapshots say the same as the log
  level 1  Merkle        roots and checkpoints (journals have none yet)
  level 2  state         every record legal, no account below zero, a hold ends once, capture within its hold
  level 3  conservation  payments = payouts + surplus + fees, per record, round and journal
  level 4  auctions      the certificate of every round (one with bundles is cleared again), and that its holds are its awards
  level 5  across        grants and accepts, returns and reclaims, one to one; a journal that another names is here
  level 6  metering      quote = predicted tokens x price card, cost = usage x price card; agents whose account cannot be true

Where PATH is a directory of several journals, it is meant to have all of a market's: one that another names by a grant or an
accept, and that is not there, is a violation, unless --elsewhere names it. A journal that is chosen by --journal, or by its own
directory, is judged by itself, and what it says of others is undecided.

The sums protect against accidents, not against whoever can write the files: until there are signed checkpoints, frames that were
written anew with sums that fit, an end that was cut off where a frame ends and zeroed, and a journal that was deleted and that
nobody names are not found. A write that a crash tore, which the next start trims, is undecided.

Exit: 0 clean, 1 violations, 2 usage or unreadable, 3 damaged or tampered, 4 undecided (with --strict). Damage outranks violations.`,
		Example: `  ledger check
  ledger check --level 3 /backup/journal
  ledger check -O json copy-of-hub-maths
  ledger check --elsewhere treasury /var/lib/souk    on a machine with hubs alone`,
		RunE: func(cmd *cobra.Command, paths []string) error {
			if o.Level < 0 || o.Level > ledger.MaxLevel {
				return fmt.Errorf("--level %d: take 0 to %d", o.Level, ledger.MaxLevel)
			}
			errs := cmd.ErrOrStderr()
			terminal := isTerminal(errs)
			finish := func() {}
			if terminal {
				o.Progress, finish = progress(errs, "checking")
			}
			sum, err := e.check(cmd.Context(), paths, o)
			finish()
			if err != nil {
				return err
			}
			if err := e.writeFindings(cmd.OutOrStdout(), &sum); err != nil {
				return err
			}
			if terminal || verbose {
				fmt.Fprintln(errs, sum.Line())
			}
			if verbose {
				for _, u := range sum.Undecided {
					fmt.Fprintln(errs, u)
				}
			}
			code := sum.Code()
			if code == ExitClean && strict && len(sum.Undecided) > 0 {
				if !verbose {
					for _, u := range sum.Undecided {
						fmt.Fprintln(errs, u)
					}
				}
				code = ExitUndecided
			}
			if code != ExitClean {
				return status(code)
			}
			return nil
		},
	}
	c.Flags().IntVar(&o.Level, "level", ledger.MaxLevel, "highest level to check, 0 to 6")
	c.Flags().StringSliceVar(&o.Elsewhere, "elsewhere", nil, "journals that are kept on other machines, and not missing here")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "say what was checked, and what could not be")
	c.Flags().BoolVar(&strict, "strict", false, "exit 4 if something could not be checked")
	return c
}

// writeFindings prints nothing where nothing was found, except as JSON, which is always one document.
func (e *env) writeFindings(w io.Writer, sum *Summary) error {
	if e.output == "json" {
		return writeJSON(w, object{
			[]string{"findings", "count", "across", "undecided", "journals"},
			[]any{orEmpty(sum.Findings), sum.Count, sum.Across, orEmpty(sum.Undecided), reportObjects(sum.Reports)}})
	}
	if e.output == "table" {
		for _, f := range sum.Findings {
			fmt.Fprintln(w, f)
		}
		if more := sum.Count - len(sum.Findings); more > 0 {
			fmt.Fprintf(w, "and %d more\n", more)
		}
		return nil
	}
	s := sheet{columns: []string{"level", "invariant", "journal", "seq", "record", "expected", "found", "show"}}
	for _, f := range sum.Findings {
		s.add(f.Level, f.Invariant, f.Journal, f.Seq, f.Record, f.Expected, f.Found, f.Show)
	}
	if len(s.rows) == 0 {
		return nil
	}
	return s.write(w, e.output)
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func reportObjects(reports []ledger.Report) []object {
	s := reportSheet(reports)
	return s.objects()
}

func reportSheet(reports []ledger.Report) sheet {
	s := sheet{columns: []string{"journal", "role", "frames", "records", "rounds", "open holds", "overdue", "payments", "payouts", "surplus", "fees", "findings"}}
	for _, r := range reports {
		s.add(r.Journal.Journal, r.Journal.Role, r.Frames, r.Records, r.Rounds, r.Open, r.Overdue, r.Payments, r.Payouts, r.Surplus, r.Fees, r.Count)
	}
	return s
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && filepath.Base(f.Name()) != "null"
}

// progress shows a bar once half a second has passed.
func progress(w io.Writer, what string) (step func(done, total int64), finish func()) {
	var bar *progressbar.ProgressBar
	start := time.Now()
	return func(done, total int64) {
			if bar == nil {
				if time.Since(start) < time.Second/2 {
					return
				}
				bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
					progressbar.OptionShowBytes(true), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
			}
			_ = bar.Set64(min(done, total))
		}, func() {
			if bar != nil {
				_ = bar.Finish()
			}
		}
}
