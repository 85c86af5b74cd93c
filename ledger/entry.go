package ledger

import (
	"strings"

	"souk/bus/tip"
	"souk/market"
)

// Roles of a journal's writer.
const (
	RoleHub      = "hub"
	RoleTreasury = "treasury"
)

// Scale is the number of units in a credit, in every journal, for ever.
const Scale = int64(market.Credit)

// DefaultCurrency is the currency of a treasury that is told none.
const DefaultCurrency = "USD"

// ValidCurrency reports whether s has the form of a currency's code in ISO 4217.
func ValidCurrency(s string) bool {
	return len(s) == 3 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// The constructors below make records with their ids and legs. They do not judge: [Book.Apply] does, and
// refuses what does not add up. Salts are 16 random bytes, an argument so that a simulation can repeat.

// NewOpen begins a journal. domain is "" for the treasury, whose record says [DefaultCurrency]: change it
// before it is applied.
func NewOpen(journal, role, domain string, salt [16]byte) Record {
	o := &Open{Journal: journal, Role: role, Domain: domain, Scale: Scale}
	if role == RoleTreasury {
		o.Currency = DefaultCurrency
	}
	return Record{Kind: KindOpen, ID: journal, Salt: salt, Open: o}
}

// NewRound records a cleared round. Its holds follow in the same frame, one for each award, in order.
func NewRound(journal string, r market.Round, o market.Outcome, salt [16]byte) Record {
	return Record{Kind: KindRound, ID: RoundID(journal, r.Number), Salt: salt,
		Round: &Round{Round: r, Outcome: o}}
}

// NewHold sets h.Amount of the money of a client of the book aside for an award. The record keeps h, which
// must not change after that.
func (b *Book) NewHold(id string, h *Hold, salt [16]byte) Record {
	avail, held := b.namesOf(h.Client).client()
	return Record{Kind: KindHold, ID: id, Salt: salt, Hold: h,
		Legs: holdLegs(make([]Leg, 0, 2), avail, held, h)}
}

// NewCapture ends hold h in payment: c.Cost to the agent, [Hold.Due] less the fee to surplus, the fee
// to fee, the rest back to the client. c.Hold is filled in.
func NewCapture(journal string, h Hold, c Capture, salt [16]byte) Record {
	c.Hold = HoldID(journal, h.Round, h.Slot)
	return Record{Kind: KindCapture, ID: CaptureID(c.Hold), Salt: salt, Capture: &c,
		Legs: captureLegs(make([]Leg, 0, 5), Avail(h.Client), Held(h.Client), Payable(h.Agent), &h, &c)}
}

// NewVoid ends hold h without payment. reason is a stable code, never empty.
func NewVoid(journal string, h Hold, reason string, salt [16]byte) Record {
	id := HoldID(journal, h.Round, h.Slot)
	return Record{Kind: KindVoid, ID: id + "/void", Salt: salt, Void: &Void{Hold: id, Reason: reason},
		Legs: voidLegs(make([]Leg, 0, 2), Avail(h.Client), Held(h.Client), &h)}
}

// NewAccept takes grant number n of the treasury in, at the hub whose journal is hub.
func NewAccept(hub string, n uint64, client string, amount market.Credits, salt [16]byte) Record {
	return between(KindAccept, hub, n, client, amount, "", salt)
}

// NewReturn hands unspent allotment back to the treasury: the hub's n-th return.
func NewReturn(hub string, n uint64, client string, amount market.Credits, salt [16]byte) Record {
	return between(KindReturn, hub, n, client, amount, "", salt)
}

// NewDeposit brings money in from outside, under the operation's own id: the record is "deposit/<id>". o is
// what the operator said of it; nil: nothing.
func NewDeposit(id, client string, amount market.Credits, o *tip.Order, salt [16]byte) Record {
	return transfer(KindDeposit, "deposit/"+id, Transfer{Client: client, Amount: amount, Order: o}, salt)
}

// NewPayout pays a client's prepaid money out, under the operation's own id: the record is "payout/<id>".
func NewPayout(id, client string, amount market.Credits, o *tip.Order, salt [16]byte) Record {
	return transfer(KindPayout, "payout/"+id, Transfer{Client: client, Amount: amount, Order: o}, salt)
}

// NewGrant allots a client's money to a hub: the n-th grant to it. note is the id of the request that
// asked for it.
func NewGrant(hub string, n uint64, client string, amount market.Credits, note string, salt [16]byte) Record {
	return between(KindGrant, hub, n, client, amount, note, salt)
}

// NewReclaim takes a hub's n-th return in, at the treasury.
func NewReclaim(hub string, n uint64, client string, amount market.Credits, salt [16]byte) Record {
	return between(KindReclaim, hub, n, client, amount, "", salt)
}

// NewClose closes a journal: nothing follows. In the treasury's journal one of a hub's name ends the hub: of
// transfers only its returns are taken in after that.
func NewClose(journal string, salt [16]byte) Record {
	return Record{Kind: KindClose, ID: journal + "/close", Salt: salt}
}

// between is the n-th transfer of a kind between a hub and the treasury.
func between(k Kind, hub string, n uint64, client string, amount market.Credits, note string,
	salt [16]byte) Record {
	return transfer(k, numbered(hub, k.String(), n),
		Transfer{Client: client, Hub: hub, Number: n, Amount: amount,
			Note: note}, salt)
}

func transfer(k Kind, id string, t Transfer, salt [16]byte) Record {
	return Record{Kind: k, ID: id, Salt: salt, Transfer: &t, Legs: transferLegs(nil, k, &t)}
}

// leg appends a leg unless nothing moves: a record has no empty legs, so that it has one form.
func leg(dst []Leg, account string, amount market.Credits) []Leg {
	if amount == 0 {
		return dst
	}
	return append(dst, Leg{account, amount})
}

func holdLegs(dst []Leg, avail, held string, h *Hold) []Leg {
	return leg(leg(dst, avail, -h.Amount), held, h.Amount)
}

func voidLegs(dst []Leg, avail, held string, h *Hold) []Leg {
	return leg(leg(dst, held, -h.Amount), avail, h.Amount)
}

func captureLegs(dst []Leg, avail, held, payable string, h *Hold, c *Capture) []Leg {
	dst = leg(dst, held, -h.Amount)
	dst = leg(dst, payable, c.Cost)
	due := h.Due(c)
	dst = leg(dst, Surplus, due-h.Fee)
	dst = leg(dst, Fee, h.Fee)
	return leg(dst, avail, h.Amount-c.Cost-due)
}

// transferLegs returns the payer's and the receiver's leg of a transfer, the payer first.
func transferLegs(dst []Leg, k Kind, t *Transfer) []Leg {
	var from, to string
	switch k {
	case KindDeposit:
		from, to = External("deposits"), Prepaid(t.Client)
	case KindPayout:
		from, to = Prepaid(t.Client), External("payouts")
	case KindGrant:
		from, to = Prepaid(t.Client), Clearing(t.Hub)
	case KindReclaim:
		from, to = Clearing(t.Hub), Prepaid(t.Client)
	case KindAccept:
		from, to = Clearing(Treasury), Avail(t.Client)
	case KindReturn:
		from, to = Avail(t.Client), Clearing(Treasury)
	}
	return leg(leg(dst, from, -t.Amount), to, t.Amount)
}
