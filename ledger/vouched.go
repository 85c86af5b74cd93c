package ledger

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"souk/market"
)

// A hub is granted a client's money for tasks that a door placed there, and for what it gave back: each
// grant says how much of what doors vouched for was granted by then, and what is left of returns after it.
// So the journal shows on whose word each grant was made. A grant that says nothing of that is to a hub's
// own client, or of a market without doors.

// Vouched is the cover left for grants of one client's money to one hub.
type Vouched struct {
	Doors []DoorTotal    // by door and line
	Left  market.Credits // returned, and not granted again
}

// DoorTotal is the sum granted on a door's vouchers, in one of its lines.
type DoorTotal struct {
	Door  string
	Line  uint64
	Total market.Credits
}

// MaxVouched bounds the lines of one grant.
const MaxVouched = 256

func compareLines(a, b DoorTotal) int {
	return cmp.Or(cmp.Compare(a.Door, b.Door), cmp.Compare(a.Line, b.Line))
}

// Find returns a line's index, or that at which it would be inserted.
func (v *Vouched) Find(door string, line uint64) (int, bool) {
	return slices.BinarySearchFunc(v.Doors, DoorTotal{Door: door, Line: line}, compareLines)
}

// odd is a line that cannot be, or stands where it does not belong; nil: there is none.
func (v *Vouched) odd() *DoorTotal {
	for i := range v.Doors {
		if d := &v.Doors[i]; !ValidID(d.Door) || d.Total <= 0 || d.Total > market.MaxCredits ||
			i > 0 && compareLines(v.Doors[i-1], *d) >= 0 {
			return d
		}
	}
	return nil
}

// more adds up to what an amount may be.
func more(a, b market.Credits) market.Credits { return min(a, market.MaxCredits-b) + b }

// Vouched returns the cover for grants of a client's money to a hub; zero if there is none.
func (b *Book) Vouched(client, hub string) Vouched {
	if v := b.kept.Vouched[[2]string{client, hub}]; v != nil {
		return Vouched{slices.Clone(v.Doors), v.Left}
	}
	return Vouched{}
}

// applyVouched checks what a grant says of what doors vouched for, and takes it over. Lines may be missing:
// those that nobody vouches in any more.
func (b *Book) applyVouched(r *Record) error {
	t := r.Transfer
	v := t.Vouched
	if v == nil {
		return nil
	}
	wrong := func(expected, format string, args ...any) error {
		return broken(ErrIllegal, "I20", r.ID, expected, format, args...)
	}
	switch {
	case r.Kind != KindGrant:
		return wrong("what doors vouched for in grants alone", "%s", r.Kind)
	case len(v.Doors) == 0 || len(v.Doors) > MaxVouched:
		return wrong(fmt.Sprintf("1 to %d lines of doors", MaxVouched), "%d", len(v.Doors))
	}
	key := [2]string{t.Client, t.Hub}
	old := b.kept.Vouched[key]
	if old == nil {
		old = &Vouched{}
	}
	if d := v.odd(); d != nil {
		return wrong("lines of doors in order, each above 0", "%q %d: %s", clip(d.Door), d.Line, d.Total)
	}
	left := old.Left
	for _, d := range v.Doors {
		before := market.Credits(0)
		if at, found := old.Find(d.Door, d.Line); found {
			before = old.Doors[at].Total
		}
		if d.Total < before {
			return wrong(fmt.Sprintf("at least %s, what was granted on door %s before", before, d.Door), "%s",
				d.Total)
		}
		left = more(left, d.Total-before)
	}
	if t.Amount > left {
		return broken(ErrFunds, "I20", r.ID, fmt.Sprintf("at most %s, what doors vouched for of %s at %s, and "+
			"it gave back", left, t.Client, t.Hub), "%s", t.Amount)
	}
	if v.Left != left-t.Amount {
		return wrong(fmt.Sprintf("%s left of what came back", left-t.Amount), "%s", v.Left)
	}
	b.setVouched(key, v)
	return nil
}

// gaveBack notes that a hub may be granted again what it returned.
func (b *Book) gaveBack(client, hub string, amount market.Credits) {
	key := [2]string{client, hub}
	if old := b.kept.Vouched[key]; old != nil {
		b.setVouched(key, &Vouched{old.Doors, more(old.Left, amount)})
	}
}

func (b *Book) setVouched(key [2]string, v *Vouched) {
	old, was := b.kept.Vouched[key]
	b.kept.Vouched[key] = v
	b.undo = append(b.undo, undo{do: func() {
		if b.kept.Vouched[key] = old; !was {
			delete(b.kept.Vouched, key)
		}
	}})
}

// appendVouched appends what is behind a grant; nothing is a list of no lines.
func appendVouched(b []byte, v *Vouched) []byte {
	if v == nil {
		return append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(len(v.Doors)))
	for _, d := range v.Doors {
		b = binary.AppendVarint(binary.AppendUvarint(appendString(b, d.Door), d.Line), int64(d.Total))
	}
	return binary.AppendVarint(b, int64(v.Left))
}

func (d *decoder) vouched() *Vouched {
	doors := listed(d, 3, func() DoorTotal { return DoorTotal{d.Name(), d.Uvarint(), d.Credits()} })
	if doors == nil {
		return nil
	}
	return &Vouched{Doors: doors, Left: d.Credits()}
}
