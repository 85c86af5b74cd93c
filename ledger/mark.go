package ledger

import (
	"fmt"
	"slices"

	"souk/bus/tip"
	"souk/market"
)

// Hub and treasury tell each other how far their journals are, and each keeps what the other said. So whoever
// comes back with an older copy of its journal, or with one that went another way since, is told by the
// other, before it takes a task or a deposit.

// Doubt compares a journal, whose last frame is last and whose frame m.Seq has the checksum here, with the
// highest mark m that another process has kept of it. It says, in words for an operator, why the journal
// cannot be the one that was written last, and what to bring; "" if it can be.
func Doubt(journal tip.Sum, last uint64, here tip.Sum, m tip.Mark) string {
	switch {
	case m.Zero():
		return ""
	case m.Journal != journal:
		return fmt.Sprintf("this is journal %.8s, and another was dealt with under its name: bring back "+
			"journal %.8s with at least frame %d (checksum %.8s)", journal, m.Journal, m.Seq, m.Sum)
	case m.Seq > last:
		return fmt.Sprintf("this journal ends with frame %d, and it was written up to frame %d at least: "+
			"it is "+
			"an older copy; bring back the one that has frame %d (checksum %.8s)", last, m.Seq, m.Seq, m.Sum)
	case m.Sum != here:
		return fmt.Sprintf("frame %d of this journal has the checksum %.8s, and had %.8s when it was "+
			"written: "+
			"it is a copy that another history was written into; bring back the one whose frame %d has %.8s",
			m.Seq, here, m.Sum, m.Seq, m.Sum)
	}
	return ""
}

// Settled tells the keeper of a journal whether to remember it as the one that was written last.
type Settled int

// The values of Settled.
const (
	AsItWas Settled = iota // nothing new
	Own                    // it is the one that was written last
	Unsure                 // it may not be
)

// Noted is a record of how far another journal is. The treasury notes of a hub what each client has spent
// there, too.
type Noted struct {
	Journal string // its name
	Number  uint64 // of the notes about that journal, from 1 without gaps
	Mark    tip.Mark
	// treasury: of the clients whose sums have changed, sorted; what they were charged at the hub in all
	Spent []tip.Spent
}

// NewMark notes how far another journal is: the n-th note about it.
func NewMark(journal string, n uint64, m tip.Mark, spent []tip.Spent, salt [16]byte) Record {
	return Record{Kind: KindMark, ID: numbered(journal, KindMark.String(), n), Salt: salt,
		Noted: &Noted{Journal: journal, Number: n, Mark: m, Spent: spent}}
}

// says reports whether any of a frame's records is about more than another journal.
func says(records []Record) bool {
	return slices.ContainsFunc(records, func(r Record) bool { return r.Kind != KindMark })
}

// Says reports whether a frame says more than how far another journal is.
func (f *Frame) Says() bool { return says(f.Records) }

// noted holds what a book knows of another journal.
type noted struct {
	Number uint64
	Mark   tip.Mark
}

// ID names the journal: the checksum of its first record. No two journals have one, whatever they are called.
func (b *Book) ID() tip.Sum { return b.head.ID }

// Said is the sequence of the last frame that says more than how far another journal is: that of the
// journal's own mark.
func (b *Book) Said() uint64 { return b.head.Said }

// Marked is the highest mark of another journal that was noted, and how often one was.
func (b *Book) Marked(journal string) (m tip.Mark, n uint64) {
	if x := b.Marks[journal]; x != nil {
		return x.Mark, x.Number
	}
	return tip.Mark{}, 0
}

// Spent returns how much a client was charged at a hub in all, as noted in the treasury's journal.
func (b *Book) Spent(client, hub string) market.Credits { return b.kept.Spent[[2]string{client, hub}] }

// Charged is, in a hub's book, what a client was charged there in all: what came, less
// what went back, is here, is held or was charged.
func (b *Book) Charged(client string) market.Credits {
	return b.Allotted(client, b.head.Journal) - b.Avail(client) - b.Held(client)
}

// applyMark takes over how far another journal is.
func (b *Book) applyMark(r *Record) error {
	n, h := r.Noted, &b.head
	atHub := h.Role == RoleHub
	c := b.kept.Hubs[n.Journal]
	switch {
	case !ValidID(n.Journal) || atHub && n.Journal != Treasury:
		return broken(ErrIllegal, "I10", r.ID, "a hub's journal, or at a hub that of the "+Treasury, "%q",
			clip(n.Journal))
	case !atHub && c == nil:
		return broken(ErrIllegal, "I10", r.ID, "a hub that there were dealings with", "%q", n.Journal)
	case !atHub && c.Ended:
		return broken(ErrOrder, "I7", r.ID, "nothing more with hub "+n.Journal+", which has ended", "%s",
			r.Kind)
	case r.ID != numbered(n.Journal, r.Kind.String(), n.Number):
		return broken(ErrIllegal, "I10", r.ID, "id "+numbered(n.Journal, r.Kind.String(), n.Number), "%q",
			clip(r.ID))
	case !n.Mark.Valid() || n.Mark.Journal == h.ID:
		return broken(ErrIllegal, "I17", r.ID, "a mark of another journal, of a frame from 1 to 2^53", "%s",
			n.Mark)
	}
	if err := b.legsAre(r, nil); err != nil {
		return err
	}
	was := b.Marks[n.Journal]
	if was == nil {
		was = &noted{}
	}
	old := was.Mark
	switch {
	case n.Number != was.Number+1:
		err := ErrOrder
		if n.Number <= was.Number {
			err = ErrConflict
		}
		return broken(err, "I13", r.ID, fmt.Sprintf("note %d of %s next", was.Number+1, n.Journal), "%d",
			n.Number)
	case !old.Zero() && n.Mark.Journal != old.Journal:
		return broken(ErrConflict, "I13", r.ID, fmt.Sprintf("a mark of journal %.8s", old.Journal), "%s",
			n.Mark)
	case n.Mark.Seq < old.Seq, n.Mark.Seq == old.Seq && n.Mark != old:
		return broken(ErrConflict, "I13", r.ID, "the same as noted before, or a later frame than that: "+
			""+old.String(),
			"%s", n.Mark)
	case n.Mark == old && len(n.Spent) == 0:
		return broken(ErrConflict, "I10", r.ID, "something that was not noted before", "%s", n.Mark)
	}
	if err := b.spentMay(r); err != nil {
		return err
	}
	for _, s := range n.Spent {
		b.setSpent([2]string{s.Client, n.Journal}, s.Amount)
	}
	b.Marks[n.Journal] = &noted{n.Number, n.Mark}
	b.undo = append(b.undo, undo{do: func() {
		if b.Marks[n.Journal] = was; was.Number == 0 {
			delete(b.Marks, n.Journal)
		}
	}})
	return nil
}

// spentMay judges what clients are said to have spent at a hub.
func (b *Book) spentMay(r *Record) error {
	n := r.Noted
	if b.head.Role == RoleHub && len(n.Spent) > 0 || len(n.Spent) > tip.MaxSpent {
		return broken(ErrIllegal, "I15", r.ID,
			fmt.Sprintf("sums of at most %d clients, at the treasury alone", tip.MaxSpent), "%d", len(n.Spent))
	}
	before := ""
	for _, s := range n.Spent {
		has := b.Allotted(s.Client, n.Journal)
		switch {
		case s.Client <= before:
			return broken(ErrIllegal, "I10", r.ID, "clients in order", "%q", clip(s.Client))
		case s.Amount < 0 || s.Amount > has:
			return broken(ErrIllegal, "I18", r.ID,
				fmt.Sprintf("charges of client %s from 0 to %s, what %s has of it", clip(s.Client), has,
					n.Journal), "%s", s.Amount)
		case s.Amount == b.Spent(s.Client, n.Journal):
			return broken(ErrConflict, "I10", r.ID, "sums that have changed", "%s of %s, as before", s.Amount,
				s.Client)
		}
		before = s.Client
	}
	return nil
}

// setSpent sets what a client has spent at a hub; 0 takes no memory.
func (b *Book) setSpent(key [2]string, amount market.Credits) {
	old, had := b.kept.Spent[key]
	if b.kept.Spent[key] = amount; amount == 0 {
		delete(b.kept.Spent, key)
	}
	b.undo = append(b.undo, undo{do: func() {
		if b.kept.Spent[key] = old; !had {
			delete(b.kept.Spent, key)
		}
	}})
}
