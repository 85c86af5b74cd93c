package ledger

import (
	"crypto/ed25519"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"souk/bus/tip"
	"souk/market"
)

// What leaves a hub's journal by an operator's word is an order: surplus is distributed, what an agent has
// earned is remitted, what a client has paid is refunded. The hub records an order first, since it alone
// knows what there is, and then the treasury, which keeps the clients' money and the world outside; both
// under one number. So an order that one of them has recorded and the other has not is found, and made up
// for.

// IsOrder reports whether records of a kind are orders.
func (k Kind) IsOrder() bool { return k == KindDistribute || k == KindRemit || k == KindRefund }

// orderKinds are the kinds of orders by their names, as messages have them.
var orderKinds = map[string]Kind{KindDistribute.String(): KindDistribute, KindRemit.String(): KindRemit,
	KindRefund.String(): KindRefund}

// NewOrder records an order to a hub, in the hub's journal or in the treasury's, which says what was closed
// by then: a month may have been since the hub has recorded it.
func (b *Book) NewOrder(hub string, o tip.Ordered, salt [16]byte) Record {
	k := orderKinds[o.Kind]
	if o.Order == nil && k != KindDistribute {
		o.Order = &tip.Order{}
	}
	if b.head.Role == RoleTreasury && o.Order != nil {
		say := *o.Order
		o.Order, say.Closed = &say, b.head.Month
	}
	t := &Transfer{Client: o.Client, Hub: hub, Number: o.Number, Amount: o.Amount, Order: o.Order}
	return Record{Kind: k, ID: numbered(hub, k.String(), o.Number), Salt: salt, Transfer: t,
		Legs: b.orderLegs(nil, k, t)}
}

// LastOrder is the last order of a hub; its number is 0 where there was none.
func (b *Book) LastOrder(hub string) tip.Ordered {
	c := b.counters(hub)
	if c.Last == nil {
		return tip.Ordered{}
	}
	return c.Last.ordered()
}

// Take makes the record of an order that is the hub's next one, in the hub's book; ok is false where another
// order is next, or it only asks. found is the payment of its receipt; a rule fills in amount and shares.
func (b *Book) Take(o tip.Ordered, found *tip.Ordered, salt [16]byte) (r Record, ok bool) {
	if o.Number != b.LastOrder(b.head.Journal).Number+1 {
		return r, false
	}
	if o.Order != nil {
		say := *o.Order
		switch o.Order = &say; {
		case found != nil:
			o.Client, say.Agent, say.Month, say.Capture = found.Client, found.Order.Agent, found.Order.Month,
				found.Order.Capture
		case say.Rule == tip.ByAgents || say.Rule == tip.ByClients:
			if o.Amount = b.Ripe(); say.Rule == tip.ByAgents && o.Amount > 0 {
				if say.Shares = b.Offered(); len(say.Shares) == 0 {
					o.Amount = 0 // carried
				}
			}
		}
	}
	return b.NewOrder(b.head.Journal, o, salt), true
}

// There says what there is, in the hub's book, for an order of a kind.
func (b *Book) There(o *tip.Ordered, found *tip.Ordered) market.Credits {
	switch {
	case o.Kind == KindRemit.String() && o.Order != nil:
		return b.Balance(Payable(o.Order.Agent))
	case o.Kind == KindRefund.String() && found != nil:
		return found.Order.Capture.Paid - b.Refunded(found.Order.Receipt)
	case o.Kind == KindDistribute.String():
		return b.Balance(Surplus)
	}
	return 0
}

// made is an order, or an operator's deposit, payout or move that had to be signed, which is never forgotten.
type made struct {
	Kind Kind
	Transfer
}

func (m *made) ordered() tip.Ordered {
	return tip.Ordered{Kind: m.Kind.String(), Number: m.Number, Client: m.Client, Amount: m.Amount,
		Order: m.Order}
}

// Ordered returns the remittance or refund that has a reference, and the hub that it was made at.
func (b *Book) Ordered(kind, ref string) (o tip.Ordered, hub string, ok bool) {
	m := b.Refs[kind+"/"+ref]
	if m == nil {
		return o, "", false
	}
	return m.ordered(), m.Hub, true
}

// Refunded sums up the refunds of a payment, and keeps what the first of them said of it.
type Refunded struct {
	Back   market.Credits
	Client string
	Agent  string
	Of     tip.Captured
}

// Refunded returns what came back of a receipt so far.
func (b *Book) Refunded(receipt string) market.Credits {
	if r := b.Refunds[receipt]; r != nil {
		return r.Back
	}
	return 0
}

const maxRef = 128 // bytes of a reference

// ValidRef reports whether s may be an order's reference: 1 to 128 visible ASCII characters.
func ValidRef(s string) bool { return ValidOp(strings.ReplaceAll(s, "/", "-")) }

// MonthOf is the month of a moment in Unix nanoseconds, UTC: "2026-11".
func MonthOf(at int64) string { return time.Unix(0, at).UTC().Format("2006-01") }

// validOrder judges what an operator has said.
func (b *Book) validOrder(r *Record, o *tip.Order) error {
	no := func(expected, format string, args ...any) error {
		return broken(ErrIllegal, "I17", r.ID, expected, format, args...)
	}
	printable := func(s string) bool {
		return len(s) <= maxText && utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
	}
	switch {
	case o.By != "" && !ValidID(o.By) || o.Second != "" && !ValidID(o.Second):
		return no("names of operators", "%q, %q", clip(o.By), clip(o.Second))
	case o.Ref != "" && !ValidRef(o.Ref):
		return no(fmt.Sprintf("a reference of at most %d visible ASCII characters", maxRef), "%q",
			clip(o.Ref))
	case !printable(o.Note):
		return no(fmt.Sprintf("a note of one line, of at most %d bytes", maxText), "%q", clip(o.Note))
	case o.Month != "" && !ValidMonth(o.Month) || o.Closed != "" && !ValidMonth(o.Closed):
		return no("months like 2026-11", "%q, %q", clip(o.Month), clip(o.Closed))
	case b.head.Role == RoleTreasury && o.Closed > b.head.Month:
		return broken(ErrIllegal, "I22", r.ID, "no later month as closed than "+b.head.Month, "%s", o.Closed)
	case b.head.Role == RoleTreasury && o.Month != "" && o.Closed != b.head.Month:
		return broken(ErrIllegal, "I22", r.ID, "the last month that was closed, "+b.head.Month, "%q", o.Closed)
	case o.Above < 0:
		return no("a bound of at least 0", "%s", o.Above)
	}
	return nil
}

// ValidMonth reports whether s is a month as [MonthOf] writes it.
func ValidMonth(s string) bool {
	t, err := time.Parse("2006-01", s)
	return err == nil && t.Format("2006-01") == s && t.Year() >= 1970 && t.Year() < 2262
}

// approved judges the second operator's signature of what moves so much money; text is what it signs.
func approved(id string, o *tip.Order, amount market.Credits, text func() []byte) error {
	need := o != nil && o.Above > 0 && amount > o.Above
	if !need && (o == nil || o.Second+o.Key+o.Signature == "") {
		return nil
	}
	no := func(expected, format string, args ...any) error {
		return broken(ErrIllegal, "I21", id, expected, format, args...)
	}
	switch {
	case o.Signature == "":
		return no(fmt.Sprintf("a second operator's signature, above %s", o.Above), "none")
	case o.Second == "" || o.Second == o.By || o.By == "":
		return no("two operators", "%q and %q", clip(o.By), clip(o.Second))
	case !signedBy(o.Key, o.Signature, text()):
		return no(fmt.Sprintf("a signature of this order by %s, with key %s", o.Second, clip(o.Key)),
			"another")
	}
	return nil
}

// signedBy reports whether a NATS user's key has signed a text.
func signedBy(key, signature string, text []byte) bool {
	raw, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(key)
	sig, wrong := base64.StdEncoding.DecodeString(signature)
	return err == nil && wrong == nil && strings.HasPrefix(key, "U") &&
		len(raw) == 1+ed25519.PublicKeySize+2 &&
		ed25519.Verify(raw[1:1+ed25519.PublicKeySize], text, sig)
}

// signs writes out what a second operator signs of a transfer.
func (t *Transfer) signs(k Kind, id string) []byte {
	switch k {
	case KindRefund: // of which the operator knows the receipt
		o := *t.Order
		o.Agent, o.Month = "", ""
		return o.Text(k.String(), "", t.Hub, "", "", t.Amount)
	case KindDeposit, KindPayout:
		_, id, _ = strings.Cut(id, "/")
	default:
		id = ""
	}
	return t.Order.Text(k.String(), id, t.Hub, t.Client, "", t.Amount)
}

// orderLegs returns the legs of an order; none where it moves nothing in this journal.
func (b *Book) orderLegs(dst []Leg, k Kind, t *Transfer) []Leg {
	hub, o := b.head.Role == RoleHub, t.Order
	from, to := "", ""
	switch {
	case k == KindRemit && hub:
		from, to = Payable(o.Agent), Clearing(Treasury)
	case k == KindRemit:
		from, to = Clearing(t.Hub), External("remitted")
	case k == KindRefund && hub:
		if from, to = Surplus, Avail(t.Client); o.From == tip.FromAgent {
			from = Payable(o.Agent)
		}
	case k == KindRefund: // the client has it at the hub
		return dst
	default:
		return b.surplusLegs(dst, t)
	}
	return leg(leg(dst, from, -t.Amount), to, t.Amount)
}

// applyOrder judges what only orders have, before the money moves.
func (b *Book) applyOrder(r *Record) error {
	t, o := r.Transfer, r.Transfer.Order
	no := func(invariant, expected, format string, args ...any) error {
		return broken(ErrIllegal, invariant, r.ID, expected, format, args...)
	}
	if o == nil {
		if r.Kind == KindDistribute {
			return nil
		}
		return no("I17", "an operator's order", "none")
	}
	if r.Kind == KindDistribute {
		if o.Signature != "" { // which is good for once
			key := r.Kind.String() + "/" + o.Ref
			if old := b.Refs[key]; old != nil || !ValidRef(o.Ref) {
				return broken(ErrConflict, "I10", r.ID, "a new reference, as it is signed", "%q", clip(o.Ref))
			}
			b.keepRef(key, &made{r.Kind, *t})
		}
		return b.applyShare(r)
	}
	if o.Rule != "" || o.Shares != nil {
		return no("I17", "no rule of surplus", "%q", clip(o.Rule))
	}
	switch {
	case !ValidID(o.Agent):
		return no("I17", "an agent of 1 to 64 letters, digits, '-' or '_'", "%q", clip(o.Agent))
	case !ValidRef(o.Ref):
		return no("I10", fmt.Sprintf("a reference of 1 to %d visible ASCII characters", maxRef), "%q",
			clip(o.Ref))
	case r.Kind == KindRemit && (t.Client != "" || o.Receipt+o.From != "" || o.Capture != nil):
		return no("I17", "an agent alone", "client %q, receipt %q", clip(t.Client), clip(o.Receipt))
	}
	key := r.Kind.String() + "/" + o.Ref
	if old := b.Refs[key]; old != nil {
		return broken(ErrConflict, "I10", r.ID, fmt.Sprintf("a new reference: %s is that of %s %d of %s",
			o.Ref,
			r.Kind, old.Number, old.Hub), "%s", clip(o.Ref))
	}
	if r.Kind == KindRefund {
		if err := b.applyRefund(r); err != nil {
			return err
		}
	}
	b.keepRef(key, &made{r.Kind, *t})
	return nil
}

func (b *Book) keepRef(key string, m *made) {
	b.Refs[key] = m
	b.undo = append(b.undo, undo{do: func() { delete(b.Refs, key) }})
}

// applyRefund judges a refund by what the hub's journal has of the payment, which the record says. The audit
// reads the two frames that it names.
func (b *Book) applyRefund(r *Record) error {
	t, o := r.Transfer, r.Transfer.Order
	no := func(invariant, expected, format string, args ...any) error {
		return broken(ErrIllegal, invariant, r.ID, expected, format, args...)
	}
	c := o.Capture
	journal, round, slot, ok := ParseHoldID(o.Receipt)
	switch {
	case !ok || journal != t.Hub:
		return no("I10", "a receipt of "+t.Hub, "%q", clip(o.Receipt))
	case o.From != tip.FromAgent && o.From != tip.FromSurplus:
		return no("I5", "a payer: agent or surplus", "%q", clip(o.From))
	case c == nil || c.Held == 0 || c.Seq < c.Held || c.Paid <= 0 || !unbroken(c.Tags, maxTags) ||
		len(c.Model) > maxText || c.APIKey != "" && !ValidID(c.APIKey):
		return no("I17", "the payment as the journal has it", "%+v", c)
	case o.Month != MonthOf(c.Time):
		return no("I22", "the month of the payment, "+MonthOf(c.Time), "%q", clip(o.Month))
	}
	if h := &b.head; h.Role == RoleHub {
		k, _ := keyOf(round, slot)
		e, known := b.kept.Ended.Of[k]
		if round > h.Round || b.open[k] != nil || known && e.Kind != KindCapture ||
			c.Seq > h.Seq || c.Time > h.Time {
			return broken(ErrEnded, "I4", r.ID, "a hold that was captured", "%s was not", o.Receipt)
		}
	}
	old := b.Refunds[o.Receipt]
	if old == nil {
		old = &Refunded{Client: t.Client, Agent: o.Agent, Of: *c}
	} else if old.Client != t.Client || old.Agent != o.Agent || old.Of != *c {
		return no("I4", "the payment as the refund before said", "%s of %s by %s", c.Paid, t.Client, o.Agent)
	}
	if left := c.Paid - old.Back; t.Amount > left {
		return broken(ErrFunds, "I4", r.ID, fmt.Sprintf("at most %s: %s was paid, and %s of it came back",
			left, c.Paid,
			old.Back), "%s", t.Amount)
	}
	is := *old
	is.Back += t.Amount
	b.Refunds[o.Receipt] = &is
	b.undo = append(b.undo, undo{do: func() {
		if b.Refunds[o.Receipt] = old; old.Back == 0 {
			delete(b.Refunds, o.Receipt)
		}
	}})
	if b.head.Role == RoleHub {
		b.fresh = append(b.fresh, backBy(t))
	}
	return nil
}

// appendSaid appends what an operator said as hub and treasury have it alike: a month may have been closed
// between the two.
func appendSaid(b []byte, o *tip.Order) []byte {
	if o != nil && o.Closed != "" {
		say := *o
		o, say.Closed = &say, ""
	}
	return appendOrder(b, o)
}

// appendOrder appends what an operator said; nothing is one byte.
func appendOrder(b []byte, o *tip.Order) []byte {
	if o == nil {
		return append(b, 0)
	}
	b = appendStrings(append(b, 1), o.By, o.Ref, o.Note, o.Month, o.Closed, o.Second, o.Key, o.Signature,
		o.Agent, o.Receipt,
		o.From, o.Rule)
	b = binary.AppendVarint(b, int64(o.Above))
	b = binary.AppendUvarint(b, uint64(len(o.Shares)))
	for _, s := range o.Shares {
		b = binary.AppendVarint(appendString(b, s.Agent), s.Slots)
	}
	c := o.Capture
	if c == nil {
		return append(b, 0)
	}
	b = binary.AppendUvarint(binary.AppendUvarint(append(b, 1), c.Held), c.Seq)
	return appendStrings(appendInts(b, c.Time, int64(c.Paid)), c.Model, c.APIKey, c.Tags)
}

func (d *decoder) order() *tip.Order {
	if !d.one() {
		return nil
	}
	o := &tip.Order{By: d.Name(), Ref: d.Text(), Note: d.Text(), Month: d.Name(), Closed: d.Name(),
		Second: d.Name(), Key: d.Name(),
		Signature: d.Text(), Agent: d.Name(), Receipt: d.Text(), From: d.Name(), Rule: d.Name(),
		Above:  d.Credits(),
		Shares: listed(d, 2, func() tip.Share { return tip.Share{Agent: d.Name(), Slots: d.Varint()} })}
	if d.one() {
		o.Capture = &tip.Captured{Held: d.Uvarint(), Seq: d.Uvarint(), Time: d.Varint(), Paid: d.Credits(),
			Model: d.Name(), APIKey: d.Name(), Tags: d.Text()}
	}
	return o
}

// one reads whether something follows.
func (d *decoder) one() bool {
	n := d.Byte()
	if n > 1 {
		d.Fail("unknown flags")
	}
	return n == 1 && d.Fault == ""
}

// hasOrder reports whether transfers of a kind say what an operator said.
func (k Kind) hasOrder() bool { return k.IsOrder() || k == KindDeposit || k == KindPayout }
