package market

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"souk/market/certify"
	"souk/market/flow"
)

// If each task is priced by itself, a client with several tasks in a round can gain by lying: what it says
// about one of them can raise or lower the price of another. Under [ClarkeClient] its tasks are priced
// together: it owes what all of them cost the others. That is never more than the sum of its slot prices, as
// welfare is submodular in tasks.

// group is a client with several tasks in the round and something to pay for a slot.
type group struct {
	client string
	tasks  []int32   // index into Round.Tasks, ascending
	awards []int32   // of each of its tasks with a seat: index into Outcome.Awards; -1: it is to come
	slots  []Credits // and its slot price
	prices Credits   // sum of these
	pays   bool      // one of its tasks that begin has a slot with a price
	weight Credits   // of its edges to these seats together
}

// several reports whether some client may have more than one task. A hub's ids begin with the client's name
// and are sorted, so tasks of one client are neighbours, and most rounds need neither a map nor a sort for
// this.
func (r *Round) several() bool {
	for t := range r.Tasks {
		client := r.Tasks[t].Client
		if t > 0 && client == r.Tasks[t-1].Client {
			return true
		}
		if id := r.Tasks[t].ID; len(id) <= len(client) || id[len(client)] != '/' ||
			string(id[:len(client)]) != client {
			return true
		}
	}
	return false
}

// groups lists, by client, those whose bill differs from the sum of their slot prices, if any does: several
// tasks, placed or not, and a slot price above 0. match and price are the seat of each task and the price of
// each seat.
func (l *layout) groups(r *Round, awards []Award, match []int32, price []int64) (list []group) {
	if !r.several() {
		return nil
	}
	l.order, l.awarded = resize(l.order, len(r.Tasks)), resize(l.awarded, len(r.Tasks))
	order, award := l.order, l.awarded
	next := 0
	for t := range r.Tasks {
		order[t], award[t] = int32(t), -1
		if next < len(awards) && awards[next].Task == r.Tasks[t].ID {
			award[t] = int32(next)
			next++
		}
	}
	slices.SortStableFunc(order,
		func(a, b int32) int { return cmp.Compare(r.Tasks[a].Client, r.Tasks[b].Client) })
	for len(order) > 0 {
		n, g := 1, group{client: r.Tasks[order[0]].Client}
		for n < len(order) && r.Tasks[order[n]].Client == g.client {
			n++
		}
		g.tasks, order = order[:n], order[n:]
		for _, t := range g.tasks {
			if a := match[t]; n > 1 && a >= 0 {
				g.prices += Credits(price[a])
			}
		}
		if g.prices == 0 {
			continue
		}
		for _, t := range g.tasks {
			if a := match[t]; a >= 0 {
				g.awards, g.slots = append(g.awards, award[t]), append(g.slots, Credits(price[a]))
				g.weight += Credits(l.weight[l.index(t, a)])
				g.pays = g.pays || price[a] > 0 && !l.later[a]
			}
		}
		list = append(list, g)
	}
	return list
}

// bill splits what the client owes the others over its seats and sets the premiums of its awards. Shares are
// in proportion to slot prices, rounded by largest remainder; of equal remainders the earlier task comes
// first. What falls to a seat to come is not paid. Tolls are not split: each award bears its own. So no
// premium is below the fee, and when one task ends exactly its share is released.
func (g *group) bill(awards []Award, externality Credits) {
	rest := uint64(externality)
	type part struct {
		award int32
		left  uint64
	}
	parts := make([]part, len(g.awards))
	for i, a := range g.awards {
		hi, lo := bits.Mul64(uint64(externality), uint64(g.slots[i]))
		// hi < prices, since no slot price is above their sum
		share, left := bits.Div64(hi, lo, uint64(g.prices))
		if a >= 0 {
			awards[a].Premium += Credits(share) - awards[a].SlotPrice
		}
		parts[i] = part{a, left}
		rest -= share
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.left, a.left) })
	for _, p := range parts[:rest] {
		if p.award >= 0 {
			awards[p.award].Premium++
		}
	}
}

// without is the problem without a group's tasks: their rows are empty.
func (l *layout) without(g *group, p *flow.Problem) {
	p.Off, p.Seat, p.Weight, p.Slots = append(p.Off[:0], 0), p.Seat[:0], p.Weight[:0], l.slots
	skip := g.tasks
	for t := range int32(len(l.off) - 1) {
		if len(skip) > 0 && skip[0] == t {
			skip = skip[1:]
		} else {
			p.Seat = append(p.Seat, l.seat[l.off[t]:l.off[t+1]]...)
			p.Weight = append(p.Weight, l.weight[l.off[t]:l.off[t+1]]...)
		}
		p.Off = append(p.Off, int32(len(p.Seat)))
	}
}

// bills prices the clients with several tasks of which one pays for a slot. What the others would have
// without such a client is found from the present solution, by passing the client's slots on to them.
func (ws *workspace) bills(r *Round, o *Outcome, stop func() bool) error {
	if len(o.Prices) == 0 {
		return nil // nobody owes anything for a slot
	}
	l := &ws.layout
	whole, s := o.Welfare, &ws.others
	for i, g := range l.groups(r, o.Awards, ws.solver.Match, ws.solver.Price) {
		if i == 0 {
			p := l.problem()
			s.Of(&ws.solver, &p, ws.proof)
		}
		if !g.pays {
			continue
		}
		if err := s.Without(g.tasks, stop); err != nil {
			return err
		}
		proof := ClientProof{Client: g.client}
		welfare := Credits(s.Welfare())
		for t, a := range s.Match {
			if a != ws.solver.Match[t] && !slices.Contains(g.tasks, int32(t)) {
				at := seat{-1, 0}
				if a >= 0 {
					at = l.seats[a]
				}
				proof.Moves = append(proof.Moves, Move{t, int(at.agent), int(at.at)})
			}
		}
		for a, price := range s.Price {
			if price != ws.solver.Price[a] {
				proof.Prices = append(proof.Prices,
					SlotPrice{int(l.seats[a].agent), int(l.seats[a].at), Credits(price)})
			}
		}
		proof.Externality = welfare - (whole - g.weight)
		if proof.Externality < 0 || proof.Externality > g.prices {
			panic("market: a client's tasks cost the others less than nothing or more than their slot prices")
		}
		g.bill(o.Awards, proof.Externality)
		o.Clients = append(o.Clients, proof)
	}
	return nil
}

// checkClients verifies every client's proof. The assignment and the prices of the round without the client
// prove each other best, so what the client owes is exact.
func (ws *workspace) checkClients(r *Round, o *Outcome) error {
	if r.Rule.Clarke != ClarkeClient {
		if len(o.Clients) > 0 {
			return fmt.Errorf("%d proofs for clients under clarke %q", len(o.Clients), r.Rule.Clarke)
		}
		return nil
	}
	l, ans, plain := &ws.layout, &ws.answer, ws.plain
	var groups []group
	if len(o.Prices) > 0 { // else nobody owes anything for a slot
		groups = slices.DeleteFunc(l.groups(r, plain, ans.Match, ans.Price),
			func(g group) bool { return !g.pays })
	}
	whole := o.Welfare
	if len(groups) != len(o.Clients) {
		return fmt.Errorf("%d proofs for %d clients with several tasks", len(o.Clients), len(groups))
	}
	for i := range groups {
		g, proof := &groups[i], &o.Clients[i]
		if proof.Client != g.client {
			return fmt.Errorf("a proof for client %s, want one for %s", clip(proof.Client), g.client)
		}
		welfare, err := ws.welfareWithout(r, g, proof)
		if err != nil {
			return fmt.Errorf("proof for client %s: %w", g.client, err)
		}
		if want := welfare - (whole - g.weight); proof.Externality != want {
			return fmt.Errorf("client %s owes the others %s, want %s", g.client, proof.Externality, want)
		}
		if proof.Externality < 0 || proof.Externality > g.prices {
			return fmt.Errorf("client %s owes the others %s, want 0 to its slot prices %s", g.client,
				proof.Externality, g.prices)
		}
		g.bill(plain, proof.Externality)
	}
	for i, a := range o.Awards {
		if a.Premium != plain[i].Premium {
			return fmt.Errorf("award of task %s: premium %s, want %s", a.Task, a.Premium, plain[i].Premium)
		}
	}
	return nil
}

func (ws *workspace) welfareWithout(r *Round, g *group, proof *ClientProof) (Credits, error) {
	l := &ws.layout
	l.without(g, &ws.less)
	ws.match, ws.price = append(ws.match[:0], ws.answer.Match...), append(ws.price[:0], ws.answer.Price...)
	match, price := ws.match, ws.price
	for _, t := range g.tasks {
		match[t] = -1
	}
	last := -1
	for _, m := range proof.Moves {
		if m.Task <= last || m.Task >= len(match) {
			return 0, fmt.Errorf("move of task %d after %d: out of order or range", m.Task, last)
		}
		at := int32(-1)
		if m.Agent != -1 {
			var err error
			if at, err = l.find(r, m.Agent, m.Seat); err != nil {
				return 0, err
			}
		} else if m.Seat != 0 {
			return 0, fmt.Errorf("seat %d of no agent", m.Seat)
		}
		if match[m.Task] == at {
			return 0, fmt.Errorf("task %d does not move", m.Task)
		}
		last, match[m.Task] = m.Task, at
	}
	lastSeat := int32(-1)
	for _, p := range proof.Prices {
		a, err := l.find(r, p.Agent, p.Seat)
		if err != nil {
			return 0, err
		}
		if a <= lastSeat || int64(p.Price) == price[a] {
			return 0, fmt.Errorf("slot price %s: out of order, or the round's", p.Price)
		}
		lastSeat, price[a] = a, int64(p.Price)
	}
	p := &ws.less
	in := certify.Instance{Off: p.Off, Seat: p.Seat, Weight: p.Weight, Slots: p.Slots}
	welfare, err := ws.checker.Best(in, match, price)
	return Credits(welfare), err
}
