package ledger

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"souk/bus/tip"
)

// roundHead is the part of a round that the book needs.
type roundHead struct {
	number     uint64
	prev, hash [32]byte
	awards     int
	taught     *Round // decoded, where it may teach what slots cost; else nil
}

// rule says of a kind whose journals may hold it, and how a book takes its records in.
type rule struct {
	hub, treasury bool
	apply         func(*Book, *Record) error
}

var rules = [...]rule{
	KindOpen:       {true, true, (*Book).applyOpen},
	KindRound:      {true, false, nil}, // with its head
	KindHold:       {true, false, (*Book).applyHold},
	KindCapture:    {true, false, (*Book).applyEnd},
	KindVoid:       {true, false, (*Book).applyEnd},
	KindDeposit:    {false, true, (*Book).applyTransfer},
	KindPayout:     {false, true, (*Book).applyTransfer},
	KindGrant:      {false, true, (*Book).applyTransfer},
	KindAccept:     {true, false, (*Book).applyTransfer},
	KindReturn:     {true, false, (*Book).applyTransfer},
	KindReclaim:    {false, true, (*Book).applyTransfer},
	KindDistribute: {true, true, (*Book).applyTransfer},
	KindClose:      {true, true, (*Book).applyClose},
	KindSeal:       {true, false, (*Book).applyEpoch},
	KindTariff:     {true, false, (*Book).applyEpoch},
	KindMove:       {false, true, (*Book).applyMove},
	KindBudget:     {false, true, (*Book).applyBudget},
	KindMark:       {true, true, (*Book).applyMark},
	KindWriteOff:   {false, true, (*Book).applyWriteOff},
	KindRemit:      {true, true, (*Book).applyTransfer},
	KindRefund:     {true, true, (*Book).applyTransfer},
	KindMonth:      {false, true, (*Book).applyMonth},
}

// apply judges a record and applies it. Checks come first and changes last; changes go to b.undo. round is
// the head of a round whose body was not decoded, else nil.
func (b *Book) apply(r *Record, round *roundHead) error {
	if int(r.Kind) >= len(rules) || !rules[r.Kind].hub && !rules[r.Kind].treasury {
		return broken(ErrIllegal, "I7", r.ID, "a known kind", "%s", r.Kind)
	}
	h, of := &b.head, &rules[r.Kind]
	switch {
	case r.Kind == KindOpen:
	case h.Journal == "":
		return broken(ErrOrder, "I7", r.ID, "an open record first", "%s", r.Kind)
	case h.Closed:
		return broken(ErrOrder, "I7", r.ID, "nothing after the journal was closed", "%s", r.Kind)
	case h.Role == RoleHub && !of.hub, h.Role == RoleTreasury && !of.treasury:
		return broken(ErrIllegal, "I7", r.ID, "a record of a "+h.Role, "%s", r.Kind)
	}
	if r.Kind == KindRound {
		return b.applyRound(r, round)
	}
	return of.apply(b, r)
}

// applyClose ends the journal, or at the treasury a hub.
func (b *Book) applyClose(r *Record) error {
	h := &b.head
	if err := b.whole(); err != nil {
		return err
	}
	if err := b.legsAre(r, nil); err != nil {
		return err
	}
	name, ok := strings.CutSuffix(r.ID, "/close")
	switch c := b.kept.Hubs[name]; {
	case ok && name == h.Journal:
		h.Closed = true
	case !ok || h.Role != RoleTreasury:
		return broken(ErrIllegal, "I10", r.ID, "id "+h.Journal+"/close", "%q", clip(r.ID))
	case c == nil:
		return broken(ErrIllegal, "I10", r.ID, "a hub that there were dealings with", "%q", clip(name))
	case c.Ended:
		return ErrRepeat
	default:
		c.Ended = true
		b.undo = append(b.undo, undo{do: func() { c.Ended = false }})
	}
	return nil
}

func (b *Book) applyOpen(r *Record) error {
	o, h := r.Open, &b.head
	switch {
	case h.Journal != "":
		if *o == b.Journal() && r.ID == h.Journal {
			return ErrRepeat
		}
		return broken(ErrConflict, "I10", r.ID, "one open record, of journal "+h.Journal, "another, of %q",
			clip(o.Journal))
	case !ValidID(o.Journal) || r.ID != o.Journal:
		return broken(ErrIllegal, "I10", r.ID, "a journal's name as id: 1 to 64 letters, digits, '-' or '_'",
			"%q", clip(o.Journal))
	case o.Role != RoleHub && o.Role != RoleTreasury:
		return broken(ErrIllegal, "I7", r.ID, "role hub or treasury", "%q", clip(o.Role))
	case o.Scale != Scale:
		return broken(ErrIllegal, "I1", r.ID, fmt.Sprintf("%d units per credit", Scale), "%d", o.Scale)
	case o.Role == RoleTreasury && !ValidCurrency(o.Currency), o.Role == RoleHub && o.Currency != "":
		return broken(ErrIllegal, "I1", r.ID, "the treasury's currency, a code of ISO 4217, and no hub's",
			"%q",
			clip(o.Currency))
	case len(o.Domain) > maxText:
		return broken(ErrIllegal, "I15", r.ID, fmt.Sprintf("a domain of at most %d bytes", maxText), "%d",
			len(o.Domain))
	}
	if err := b.legsAre(r, nil); err != nil {
		return err
	}
	h.Journal, h.Role, h.Domain, h.Currency = o.Journal, o.Role, o.Domain, o.Currency
	b.scratch = AppendRecord(b.scratch[:0], r)
	h.ID = tip.SumOf(b.scratch)
	return nil
}

func (b *Book) applyRound(r *Record, rh *roundHead) error {
	h := &b.head
	if rh == nil {
		b.scratch = r.Round.Round.AppendCanonical(b.scratch[:0])
		rh = &roundHead{number: r.Round.Round.Number, prev: r.Round.Round.Prev,
			hash: sha256.Sum256(b.scratch), awards: len(r.Round.Outcome.Awards), taught: r.Round}
	}
	own, ok := strings.CutPrefix(r.ID, h.Journal+"/")
	number, is := parseNumber(own)
	switch {
	case !ok || !is || number != rh.number:
		return broken(ErrIllegal, "I10", r.ID, "id "+RoundID(h.Journal, rh.number), "%q", clip(r.ID))
	case rh.number <= h.Round && rh.number > 0:
		if rh.number == h.Round && rh.next(r.Salt) == h.Hash {
			return ErrRepeat
		}
		return broken(ErrConflict, "I10", r.ID, fmt.Sprintf("round %d next", h.Round+1), "round %d once more",
			rh.number)
	case rh.number != h.Round+1:
		return broken(ErrOrder, "I7", r.ID, fmt.Sprintf("round %d", h.Round+1), "%d", rh.number)
	case rh.number > maxRound:
		return broken(ErrIllegal, "I15", r.ID, fmt.Sprintf("at most %d rounds", uint64(maxRound)), "round %d",
			rh.number)
	case rh.prev != h.Hash:
		return broken(ErrOrder, "I12", r.ID, fmt.Sprintf("salt and hash %x of the round before", h.Hash),
			"%x",
			rh.prev)
	case rh.awards > maxSlots:
		return broken(ErrIllegal, "I15", r.ID, fmt.Sprintf("at most %d awards", maxSlots), "%d", rh.awards)
	}
	if err := b.whole(); err != nil {
		return err
	}
	if err := b.legsAre(r, nil); err != nil {
		return err
	}
	h.Round, h.Hash, h.Awards, h.Held = rh.number, rh.next(r.Salt), rh.awards, 0
	if rh.taught != nil {
		b.taught = append(b.taught, rh.taught)
	}
	return nil
}

// next returns what the next round names as Prev: the salt of this one's record, by which lots fall, and half
// of its hash.
func (rh *roundHead) next(salt [16]byte) (prev [32]byte) {
	copy(prev[copy(prev[:], salt[:]):], rh.hash[:])
	return prev
}
