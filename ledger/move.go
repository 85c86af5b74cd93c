package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"souk/bus/tip"
	"souk/market"
)

// A budget is money: whoever may spend no more than an amount is a client of its own, whose money is part of
// another's. The treasury moves it there, at most so much each period, and what nobody spent back at the end.
// So no count has to be kept of what is spent, however many gateways and hubs there are.

// Move makes a client's money another's, in one record.
type Move struct {
	From, To string
	Amount   market.Credits
	// of an allowance: which period, and which part of what is due in it, from 1; of what a budget's end
	// left: period 0, and its count; of an operator's move both are 0
	Period, Part uint64
	// an allowance's first part: the most that To had left then, with the treasury and at hubs
	Rest market.Credits
	// an operator's move: what the operator said of it; nil: nothing
	Order *tip.Order `json:",omitempty"`
}

// Budget says how much of one client's money another may have: what it has is filled up to Amount at the
// beginning of each period, and once where it has none. An Amount of 0 ends it for good: what is left goes
// back.
type Budget struct {
	Client string // the one that spends it, which never had money of its own
	Of     string // whose money it is
	Every  string // "", EveryDay, EveryWeek, EveryMonth
	Number uint64 // of the client's budget, from 1: a later one takes its place from the next period on
	Amount market.Credits
}

// Periods of budgets. They begin at midnight UTC: weeks on Mondays, months on their first day.
const (
	EveryDay   = "day"
	EveryWeek  = "week"
	EveryMonth = "month"
)

// PeriodAt is the number of the period that a moment belongs to, which rises by one from each to the next; of
// a budget without periods it is 1.
func PeriodAt(every string, at time.Time) uint64 {
	at = at.UTC()
	day := at.Unix() / (24 * 60 * 60)
	switch every {
	case EveryDay:
		return uint64(max(1, day))
	case EveryWeek:
		return uint64(max(1, (day+3)/7)) // 1970 began on a Thursday
	case EveryMonth:
		return uint64(max(1, at.Year()*12+int(at.Month())-1))
	}
	return 1
}

// NextPeriod returns when the period after that of a moment begins; zero where there is none.
func NextPeriod(every string, at time.Time) time.Time {
	y, m, d := at.UTC().Date()
	midnight := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	switch every {
	case EveryDay:
		return midnight.AddDate(0, 0, 1)
	case EveryWeek:
		return midnight.AddDate(0, 0, 7-(int(midnight.Weekday())+6)%7)
	case EveryMonth:
		return time.Date(y, m+1, 1, 0, 0, 0, 0, time.UTC)
	}
	return time.Time{}
}

// NewMove makes a client's money another's, under the operation's own id: the record is "move/<id>".
func NewMove(id, from, to string, amount market.Credits, o *tip.Order, salt [16]byte) Record {
	return moving(Move{From: from, To: to, Amount: amount, Order: o}, "move/"+id, salt)
}

// NewAllowance fills a budget up: part n of what is due in a period.
func NewAllowance(of, client string, period, part uint64, amount, rest market.Credits, salt [16]byte) Record {
	m := Move{From: of, To: client, Amount: amount, Period: period, Part: part, Rest: rest}
	return moving(m, m.id(), salt)
}

// NewRest gives back what a budget's end left: its n-th part.
func NewRest(client, of string, n uint64, amount market.Credits, salt [16]byte) Record {
	m := Move{From: client, To: of, Amount: amount, Part: n}
	return moving(m, m.id(), salt)
}

func moving(m Move, id string, salt [16]byte) Record {
	return Record{Kind: KindMove, ID: id, Salt: salt, Move: &m, Legs: moveLegs(nil, &m)}
}

// id is the only id of a move that no operator made.
func (m *Move) id() string {
	if m.Period > 0 {
		return fmt.Sprintf("%s/allowance/%d/%d", m.To, m.Period, m.Part)
	}
	return numbered(m.From, "rest", m.Part)
}

func moveLegs(dst []Leg, m *Move) []Leg {
	return leg(leg(dst, Prepaid(m.From), -m.Amount), Prepaid(m.To), m.Amount)
}

// NewBudget sets or ends a budget.
func NewBudget(u Budget, salt [16]byte) Record {
	return Record{Kind: KindBudget, ID: numbered(u.Client, "budget", u.Number), Salt: salt, Budget: &u}
}

// Allowance is a budget and how it stands.
type Allowance struct {
	Budget
	Ended  bool           // then Amount is 0
	Period uint64         // the last that was filled up
	Parts  uint64         // of it, moved so far
	Due    market.Credits // of it, to be moved yet
	Backs  uint64         // parts of the rest that went back
}

// Allowance returns a client's budget.
func (b *Book) Allowance(client string) (Allowance, bool) {
	if u := b.Budgets[client]; u != nil {
		return *u, true
	}
	return Allowance{}, false
}

// Budgeted lists the clients that have, or had, a budget, sorted.
func (b *Book) Budgeted() []string { return slices.Sorted(maps.Keys(b.Budgets)) }

// applyBudget takes over what a client may have of another's money.
func (b *Book) applyBudget(r *Record) error {
	u := r.Budget
	switch {
	case !ValidID(u.Client) || !ValidID(u.Of) || u.Client == u.Of:
		return broken(ErrIllegal, "I17", r.ID, "two clients of 1 to 64 letters, digits, '-' or '_'",
			"%q of %q", clip(u.Client), clip(u.Of))
	case u.Amount < 0 || u.Amount > market.MaxCredits:
		return broken(ErrIllegal, "I2", r.ID, "an amount from 0 to "+market.MaxCredits.String(), "%s",
			u.Amount)
	case u.Every != "" && u.Every != EveryDay && u.Every != EveryWeek && u.Every != EveryMonth:
		return broken(ErrIllegal, "I7", r.ID, "no period, or day, week or month", "%q", clip(u.Every))
	case r.ID != numbered(u.Client, "budget", u.Number):
		return broken(ErrIllegal, "I10", r.ID, "id "+numbered(u.Client, "budget", u.Number), "%q", clip(r.ID))
	}
	if err := b.legsAre(r, nil); err != nil {
		return err
	}
	has := b.Budgets[u.Client]
	switch {
	case has != nil && has.Budget == *u:
		return ErrRepeat
	case has != nil && u.Number <= has.Number:
		return broken(ErrConflict, "I10", r.ID, fmt.Sprintf("budget %d of %s next", has.Number+1, u.Client),
			"another of this number")
	case has == nil && u.Number != 1 || has != nil && u.Number != has.Number+1:
		return broken(ErrOrder, "I10", r.ID, "budgets of "+u.Client+" without a gap", "%d", u.Number)
	case has == nil && (b.Accounts[Prepaid(u.Client)] != nil || b.Accounts[Prepaid(u.Of)] == nil ||
		b.Budgets[u.Of] != nil || u.Amount == 0):
		return broken(ErrIllegal, "I18", r.ID, "a new client, an amount above 0, and whose money it is a "+
			"client that has some without a budget", "%s of %s, %s", u.Client, u.Of, u.Amount)
	case has != nil && (has.Ended || has.Of != u.Of || has.Every != u.Every || u.Every == "" && u.Amount > 0):
		return broken(ErrIllegal, "I18", r.ID,
			"a budget as it was but for its amount, which has not ended; one "+
				"without periods can only end", "%s of %s, every %q", u.Amount, u.Of, u.Every)
	}
	if has == nil {
		b.Budgets[u.Client] = &Allowance{Budget: *u}
		name := Prepaid(u.Client)
		b.Accounts[name] = new(market.Credits)
		b.count(name, 0, 1)
		b.undo = append(b.undo, undo{do: func() { delete(b.Budgets, u.Client); delete(b.Accounts, name) }})
		return nil
	}
	before := *has
	b.undo = append(b.undo, undo{do: func() { *has = before }})
	if has.Budget = *u; u.Amount == 0 {
		has.Ended, has.Due = true, 0
	}
	return nil
}

// applyMove makes a client's money another's.
func (b *Book) applyMove(r *Record) error {
	m := r.Move
	if !ValidID(m.From) || !ValidID(m.To) || m.From == m.To {
		return broken(ErrIllegal, "I17", r.ID, "two clients of 1 to 64 letters, digits, '-' or '_'",
			"%q to %q", clip(m.From), clip(m.To))
	}
	if m.Order != nil && (m.Period > 0 || m.Part > 0) {
		return broken(ErrIllegal, "I17", r.ID, "no operator's word on a budget", "one")
	}
	if m.Amount < 0 || m.Amount > market.MaxCredits || m.Amount == 0 && (m.Period == 0 || m.Part != 1) {
		return broken(ErrIllegal, "I2", r.ID, "an amount above 0 and at most "+market.MaxCredits.String(),
			"%s", m.Amount)
	}
	var err error
	var this op
	switch {
	case m.Period > 0:
		err = b.allowed(r)
	case m.Part > 0:
		err = b.wentBack(r)
	default:
		this = op{KindMove, m.From, m.Amount, noteOf(m.To, "")}
		if old, known := b.op(r.ID); known {
			return b.known(r, old, this)
		}
		own, ok := strings.CutPrefix(r.ID, "move/")
		if err := b.said(r, m.Order, m.Amount, func() []byte {
			return m.Order.Text("move", own, "", m.From, m.To, m.Amount)
		}); err != nil {
			return err
		}
		switch {
		case !ok || !ValidOp(own) || m.Rest != 0:
			err = broken(ErrIllegal, "I10", r.ID, "id move/ and the operation's own, and no rest", "%q, %s",
				clip(r.ID), m.Rest)
		case b.Budgets[m.To] != nil:
			err = b.onlyAllowed(r, m.To)
		}
	}
	if err != nil {
		return err
	}
	b.legs = moveLegs(b.legs[:0], m)
	if err := b.post(r, b.legs); err != nil {
		return err
	}
	if this.Kind != 0 {
		b.remember(r.ID, this)
		b.keepSigned(r.ID, KindMove, Transfer{Client: m.From, Amount: m.Amount, Hub: m.To, Order: m.Order})
	}
	return nil
}

// onlyAllowed refuses money for a client that may have no more than its budget.
func (b *Book) onlyAllowed(r *Record, client string) error {
	return broken(ErrIllegal, "I18", r.ID,
		"a client without a budget: one that has one gets its allowance and no more", "%s", client)
}

// allowed judges a part of an allowance, and takes it over.
func (b *Book) allowed(r *Record) error {
	m, u := r.Move, b.Budgets[r.Move.To]
	if u == nil || u.Ended || u.Of != m.From {
		return broken(ErrIllegal, "I18", r.ID, "a budget of "+m.To+" that is "+m.From+"'s money", "none")
	}
	if r.ID != m.id() {
		return broken(ErrIllegal, "I10", r.ID, "id "+m.id(), "%q", clip(r.ID))
	}
	first := m.Part == 1
	switch {
	case m.Period < u.Period || m.Period == u.Period && m.Part <= u.Parts:
		return broken(ErrConflict, "I10", r.ID, fmt.Sprintf("period %d, part %d next", u.Period, u.Parts+1),
			"one that was moved")
	case first && (m.Period == u.Period || u.Every == "" && m.Period != 1),
		!first && (m.Period != u.Period || m.Part != u.Parts+1):
		return broken(ErrOrder, "I10", r.ID, fmt.Sprintf("part %d of period %d, or the first of a later one",
			u.Parts+1, u.Period), "part %d of %d", m.Part, m.Period)
	}
	due := u.Due
	if first {
		prepaid := b.Balance(Prepaid(m.To))
		most, ok := prepaid.Add(b.Allotted(m.To, ""))
		if !ok || m.Rest < prepaid || m.Rest > most {
			return broken(ErrIllegal, "I18", r.ID,
				fmt.Sprintf("a rest from %s, which the treasury has, to %s, "+
					"which is all that was not given back", prepaid, most), "%s", m.Rest)
		}
		due = max(0, u.Amount-m.Rest)
	} else if m.Rest != 0 {
		return broken(ErrIllegal, "I18", r.ID, "a rest with a period's first part alone", "%s", m.Rest)
	}
	if m.Amount > due {
		return broken(ErrIllegal, "I18", r.ID, fmt.Sprintf("at most %s, what is due of the budget of %s", due,
			u.Amount), "%s", m.Amount)
	}
	before := *u
	b.undo = append(b.undo, undo{do: func() { *u = before }})
	u.Period, u.Parts, u.Due = m.Period, m.Part, due-m.Amount
	return nil
}

// wentBack judges a part of what a budget's end left.
func (b *Book) wentBack(r *Record) error {
	m, u := r.Move, b.Budgets[r.Move.From]
	switch {
	case u == nil || !u.Ended || u.Of != m.To || m.Rest != 0:
		return broken(ErrIllegal, "I18", r.ID, "the rest of a budget of "+m.To+" that has ended", "none")
	case r.ID != m.id():
		return broken(ErrIllegal, "I10", r.ID, "id "+m.id(), "%q", clip(r.ID))
	case m.Part <= u.Backs:
		return broken(ErrConflict, "I10", r.ID, fmt.Sprintf("part %d next", u.Backs+1), "one that went back")
	case m.Part != u.Backs+1:
		return broken(ErrOrder, "I10", r.ID, fmt.Sprintf("part %d next", u.Backs+1), "%d", m.Part)
	}
	u.Backs++
	b.undo = append(b.undo, undo{do: func() { u.Backs-- }})
	return nil
}
