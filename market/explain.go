package market

import (
	"fmt"
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

// ClientExplanation explains the debt of a client with several tasks to the others under the rule clarke:
// client.
type ClientExplanation struct {
	Client      string
	SlotPrices  Credits // of its awards together: what it would owe priced one by one
	Externality Credits // what it owes: what its tasks together cost the others
}

// TaskExplanation is one task's part. Award is nil for a task that begins nowhere now.
type TaskExplanation struct {
	Task    TaskID
	Award   *Award
	Planned *PlanExplanation // nil: it has no seat to come

	Place int     // in the line of clients, from 1; 0 unless pricing posted
	Line  int     // clients in the line
	fee   Credits // the flat fee

	Shared Credits // the part of the slot price that the client is not billed, >= 0; 0 unless clarke: client

	// The parts of Award.Toll, all of them <= 0.
	Slot Credits // what the slot costs others
	Own  Credits // >= 0: of that, what the client's own tasks bear, which is not charged
	Fee  Credits // minus the flat fee

	Utility Credits // value - cost - premium: what the client keeps at the quote
	Payment Credits // what it pays if its cost is as quoted: cost + premium
	PaperPj Credits // the paper's p_j (iemas Eq. 8): cost + slot price, the toll not charged
	Options []Option

	Others []Option // the best of the agents that were pruned; the proof does not cover them
	Notes  []string // what else is known of it; each written on a line
}

// PlanExplanation is a seat to come that a task waits for.
type PlanExplanation struct {
	Agent  AgentID
	In     time.Duration
	Weight Credits // value then - cost + toll
	Price  Credits // of a slot then
}

// Option is one agent's offer to one task, at the seat that suits the task best.
type Option struct {
	Agent   AgentID
	In      time.Duration // until the seat comes
	Later   bool          // it is to come
	Value   Credits
	Cost    Credits
	Toll    Credits
	Price   Credits // slot price
	Utility Credits // value - cost + toll - slot price
	// of a task left out: with any larger value here, and as much more at every other time, all else equal,
	// it would have been served; not under posted
	Needed Credits
	Tariff Credits // part of Cost
	Gone   bool    // under posted: no slot was left here when its turn came
	Note   string  // what else is known of it; written below it
	Cause  string  // of the toll; written below it, too
	Cut    bool    // its slots are not in the round any more, nor what they cost
}

// SeatExplanation is why a slot has its price.
type SeatExplanation struct {
	Agent AgentID
	Seat
	Used  int
	Price Credits
	Why   string
	// the client of the task that would take one more slot, which gives it its price; "": nobody's
	Wanted string
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
		price[l.first[p.Agent]+int32(p.Seat)] = p.Price
	}
	used := make([]int, len(l.seats))
	posted := r.Rule.Pricing == PricingPosted
	var entry []Credits
	if !posted {
		entry = l.entries(&r, &o)
	}
	awards, planned := o.Awards, o.Planned
	edges, others := r.Edges, r.Others
	for j, t := range r.Tasks {
		tx := TaskExplanation{Task: t.ID, fee: r.Fee}
		if len(awards) > 0 && awards[0].Task == t.ID {
			tx.Award, awards = &awards[0], awards[1:]
		}
		at := -1 // the index of its seat to come
		if len(planned) > 0 && planned[0].Task == j {
			p := planned[0]
			planned = planned[1:]
			at = int(l.first[p.Agent]) + p.Seat
			used[at]++
			tx.Planned = &PlanExplanation{Agent: r.Agents[p.Agent].Agent,
				In: r.Agents[p.Agent].Seats[p.Seat].In, Price: price[at]}
		}
		n := 0
		for n < len(edges) && edges[n].Task == j {
			n++
		}
		for _, e := range edges[:n] {
			tx.Options = append(tx.Options, r.option(&l, e, price, entry))
			here := &tx.Options[len(tx.Options)-1] // of equally good seats, the one that the task got
			if a := tx.Award; a != nil && a.Agent == r.Agents[e.Agent].Agent {
				tx.Slot, tx.Own, tx.Fee = e.Toll, e.Own, -r.Fee
				here.at(r.Agents[e.Agent].Seats[a.Seat], a.Value, a.SlotPrice)
				used[l.first[e.Agent]+int32(a.Seat)]++
			}
			if at >= 0 && int(l.seats[at].agent) == e.Agent {
				k := int(l.seats[at].at)
				tx.Planned.Weight = r.Weight(e, k)
				here.at(r.Agents[e.Agent].Seats[k], e.Value-t.Delay(r.Agents[e.Agent].Seats[k].In), price[at])
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
			tx.Shared = a.SlotPrice - a.Toll - tx.Own - a.Premium
		}
		x.Tasks = append(x.Tasks, tx)
	}
	if posted {
		x.line(&r, &o, &l)
	} else if len(o.Clients) > 0 {
		for _, c := range o.Clients {
			x.Clients = append(x.Clients, ClientExplanation{c.Client, r.slotPrices(&l, &o, c.Client, price),
				c.Externality})
		}
	}
	x.seats(&r, &o, &l, price, used)
	return x, nil
}

// slotPrices sums the prices of a client's seats, each priced alone.
func (r *Round) slotPrices(l *layout, o *Outcome, client string, price []Credits) (sum Credits) {
	for _, p := range o.Planned {
		if r.Tasks[p.Task].Client == client {
			sum += price[l.first[p.Agent]+int32(p.Seat)]
		}
	}
	next := 0
	for _, a := range o.Awards {
		for r.Tasks[next].ID != a.Task {
			next++
		}
		if r.Tasks[next].Client == client {
			sum += a.SlotPrice
		}
	}
	return sum
}

// at has an option be of a seat.
func (op *Option) at(s Seat, value, price Credits) {
	op.Utility += value - op.Value - price + op.Price
	op.In, op.Later, op.Value, op.Price = s.In, s.Later, value, price
}

// option is an agent at the seat that suits the task best at the slot prices.
func (r *Round) option(l *layout, e Edge, price, entry []Credits) Option {
	best := Option{Agent: r.Agents[e.Agent].Agent, Value: e.Value, Cost: e.Cost, Toll: e.Toll - r.Fee}
	best.Utility = e.Value - e.Cost + best.Toll
	best.Cut = len(r.Agents[e.Agent].Seats) == 0
	if len(r.Sellers) > 0 {
		best.Tariff = r.Sellers[e.Agent].Tariff
	}
	var lacks Credits // by how much its value is too small
	for k, seat := range r.Agents[e.Agent].Seats {
		s := l.first[e.Agent] + int32(k)
		late := r.Tasks[e.Task].Delay(seat.In)
		w := r.Weight(e, k)
		if u := w - price[s]; k == 0 || u > best.Utility {
			best.In, best.Later, best.Value, best.Price, best.Utility = seat.In, seat.Later, e.Value-late,
				price[s], u
		}
		if entry == nil {
			continue
		}
		if more := entry[s] - w; k == 0 || more < lacks {
			lacks = more
		}
	}
	best.Needed = best.Value + lacks
	return best
}

// line says of each task at which place its client was served and which agents had no slot left by then.
func (x *Explanation) line(r *Round, o *Outcome, l *layout) {
	p := newLine(r, l)
	at := make(map[TaskID]int32, len(o.Awards))
	for _, a := range o.Awards {
		i, _ := r.place(a.Agent)
		at[a.Task] = l.first[i] + int32(a.Seat)
	}
	for place, tasks := range p.clients {
		for _, t := range tasks {
			tx := &x.Tasks[t]
			tx.Place, tx.Line = place+1, len(p.clients)
			for i := range tx.Options {
				agent, _ := r.place(tx.Options[i].Agent)
				left := int32(0)
				for k := range r.Agents[agent].Seats {
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
	next, planned := 0, o.Planned
	for t := range r.Tasks {
		at := int32(-1)
		switch {
		case next < len(o.Awards) && o.Awards[next].Task == r.Tasks[t].ID:
			a := &o.Awards[next]
			agent, _ := r.place(a.Agent)
			at = l.first[agent] + int32(a.Seat)
			next++
		case len(planned) > 0 && planned[0].Task == t:
			at = l.first[planned[0].Agent] + int32(planned[0].Seat)
			planned = planned[1:]
		}
		for i := l.off[t]; i < l.off[t+1]; i++ {
			if l.seat[i] == at {
				placed = append(placed, place{l.off[t], l.off[t+1], at, Credits(l.weight[i])})
				free[at]--
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
			Agent: r.Agents[at.agent].Agent, Seat: r.Agents[at.agent].Seats[at.at],
			Used: used[s], Price: price[s],
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
			sx.Wanted = r.Tasks[w.Task].Client
			if w.FromAgent < 0 {
				sx.Why = fmt.Sprintf("%s, left out, would add exactly that with one more slot here", task)
			} else {
				from := r.Agents[w.FromAgent]
				p := price[l.first[w.FromAgent]+int32(w.FromSeat)]
				sx.Why = fmt.Sprintf("%s would move here from %s, %s (slot price %s): one more slot here adds that "+
					"price and what the move gains", task, from.Agent, from.Seats[w.FromSeat], p)
			}
		}
		x.Seats = append(x.Seats, sx)
	}
}
