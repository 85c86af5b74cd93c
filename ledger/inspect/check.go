package inspect

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"souk/bus/tip"
	"souk/ledger"
	"souk/ledger/checkpoint"
	"souk/ledger/journal"
)

// Options of Check.
type Options struct {
	Level   int    // 0 to ledger.MaxLevel
	Journal string // only this one; "" all
	Hash    bool   // make hashes of what was read
	// Opened is called with the journals before they are read; nil: nobody asks.
	Opened func([]*Source)
	// Elsewhere names journals that are kept on other machines: they are not missing here.
	Elsewhere []string
	// Policies judge the signatures on checkpoints; none: nobody does.
	Policies []*checkpoint.Policy
	// Against are checkpoints that are kept elsewhere: each journal is to go on those of it.
	Against []Note
}

// Summary is the result of a check.
type Summary struct {
	Reports  []ledger.Report  `json:"-"`
	Across   bool             // level 5 was done
	Findings []ledger.Finding // of all journals, in order
	Count    int              // may be more: each journal keeps the first ledger.MaxFindings
	// Undecided says what could not be checked, and why.
	Undecided []string
	Read      []Read
	Took      time.Duration

	missing []string // journals
}

// Read is a journal that was read, and what of it.
type Read struct {
	Journal, Dir string
	Frames       uint64
	SHA256       string // of the bytes of these frames, one after another; only where it is asked for
}

// Line says in one line what was checked.
func (s *Summary) Line() string {
	var frames, records, rounds uint64
	open, overdue, closed, lost := 0, 0, 0, 0
	for _, r := range s.Reports {
		if r.Closed {
			closed++
		}
		lost += r.Lost
		frames, records, rounds, open, overdue = frames+r.Frames, records+r.Records, rounds+r.Rounds,
			open+r.Open, overdue+r.Overdue
	}
	holds := fmt.Sprintf("%d open holds", open)
	if overdue > 0 {
		holds += fmt.Sprintf(" (%d past their time)", overdue)
	}
	journals := fmt.Sprintf("%d journals", len(s.Reports))
	if closed > 0 {
		journals += fmt.Sprintf(" (%d closed)", closed)
	}
	if lost > 0 {
		journals += fmt.Sprintf(" and %d lost, which are written off", lost)
	}
	what := "no findings"
	if s.Count == 1 {
		what = "1 finding"
	} else if s.Count > 1 {
		what = fmt.Sprintf("%d findings", s.Count)
	}
	return fmt.Sprintf("%s: %s, %d frames, %d records, %d rounds, %s, %s", what, journals, frames, records,
		rounds, holds, s.Took.Round(time.Millisecond))
}

// Check audits the journals at paths, which are as [Open] takes them. An error means that they could not be
// read at all; what is wrong in them is in the Summary.
func Check(ctx context.Context, paths []string, o Options) (Summary, error) {
	for try := 0; ; try++ {
		sources, whole, err := open(paths, o.Journal, true)
		if err != nil {
			return Summary{}, err
		}
		if o.Opened != nil {
			o.Opened(sources)
		}
		sum, err := check(ctx, sources, whole, o)
		if err != nil || try == 3 || !begun(paths, sum.missing) {
			return sum, err
		}
	}
}

// begun reports whether one of the journals that were missing is there now: it was begun while the others
// were read.
func begun(paths []string, missing []string) bool {
	if len(missing) == 0 {
		return false
	}
	sources, err := Open(paths, "")
	return err == nil && slices.ContainsFunc(sources, func(s *Source) bool {
		return s.Role != "" &&
			slices.Contains(missing, s.Name)
	})
}

// check audits sources; whole says that they are meant to be all journals of a market, of which none may be
// missing.
func check(ctx context.Context, sources []*Source, whole bool, o Options) (Summary, error) {
	start := time.Now()
	c := &checker{ctx: ctx, o: o}
	var sum Summary
	var hubs []*ledger.Audit
	var treasury *ledger.Audit
	treasuries := 0
	audits := make([]*ledger.Audit, len(sources))
	for i, s := range sources {
		if audits[i] = ledger.NewAudit(s.Name, o.Level); o.Hash {
			s.sum = sha256.New()
		}
	}
	if o.Level >= ledger.LevelMerkle {
		var err error
		if c.signed, sum.Undecided, err = c.chains(sources, audits); err != nil {
			return Summary{}, err
		}
	}
	// The hubs first, then the treasury, then what the hubs wrote meanwhile: see ledger.Across.
	for i, s := range sources {
		if s.Role == ledger.RoleTreasury {
			treasury = audits[i]
			treasuries++
			continue
		}
		if err := c.read(s, audits[i]); err != nil {
			return Summary{}, err
		}
		if s.Role == ledger.RoleHub {
			audits[i].Mark()
			hubs = append(hubs, audits[i])
		}
	}
	for _, pass := range []string{ledger.RoleTreasury, ledger.RoleHub} {
		for i, s := range sources {
			if s.Role == pass {
				if err := c.read(s, audits[i]); err != nil {
					return Summary{}, err
				}
			}
		}
	}
	for i, s := range sources {
		if !s.done {
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
		if len(c.signed) > 0 && !s.done {
			if note := c.signed[i].end(); note != "" {
				sum.Undecided = append(sum.Undecided, note)
			}
		}
		if err := refunds(s, audits[i]); err != nil {
			return Summary{}, err
		}
		if err := c.indexed(s, audits[i]); err != nil {
			return Summary{}, err
		}
		r := audits[i].Finish()
		sum.add(s, r.Count, r.Findings...)
		sum.Reports = append(sum.Reports, r)
		read := Read{Journal: r.Journal.Journal, Dir: s.Dir, Frames: r.Frames}
		if s.sum != nil {
			read.SHA256 = hex.EncodeToString(s.sum.Sum(nil))
		}
		sum.Read = append(sum.Read, read)
	}
	if o.Level >= ledger.LevelAcross {
		switch {
		case treasuries == 1 && (len(hubs) > 0 || treasury.Finish().Lost > 0):
			sum.Across = true
			for _, f := range ledger.Across(treasury, hubs) {
				sum.add(named(sources, f.Journal), 1, f)
			}
		case treasuries == 0:
			sum.Undecided = append(sum.Undecided,
				"level 5: the treasury's journal is not among these: grants and accepts were not compared")
		case len(hubs) == 0:
			sum.Undecided = append(sum.Undecided,
				"level 5: no hub's journal is among these: grants and accepts were not compared")
		case treasuries > 1:
			sum.Undecided = append(sum.Undecided,
				fmt.Sprintf("level 5: %d journals of a treasury: check one market at a time", treasuries))
		}
	}
	if sum.Across {
		if err := sum.witnessed(sources, audits, ledger.Witnesses(treasury, hubs)); err != nil {
			return Summary{}, err
		}
	}
	if o.Level >= ledger.LevelAcross && treasuries <= 1 {
		sum.absent(sources, ledger.Absent(treasury, hubs), whole, o.Elsewhere)
	}
	sum.Took = time.Since(start)
	return sum, nil
}

// indexed compares what lies beside a journal, for sums, with the journal, which it reads once more for that.
func (c *checker) indexed(s *Source, a *ledger.Audit) error {
	if c.o.Level < ledger.LevelAcross || s.done {
		return nil
	}
	wrong, err := s.falsified(c.ctx)
	for _, x := range wrong {
		a.Add(ledger.Finding{Level: ledger.LevelAcross, Invariant: "I14", Seq: x.First, Damage: true,
			Expected: "in " + indexFile(&x) + " what the segment of this frame says",
			Found:    "something else: delete that file: it is made anew"})
	}
	if errors.Is(err, journal.ErrDamaged) || errors.As(err, new(*ledger.Violation)) { // which was found
		return nil
	}
	return err
}

// refunds compares a journal's refunds with the payments that they are of, which it reads again for that.
func refunds(s *Source, a *ledger.Audit) error {
	claims, seqs := a.Claims()
	if len(claims) == 0 {
		return nil
	}
	frames := map[uint64]*ledger.Frame{}
	err := journal.FramesOf(s.Dir, seqs, func(f ledger.Frame) { frames[f.Seq] = &f })
	if err != nil && !errors.Is(err, journal.ErrDamaged) { // which was found
		return err
	}
	for i := range claims {
		of := claims[i].Order.Capture
		a.Judge(&claims[i], frames[of.Held], frames[of.Seq])
	}
	return nil
}

// witnessed compares journals with what others have noted of them: one that is an older copy is found by
// that.
func (s *Summary) witnessed(sources []*Source, audits []*ledger.Audit, all []ledger.Witness) error {
	for _, w := range all {
		i := slices.IndexFunc(sources, func(s *Source) bool { return s.Name == w.Of })
		if i < 0 || sources[i].err != nil {
			continue
		}
		var here tip.Sum
		if w.Mark.Seq <= sources[i].last {
			var err error
			switch here, err = journal.SumAt(sources[i].Dir, w.Mark.Seq); {
			case errors.Is(err, journal.ErrDamaged): // which was found
				continue
			case err != nil:
				return err
			}
		}
		if f := audits[i].Doubt(w, here); f != nil {
			s.add(named(sources, w.By), 1, *f)
		}
	}
	return nil
}

// absent notes the journals that are named and not here: missing where all journals are meant to be, else out
// of sight.
func (s *Summary) absent(sources []*Source, all []ledger.Absence, whole bool, elsewhere []string) {
	for _, x := range all {
		if here := named(sources, x.Journal); here != nil && here.err != nil {
			continue // it is here, and its damage was found
		}
		if !whole || slices.Contains(elsewhere, x.Journal) {
			s.Undecided = append(s.Undecided,
				fmt.Sprintf("level 5: the journal %s, which %s names (it %s), is not among these", x.Journal,
					x.By, x.Did))
			continue
		}
		s.missing = append(s.missing, x.Journal)
		s.add(named(sources, x.By), 1, x.Finding())
	}
}

// add takes in findings of a journal, of which there are so many in all. Their commands name its directory.
func (s *Summary) add(of *Source, count int, found ...ledger.Finding) {
	for _, f := range found {
		if of != nil {
			f.Show += " " + quoted(of.Dir)
		}
		s.Findings = append(s.Findings, f)
	}
	s.Count += count
}

// named finds a journal; nil if it is not here.
func named(sources []*Source, name string) *Source {
	if i := slices.IndexFunc(sources, func(s *Source) bool { return s.Name == name }); i >= 0 {
		return sources[i]
	}
	return nil
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
	ctx    context.Context
	o      Options
	signed []*chain // of each source; none below level 1
}

// read gives an audit what its journal holds by now. Rounds are checked beside the reading.
func (c *checker) read(s *Source, a *ledger.Audit) error {
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
	i := slices.IndexFunc(c.signed, func(x *chain) bool { return x.of == s })
	err := s.each(c.ctx, s.reader, 0, func(e journal.Entry) error {
		a.Frame(e.Seq, e.Epoch, e.Data)
		if s.sum != nil {
			s.sum.Write(e.Data)
		}
		if i >= 0 {
			c.signed[i].frame(e.Seq, e.Data)
		}
		s.last = e.Seq
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

// auctions checks an audit's rounds on several processors. The function it returns waits for them and hands
// their findings over in the order of the journal.
func (c *checker) auctions(a *ledger.Audit) (wait func()) {
	var mu sync.Mutex
	var found []ledger.Finding
	var wg sync.WaitGroup
	room := make(chan struct{}, 2*runtime.GOMAXPROCS(0))
	a.Rounds = func(r *ledger.RoundCheck) {
		room <- struct{}{}
		wg.Go(func() {
			f := r.Findings()
			mu.Lock()
			found = append(found, f...)
			mu.Unlock()
			<-room
		})
	}
	return func() {
		wg.Wait()
		a.Rounds = nil
		slices.SortStableFunc(found, func(x, y ledger.Finding) int { return cmp.Compare(x.Seq, y.Seq) })
		for _, f := range found {
			a.Add(f)
		}
	}
}
