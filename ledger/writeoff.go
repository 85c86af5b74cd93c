package ledger

import (
	"fmt"
	"maps"
	"slices"

	"souk/bus/tip"
	"souk/market"
)

// A hub's journal that is gone for good keeps nothing of its clients' money for ever: a record of the
// treasury ends it. What clients had there comes back to them, less what the hub's last mark says that they
// had spent, and the rest is booked as lost: it is due to agents, or surplus and fees, by records that nobody
// has any more.

// WriteOff ends a hub whose journal is gone.
type WriteOff struct {
	Hub  string         // its journal
	Mark tip.Mark       // the last that was noted of it; zero: none ever was
	Back market.Credits // to clients, together
	Lost market.Credits // what is left
}

// Lost is the treasury's account of what was lost with a hub's journal.
func Lost(hub string) string { return "lost:" + hub }

// maxBack bounds the clients of one write-off: its record fits a frame.
const maxBack = 1 << 18

// NewWriteOff ends a hub whose journal is gone, in the treasury's book as it is now.
func (b *Book) NewWriteOff(hub string, salt [16]byte) Record {
	w, legs := b.writeOff(hub)
	return Record{Kind: KindWriteOff, ID: hub + "/" + KindWriteOff.String(), Salt: salt, WriteOff: &w,
		Legs: legs}
}

// writeOff returns the write-off of a hub. Each client gets back what went to the hub for it and did not come
// back, less what it spent. Surplus that left the hub is part of the money spent there: where it is more than
// the last mark's surplus, the clients' parts are cut alike, so that no more comes back than went.
func (b *Book) writeOff(hub string) (WriteOff, []Leg) {
	w := WriteOff{Hub: hub}
	w.Mark, _ = b.Marked(hub)
	has, want := b.Balance(Clearing(hub)), market.Credits(0)
	clients := b.clientsAt(hub)
	for _, c := range clients {
		want += b.Allotted(c, hub) - b.Spent(c, hub) // part of what was deposited
	}
	legs := leg(nil, Clearing(hub), -has)
	for _, c := range clients {
		back := b.Allotted(c, hub) - b.Spent(c, hub)
		if want > has {
			back = market.Part(back, int64(has), int64(want))
		}
		w.Back += back
		legs = leg(legs, Prepaid(c), back)
	}
	w.Lost = has - w.Back
	return w, leg(legs, Lost(hub), w.Lost)
}

// clientsAt lists the clients of whose money a hub has some, sorted.
func (b *Book) clientsAt(hub string) (all []string) {
	for key, amount := range b.kept.Allotted {
		if key[1] == hub && *amount > 0 {
			all = append(all, key[0])
		}
	}
	slices.Sort(all)
	return all
}

// WrittenOff reports whether a hub's journal was written off.
func (b *Book) WrittenOff(hub string) bool { return b.counters(hub).Lost }

// Missing lists the hubs that were written off, sorted.
func (b *Book) Missing() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(b.kept.Hubs)) {
		if b.kept.Hubs[name].Lost {
			all = append(all, name)
		}
	}
	return all
}

// applyWriteOff ends a hub whose journal is gone.
func (b *Book) applyWriteOff(r *Record) error {
	w := r.WriteOff
	c := b.kept.Hubs[w.Hub]
	switch {
	case r.ID != w.Hub+"/"+r.Kind.String() || !ValidID(w.Hub):
		return broken(ErrIllegal, "I10", r.ID, "a hub's name and /"+r.Kind.String(), "%q", clip(r.ID))
	case c == nil:
		return broken(ErrIllegal, "I10", r.ID, "a hub that there were dealings with", "%q", clip(w.Hub))
	case c.Lost:
		return ErrRepeat
	case c.Ended:
		return broken(ErrOrder, "I7", r.ID, "a hub that has not ended", "%s, whose journal is closed", w.Hub)
	}
	want, legs := b.writeOff(w.Hub)
	switch {
	case len(legs) > maxBack:
		return broken(ErrIllegal, "I15", r.ID, fmt.Sprintf("at most %d clients", maxBack), "%d", len(legs))
	case *w != want:
		return broken(ErrIllegal, "I18", r.ID,
			fmt.Sprintf("%s back to clients and %s lost, by the last mark: %s", want.Back, want.Lost,
				want.Mark),
			"%s and %s, %s", w.Back, w.Lost, w.Mark)
	}
	if err := b.post(r, legs); err != nil {
		return err
	}
	for _, client := range b.clientsAt(w.Hub) {
		b.setSpent([2]string{client, w.Hub}, 0)
		b.allot(client, w.Hub, -b.Allotted(client, w.Hub))
	}
	before := *c
	b.undo = append(b.undo, undo{do: func() { *c = before }})
	c.Ended, c.Lost = true, true
	return nil
}
