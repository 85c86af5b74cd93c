package market

import (
	"fmt"
	"strings"
	"time"
)

// Some says a number of things: 1 task, 2 tasks.
func Some(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}

// String is the explanation as plain text. Amounts are credits.
func (x Explanation) String() string {
	var b strings.Builder
	instead := ""
	if x.Rule.Instead != "" {
		instead = fmt.Sprintf(" instead of %s, whose solve had to be stopped", x.Rule.Instead)
	}
	fmt.Fprintf(&b, "round %s-%d: welfare %s (pricing %s%s, settle %s, clarke %s)\n", x.Domain, x.Number,
		x.Welfare,
		x.Rule.Pricing, instead, x.Rule.Settle, x.Rule.Clarke)
	if p := x.Pruned; p != (Pruned{}) {
		fmt.Fprintf(&b, "left out, by the hub's word and beyond the proof: %s planned for seats to come, %d "+
			"without a seat, %d of too many that waited; %s that could not matter\n", Some(p.Planned, "task"),
			p.Tasks, p.Beyond, Some(p.Edges, "edge"))
	}
	for _, t := range x.Tasks {
		t.write(&b)
	}
	if len(x.Clients) > 0 {
		b.WriteString("\nclients with several tasks, priced together\n")
	}
	for _, c := range x.Clients {
		fmt.Fprintf(&b, "  %s: its tasks together cost the others %s, one by one they would have paid %s "+
			"for their slots\n",
			c.Client, c.Externality, c.SlotPrices)
	}
	b.WriteString("\nslots\n")
	for _, s := range x.Seats {
		fmt.Fprintf(&b, "  %s, %s: %d of %d used, slot price %s: %s\n", s.Agent, s.Seat, s.Used, s.Slots,
			s.Price, s.Why)
	}
	return b.String()
}

func (t *TaskExplanation) write(b *strings.Builder) {
	a := t.Award
	where, posted := "", t.Place > 0 // then there are no slot prices
	if posted {
		where = fmt.Sprintf("; its client is %d of %d in the line", t.Place, t.Line)
	}
	switch p := t.Planned; {
	case a == nil && p != nil:
		fmt.Fprintf(b, "\n%s: waits for %s, free in %v, and pays nothing until it begins: it would add %s there, at a "+
			"slot price of %s\n", t.Task, p.Agent, p.In.Round(time.Millisecond), p.Weight, p.Price)
	case a == nil:
		fmt.Fprintf(b, "\n%s: left out, pays nothing%s\n", t.Task, where)
	default:
		fmt.Fprintf(b, "\n%s: begins now at %s%s\n", t.Task, a.Agent, where)
		fmt.Fprintf(b, "  premium %s = slot price %s", a.Premium, a.SlotPrice)
		if t.Shared > 0 {
			fmt.Fprintf(b, " - %s, priced with the client's other tasks", t.Shared)
		}
		fmt.Fprintf(b, " + toll %s", -t.Slot)
		if t.Own > 0 {
			fmt.Fprintf(b, " - %s of it, which its client's own tasks bear", t.Own)
		}
		fmt.Fprintf(b, " + fee %s\n", -t.Fee)
		fmt.Fprintf(b, "  as quoted it pays %s = cost %s + premium %s, of a value of %s, and keeps %s (the "+
			"paper's p_j, Eq. 8: %s)\n",
			t.Payment, a.Cost, a.Premium, a.Value, t.Utility, t.PaperPj)
	}
	for _, op := range t.Options {
		op.write(b, "", posted)
		switch {
		case op.Gone:
			b.WriteString("; no slot was left there\n")
		case posted && (a == nil || op.Agent != a.Agent):
			b.WriteString("\n")
		case a != nil && op.Agent == a.Agent, a == nil && t.Planned != nil && op.Agent == t.Planned.Agent:
			b.WriteString("  < here\n")
		case a != nil && op.Utility == t.Utility-t.Shared-t.Own:
			b.WriteString("; at these prices as good\n")
		case a == nil && t.Planned != nil:
			b.WriteString("\n")
		case a == nil && op.Needed > op.Value:
			fmt.Fprintf(b, "; a value above %s would have won it\n", op.Needed)
		case a == nil:
			b.WriteString("; as good as one that was served, and the tie-break chose\n")
		default:
			b.WriteString("\n")
		}
		op.writeNote(b)
	}
	for _, op := range t.Others {
		op.write(b, "beyond the proof, ", posted)
		b.WriteString("\n")
		op.writeNote(b)
	}
	for _, note := range t.Notes {
		fmt.Fprintf(b, "  %s\n", note)
	}
	if len(t.Options) == 0 {
		b.WriteString("  no agent could serve it\n")
	}
}

func (op *Option) write(b *strings.Builder, mark string, posted bool) {
	tariff, price := "", ""
	if op.Tariff > 0 {
		tariff = fmt.Sprintf(" (tariff %s in it)", op.Tariff)
	}
	if !posted {
		price = fmt.Sprintf(" - slot price %s", op.Price)
	}
	if op.Cut {
		fmt.Fprintf(b, "  %s%s: value %s - cost %s%s - toll and fee %s, before the slot price: its slots are left "+
			"out", mark, op.Agent, op.Value, op.Cost, tariff, -op.Toll)
		return
	}
	when := ""
	if op.Later {
		when = fmt.Sprintf(" in %v", op.In.Round(time.Millisecond))
	}
	fmt.Fprintf(b, "  %s%s%s: value %s - cost %s%s - toll and fee %s%s = %s", mark, op.Agent, when, op.Value, op.Cost,
		tariff, -op.Toll, price, op.Utility)
}

func (op *Option) writeNote(b *strings.Builder) {
	for _, note := range [2]string{op.Cause, op.Note} {
		if note != "" {
			fmt.Fprintf(b, "      %s\n", note)
		}
	}
}
