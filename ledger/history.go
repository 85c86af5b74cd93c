package ledger

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"souk/market"
)

// History is what the replay of a journal yields. For every journal that is the book. For a hub it is also
// the open holds with what their awards said, the last holds that ended, and the last returns; for the
// treasury, each hub's last grants. Not for use by several goroutines at once.
type History struct {
	limits  HistoryLimits
	book    *Book
	open    map[slotKey]*past
	ends    queue[*past]
	forgot  int              // of ends, from the first on: those whose tasks are forgotten
	last    map[taskOf]*past // the last hold of every task that is not forgotten
	returns []Transfer
	grants  map[string][]Transfer // by hub

	dec     decoder
	rounds  []*won // that nobody refers to any more
	records []Record
	scratch []byte
}

// HistoryLimits say how much of the past is kept.
type HistoryLimits struct {
	Ends    int           // holds that ended
	Keep    time.Duration // a task is forgotten so long after its hold has ended and would have expired
	Returns int           // at least so many, and less than twice as many
	Grants  int           // to each hub, the same
}

// Past is a hold as a journal tells it. Capture or Void is set if it has ended, Award if it has not.
type Past struct {
	Hold       Hold
	Held       int64    // Unix nanoseconds
	Earlier    []string // holds of earlier attempts of the task, as far as they were known when it was made
	Award      *market.Award
	Congestion market.Credits // the tier's part of the award's toll
	Crowd      market.Toll    // and the crowd's
	Ended      int64          // Unix nanoseconds
	Capture    *Capture
	Void       *Void
}

// past is a Past as it is kept.
type past struct {
	task    taskOf
	key     slotKey
	held    int64
	earlier []string
	hold    *Hold  // while it is open
	won     *won   // the same, where a frame made it
	award   *award // the same, where it was loaded
	over    int64  // once it has ended: the later of its end and its expiry
	data    []byte // all of it, encoded
}

type taskOf struct{ client, task string }

// won is a round's bytes.
type won struct {
	open           int // holds
	round, outcome []byte
}

// award is what an open hold's award said.
type award struct {
	award      market.Award
	congestion market.Credits
	crowd      market.Toll
}

// NewHistory is the history before a journal's first record.
func NewHistory(limits HistoryLimits) *History {
	h := &History{limits: limits, book: NewBook()}
	h.clear()
	return h
}

func (h *History) clear() {
	*h.book = *NewBook()
	h.open, h.last, h.grants = map[slotKey]*past{}, map[taskOf]*past{}, map[string][]Transfer{}
	h.ends, h.forgot, h.returns = queue[*past]{}, 0, nil
	h.dec = decoder{intern: &interner{all: map[string]string{}}}
}

// Book is the state of money. It is always the same pointer.
func (h *History) Book() *Book { return h.book }

// Returns are the last returns, the oldest first.
func (h *History) Returns() []Transfer { return h.returns }

// Grants are the last grants to each hub, the oldest first.
func (h *History) Grants() map[string][]Transfer { return h.grants }

// Apply implements [Replica]. A frame that the book refuses changes nothing. After bytes that are no frame,
// ErrEncoding, nothing more may be applied. It reads only the part of a round that the book needs.
func (h *History) Apply(seq uint64, epoch int64, data []byte) error {
	d := &h.dec
	d.Data, d.At, d.Fault = data, 0, ""
	var f Frame
	n := d.header(&f)
	if d.Fault == "" && (f.Seq != seq || f.Epoch != epoch) {
		d.Fail(fmt.Sprintf("frame %d of epoch %d under index %d and term %d", f.Seq, f.Epoch, seq, epoch))
	}
	if d.Fault != "" {
		return d.end()
	}
	before := h.book.head
	rounds, err := h.apply(&f, n)
	if d.Fault != "" {
		err = d.end()
	}
	if err != nil {
		h.book.rollback()
		h.book.head = before
		return fmt.Errorf("frame %d: %w", f.Seq, err)
	}
	h.book.framed(h.records)
	h.book.forget()
	var round *won
	for i := range h.records {
		switch r := &h.records[i]; r.Kind {
		case KindRound:
			round, rounds = rounds[0], rounds[1:]
		case KindHold:
			h.begin(r.Hold, f.Time, round)
		case KindCapture:
			h.end(r.Capture.Hold, r, f.Time)
		case KindVoid:
			h.end(r.Void.Hold, r, f.Time)
		case KindReturn:
			h.returns = lastOf(append(h.returns, *r.Transfer), h.limits.Returns)
		case KindGrant:
			g := *r.Transfer
			g.Vouched = nil // the book has it
			h.grants[g.Hub] = lastOf(append(h.grants[g.Hub], g), h.limits.Grants)
		}
	}
	h.forget(f.Time)
	if cap(h.records) > 1<<12 {
		h.records = nil // one rare large frame must not pin its memory
	}
	return nil
}

// apply decodes a frame's records, applies them to the book, and returns the rounds among them.
func (h *History) apply(f *Frame, n int) (rounds []*won, err error) {
	d, b := &h.dec, h.book
	if err := b.follow(f.Version, f.Epoch, f.Seq, f.Time); err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, broken(ErrIllegal, "I7", "frame", "at least one record", "none")
	}
	if h.records = h.records[:0]; cap(h.records) < n {
		h.records = make([]Record, 0, n)
	}
	for range n {
		h.records = h.records[:len(h.records)+1]
		r := &h.records[len(h.records)-1]
		*r = Record{Legs: r.Legs[:0]}
		var lazy raw
		var head *roundHead
		if d.record(r, &lazy); r.Kind == KindRound && d.Fault == "" {
			rh := d.roundHead(&lazy)
			head, rounds = &rh, append(rounds, h.won(&lazy))
		}
		if d.Fault != "" {
			return nil, nil
		}
		if err := b.apply(r, head); err == ErrRepeat {
			return nil, broken(ErrConflict, "I10", r.ID, "a record once", "it stands in the journal twice")
		} else if err != nil {
			return nil, err
		}
	}
	if d.At < len(d.Data) {
		d.Fail("bytes after the end")
	}
	return rounds, b.whole()
}

// lastOf cuts a list to the last so many once it has twice as many.
func lastOf(list []Transfer, most int) []Transfer {
	if len(list) >= 2*most {
		list = append(list[:0], list[len(list)-most:]...)
	}
	return list
}

// won keeps a round's bytes for its holds, in memory that is used again.
func (h *History) won(lazy *raw) *won {
	w := &won{}
	if n := len(h.rounds); n > 0 {
		w, h.rounds = h.rounds[n-1], h.rounds[:n-1]
	}
	w.open, w.round, w.outcome = 0, append(w.round[:0], lazy.round...), append(w.outcome[:0], lazy.outcome...)
	return w
}

func (h *History) begin(hold *Hold, now int64, round *won) {
	k, _ := keyOf(hold.Round, hold.Slot)
	p := &past{task: taskOf{hold.Client, hold.Task}, key: k, hold: hold, held: now, won: round}
	if old := h.last[p.task]; old != nil && hold.Attempt > 0 && old.hold == nil {
		p.earlier = append(slices.Clone(old.earlier), h.id(old.key))
	}
	round.open++
	h.open[k], h.last[p.task] = p, p
}

func (h *History) id(k slotKey) string { return HoldID(h.book.head.journal, k.round(), k.slot()) }

func (h *History) end(id string, r *Record, now int64) {
	k, _ := h.book.key(id)
	p := h.open[k]
	delete(h.open, k)
	h.scratch = binary.AppendUvarint(binary.AppendUvarint(h.scratch[:0], uint64(p.held)), uint64(now))
	h.scratch = appendList(h.scratch, p.earlier)
	h.scratch = appendSized(h.scratch, func(b []byte) []byte { return appendHold(b, p.hold) })
	h.scratch = appendPart(append(h.scratch, byte(r.Kind)), r)
	p.over, p.data = max(now, p.hold.Expires), slices.Clone(h.scratch)
	if w := p.won; w != nil {
		if w.open--; w.open == 0 {
			h.rounds = append(h.rounds, w)
		}
	}
	h.book.justEnded, h.dec.spare = nil, append(h.dec.spare, p.hold) // the book has let go of it
	p.hold, p.won, p.award = nil, nil, nil
	h.keep(p)
}

// keep adds a hold that ended, and drops the oldest beyond the limit.
func (h *History) keep(p *past) {
	h.ends.push(p)
	for h.ends.len() > h.limits.Ends {
		switch old := h.ends.pop(); {
		case h.forgot > 0:
			h.forgot--
		default:
			h.lose(old)
		}
	}
}

// forget drops the tasks whose time is over. A task that has to be known for long keeps those after it, too.
func (h *History) forget(now int64) {
	for list := h.ends.items[h.ends.first:]; h.forgot < len(list) &&
		now-int64(h.limits.Keep) >= list[h.forgot].over; h.forgot++ {
		h.lose(list[h.forgot])
	}
}

func (h *History) lose(p *past) {
	if h.last[p.task] == p {
		delete(h.last, p.task)
	}
}

// Ended calls f with the last holds that ended, in that order. known is false where the task is forgotten.
func (h *History) Ended(f func(p Past, known bool)) error {
	for i, p := range h.ends.items[h.ends.first:] {
		d := decode(p.data)
		d.intern = h.dec.intern
		full := d.past()
		if err := d.end(); err != nil {
			return fmt.Errorf("hold %s, which ended: %w", h.id(p.key), err)
		}
		f(full, i >= h.forgot)
	}
	return nil
}

// Open returns the open holds by round and slot. It decodes their rounds, which may be ErrEncoding.
func (h *History) Open() ([]Past, error) {
	var all []Past
	var read *won
	var round Round
	for _, k := range slices.Sorted(maps.Keys(h.open)) {
		p := h.open[k]
		a := p.award
		if p.won != nil {
			if p.won != read {
				d, r := decoder{}, Record{}
				if d.round(&r, p.won.round, p.won.outcome); d.Fault != "" {
					return nil, fmt.Errorf("round of hold %s: %s: %w", h.id(k), d.Fault, ErrEncoding)
				}
				read, round = p.won, *r.Round
			}
			a = &award{award: round.Outcome.Awards[k.slot()]}
			a.congestion, _, a.crowd, _ = round.Round.Tolls(a.award)
		}
		all = append(all, Past{Hold: *p.hold, Held: p.held, Earlier: p.earlier, Award: &a.award,
			Congestion: a.congestion, Crowd: a.crowd})
	}
	return all, nil
}
