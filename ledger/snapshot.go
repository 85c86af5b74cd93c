package ledger

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"souk/bus/learned"
	"souk/bus/tip"
)

// saved is a history in a snapshot, by package learned. One that another build has written is ignored, and
// its journal is read from the first frame.
type saved struct {
	Head head
	Book *kept

	Ends    []*Past
	Open    []Past
	Returns []Transfer
	Grants  map[string][]Transfer
}

// saved shares what it has with the history.
func (h *History) saved() saved {
	return saved{Head: h.Book.head, Book: &h.Book.kept, Ends: h.ends, Returns: h.Returns, Grants: h.Grants}
}

// Snapshot implements [Replica].
func (h *History) Snapshot() (data []byte, err error) {
	s := h.saved()
	if s.Open, err = h.Open(); err != nil {
		return nil, err
	}
	return learned.Append(nil, &s)
}

// Load implements [Replica]. From a snapshot made under other limits it keeps what its own allow. Errors are
// ErrEncoding.
func (h *History) Load(snapshot []byte) error {
	h.clear()
	if snapshot == nil {
		return nil
	}
	s := h.saved()
	err := learned.ReadPart(snapshot, &s)
	if err == nil {
		err = h.take(&s)
	}
	if err != nil {
		h.clear()
		return fmt.Errorf("%w: %w", ErrEncoding, err)
	}
	return nil
}

// take takes over what a snapshot says beside the maps, and judges whether a journal's records could have led
// to it. That proves nothing of the journal, but no account is short, and every hold is covered.
func (h *History) take(s *saved) (err error) {
	b := h.Book
	b.head, h.Returns = s.Head, s.Returns
	for name, has := range b.Accounts {
		b.count(name, *has, 1)
	}
	if !b.kept.Usual.valid() {
		return errors.New("no usual cost of tasks")
	}
	if err := b.kept.Rates.Validate(); err != nil {
		return err
	}
	if !b.restored() {
		return errors.New("no sums of what tasks came to")
	}
	for _, c := range slices.Sorted(maps.Keys(b.Classes)) {
		if b.Classes[c].Cleared.Number > 0 {
			b.tariffs = append(b.tariffs, b.Classes[c].Tariff)
		}
	}
	for _, p := range s.Ends {
		if p.Hold == nil || p.Hold.valid("") != nil || (p.Capture == nil) == (p.Void == nil) {
			return errors.New("a hold that cannot have ended so")
		}
		h.last[p.task()] = p
		h.keep(p)
	}
	for i := range s.Open {
		p := &s.Open[i]
		k, ok := slotKey(0), p.Hold != nil && p.Award != nil
		if ok {
			k, ok = keyOf(p.Hold.Round, p.Hold.Slot)
		}
		if !ok || p.Hold.valid("") != nil || p.Hold.Round > b.head.Round || b.open[k] != nil {
			return errors.New("a hold that cannot be open")
		}
		b.open[k], h.open[k], h.last[p.task()] = p.Hold, p, p
	}
	h.forget(b.head.Time)
	for k, amount := range b.kept.Spent {
		if amount < 0 || amount > b.Allotted(k[0], k[1]) {
			return errors.New("more spent than was allotted")
		}
	}
	switch d := &b.head; {
	case !ValidID(d.Journal) || d.Role != RoleHub && d.Role != RoleTreasury || d.Seq == 0 || d.Said == 0 ||
		d.Said > d.Seq || d.ID == tip.Sum{} || d.Held != d.Awards || d.Awards < 0 || d.Awards > maxSlots ||
		d.Round > maxRound:
		return errors.New("no journal's head")
	case len(b.Ops.Order) != len(b.Ops.Of) || len(b.kept.Ended.Order) != len(b.kept.Ended.Of):
		return errors.New("a memory without its order")
	}
	b.sums(func(_ int, invariant, expected, format string, args ...any) {
		err = broken(ErrIllegal, invariant, "snapshot", expected, format, args...)
	})
	return err
}
