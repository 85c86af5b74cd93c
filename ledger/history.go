package ledger

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"souk/market"
)

// History is the result of replaying a journal: for every journal the book; for a hub also the open holds
// with their awards, the last holds that ended, and the last returns; for the treasury, each hub's last
// grants. Not for use by several goroutines at once.
type History struct {
	limits  HistoryLimits
	Book    *Book // always the same pointer
	open    map[slotKey]*Past
	ends    []*Past               // the oldest first
	forgot  int                   // of ends, from the first on: those whose tasks are forgotten
	last    map[taskOf]*Past      // the last hold of every task that is not forgotten
	Returns []Transfer            // the last ones, the oldest first
	Grants  map[string][]Transfer // by hub

	dec decoder
}

// HistoryLimits bounds the past that is kept.
type HistoryLimits struct {
	Ends    int           // holds that ended
	Keep    time.Duration // a task is forgotten so long after its hold has ended and would have expired
	Returns int           // at least so many, and less than twice as many
	Grants  int           // to each hub, the same
}

// Past is a hold as a journal tells it. Capture or Void is set if it has ended, Award if it has not.
type Past struct {
	Hold    *Hold
	Index   int64    // of the hold's record in the journal, from 0 on
	Held    int64    // Unix nanoseconds
	Earlier []string // holds of earlier attempts of the task, as far as they were known when it was made
	Award   *market.Award
	Own     market.Credits // the part of the award's toll that is not charged
	Ended   int64          // Unix nanoseconds
	Capture *Capture
	Void    *Void

	won *raw // the award's round, until it is decoded
}

type taskOf struct{ client, task string }

func (p *Past) task() taskOf { return taskOf{p.Hold.Client, p.Hold.Task} }

func (p *Past) id(journal string) string { return HoldID(journal, p.Hold.Round, p.Hold.Slot) }

// NewHistory returns the history before a journal's first record.
func NewHistory(limits HistoryLimits) *History {
	h := &History{limits: limits, Book: NewBook()}
	h.clear()
	return h
}

func (h *History) clear() {
	*h.Book = *NewBook()
	h.open, h.last, h.Grants = map[slotKey]*Past{}, map[taskOf]*Past{}, map[string][]Transfer{}
	h.ends, h.forgot, h.Returns = nil, 0, nil
	h.dec = decoder{}
	h.dec.Strings = &market.Strings{}
}

// Apply implements [Replica]. A frame that the book refuses changes nothing. It reads only the part of a
// round that the book needs.
func (h *History) Apply(seq uint64, epoch int64, data []byte) error {
	d := &h.dec
	d.Data, d.At, d.Fault = data, 0, ""
	var bytes []raw
	f := d.frame(&bytes)
	heads := d.heads(nil, bytes)
	for i := range bytes {
		if rest := bytes[i].rest; len(rest) > 0 && rest[0] != 0 { // it has a ground
			heads[i].taught = new(Round)
			if err := bytes[i].open(heads[i].taught, d.Strings); err != nil {
				d.Fail(err.Error())
			}
		}
	}
	if d.Fault == "" && (f.Seq != seq || f.Epoch != epoch) {
		d.Fail(fmt.Sprintf("frame %d of epoch %d under index %d and term %d", f.Seq, f.Epoch, seq, epoch))
	}
	if err := d.end(); err != nil {
		return err
	}
	if err := h.Book.applyFrame(&f, heads); err != nil {
		return err
	}
	var round *raw
	for i := range f.Records {
		switch r := &f.Records[i]; r.Kind {
		case KindRound:
			round = &raw{round: slices.Clone(bytes[0].round), outcome: slices.Clone(bytes[0].outcome)}
			bytes = bytes[1:]
		case KindHold:
			h.begin(r.Hold, h.Book.Size-int64(len(f.Records)-i), f.Time, round)
		case KindCapture:
			h.end(r.Capture.Hold, r, f.Time)
		case KindVoid:
			h.end(r.Void.Hold, r, f.Time)
		case KindReturn:
			h.Returns = lastOf(append(h.Returns, *r.Transfer), h.limits.Returns)
		case KindGrant:
			g := *r.Transfer
			g.Vouched = nil // the book has it
			h.Grants[g.Hub] = lastOf(append(h.Grants[g.Hub], g), h.limits.Grants)
		}
	}
	h.forget(f.Time)
	return nil
}

// lastOf cuts a list to the last so many once it has twice as many.
func lastOf(list []Transfer, most int) []Transfer {
	if len(list) >= 2*most {
		list = append(list[:0], list[len(list)-most:]...)
	}
	return list
}

func (h *History) begin(hold *Hold, index, now int64, round *raw) {
	k, _ := keyOf(hold.Round, hold.Slot)
	p := &Past{Hold: hold, Index: index, Held: now, won: round}
	if old := h.last[p.task()]; old != nil && hold.Attempt > 0 && (old.Capture != nil || old.Void != nil) {
		p.Earlier = append(slices.Clone(old.Earlier), old.id(h.Book.head.Journal))
	}
	h.open[k], h.last[p.task()] = p, p
}

func (h *History) end(id string, r *Record, now int64) {
	k, _ := h.Book.key(id)
	p := h.open[k]
	delete(h.open, k)
	p.Ended, p.Capture, p.Void = now, r.Capture, r.Void
	p.Award, p.Own, p.won = nil, 0, nil
	h.keep(p)
}

// keep adds a hold that ended, and drops the oldest beyond the limit.
func (h *History) keep(p *Past) {
	h.ends = append(h.ends, p)
	for len(h.ends) > h.limits.Ends {
		if h.forgot == 0 {
			h.lose(h.ends[0])
		}
		h.forgot, h.ends = max(0, h.forgot-1), h.ends[1:]
	}
}

// forget drops the tasks whose time is over. A task that has to be known for long keeps those after it, too.
func (h *History) forget(now int64) {
	for ; h.forgot < len(h.ends); h.forgot++ {
		p := h.ends[h.forgot]
		if now-int64(h.limits.Keep) < max(p.Ended, p.Hold.Expires) {
			break
		}
		h.lose(p)
	}
}

func (h *History) lose(p *Past) {
	if h.last[p.task()] == p {
		delete(h.last, p.task())
	}
}

// Ended yields the last holds that ended, in that order, and whether their tasks are known: false where they
// are forgotten.
func (h *History) Ended() iter.Seq2[*Past, bool] {
	return func(yield func(*Past, bool) bool) {
		for i, p := range h.ends {
			if !yield(p, i >= h.forgot) {
				return
			}
		}
	}
}

// Open returns the open holds by round and slot. It decodes their rounds, which may be ErrEncoding.
func (h *History) Open() (all []Past, err error) {
	var read *raw
	var r Round
	for _, k := range slices.Sorted(maps.Keys(h.open)) {
		p := *h.open[k]
		if p.won != nil {
			if p.won != read {
				read = p.won
				if r.Round, err = market.DecodeRound(read.round); err == nil {
					r.Outcome, err = market.DecodeOutcome(read.outcome)
				}
				if err != nil {
					return nil, fmt.Errorf("round of hold %s: %w: %w", p.id(h.Book.head.Journal), ErrEncoding,
						err)
				}
			}
			p.Award, p.won = &r.Outcome.Awards[k.slot()], nil
			p.Own = r.Round.Own(*p.Award)
		}
		all = append(all, p)
	}
	return all, nil
}
