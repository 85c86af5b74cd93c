package cli

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"souk/bus"
	"souk/bus/tip"
	"souk/ledger"
	"souk/market"
)

// content returns a record's part beside its legs.
func content(r *ledger.Record) any {
	for _, part := range reflect.ValueOf(r).Elem().Fields() {
		if part.Kind() == reflect.Pointer && !part.IsNil() {
			return part.Interface()
		}
	}
	return nil
}

// sentence says what a record is about.
func sentence(r *ledger.Record) string {
	switch {
	case r.Open != nil:
		of := ""
		if r.Open.Domain != "" {
			of = " of " + r.Open.Domain
		}
		return fmt.Sprintf("journal of %s%s, %d units per credit", r.Open.Role, of, r.Open.Scale)
	case r.Round != nil:
		in, o := &r.Round.Round, &r.Round.Outcome
		return fmt.Sprintf("%s, %s, %s; %s, %s above 0, welfare %s", market.Some(len(in.Tasks), "task"),
			market.Some(len(in.Agents), "agent"), market.Some(len(in.Edges), "edge"),
			market.Some(len(o.Awards), "award"), market.Some(len(o.Prices), "slot price"), o.Welfare)
	case r.Hold != nil:
		h := r.Hold
		s := fmt.Sprintf("%s/%s on %s (%s): premium %s (fee %s) + at most %s; quoted %s for %d prompt "+
			"tokens (%d cached) and %d output; until %s",
			h.Client, h.Task, h.Agent, h.Model, h.Premium, h.Fee, h.Amount-h.Premium, h.Quoted, h.Prompt,
			h.Cached, h.Output, stamp(h.Expires))
		if h.Asserted > 0 {
			s += fmt.Sprintf("; its agent says that it holds %d prompt tokens", h.Asserted)
		}
		for _, said := range [][2]string{{"request", h.Request}, {"key", h.Key}, {"tags", h.Tags}} {
			if said[1] != "" {
				s += "; " + said[0] + " " + said[1]
			}
		}
		return s
	case r.Capture != nil:
		c := r.Capture
		s := fmt.Sprintf("%s: cost %s for %d prompt tokens (%d cached) and %d output, first token after "+
			"%s, finish %s", c.Outcome, c.Cost, c.Usage.Prompt, c.Usage.Cached, c.Usage.Output,
			time.Duration(c.TTFTUS)*time.Microsecond, c.Finish)
		if q := c.Claim; q != nil {
			s += fmt.Sprintf("; its agent claimed %s for %d prompt tokens (%d cached) and %d output, %d "+
				"relayed", q.Cost, q.Usage.Prompt, q.Usage.Cached, q.Usage.Output, q.Relayed)
		}
		if u := c.Said; u != nil {
			s += fmt.Sprintf("; its engine said %d prompt tokens (%d cached) and %d output", u.Prompt,
				u.Cached, u.Output)
		}
		return s
	case r.Void != nil:
		if r.Void.Reason == string(bus.CodeLateFirst) {
			return "nothing is due: " + r.Void.Reason + ": it had given no token in the time in which all " +
				"but one in a thousand do, and another agent got the task"
		}
		return "nothing is due: " + r.Void.Reason
	case r.Transfer != nil:
		t := r.Transfer
		s := fmt.Sprintf("%s of %s", t.Amount, t.Client)
		if r.Kind.IsOrder() {
			s = ordered(r.Kind, t)
		}
		if t.Hub != "" {
			s += fmt.Sprintf(", %s %d of %s", r.Kind, t.Number, t.Hub)
		}
		if t.Note != "" {
			s += " (" + t.Note + ")"
		}
		s += operator(t.Order)
		if v := t.Vouched; v != nil {
			for i, d := range v.Doors {
				if i == 8 {
					return s + fmt.Sprintf(" and %d more", len(v.Doors)-i)
				}
				s += fmt.Sprintf("%s %s %s", [...]string{"; granted there by then on the word of", ","}[min(i, 1)],
					d.Door, d.Total)
			}
		}
		return s
	case r.Move != nil:
		m := r.Move
		s := fmt.Sprintf("%s of %s to %s", m.Amount, m.From, m.To)
		switch {
		case m.Part == 1 && m.Period > 0:
			return fmt.Sprintf("%s: the allowance of period %d beside a rest of at most %s", s, m.Period,
				m.Rest)
		case m.Period > 0:
			return fmt.Sprintf("%s: part %d of the allowance of period %d", s, m.Part, m.Period)
		case m.Part > 0:
			return s + ": the rest of a budget that has ended"
		}
		return s + operator(m.Order)
	case r.Budget != nil:
		u := r.Budget
		switch {
		case u.Amount == 0:
			return fmt.Sprintf("the budget of %s, %s's money, ends", u.Client, u.Of)
		case u.Every == "":
			return fmt.Sprintf("%s may have %s of %s's money, once", u.Client, u.Amount, u.Of)
		}
		return fmt.Sprintf("%s may have %s of %s's money, filled up every %s", u.Client, u.Amount, u.Of,
			u.Every)
	case r.Noted != nil:
		n := r.Noted
		s := fmt.Sprintf("%s was at %s", n.Journal, n.Mark)
		for i, x := range n.Spent {
			if i == 8 {
				return s + fmt.Sprintf(" and %d more", len(n.Spent)-i)
			}
			s += fmt.Sprintf("%s %s %s", [...]string{"; charged there by then:", ","}[min(i, 1)], x.Client,
				x.Amount)
		}
		return s
	case r.Month != nil:
		return closed(r.Month)
	case r.WriteOff != nil:
		w := r.WriteOff
		by := "no mark of it was ever noted"
		if !w.Mark.Zero() {
			by = "by its mark at " + w.Mark.String()
		}
		return fmt.Sprintf("the journal of %s is lost: %s back to clients, %s lost; %s", w.Hub, w.Back,
			w.Lost, by)
	case r.Kind == ledger.KindSeal:
		e := &r.Epoch.Epoch
		return fmt.Sprintf("epoch %d of class %s: %d asks sealed, ceiling %s, %s", e.Number, e.Class,
			len(e.Seals), e.Ceiling, winners(e.Winners))
	case r.Kind == ledger.KindTariff:
		e, t := &r.Epoch.Epoch, &r.Epoch.Tariff
		return fmt.Sprintf("epoch %d of class %s: %d of %d asks opened, tariff %s a task beside the "+
			"metered cost for %s; on standby %s; lost %s",
			e.Number, e.Class, len(e.Opened), len(e.Seals), t.Amount, list(t.Winners), list(t.Standby),
			list(e.Lost))
	}
	return "the journal ends here"
}

func winners(n int) string {
	if n == 0 {
		return "all owners win"
	}
	return fmt.Sprintf("the %d lowest owners win", n)
}

func list(names []string) string {
	if len(names) == 0 {
		return "nobody"
	}
	return strings.Join(names, ", ")
}

// ordered says what an order was for.
func ordered(k ledger.Kind, t *ledger.Transfer) string {
	o := t.Order
	switch {
	case k == ledger.KindRemit:
		return fmt.Sprintf("%s of what agent %s has earned is paid", t.Amount, o.Agent)
	case k == ledger.KindRefund:
		return fmt.Sprintf("%s of the %s that %s paid for %s in %s come back from %s", t.Amount,
			o.Capture.Paid,
			t.Client, o.Receipt, o.Month, map[string]string{tip.FromAgent: "agent " + o.Agent}[o.From]+
				map[string]string{tip.FromSurplus: "the surplus"}[o.From])
	case o != nil && o.Rule == tip.ByAgents:
		var all []string
		for _, s := range o.Shares {
			all = append(all, fmt.Sprintf("%s %d", s.Agent, s.Slots))
		}
		return fmt.Sprintf("%s of surplus to agents, by the slots that they offered: %s", t.Amount, list(all))
	case o != nil && o.Rule == tip.ByClients:
		return fmt.Sprintf("%s of surplus to clients, in equal parts", t.Amount)
	case t.Client == "":
		return fmt.Sprintf("%s of surplus leave the market", t.Amount)
	}
	return fmt.Sprintf("%s of surplus to %s", t.Amount, t.Client)
}

// closed says what a month was closed with.
func closed(m *ledger.Month) string {
	debits, credits := m.Totals()
	s := fmt.Sprintf("%s is closed: %d accounts, debits %s, credits %s, sha256 %x;", m.Month, m.Accounts,
		debits, credits, m.Digest)
	for _, x := range m.Balances {
		s += fmt.Sprintf(" %s %s,", x.Account, x.Amount)
	}
	for _, j := range m.Journals {
		s += fmt.Sprintf(" hub %s at %s,", j.Journal, j.Mark)
	}
	return strings.TrimRight(s, ",;") + operator(&tip.Order{By: m.By, Note: m.Note})
}

// operator says what an operator said.
func operator(o *tip.Order) (s string) {
	if o == nil {
		return ""
	}
	if month := ledger.Corrects(o); month != "" {
		s = "; a correction of " + month + ", which was closed"
	}
	for _, said := range [][2]string{{"by operator", o.By}, {"reference", o.Ref}, {"for", o.Month},
		{"signed by", o.Second},
		{"note:", o.Note}} {
		if said[1] != "" && !(said[0] == "for" && o.Receipt != "") {
			s += "; " + said[0] + " " + said[1]
		}
	}
	return s
}
