package machines

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/tip"
	"souk/ledger"
	"souk/market"
)

// insider may write every file of every journal, and knows all checksums, sums and rules. It changes records,
// and write makes journals of them in which everything that follows from them fits again.
type insider struct {
	r     *rand.Rand
	books map[string]*forged
	more  []extra
}

// forged is a journal as an insider has it.
type forged struct {
	frames []ledger.Frame
	was    []uint64 // of each frame: what its sequence was; 0: it is new

	done    int // frames that are written
	bytes   [][]byte
	salt    [16]byte
	prev    [32]byte // of the round to come
	holds   map[string]*ledger.Hold
	id      tip.Sum
	pending bool
}

// extra adds to what a client was charged by a frame.
type extra struct {
	journal, client string
	seq             uint64
	amount          market.Credits
}

// newInsider takes journals in, as stored bytes by name.
func newInsider(r *rand.Rand, stored map[string][][]byte) (*insider, error) {
	x := &insider{r: r, books: map[string]*forged{}}
	for _, name := range sorted(stored) {
		b := &forged{}
		for _, data := range stored[name] {
			f, err := ledger.DecodeFrame(data)
			if err != nil {
				return nil, err
			}
			b.frames, b.was = append(b.frames, f), append(b.was, f.Seq)
		}
		x.books[name] = b
	}
	return x, nil
}

// write returns the journals' bytes.
func (x *insider) write() (map[string][][]byte, error) {
	out := map[string][][]byte{}
	for _, name := range sorted(x.books) {
		b := x.books[name]
		b.done, b.bytes, b.holds, b.prev = 0, nil, map[string]*ledger.Hold{}, [32]byte{}
		for i := range b.frames {
			b.frames[i].Seq = uint64(i + 1)
		}
	}
	for _, name := range sorted(x.books) {
		b := x.books[name]
		if err := x.upTo(name, uint64(len(b.frames))); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = b.bytes
	}
	return out, nil
}

// upTo writes a journal's frames up to a sequence.
func (x *insider) upTo(name string, seq uint64) error {
	b := x.books[name]
	if int(seq) <= b.done {
		return nil
	}
	if b.pending {
		return errors.New("two journals each follow on the other")
	}
	b.pending = true
	defer func() { b.pending = false }()
	for ; b.done < int(seq); b.done++ {
		f := &b.frames[b.done]
		for i := range f.Records {
			if err := x.fit(name, b, &f.Records[i]); err != nil {
				return err
			}
		}
		b.bytes = append(b.bytes, ledger.AppendFrame(nil, f))
	}
	return nil
}

// fit mends what of a record follows from others.
func (x *insider) fit(name string, b *forged, r *ledger.Record) error {
	switch {
	case r.Open != nil:
		b.id = tip.SumOf(ledger.AppendRecord(nil, r))
	case r.Round != nil:
		m := &r.Round.Round
		m.Prev = b.prev
		sum := sha256.Sum256(m.AppendCanonical(nil))
		copy(b.prev[copy(b.prev[:], r.Salt[:]):], sum[:])
	case r.Hold != nil:
		h := r.Hold
		b.holds[r.ID] = h
		r.Legs = both(ledger.Avail(h.Client), ledger.Held(h.Client), h.Amount)
	case r.Capture != nil:
		h := b.holds[r.Capture.Hold]
		if h == nil {
			return fmt.Errorf("%s ends no hold", r.ID)
		}
		r.Legs = ledger.NewCapture(name, *h, *r.Capture, r.Salt).Legs
	case r.Void != nil:
		h := b.holds[r.Void.Hold]
		if h == nil {
			return fmt.Errorf("%s ends no hold", r.ID)
		}
		r.Legs = ledger.NewVoid(name, *h, r.Void.Reason, r.Salt).Legs
	case r.Noted != nil:
		return x.note(name, r.Noted)
	}
	return nil
}

// both are the legs of an amount from one account to another.
func both(from, to string, amount market.Credits) []ledger.Leg {
	if amount == 0 {
		return nil
	}
	return []ledger.Leg{{Account: from, Amount: -amount}, {Account: to, Amount: amount}}
}

// note makes a mark fit the journal that it is of.
func (x *insider) note(by string, n *ledger.Noted) error {
	of := x.books[n.Journal]
	if of == nil {
		return nil
	}
	at := slices.Index(of.was, n.Mark.Seq)
	for was := n.Mark.Seq; at < 0 && was > 1; at = slices.Index(of.was, was) { // it was taken out
		was--
	}
	if at < 0 {
		return fmt.Errorf("no frame %d of %s", n.Mark.Seq, n.Journal)
	}
	was := of.was[at]
	if err := x.upTo(n.Journal, uint64(at+1)); err != nil {
		return err
	}
	n.Mark = tip.Mark{Journal: of.id, Seq: uint64(at + 1), Sum: tip.SumOf(of.bytes[at])}
	for i := range n.Spent {
		for _, e := range x.more {
			if e.journal == n.Journal && e.client == n.Spent[i].Client && e.seq <= was {
				n.Spent[i].Amount += e.amount
			}
		}
	}
	return nil
}

// found checks a market's journals by all levels but that of checkpoints.
func found(stored map[string][][]byte) (all []ledger.Finding) {
	audits := map[string]*ledger.Audit{}
	var hubs []*ledger.Audit
	for _, name := range sorted(stored) {
		a := ledger.NewAudit(name, ledger.MaxLevel)
		for i, data := range stored[name] {
			a.Frame(uint64(i+1), epochOf(data), data)
		}
		r := a.Finish()
		all = append(all, r.Findings...)
		if audits[name] = a; name != ledger.Treasury {
			a.Mark()
			hubs = append(hubs, a)
		}
	}
	bank := audits[ledger.Treasury]
	all = append(all, ledger.Across(bank, hubs)...)
	for _, w := range ledger.Witnesses(bank, hubs) {
		if f := audits[w.Of].Doubt(w, sumAt(stored[w.Of], w.Mark.Seq)); f != nil {
			all = append(all, *f)
		}
	}
	return all
}

// epochOf is the term under which a frame is stored.
func epochOf(data []byte) int64 {
	f, err := ledger.DecodeFrame(data)
	if err != nil {
		return 0
	}
	return f.Epoch
}

// honest is a market's journals, as they were written: two hubs whose slots are wanted by more than there
// are, tasks that end and some that fail, money that is asked for and goes back once it is idle, payouts.
func honest(t *testing.T, seed uint64) *economy {
	e := newEconomy(t, seed, 2, map[string]market.Credits{"ann": 3000 * market.Credit,
		"bob": 2000 * market.Credit, "cay": 1000 * market.Credit})
	e.fails = 0.15
	clients := []string{"ann", "bob", "cay"}
	for i := range 60 {
		h, c := e.hubs[e.r.IntN(2)], clients[e.r.IntN(3)]
		e.task(h, c, market.Credit/10+market.Credits(e.r.Int64N(int64(5*market.Credit))), 20*time.Second)
		e.run(time.Duration(e.r.ExpFloat64() * float64(50*time.Millisecond)))
		if i%10 == 9 {
			e.payout(c, fmt.Sprint("p", i), market.Credit, func(*bus.FundsReply) {})
		}
	}
	e.run(3 * time.Minute)
	return e
}
