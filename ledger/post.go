package ledger

import (
	"fmt"

	"souk/market"
)

// legsAre compares a record's legs with what they must be.
func (b *Book) legsAre(r *Record, want []Leg) error {
	same := len(r.Legs) == len(want)
	for i := 0; same && i < len(want); i++ {
		same = r.Legs[i] == want[i]
	}
	if same {
		return nil
	}
	if s, ok := sum(r.Legs); !ok || s != 0 {
		found := s.String()
		if !ok {
			found = "a sum beyond 64 bits"
		}
		return broken(ErrIllegal, "I1", r.ID, "legs that sum to 0", "%s", found)
	}
	return broken(ErrIllegal, "I5", r.ID, "legs "+FormatLegs(want), "%s", FormatLegs(r.Legs))
}

// post checks legs and moves the money. An account stands in at most one leg of a record.
func (b *Book) post(r *Record, want []Leg) error {
	if err := b.legsAre(r, want); err != nil {
		return err
	}
	var few [8]*market.Credits
	at := few[:]
	if len(want) > len(few) {
		at = make([]*market.Credits, len(want))
	}
	for i, l := range want {
		a := b.Accounts[l.Account]
		at[i] = a
		var have market.Credits
		if a != nil {
			have = *a
		}
		after, ok := have.Add(l.Amount)
		switch {
		case !ok:
			return broken(ErrIllegal, "I15", r.ID, "a balance within 64 bits in "+l.Account, "%s and %s more",
				have, l.Amount)
		case after < 0 && l.Amount < 0 && !MayOwe(l.Account):
			return broken(ErrFunds, "I2", r.ID, fmt.Sprintf("at least %s in %s", -l.Amount, l.Account), "%s",
				have)
		}
	}
	for i, l := range want {
		a := at[i]
		if a == nil {
			a = new(market.Credits)
			name := l.Account
			b.Accounts[name] = a
			b.undo = append(b.undo, undo{do: func() { delete(b.Accounts, name) }})
		} else {
			b.count(l.Account, *a, -1)
		}
		if !b.bare {
			b.undo = append(b.undo, undo{account: a, old: *a})
		}
		*a += l.Amount
		b.count(l.Account, *a, 1)
	}
	return nil
}
