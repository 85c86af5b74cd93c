package ledger

import (
	"crypto/sha256"
	"fmt"
	"souk/bus/tip"
	"strings"
)

// roundHead is what the book needs of a round.
type roundHead struct {
	number     uint64
	prev, hash [32]byte
	awards     int
}

// apply judges a record and applies it. Checks come first and changes last; changes go to b.undo. round is
// the head of a round whose body was not decoded, else nil.
func (b *Book) apply(r *Record, round *roundHead) error {
	if err := r.shape(round != nil); err != nil {
		return err
	}
	h := &b.head
	switch {
	case r.Kind == KindOpen:
		return b.applyOpen(r)
	case h.journal == "":
		return broken(ErrOrder, "I7", r.ID, "an open record first", "%s", r.Kind)
	case h.closed:
		return broken(ErrOrder, "I7", r.ID, "nothing after the journal was closed", "%s", r.Kind)
	case !r.Kind.at(h.role):
		return broken(ErrIllegal, "I7", r.ID, "a record of a "+h.role, "%s", r.Kind)
	}
	switch r.Kind {
	case KindRound:
		return b.applyRound(r, round)
	case KindHold:
		return b.applyHold(r)
	case KindCapture, KindVoid:
		return b.applyEnd(r)
	case KindSeal, KindTariff:
		return b.applyEpoch(r)
	case KindClose:
		return b.applyClose(r)
	case KindMove:
		return b.applyMove(r)
	case KindBudget:
		return b.applyBudget(r)
	case KindMark:
		return b.applyMark(r)
	case KindWriteOff:
		return b.applyWriteOff(r)
	}
	return b.applyTransfer(r)
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
	switch c := b.hubs[name]; {
	case ok && name == h.journal:
		h.closed = true
	case !ok || h.role != RoleTreasury:
		return broken(ErrIllegal, "I10", r.ID, "id "+h.journal+"/close", "%q", clip(r.ID))
	case c == nil:
		return broken(ErrIllegal, "I10", r.ID, "a hub that there were dealings with", "%q", clip(name))
	case c.ended:
		return ErrRepeat
	default:
		c.ended = true
		b.undo = append(b.undo, undo{do: func() { c.ended = false }})
	}
	return nil
}

// at reports whether a journal of that role may hold such records.
func (k Kind) at(role string) bool {
	switch k {
	case KindDistribute, KindClose, KindMark:
		return true
	case KindDeposit, KindPayout, KindGrant, KindReclaim, KindMove, KindBudget, KindWriteOff:
		return role == RoleTreasury
	}
	return role == RoleHub
}

// shape checks that exactly the part that Kind names is set.
func (r *Record) shape(lazyRound bool) error {
	n := 0
	for _, set := range [...]bool{r.Open != nil, r.Round != nil ||
		lazyRound, r.Hold != nil, r.Capture != nil, r.Void != nil, r.Transfer != nil, r.Epoch != nil, r.Move != nil, r.Budget != nil, r.Noted != nil, r.WriteOff != nil} {
		if set {
			n++
		}
	}
	want, ok := 1, false
	switch r.Kind {
	case KindOpen:
		ok = r.Open != nil
	case KindRound:
		ok = r.Round != nil || lazyRound
	case KindHold:
		ok = r.Hold != nil
	case KindCapture:
		ok = r.Capture != nil
	case KindVoid:
		ok = r.Void != nil
	case KindDeposit, KindPayout, KindGrant, KindAccept, KindReturn, KindReclaim, KindDistribute:
		ok = r.Transfer != nil
	case KindSeal, KindTariff:
		ok = r.Epoch != nil
	case KindMove:
		ok = r.Move != nil
	case KindBudget:
		ok = r.Budget != nil
	case KindMark:
		ok = r.Noted != nil
	case KindWriteOff:
		ok = r.WriteOff != nil
	case KindClose:
		ok, want = true, 0
	}
	if !ok || n != want {
		return broken(ErrIllegal, "I7", r.ID, "a known kind with its own part and no other",
			"%s with %d parts", r.Kind, n)
	}
	return nil
}

func (b *Book) applyOpen(r *Record) error {
	o, h := r.Open, &b.head
	switch {
	case h.journal != "":
		if *o == b.Journal() && r.ID == h.journal {
			return ErrRepeat
		}
		return broken(ErrConflict, "I10", r.ID, "one open record, of journal "+h.journal, "another, of %q",
			clip(o.Journal))
	case !ValidID(o.Journal) || r.ID != o.Journal:
		return broken(ErrIllegal, "I10", r.ID, "a journal's name as id: 1 to 64 letters, digits, '-' or '_'",
			"%q", clip(o.Journal))
	case o.Role != RoleHub && o.Role != RoleTreasury:
		return broken(ErrIllegal, "I7", r.ID, "role hub or treasury", "%q", clip(o.Role))
	case o.Scale != Scale:
		return broken(ErrIllegal, "I1", r.ID, fmt.Sprintf("%d units per credit", Scale), "%d", o.Scale)
	case len(o.Domain) > maxText:
		return broken(ErrIllegal, "I15", r.ID, fmt.Sprintf("a domain of at most %d bytes", maxText), "%d",
			len(o.Domain))
	}
	if err := b.legsAre(r, nil); err != nil {
		return err
	}
	h.journal, h.role, h.domain = o.Journal, o.Role, o.Domain
	b.scratch = AppendRecord(b.scratch[:0], r)
	h.id = tip.SumOf(b.scratch)
	return nil
}

func (b *Book) applyRound(r *Record, rh *roundHead) error {
	h := &b.head
	if rh == nil {
		rh = &roundHead{number: r.Round.Round.Number, prev: r.Round.Round.Prev,
			awards: len(r.Round.Outcome.Awards)}
	}
	switch {
	case !b.isRoundID(r.ID, rh.number):
		return broken(ErrIllegal, "I10", r.ID, "id "+RoundID(h.journal, rh.number), "%q", clip(r.ID))
	case rh.number <= h.round && rh.number > 0:
		if rh.number == h.round && b.hashOf(r, rh) == h.hash {
			return ErrRepeat
		}
		return broken(ErrConflict, "I10", r.ID, fmt.Sprintf("round %d next", h.round+1), "round %d once more",
			rh.number)
	case rh.number != h.round+1:
		return broken(ErrOrder, "I7", r.ID, fmt.Sprintf("round %d", h.round+1), "%d", rh.number)
	case rh.number > maxRound:
		return broken(ErrIllegal, "I15", r.ID, fmt.Sprintf("at most %d rounds", uint64(maxRound)), "round %d",
			rh.number)
	case rh.prev != h.hash:
		return broken(ErrOrder, "I12", r.ID, fmt.Sprintf("hash %x of the round before", h.hash), "%x",
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
	h.round, h.hash, h.awards, h.held = rh.number, b.hashOf(r, rh), rh.awards, 0
	return nil
}

func (b *Book) hashOf(r *Record, rh *roundHead) [32]byte {
	if r.Round != nil {
		b.scratch = r.Round.Round.AppendCanonical(b.scratch[:0])
		return RoundHash(b.scratch)
	}
	return rh.hash
}

func (b *Book) isRoundID(id string, n uint64) bool {
	j := b.head.journal
	if len(id) <= len(j) || id[:len(j)] != j || id[len(j)] != '/' {
		return false
	}
	got, ok := parseNumber(id[len(j)+1:])
	return ok && got == n
}

// RoundHash is the hash that the next round names as Prev: SHA-256 over the round's canonical bytes.
func RoundHash(canonical []byte) [32]byte { return sha256.Sum256(canonical) }
