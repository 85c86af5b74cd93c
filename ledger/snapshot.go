package ledger

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"souk/bus/learned"
	"souk/bus/tip"
	"souk/market"
)

// saved is a history in a snapshot, by package learned. One that another build has written is ignored, and
// its journal is read from the first frame.
type saved struct {
	Size     int64
	Head     head
	Accounts map[string]*market.Credits
	Ended    recent[slotKey, ended]
	Ops      recent[string, op]
	Hubs     map[string]*counters
	Allotted map[[2]string]*market.Credits
	Spent    map[[2]string]market.Credits
	Vouched  map[[2]string]*Vouched
	Budgets  map[string]*Allowance
	Marks    map[string]*noted
	Classes  map[string]*class
	Usual    Usual
	Rates    *market.Rates
	Uses     map[string]*uses
	Refs     map[string]*made
	Refunds  map[string]*Refunded
	Offered  map[string]int64

	Ends    []*Past
	Open    []Past
	Returns []Transfer
	Grants  map[string][]Transfer
}

// saved shares its maps with the history.
func (h *History) saved() saved {
	b := h.Book
	return saved{Size: b.Size, Head: b.head, Accounts: b.accounts,
		Ended: b.ended, Ops: b.ops, Hubs: b.hubs, Allotted: b.allotted, Spent: b.spent, Vouched: b.vouched,
		Budgets: b.budgets, Marks: b.marks, Classes: b.classes, Usual: b.usual, Rates: &b.rates, Uses: b.uses,
		Refs: b.refs, Refunds: b.refunds, Offered: b.offered,
		Ends: h.ends, Returns: h.Returns, Grants: h.Grants}
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
	b.Size, b.head, b.ended, b.ops, h.Returns = s.Size, s.Head, s.Ended, s.Ops, s.Returns
	for name, has := range b.accounts {
		b.count(name, *has, 1)
	}
	if b.usual = s.Usual; !b.usual.valid() {
		return errors.New("no usual cost of tasks")
	}
	if err := b.rates.Validate(); err != nil {
		return err
	}
	if !b.restored() {
		return errors.New("no sums of what tasks came to")
	}
	for _, c := range slices.Sorted(maps.Keys(b.classes)) {
		if b.classes[c].Cleared.Number > 0 {
			b.tariffs = append(b.tariffs, b.classes[c].Tariff)
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
	for k, amount := range b.spent {
		if amount < 0 || amount > b.Allotted(k[0], k[1]) {
			return errors.New("more spent than was allotted")
		}
	}
	switch d := &b.head; {
	case !ValidID(d.Journal) || d.Role != RoleHub && d.Role != RoleTreasury || d.Seq == 0 || d.Said == 0 ||
		d.Said > d.Seq || d.ID == tip.Sum{} || d.Held != d.Awards || d.Awards < 0 || d.Awards > maxSlots ||
		d.Round > maxRound:
		return errors.New("no journal's head")
	case len(b.ops.Order) != len(b.ops.Of) || len(b.ended.Order) != len(b.ended.Of):
		return errors.New("a memory without its order")
	}
	b.sums(func(_ int, invariant, expected, format string, args ...any) {
		err = broken(ErrIllegal, invariant, "snapshot", expected, format, args...)
	})
	return err
}
