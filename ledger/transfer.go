package ledger

import (
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"

	"souk/bus/tip"
	"souk/market"
)

// applyTransfer moves money between the outside, the treasury and hubs.
func (b *Book) applyTransfer(r *Record) error {
	t, h := r.Transfer, &b.head
	this := op{r.Kind, t.Client, t.Amount, noteOf(t.Hub, t.Note)}
	if r.Kind == KindRemit || r.Kind == KindRefund || sharedOut(r) {
		b.scratch = appendSaid(b.scratch[:0], t.Order)
		this.Note = noteOf(t.Hub, string(b.scratch))
	}
	if old, known := b.op(r.ID); known {
		return b.known(r, old, this)
	}
	nobody := (r.Kind == KindDistribute || r.Kind == KindRemit) && t.Client == ""
	switch {
	case !nobody && !ValidID(t.Client):
		return broken(ErrIllegal, "I17", r.ID, "a client of 1 to 64 letters, digits, '-' or '_'", "%q",
			clip(t.Client))
	case t.Amount <= 0 && !(sharedOut(r) && t.Amount == 0) || t.Amount > market.MaxCredits:
		return broken(ErrIllegal, "I2", r.ID, "an amount above 0 and at most "+market.MaxCredits.String(),
			"%s", t.Amount)
	case len(t.Note) > maxText:
		return broken(ErrIllegal, "I15", r.ID, fmt.Sprintf("a note of at most %d bytes", maxText), "%d",
			len(t.Note))
	case r.ID == "" || len(r.ID) > maxText:
		return broken(ErrIllegal, "I15", r.ID, fmt.Sprintf("an id of 1 to %d bytes", maxText), "%d",
			len(r.ID))
	}
	if r.Kind == KindDeposit && b.Budgets[t.Client] != nil {
		return b.onlyAllowed(r, t.Client)
	}
	commanded := t.Amount
	if sharedOut(r) {
		commanded = 0 // the rule says how much, and to whom
	}
	if err := b.said(r, t.Order, commanded, func() []byte { return t.signs(r.Kind, r.ID) }); err != nil {
		return err
	}
	if err := b.numberFollows(r); err != nil {
		return err
	}
	if r.Kind.IsOrder() {
		if err := b.applyOrder(r); err != nil {
			return err
		}
	}
	if r.Kind == KindReclaim && t.Amount > b.Allotted(t.Client, t.Hub) {
		return broken(ErrFunds, "I18", r.ID,
			fmt.Sprintf("at most %s, what %s has of %s", b.Allotted(t.Client, t.Hub), t.Hub, t.Client), "%s",
			t.Amount)
	}
	out := r.Kind == KindReclaim || (r.Kind == KindDistribute || r.Kind == KindRemit) &&
		h.Role == RoleTreasury
	if has := b.Balance(Clearing(t.Hub)); out && t.Amount > has { // whatever the hub says
		return broken(ErrFunds, "I18", r.ID,
			fmt.Sprintf("at most %s, what went to hub %s and has not come back", has, t.Hub), "%s", t.Amount)
	}
	if err := b.applyVouched(r); err != nil {
		return err
	}
	if r.Kind.IsOrder() {
		b.legs = b.orderLegs(b.legs[:0], r.Kind, t)
	} else {
		b.legs = transferLegs(b.legs[:0], r.Kind, t)
	}
	if err := b.post(r, b.legs); err != nil {
		return err
	}
	if r.Kind.IsOrder() && h.Role == RoleHub {
		h.Ripe = b.Ripe() // what left was of that first
	}
	switch r.Kind {
	case KindGrant, KindAccept:
		b.allot(t.Client, t.Hub, t.Amount)
	case KindReclaim, KindReturn:
		b.allot(t.Client, t.Hub, -t.Amount)
		b.gaveBack(t.Client, t.Hub, t.Amount)
	}
	b.remember(r.ID, this)
	if !r.Kind.IsOrder() {
		b.keepSigned(r.ID, r.Kind, *t)
	}
	return nil
}

// said judges what an operator says of money, and whether a second one has signed that where it is much.
func (b *Book) said(r *Record, o *tip.Order, amount market.Credits, text func() []byte) error {
	if o == nil {
		return nil
	}
	if err := b.validOrder(r, o); err != nil {
		return err
	}
	return approved(r.ID, o, amount, text)
}

// keepSigned has what had to be signed known for good: nobody can have it made again.
func (b *Book) keepSigned(id string, k Kind, t Transfer) {
	if t.Order != nil && t.Order.Signature != "" {
		b.keepRef(id, &made{k, t})
	}
}

// op returns what was done under an id.
func (b *Book) op(id string) (op, bool) {
	if o, ok := b.Ops.Of[id]; ok {
		return o, true
	}
	if m := b.Refs[id]; m != nil && !m.Kind.IsOrder() {
		return op{m.Kind, m.Client, m.Amount, noteOf(m.Hub, m.Note)}, true
	}
	return op{}, false
}

func noteOf(with, note string) uint64 { return xxhash.Sum64String(with + "\x00" + note) }

// known judges an operation whose id came before.
func (b *Book) known(r *Record, old, this op) error {
	if old == this {
		return ErrRepeat
	}
	return broken(ErrConflict, "I10", r.ID,
		fmt.Sprintf("the %s of %s for %s that has this id", old.Kind, old.Amount, old.Client),
		"a %s of %s for %q", r.Kind, this.Amount, clip(this.Client))
}

// Made reports whether an operation of this id was applied before.
func (b *Book) Made(id string) bool {
	_, ok := b.op(id)
	return ok
}

// remember keeps an operation, so that it is done once.
func (b *Book) remember(id string, this op) {
	b.Ops.add(id, this)
	b.undo = append(b.undo, undo{do: b.Ops.undo})
}

// numberFollows checks a transfer's hub, number and id, and takes the number over.
func (b *Book) numberFollows(r *Record) error {
	t, h := r.Transfer, &b.head
	if r.Kind == KindDeposit || r.Kind == KindPayout {
		if t.Hub != "" || t.Number != 0 {
			return broken(ErrIllegal, "I10", r.ID, "no hub and no number", "%q, %d", clip(t.Hub), t.Number)
		}
		prefix := r.Kind.String() + "/"
		if own, ok := strings.CutPrefix(r.ID, prefix); !ok || !ValidOp(own) {
			return broken(ErrIllegal, "I10", r.ID, "id "+prefix+" and the operation's own", "%q", clip(r.ID))
		}
		return nil
	}
	if !ValidID(t.Hub) || h.Role == RoleHub && t.Hub != h.Journal {
		return broken(ErrIllegal, "I11", r.ID, "this hub's own journal, or at the treasury any hub's", "%q",
			clip(t.Hub))
	}
	c := b.kept.Hubs[t.Hub]
	if c == nil {
		c = &counters{}
		b.kept.Hubs[t.Hub] = c
		// a refusal leaves no name behind
		b.undo = append(b.undo, undo{do: func() { delete(b.kept.Hubs, t.Hub) }})
	}
	// What comes back from a hub that somebody ended in its name is still its clients' money.
	if c.Lost {
		return broken(ErrOrder, "I7", r.ID, "nothing of hub "+t.Hub+", whose journal was written off", "%s",
			r.Kind)
	}
	if c.Ended && r.Kind != KindReclaim {
		return broken(ErrOrder, "I7", r.ID, "nothing more with hub "+t.Hub+", which has ended", "%s", r.Kind)
	}
	n := &c.Order
	switch r.Kind {
	case KindGrant, KindAccept:
		n = &c.Grant
	case KindReturn, KindReclaim:
		n = &c.GiveBack
	}
	if want := numbered(t.Hub, r.Kind.String(), t.Number); r.ID != want {
		return broken(ErrIllegal, "I10", r.ID, "id "+want, "%q", clip(r.ID))
	}
	if t.Number != *n+1 {
		err := ErrOrder
		if t.Number <= *n {
			err = ErrConflict
		}
		return broken(err, "I11", r.ID, fmt.Sprintf("%s %d of %s next", r.Kind, *n+1, t.Hub), "%d", t.Number)
	}
	before := *c
	b.undo = append(b.undo, undo{do: func() { *c = before }})
	if *n++; r.Kind.IsOrder() {
		c.Last = &made{r.Kind, *t}
	}
	return nil
}

// allot counts what hubs have of a client's money. The sums cannot overflow: they are part of what was
// deposited. A hub that gives back what it said was spent has taken that back.
func (b *Book) allot(client, hub string, by market.Credits) {
	for _, key := range [2][2]string{{client, hub}, {client, ""}} {
		p := b.kept.Allotted[key]
		if p == nil {
			p = new(market.Credits)
			b.kept.Allotted[key] = p
		}
		*p += by
		b.undo = append(b.undo, undo{do: func() { *p -= by }})
	}
	key := [2]string{client, hub}
	if has := *b.kept.Allotted[key]; b.kept.Spent[key] > has {
		b.setSpent(key, has)
	}
}
