package ledger

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"souk/market"
)

// Under pricing tariff a class's epoch is recorded in two steps, so that nobody can say that an ask was read
// before the last was sealed: a seal record when its sealing closes, and a tariff record once the asks are
// opened. When a winner is lost the tariff is recorded again. A tariff holds until the next epoch's.

const (
	// maxClasses bounds the classes of one journal.
	maxClasses = 1 << 10
	// pastEpochs is the number of past epochs that decide how many owners win in the next.
	pastEpochs = 4
)

// Epoch is one step of an epoch of a class.
type Epoch struct {
	Epoch  market.Epoch
	Use    market.ClassUse // of a seal: how the class went in the epoch before
	Tariff market.Tariff   // of a tariff
}

// NewSeal records that the sealing of an epoch closed: e has its seals, and no ask opened. use is the class's
// load since the last.
func NewSeal(journal string, e market.Epoch, use market.ClassUse, salt [16]byte) Record {
	return Record{Kind: KindSeal, ID: epochID(journal, KindSeal, &e), Salt: salt,
		Epoch: &Epoch{Epoch: e, Use: use}}
}

// NewTariff records what an epoch came to.
func NewTariff(journal string, e market.Epoch, t market.Tariff, salt [16]byte) Record {
	return Record{Kind: KindTariff, ID: epochID(journal, KindTariff, &e), Salt: salt,
		Epoch: &Epoch{Epoch: e, Tariff: t}}
}

// epochID is "<journal>/seal/<class>/<epoch>", and "<journal>/tariff/<class>/<epoch>/<owners lost>".
func epochID(journal string, k Kind, e *market.Epoch) string {
	id := journal + "/" + k.String() + "/" + e.Class + "/" + strconv.FormatUint(e.Number, 10)
	if k == KindTariff {
		id += "/" + strconv.Itoa(len(e.Lost))
	}
	return id
}

// class is a book's state of a class's epochs.
type class struct {
	Sealed  market.Epoch // the last one sealed
	Cleared market.Epoch // the last one cleared
	Tariff  market.Tariff
	Past    []market.ClassUse // of the last epochs that were cleared, the newest last
	Use     market.ClassUse   // as the last seal said
	// for the next epoch: of the last round when the class's last record was made
	Prev [32]byte
}

// NextEpoch returns the epoch of a class that may be sealed next, without its seals: earlier records give its
// number, its tie-break and how many owners win. use is the class's load since the last.
func (b *Book) NextEpoch(name string, use market.ClassUse) market.Epoch {
	e := market.Epoch{Class: name, Number: 1}
	if c := b.Classes[name]; c != nil {
		e.Number, e.Prev = c.Sealed.Number+1, c.Prev
		e.Winners = market.NextWinners(c.with(use))
	}
	return e
}

// with returns the past epochs that count, with the one that use describes. Before the first epoch there is
// none.
func (c *class) with(use market.ClassUse) []market.ClassUse {
	if c.Cleared.Number == 0 {
		return nil
	}
	return append(slices.Clone(c.Past[max(0, len(c.Past)-pastEpochs+1):]), use)
}

// Epoch is a class's last cleared epoch and its tariff; ok is false where there is none.
func (b *Book) Epoch(name string) (e market.Epoch, t market.Tariff, ok bool) {
	if c := b.Classes[name]; c != nil && c.Cleared.Number > 0 {
		return c.Cleared, c.Tariff, true
	}
	return market.Epoch{}, market.Tariff{}, false
}

// Tariffs returns the tariffs in force, by class. The slice is never changed.
func (b *Book) Tariffs() []market.Tariff { return b.tariffs }

func (b *Book) applyEpoch(r *Record) error {
	e := &r.Epoch.Epoch
	if want := epochID(b.head.Journal, r.Kind, e); r.ID != want {
		return broken(ErrIllegal, "I10", r.ID, "id "+clip(want), "%q", clip(r.ID))
	}
	if err := e.Validate(); err != nil {
		return broken(ErrIllegal, "I15", r.ID, "a valid epoch", "%v", err)
	}
	if err := b.legsAre(r, nil); err != nil {
		return err
	}
	c := b.Classes[e.Class]
	if c == nil {
		if len(b.Classes) >= maxClasses {
			return broken(ErrIllegal, "I15", r.ID, fmt.Sprintf("at most %d classes", maxClasses), "one more")
		}
		c = &class{}
	}
	after := *c
	step := after.seal
	if r.Kind == KindTariff {
		step = after.clear
	}
	if err := step(b, r); err != nil {
		return err
	}
	after.Prev = b.head.Hash
	tariffs := b.tariffs
	b.Classes[e.Class] = &after
	b.undo = append(b.undo, undo{do: func() {
		b.tariffs = tariffs
		if b.Classes[e.Class] = c; c.Sealed.Number == 0 {
			delete(b.Classes, e.Class)
		}
	}})
	if r.Kind == KindTariff {
		b.tariffs = slices.Clone(tariffs)
		i, there := slices.BinarySearchFunc(b.tariffs, e.Class,
			func(t market.Tariff, class string) int { return cmp.Compare(t.Class, class) })
		if there {
			b.tariffs[i] = after.Tariff
		} else {
			b.tariffs = slices.Insert(b.tariffs, i, after.Tariff)
		}
	}
	return nil
}

// seal takes a seal record over.
func (c *class) seal(b *Book, r *Record) error {
	e, use := &r.Epoch.Epoch, r.Epoch.Use
	if e.Number == c.Sealed.Number && e.Number > 0 {
		if sameEpoch(e, &c.Sealed) && use.Peak == c.Use.Peak && slices.Equal(use.Slots, c.Use.Slots) {
			return ErrRepeat
		}
		return broken(ErrConflict, "I10", r.ID, "one sealing of an epoch", "another")
	}
	want := b.NextEpoch(e.Class, use)
	switch {
	case e.Number != want.Number:
		return broken(ErrOrder, "I7", r.ID, fmt.Sprintf("epoch %d of %s", want.Number, clip(e.Class)), "%d",
			e.Number)
	case e.Prev != want.Prev:
		return broken(ErrOrder, "I12", r.ID,
			fmt.Sprintf("the tie-break %x, of the last round before it was called", want.Prev), "%x", e.Prev)
	case e.Winners != want.Winners:
		return broken(ErrIllegal, "I6", r.ID, fmt.Sprintf("%d winners, from earlier epochs", want.Winners),
			"%d", e.Winners)
	case len(e.Opened) > 0 || len(e.Lost) > 0:
		return broken(ErrOrder, "I6", r.ID, "a sealing before any ask is read", "%d asks, %d owners lost",
			len(e.Opened), len(e.Lost))
	case len(e.Seals) == 0 || len(use.Slots) > market.MaxOwners:
		return broken(ErrIllegal, "I15", r.ID,
			fmt.Sprintf("some seals, and slots of at most %d owners", market.MaxOwners), "%d, and %d",
			len(e.Seals), len(use.Slots))
	}
	c.Sealed, c.Use, c.Past = *e, use, c.with(use)
	return nil
}

// clear takes a tariff record over. That the tariff is the epoch's is for [market.CheckTariff].
func (c *class) clear(_ *Book, r *Record) error {
	e := r.Epoch.Epoch
	sealed := e
	sealed.Opened, sealed.Lost = nil, nil
	again := c.Cleared.Number == e.Number
	switch {
	case e.Number == 0 || !sameEpoch(&sealed, &c.Sealed):
		return broken(ErrOrder, "I6", r.ID, "the epoch as it was sealed",
			"epoch %d of %s with other seals, ceiling, winners or tie-break", e.Number, clip(e.Class))
	case !again && len(e.Lost) > 0:
		return broken(ErrOrder, "I6", r.ID, "nobody lost before the epoch began", "%d", len(e.Lost))
	case again && sameEpoch(&e, &c.Cleared) &&
		bytes.Equal(r.Epoch.Tariff.AppendCanonical(nil), c.Tariff.AppendCanonical(nil)):
		return ErrRepeat
	case again && (!slices.Equal(e.Opened, c.Cleared.Opened) || len(e.Lost) <= len(c.Cleared.Lost) ||
		!slices.Equal(e.Lost[:len(c.Cleared.Lost)], c.Cleared.Lost)):
		return broken(ErrConflict, "I6", r.ID, "the same asks, and one more owner lost",
			"another epoch %d of %s", e.Number, clip(e.Class))
	case r.Epoch.Tariff.Class != e.Class || r.Epoch.Tariff.Epoch != e.Number:
		return broken(ErrIllegal, "I6", r.ID,
			fmt.Sprintf("the tariff of epoch %d of %s", e.Number, clip(e.Class)), "of %d of %s",
			r.Epoch.Tariff.Epoch, clip(r.Epoch.Tariff.Class))
	}
	c.Cleared, c.Tariff = e, r.Epoch.Tariff
	return nil
}

func sameEpoch(a, b *market.Epoch) bool {
	return bytes.Equal(a.AppendCanonical(nil), b.AppendCanonical(nil))
}
