package ledger

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"souk/market"
)

// budgets tracks the clients with budgets of a treasury's journal, for level 5 of the audit.
type budgets map[string]*spender

// spender is a client with a budget: what came to it less what left it but for hubs, and the most that it
// must have spent for an allowance to have been as large as it was.
type spender struct{ net, spent market.Credits }

func (s budgets) note(r *Record) {
	switch {
	case r.Budget != nil:
		if s[r.Budget.Client] == nil {
			s[r.Budget.Client] = &spender{}
		}
	case r.Move != nil:
		m := r.Move
		to := s[m.To]
		if to != nil && m.Period > 0 && m.Part == 1 {
			to.spent = max(to.spent, to.net-m.Rest)
		}
		if to != nil {
			to.net += m.Amount // part of what was deposited
		}
		if from := s[m.From]; from != nil {
			from.net -= m.Amount
		}
	case r.Kind == KindPayout && s[r.Transfer.Client] != nil:
		s[r.Transfer.Client].net -= r.Transfer.Amount
	case r.Kind == KindDistribute && s[r.Transfer.Client] != nil:
		s[r.Transfer.Client].net += r.Transfer.Amount
	}
}

// paidAhead bounds how far the clock that moved an allowance may be ahead of its frame's.
const paidAhead = time.Hour

// early finds an allowance of a period that had not begun (level 2).
func (a *Audit) early(m *Move) {
	u, ok := a.book.Allowance(m.To)
	if !ok {
		return
	}
	h := &a.book.head
	if now := PeriodAt(u.Every, time.Unix(0, h.Time).Add(paidAhead)); m.Period > now {
		a.add(LevelState, h.Seq, broken(ErrIllegal, "I18", m.id(),
			fmt.Sprintf("the allowance of period %d at the latest", now), "that of period %d", m.Period))
	}
}

// overspent compares what the treasury took for spent with what was charged: nobody had a budget filled up
// that was full. charged says what each client paid at all hubs.
func overspent(treasury *Audit, charged map[string]market.Credits, add func(invariant, journal, record,
	expected, format string, args ...any)) {
	missing := treasury.book.Missing()
	for _, c := range slices.Sorted(maps.Keys(treasury.budgets)) {
		// nobody knows what was charged where a journal was lost
		lost := slices.ContainsFunc(missing,
			func(hub string) bool { return treasury.book.kept.Allotted[[2]string{c, hub}] != nil })
		if least := treasury.budgets[c].spent; charged[c] < least && !lost {
			u, _ := treasury.book.Allowance(c)
			add("I18", treasury.journal(), u.lastID(),
				fmt.Sprintf("charges of at least %s, for which its budget was filled up", least), "%s",
				charged[c])
		}
	}
}

// lastID is the id of the last first part of an allowance.
func (a *Allowance) lastID() string {
	m := Move{From: a.Of, To: a.Client, Period: max(1, a.Period), Part: 1}
	return m.id()
}
