package ledger

import (
	"cmp"
	"errors"
	"fmt"

	"souk/market"
)

// Levels of an audit. Each includes those below it.
const (
	LevelFrames       = 0 // checksums, sequence without gaps, epochs never fall, known kinds
	LevelMerkle       = 1 // roots and checkpoints; a journal without checkpoints has nothing to check
	LevelState        = 2 // every record is legal
	LevelConservation = 3 // sums of every record, round and journal
	// the certificate of every round, that its holds are its awards, and its tolls as rounds before taught
	LevelAuctions = 4
	LevelAcross   = 5 // grants against accepts, returns against reclaims, see [Across]; indexes
	// quote = predicted tokens x price card, cost = usage x price card; agents whose account cannot be
	LevelMetering = 6
	MaxLevel      = LevelMetering
)

// MaxFindings bounds the findings of one journal that are kept; the others are counted. A journal that is
// wrong in more places has one cause.
const MaxFindings = 1000

// Finding is one thing that is wrong.
type Finding struct {
	Level     int    `json:"level"`
	Invariant string `json:"invariant"` // I1 to I20; see [Invariants]
	Journal   string `json:"journal"`
	Seq       uint64 `json:"seq"` // of the frame
	Record    string `json:"record,omitempty"`
	Expected  string `json:"expected"`
	Found     string `json:"found"`
	Show      string `json:"show"` // the command that shows it
	Damage    bool   `json:"damage,omitempty"`
}

// String is the finding in one line.
func (f Finding) String() string {
	at := f.Journal
	if f.Seq > 0 || f.Record == "" { // a record that the whole journal is judged by names no frame
		at += fmt.Sprint(" frame ", f.Seq)
	}
	if f.Record != "" {
		at += " " + f.Record
	}
	return fmt.Sprintf("%s: %s: expected %s, found %s; see: %s", at, f.Invariant, f.Expected, f.Found, f.Show)
}

// Report is the result of an audit of one journal.
type Report struct {
	Journal  Open
	Frames   uint64
	First    int64 // when the first frame was written, and the last: Unix nanoseconds
	Last     int64
	Records  uint64
	Rounds   uint64
	Open     int            // holds that have not ended
	Overdue  int            // of them, those past their time when the last frame was written
	Payments market.Credits // by clients
	Earned   market.Credits // by agents
	Surplus  market.Credits
	Fees     market.Credits
	Remitted market.Credits // of what was earned
	Refunded market.Credits // of what was paid
	Findings []Finding      // the first MaxFindings, in order
	Count    int            // all of them
	Closed   bool           // nothing can follow; known from level 2 on
	Lost     int            // hubs whose journals were written off; likewise
}

// Audit checks one journal frame by frame, in memory that grows with open holds and accounts alone. It trusts
// nothing but the bytes. Not for use by several goroutines at once.
type Audit struct {
	// Rounds, if not nil, is given every round of level 4 to check, perhaps elsewhere and later; what it
	// finds is handed to Add. The RoundCheck is the receiver's to keep.
	Rounds func(*RoundCheck)

	name  string
	level int
	book  *Book
	dec   decoder
	rec   *Record
	out   Report

	rounds []raw // of the frame at hand
	heads  []roundHead

	check   *RoundCheck // of the round whose holds follow; nil: there is none
	next    *RoundCheck // of the record at hand
	moves   moves
	budgets budgets
	paid    map[string]market.Credits // by client, for level 5, less what came back
	back    map[string]market.Credits // of that
	agents  market.Credits            // what went to agents' accounts, less what left them
	claims  []Claimed
	marked  *mark
	lost    lost
}

// NewAudit begins the audit of a journal up to a level. name is what findings call it until its first record
// is read.
func NewAudit(name string, level int) *Audit {
	a := &Audit{name: name, level: level, book: newBareBook(), paid: map[string]market.Credits{},
		back:    map[string]market.Credits{},
		budgets: budgets{}, moves: moves{map[string][]move{}, map[string][]move{}, map[string][]move{}}}
	a.dec.Strings, a.dec.room = &market.Strings{Pieces: true}, &room{}
	return a
}

// Frame takes in the stored bytes of the next frame, with the index and term they were stored under.
func (a *Audit) Frame(seq uint64, epoch int64, data []byte) {
	d := &a.dec
	d.Data, d.At, d.Fault = data, 0, ""
	a.rounds = a.rounds[:0]
	f := d.frame(&a.rounds)
	a.heads = d.heads(a.heads[:0], a.rounds)
	rounds, heads := a.rounds, a.heads
	if d.end() != nil {
		a.undecodable(seq)
		return
	}
	if a.out.Frames++; a.out.Frames == 1 {
		a.out.First = f.Time
	}
	a.out.Last = f.Time
	a.header(seq, epoch, &f)
	if len(f.Records) == 0 {
		a.wrong(LevelFrames, f.Seq, "I7", "", "at least one record", "none")
	}
	for i := range f.Records {
		var head *roundHead
		var lazy *raw
		if f.Records[i].Kind == KindRound {
			head, lazy, heads, rounds = &heads[0], &rounds[0], heads[1:], rounds[1:]
		}
		if a.out.Records++; a.level >= LevelState {
			a.rec = &f.Records[i]
			a.record(f.Seq, head, lazy)
		} else if h := f.Records[i].Hold; h != nil {
			a.done(h)
		}
	}
	if a.level >= LevelState {
		a.flush()
		if err := a.book.whole(); err != nil {
			a.addErr(f.Seq, err)
			a.book.head.Held = a.book.head.Awards
		}
	}
}

// header checks how a frame follows on the last, and goes on from it in any case: one break is one finding.
func (a *Audit) header(seq uint64, epoch int64, f *Frame) {
	if f.Seq != seq || f.Epoch != epoch {
		a.wrong(LevelFrames, seq, "I7", "", fmt.Sprintf("frame %d of epoch %d, as stored", seq, epoch),
			"frame %d of epoch %d", f.Seq, f.Epoch)
	}
	if err := a.book.follow(f.Version, f.Epoch, f.Seq, f.Time); err != nil {
		var v *Violation
		errors.As(err, &v)
		v.Record = ""
		a.add(LevelFrames, seq, v)
		h := &a.book.head
		h.Seq, h.Epoch, h.Time = f.Seq, f.Epoch, f.Time
	}
}

// record applies the record at hand and does its sums.
func (a *Audit) record(seq uint64, head *roundHead, lazy *raw) {
	r := a.rec
	before := a.book.head
	var round *Round
	if a.level >= LevelAuctions && head != nil {
		a.next = checks.Get().(*RoundCheck)
		round = &a.next.memory
		if err := lazy.open(round, a.dec.Strings); err != nil {
			a.Add(Finding{Level: LevelFrames, Invariant: "I17", Seq: seq, Damage: true,
				Expected: "the encoding of a round and its outcome", Found: err.Error()})
			round = nil
		} else {
			a.next.judged, a.next.invalid = true, round.Round.Validate()
		}
		head.taught = round
	}
	if a.level >= LevelAuctions && r.Kind == KindDistribute {
		a.shared(seq, r)
	}
	err := a.book.apply(r, head)
	if err == ErrRepeat {
		err = broken(ErrConflict, "I10", r.ID, "a record once", "it stands in the journal twice")
	}
	if a.level >= LevelAuctions && head != nil && head.number > before.Round {
		a.rates(seq, round, err == nil)
	}
	if err != nil {
		a.book.rollback()
		a.book.head = before
		a.addErr(seq, err)
		a.resume(head)
	} else {
		a.book.forget()
		a.note(r)
	}
	hold := a.book.justEnded
	a.book.justEnded = nil
	if a.level >= LevelConservation && err == nil {
		a.conserve(seq)
	}
	if a.level >= LevelMetering && r.Kind == KindCapture && hold != nil {
		a.meter(seq, hold)
	}
	a.words(seq, r)
	if a.level >= LevelMetering && r.Kind == KindHold {
		a.quoted(seq, r.Hold)
	}
	if a.level >= LevelAuctions {
		switch r.Kind {
		case KindRound:
			a.flush()
			if c := a.next; round != nil {
				c.Journal, c.Seq, c.Domain, c.Round = a.journal(), seq, a.book.head.Domain, round
				c.Tariffs, a.check = a.book.tariffs, c
			}
		case KindTariff:
			if err := market.CheckTariff(r.Epoch.Epoch, r.Epoch.Tariff); err != nil {
				a.wrong(LevelAuctions, seq, "I6", r.ID, "the tariff that the epoch's asks give", "%v", err)
			}
		case KindHold:
			if a.check != nil {
				a.check.Holds = append(a.check.Holds, *r.Hold)
			}
		}
	}
	switch {
	case hold != nil:
		a.done(hold)
	case err != nil && r.Hold != nil:
		a.done(r.Hold)
	}
}

// done gives a hold back that the book does not keep.
func (a *Audit) done(h *Hold) { a.dec.room.holds = append(a.dec.room.holds, h) }

// Ends that are paid.
const (
	done      = "done"
	cancelled = "cancelled" // by its client
)

// words judges what a hold is for and how a capture came (level 2).
func (a *Audit) words(seq uint64, r *Record) {
	switch {
	case r.Kind == KindHold && r.Hold.Kind != "task":
		a.wrong(LevelState, seq, "I9", r.ID, "a dispatch of a task", "%q", clip(r.Hold.Kind))
	case r.Kind == KindCapture && r.Capture.Outcome != done && r.Capture.Outcome != cancelled:
		a.wrong(LevelState, seq, "I9", r.ID, "a payment for what was "+done+" or "+cancelled, "%q",
			clip(r.Capture.Outcome))
	}
}

// resume goes on after a refused record as if it had been accepted, so that the next one is judged by itself.
func (a *Audit) resume(round *roundHead) {
	h := &a.book.head
	switch r := a.rec; {
	case round != nil && round.number > h.Round:
		h.Round, h.Hash, h.Awards, h.Held = round.number, round.next(r.Salt), round.awards, 0
	case r.Hold != nil && r.Hold.Round == h.Round && r.Hold.Slot == h.Held && h.Held < h.Awards:
		h.Held++
	}
}

// flush has the round at hand checked; all of its holds are known.
func (a *Audit) flush() {
	if a.check == nil {
		return
	}
	a.out.Rounds++
	if a.Rounds == nil {
		for _, f := range a.check.Findings() {
			a.Add(f)
		}
	} else {
		a.Rounds(a.check)
	}
	a.check = nil
}

// note remembers transfers for level 5 and counts rounds where level 4 does not.
func (a *Audit) note(r *Record) {
	switch {
	case r.Kind == KindRound && a.level < LevelAuctions:
		a.out.Rounds++
	case r.Transfer != nil && a.level >= LevelAcross:
		a.moves.note(r.Transfer, r.Kind)
	}
	if r.Kind == KindRefund && a.level >= LevelState && a.book.head.Role == RoleHub {
		a.claims = append(a.claims, Claimed{a.book.head.Seq, r.ID, *r.Transfer})
	}
	if a.level >= LevelState && r.Kind == KindMonth {
		a.tooSoon(r)
	}
	if a.level >= LevelState && r.Move != nil && r.Move.Period > 0 {
		a.early(r.Move)
	}
	if a.level >= LevelAcross {
		a.budgets.note(r)
	}
}

func (a *Audit) undecodable(seq uint64) {
	a.Add(Finding{Level: LevelFrames, Invariant: "I17", Seq: seq, Expected: "the encoding of a frame",
		Found: fmt.Sprintf("%s at byte %d", a.dec.Fault, a.dec.At), Damage: true})
	a.book.head.Seq = seq // the next frame is judged by itself
}

// Damage notes that the journal could not be read beyond frame after.
func (a *Audit) Damage(after uint64, err error) {
	a.Add(Finding{Level: LevelFrames, Invariant: "I8", Seq: after, Expected: "the bytes that were written",
		Found: err.Error(), Damage: true})
}

func (a *Audit) journal() string {
	if j := a.book.head.Journal; j != "" {
		return j
	}
	return a.name
}

// Add takes a finding in, with its journal and command filled in where they are not.
func (a *Audit) Add(f Finding) {
	a.out.Count++
	if len(a.out.Findings) >= MaxFindings {
		return
	}
	f.Journal = cmp.Or(f.Journal, a.journal())
	if f.Show == "" {
		f.Show = fmt.Sprintf("ledger print --journal %s --seq %d", f.Journal, f.Seq)
		if f.Seq == 0 { // there is no such frame
			f.Show = "ledger check --journal " + f.Journal
		}
	}
	a.out.Findings = append(a.out.Findings, f)
}

func (a *Audit) add(level int, seq uint64, v *Violation) {
	a.Add(Finding{Level: level, Invariant: v.Invariant, Seq: seq, Record: clip(v.Record),
		Expected: v.Expected, Found: v.Found})
}

// wrong notes a finding that no book's refusal is.
func (a *Audit) wrong(level int, seq uint64, invariant, record, expected, format string, args ...any) {
	a.add(level, seq, broken(ErrIllegal, invariant, record, expected, format, args...))
}

// addErr files a book's refusal under its level: sums are level 3, all else level 2.
func (a *Audit) addErr(seq uint64, err error) {
	var v *Violation
	if !errors.As(err, &v) {
		v = broken(err, "I17", "", "a record that can be judged", "%v", err)
	}
	level := LevelState
	if v.Invariant == "I1" || v.Invariant == "I5" {
		level = LevelConservation
	}
	if level > a.level {
		return
	}
	a.add(level, seq, v)
}

// Finish does the sums over the whole journal and returns the report. More frames may follow, for a journal
// that is still being written; then Finish says what holds then.
func (a *Audit) Finish() Report {
	if a.level >= LevelState {
		a.unchecked()
		a.total()
	}
	out := a.out
	out.Journal = a.book.Journal()
	out.Journal.Journal = cmp.Or(out.Journal.Journal, a.name)
	out.Open, out.Closed, out.Lost = len(a.book.open), a.book.head.Closed, len(a.book.Missing())
	for _, h := range a.book.open {
		if h.Expires < a.book.head.Time {
			out.Overdue++
		}
	}
	return out
}
