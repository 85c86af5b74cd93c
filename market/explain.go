package market

import (
	"fmt"
	"strings"
	"time"
)

// Explanation says in words why each task of a round was placed or not, and why it owes what it owes.
type Explanation struct {
	Domain  string
	Number  uint64
	Rule    Rule
	Welfare Credits
	Pruned  Pruned
	Tasks   []TaskExplanation
	Clients []ClientExplanation
	Seats   []SeatExplanation
}

// ClientExplanation is what a client with several tasks owes the others under the rule clarke: client.
type ClientExplanation struct {
	Client      string
	SlotPrices  Credits // of its awards together: what it would owe priced one by one
	Externality Credits // what it owes: what its tasks together cost the others
}

// TaskExplanation is one task's part. Award is nil for a task left out.
type TaskExplanation struct {
	Task  TaskID
	Award *Award

	Place int     // in the line of clients, from 1; 0 unless pricing posted
	Line  int     // clients in the line
	fee   Credits // the flat fee

	Shared Credits // the part of the slot price that the client is not billed, >= 0; 0 unless clarke: client

	// The parts of Award.Toll, all of them <= 0.
	Congestion Credits // the tier's charge
	Regime     Credits // the regime's toll on this edge
	Parts      Toll    // what else the edge is charged for
	Fee        Credits // minus the flat fee

	Utility Credits // value - cost - premium: what the client keeps at the quote
	Payment Credits // what it pays if its cost is as quoted: cost + premium
	PaperPj Credits // the paper's p_j (iemas Eq. 8): cost + slot price, the toll not charged
	Options []Option

	Wait   *Wait    // what it would be worth to wait; nil: nothing
	Others []Option // the best of the agents that were pruned; the proof does not cover them
	Notes  []string // what else is known of it; each written on a line
}

// Option is what one agent offered one task, at the tier that suits the task best.
type Option struct {
	Agent   AgentID
	Tier    int
	Value   Credits
	Cost    Credits
	Toll    Credits
	Price   Credits // slot price
	Utility Credits // value - cost + toll - slot price
	// of a task left out: with any larger value here, all else equal, it would have been served; not under
	// posted
	Needed Credits
	Tariff Credits // part of Cost
	Gone   bool    // under posted: no slot was left here when its turn came
	Note   string  // what else is known of it; written below it
}

// SeatExplanation is why a slot has its price.
type SeatExplanation struct {
	Agent AgentID
	Tier  int
	Slots int
	Used  int
	Price Credits
	Why   string
}

// Explain puts an outcome into words. An outcome that [Check] refuses is not explained but returned with its
// error.
func Explain(r Round, o Outcome) (Explanation, error) {
	if err := Check(r, o); err != nil {
		return Explanation{}, err
	}
	x := Explanation{Domain: r.Domain, Number: r.Number, Rule: r.Rule, Welfare: o.Welfare,
		Pruned: r.Pruned}
	var l layout
	l.of(&r)
	price := make([]Credits, len(l.seats))
	for _, p := range o.Prices {
		price[l.first[p.Agent]+int32(p.Tier)] = p.Price
	}
	used := make([]int, len(l.seats))
	posted := r.Rule.Pricing == PricingPosted
	var entry []Credits
	if !posted {
		entry = l.entries(&r, &o)
	}
	awards := o.Awards
	edges, others := r.Edges, r.Others
	for j, t := range r.Tasks {
		tx := TaskExplanation{Task: t.ID, Wait: t.Wait, fee: r.Fee}
		if len(awards) > 0 && awards[0].Task == t.ID {
			tx.Award, awards = &awards[0], awards[1:]
		}
		n := 0
		for n < len(edges) && edges[n].Task == j {
			n++
		}
		for _, e := range edges[:n] {
			tx.Options = append(tx.Options, r.option(&l, e, price, entry))
			if a := tx.Award; a != nil && a.Agent == r.Agents[e.Agent].Agent {
				tx.Congestion, tx.Regime, tx.Parts, tx.Fee = r.Tolls(*a)
				here := &tx.Options[len(tx.Options)-1] // of equally good tiers, the one that the task got
				here.Tier, here.Toll, here.Price = a.Tier, a.Toll, a.SlotPrice
				used[l.first[e.Agent]+int32(a.Tier)]++
			}
		}
		edges = edges[n:]
		for len(others) > 0 && others[0].Task == j {
			tx.Others = append(tx.Others, r.option(&l, others[0], price, nil))
			others = others[1:]
		}
		if a := tx.Award; a != nil {
			tx.Utility = a.Value - a.Cost - a.Premium
			tx.Payment = a.Cost + a.Premium
			tx.PaperPj = a.Cost + a.SlotPrice
			tx.Shared = a.SlotPrice - a.Toll - a.Premium
		}
		x.Tasks = append(x.Tasks, tx)
	}
	if posted {
		x.line(&r, &o, &l)
	} else if len(o.Clients) > 0 {
		for i, g := range r.groups(o.Awards) {
			x.Clients = append(x.Clients, ClientExplanation{g.client, g.prices, o.Clients[i].Externality})
		}
	}
	x.seats(&r, &o, &l, price, used)
	return x, nil
}

// option is an agent at the tier that suits the task best at the slot prices.
func (r *Round) option(l *layout, e Edge, price, entry []Credits) Option {
	best := Option{Agent: r.Agents[e.Agent].Agent, Value: e.Value, Cost: e.Cost}
	if len(r.Sellers) > 0 {
		best.Tariff = r.Sellers[e.Agent].Tariff
	}
	for k, tier := range r.Agents[e.Agent].Tiers {
		s := l.first[e.Agent] + int32(k)
		w := e.Weight(tier, r.Fee) // without what waiting is worth
		if u := w - price[s]; k == 0 || u > best.Utility {
			best.Tier, best.Toll, best.Price, best.Utility = k, e.Toll+tier.Toll-r.Fee, price[s], u
		}
		if entry == nil {
			continue
		}
		if needed := e.Value - w + r.Tasks[e.Task].loss() + entry[s]; k == 0 || needed < best.Needed {
			best.Needed = needed
		}
	}
	return best
}

// line says of each task at which place its client was served and which agents had no slot left by then.
func (x *Explanation) line(r *Round, o *Outcome, l *layout) {
	p := newLine(r, l)
	at := make(map[TaskID]int32, len(o.Awards))
	for _, a := range o.Awards {
		i, _ := r.place(a.Agent)
		at[a.Task] = l.first[i] + int32(a.Tier)
	}
	for place, tasks := range p.clients {
		for _, t := range tasks {
			tx := &x.Tasks[t]
			tx.Place, tx.Line = place+1, len(p.clients)
			for i := range tx.Options {
				agent, _ := r.place(tx.Options[i].Agent)
				left := int32(0)
				for k := range r.Agents[agent].Tiers {
					left += p.left[l.first[agent]+int32(k)]
				}
				tx.Options[i].Gone = left == 0
			}
		}
		for _, t := range tasks {
			if a, ok := at[r.Tasks[t].ID]; ok {
				p.sit(t, a)
			}
		}
	}
}

// entries gives, for every seat, what the served tasks would lose together if one more task came there. That
// is nothing where a slot is free. Else it is the cheapest chain of moves that ends in a free slot or leaves
// a task out. A task that was left out would have been served there if it had added more than this. The entry
// is the greatest price that supports the outcome; the slot price is the least.
func (l *layout) entries(r *Round, o *Outcome) []Credits {
	type place struct {
		off, end, at int32
		weight       Credits
	}
	entry := make([]Credits, len(l.seats))
	free := append([]int32(nil), l.slots...)
	var placed []place
	next := 0
	for t := range r.Tasks {
		if next == len(o.Awards) || o.Awards[next].Task != r.Tasks[t].ID {
			continue
		}
		a := o.Awards[next]
		next++
		for i := l.off[t]; i < l.off[t+1]; i++ {
			if at := l.seats[l.seat[i]]; r.Agents[at.agent].Agent == a.Agent && int(at.tier) == a.Tier {
				placed = append(placed, place{l.off[t], l.off[t+1], l.seat[i], Credits(l.weight[i])})
				free[l.seat[i]]--
			}
		}
	}
	for s := range entry {
		if free[s] == 0 {
			entry[s] = 1 << 62 // above every weight, and no sum with one leaves an int64
		}
	}
	for changed := true; changed; { // Bellman-Ford: simple, and fast enough for an explanation
		changed = false
		for _, p := range placed {
			least := p.weight // leave it out
			for i := p.off; i < p.end; i++ {
				least = min(least, p.weight-Credits(l.weight[i])+entry[l.seat[i]])
			}
			if least < entry[p.at] {
				entry[p.at], changed = least, true
			}
		}
	}
	return entry
}

func (x *Explanation) seats(r *Round, o *Outcome, l *layout, price []Credits, used []int) {
	witnesses := o.Witnesses
	for s, at := range l.seats {
		sx := SeatExplanation{
			Agent: r.Agents[at.agent].Agent, Tier: int(at.tier),
			Slots: int(l.slots[s]), Used: used[s], Price: price[s],
		}
		switch {
		case r.Rule.Pricing == PricingPosted:
			sx.Why = "prices are posted: whoever comes first takes it"
		case sx.Used < sx.Slots:
			sx.Why = "it has a free slot, so its slots are worth nothing to others"
		case sx.Price == 0:
			sx.Why = "it is full, and one more slot would add nothing"
		default:
			w := witnesses[0]
			witnesses = witnesses[1:]
			task := r.Tasks[w.Task].ID
			if w.FromAgent < 0 {
				sx.Why = fmt.Sprintf("%s, left out, would add exactly that with one more slot here", task)
			} else {
				from := r.Agents[w.FromAgent].Agent
				p := price[l.first[w.FromAgent]+int32(w.FromTier)]
				sx.Why = fmt.Sprintf("%s would move here from %s tier %d (slot price %s): one more slot "+
					"here adds that price and what the move gains",
					task, from, w.FromTier, p)
			}
		}
		x.Seats = append(x.Seats, sx)
	}
}

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
		fmt.Fprintf(&b, "left out, by the hub's word and beyond the proof: %s outbid wherever they could "+
			"have gone, %d that rather wait, %d that came after the round was full; %s that could not "+
			"matter\n", Some(p.Tasks, "task"), p.Waiting, p.Beyond, Some(p.Edges, "edge"))
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
		fmt.Fprintf(&b, "  %s tier %d: %d of %d used, slot price %s: %s\n", s.Agent, s.Tier, s.Used, s.Slots,
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
	if a == nil {
		fmt.Fprintf(b, "\n%s: left out, pays nothing%s\n", t.Task, where)
	} else {
		fmt.Fprintf(b, "\n%s: served by %s, tier %d%s\n", t.Task, a.Agent, a.Tier, where)
		fmt.Fprintf(b, "  premium %s = slot price %s", a.Premium, a.SlotPrice)
		if t.Shared > 0 {
			fmt.Fprintf(b, " - %s, priced with the client's other tasks", t.Shared)
		}
		fmt.Fprintf(b, " + congestion charge %s + regime toll %s", -t.Congestion, -t.Regime)
		for _, part := range []struct {
			name string
			toll Credits
		}{{"load", t.Parts.Load}, {"age", t.Parts.Age}, {"beside", t.Parts.Beside}} {
			if part.toll < 0 {
				fmt.Fprintf(b, " + %s toll %s", part.name, -part.toll)
			}
		}
		fmt.Fprintf(b, " + fee %s\n", -t.Fee)
		fmt.Fprintf(b, "  as quoted it pays %s = cost %s + premium %s, of a value of %s, and keeps %s (the "+
			"paper's p_j, Eq. 8: %s)\n",
			t.Payment, a.Cost, a.Premium, a.Value, t.Utility, t.PaperPj)
	}
	t.writeWait(b)
	for _, op := range t.Options {
		op.write(b, "", posted)
		switch {
		case op.Gone:
			b.WriteString("; no slot was left there\n")
		case posted && (a == nil || op.Agent != a.Agent):
			b.WriteString("\n")
		case a != nil && op.Agent == a.Agent:
			b.WriteString("  < here\n")
		case a != nil && op.Utility == t.Utility-t.Shared:
			b.WriteString("; at these prices as good\n")
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
	fmt.Fprintf(b, "  %s%s: value %s - cost %s%s - toll %s%s = %s", mark, op.Agent, op.Value, op.Cost, tariff,
		-op.Toll, price, op.Utility)
}

func (op *Option) writeNote(b *strings.Builder) {
	if op.Note != "" {
		fmt.Fprintf(b, "      %s\n", op.Note)
	}
}

// writeWait says what waiting is worth to a task, or would have been.
func (t *TaskExplanation) writeWait(b *strings.Builder) {
	w := t.Wait
	if w == nil {
		return
	}
	first := w.Time.Round(time.Millisecond)
	if a := t.Award; a != nil {
		fmt.Fprintf(b, "  begins here rather than wait for %s, first token in %v, which would be worth %s to it:\n",
			w.Agent, first, w.Loss)
	} else {
		// The best that it could have taken: no free slot is worth more to it at these prices than waiting.
		rather := ""
		best := Credits(0)
		for _, list := range [2][]Option{t.Options, t.Others} {
			for _, op := range list {
				if rather == "" || op.Utility > best {
					rather = fmt.Sprintf(", rather than begin at %s now, worth %s at its slot price", op.Agent,
						op.Utility)
					best = op.Utility
				}
			}
		}
		fmt.Fprintf(b, "  waits for %s, first token in %v, worth %s to it%s:\n", w.Agent, first, w.Loss,
			rather)
	}
	share := ""
	if w.Share < FullShare {
		share = fmt.Sprintf(", of which %d millionths are left, as it has waited long", w.Share)
	}
	price := ""
	if w.Round > 0 {
		price = fmt.Sprintf(" - slot price %s of round %d", w.Price, w.Round)
	}
	fmt.Fprintf(b, "    value %s - cost %s - fee %s - toll %s - congestion charge %s%s%s\n", w.Value, w.Cost,
		t.fee,
		-w.Toll, -w.Charge, price, share)
}
