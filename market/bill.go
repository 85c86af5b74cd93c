package market

import (
	"cmp"
	"strings"
)

// Bill has the parts of a payment, by what each is for. Parts that are 0 are left out of its sentence.
type Bill struct {
	Cost   Credits // by the price card, with the agent's tariff
	Slot   Credits // the slot price: what another would have given for the slot
	Wanted string  // the client that would have; "" where there are several, or none
	Toll   Credits // the time for which the slot is kept from others
	Fee    Credits // flat
}

// Bill returns what a task that has an award pays: cost, and due beside it, which follows the cost where that
// is not as quoted. Then the parts of the premium follow alike.
func (x *Explanation) Bill(t *TaskExplanation, cost, due Credits) Bill {
	slot := t.Award.SlotPrice - t.Shared
	b := Bill{Cost: cost, Fee: min(-t.Fee, due)}
	if left, all := due-b.Fee, slot-t.Slot-t.Own; all > 0 {
		b.Slot = Part(left, int64(slot), int64(all))
	}
	b.Toll = due - b.Fee - b.Slot
	for _, s := range x.Seats {
		if s.Agent == t.Award.Agent && s.Price > 0 && b.Slot > 0 {
			b.Wanted = s.Wanted
		}
	}
	return b
}

// Add adds another bill.
func (b *Bill) Add(c Bill) {
	if b.Cost+b.Slot+b.Toll+b.Fee > 0 && b.Wanted != c.Wanted {
		c.Wanted = ""
	}
	*b = Bill{b.Cost + c.Cost, b.Slot + c.Slot, c.Wanted, b.Toll + c.Toll, b.Fee + c.Fee}
}

// String says what the sum is, and what each part is for: "0.00017: 0.0001 by the card, 0.00007 because bob
// wanted the slot".
func (b Bill) String() string {
	var parts []string
	who := cmp.Or(b.Wanted, "others")
	for _, p := range []struct {
		amount Credits
		why    string
	}{{b.Cost, "by the card"}, {b.Slot, "because " + who + " wanted the slot"},
		{b.Toll, "for the time that the slot is kept from others"}, {b.Fee, "as the flat fee"}} {
		if p.amount != 0 {
			parts = append(parts, p.amount.String()+" "+p.why)
		}
	}
	sum := (b.Cost + b.Slot + b.Toll + b.Fee).String()
	if len(parts) == 0 {
		return sum
	}
	return sum + ": " + strings.Join(parts, ", ")
}
