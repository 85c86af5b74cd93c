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
	tasks  []int32 // index into Round.Tasks, ascending
	awards []int32 // index into Outcome.Awards, ascending
	prices Credits // sum of its slot prices
	weight Credits // of its awards' edges together
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
// tasks, placed or not, and a slot price above 0.
func (r *Round) groups(awards []Award) (list []group) {
	if !r.several() {
		return nil
	}
	order := make([]int32, len(r.Tasks))
	award := make([]int32, len(r.Tasks))
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
		g := group{client: r.Tasks[order[0]].Client}
		n := 0
		for n < len(order) && r.Tasks[order[n]].Client == g.client {
			if i := award[order[n]]; i >= 0 {
				a := &awards[i]
				g.awards = append(g.awards, i)
				g.prices += a.SlotPrice
				g.weight += a.Value - a.Cost + a.Toll - r.Tasks[order[n]].loss()
			}
			n++
		}
		g.tasks, order = order[:n], order[n:]
		if len(g.tasks) > 1 && g.prices > 0 {
			list = append(list, g)
		}
	}
	return list
}

// weight is what clearing maximises: the outcome's welfare, less what its served tasks give up by not
// waiting.
func (r *Round) weight(o *Outcome) Credits {
	sum, next := o.Welfare, 0
	for t := range r.Tasks {
		if next < len(o.Awards) && o.Awards[next].Task == r.Tasks[t].ID {
			next++
			sum -= r.Tasks[t].loss()
		}
	}
	return sum
}

// bill splits what the client owes the others over its awards and sets their premiums. Shares are in
// proportion to slot prices, rounded by largest remainder; of equal remainders the earlier award comes first.
// Tolls are not split: each award bears its own. So no premium is below the fee, and when one task ends
// exactly its share is released.
func (g *group) bill(awards []Award, externality Credits) {
	rest := uint64(externality)
	type part struct {
		award int32
		left  uint64
	}
	parts := make([]part, len(g.awards))
	for i, a := range g.awards {
		hi, lo := bits.Mul64(uint64(externality), uint64(awards[a].SlotPrice))
		// hi < prices, since no slot price is above their sum
		share, left := bits.Div64(hi, lo, uint64(g.prices))
		awards[a].Premium = Credits(share) - awards[a].Toll
		parts[i] = part{a, left}
		rest -= share
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.left, a.left) })
	for _, p := range parts[:rest] {
		awards[p.award].Premium++
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

// repairs bounds for how many slots of one client the solution is repaired. With more, the round is solved
// anew.
const repairs = 32

// bills prices the clients with several tasks. What the others would have without such a client is found from
// the present solution, by passing the client's slots on to them.
func (ws *workspace) bills(r *Round, o *Outcome, stop func() bool) error {
	if len(o.Prices) == 0 {
		return nil // nobody owes anything for a slot
	}
	l := &ws.layout
	whole := r.weight(o)
	for _, g := range r.groups(o.Awards) {
		p, s := &ws.less, &ws.again
		l.without(&g, p)
		if len(g.awards) <= repairs {
			s.Without(&ws.solver, p, g.tasks)
		} else if err := s.Solve(p, stop); err != nil {
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
				proof.Moves = append(proof.Moves, Move{t, int(at.agent), int(at.tier)})
			}
		}
		for a, price := range s.Price {
			if price > 0 {
				proof.Prices = append(proof.Prices,
					SlotPrice{int(l.seats[a].agent), int(l.seats[a].tier), Credits(price)})
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
	if len(o.Prices) == 0 || !r.several() { // each owes its slot prices
		for _, a := range o.Awards {
			if a.Premium != a.SlotPrice-a.Toll {
				return fmt.Errorf("award of task %s: premium %s, want %s", a.Task, a.Premium,
					a.SlotPrice-a.Toll)
			}
		}
		if len(o.Clients) > 0 {
			return fmt.Errorf("%d proofs for clients where none has several tasks and a slot price to pay",
				len(o.Clients))
		}
		return nil
	}
	plain := make([]Award, len(o.Awards))
	for i, a := range o.Awards {
		a.Premium = a.SlotPrice - a.Toll
		plain[i] = a
	}
	groups, whole := r.groups(plain), r.weight(o)
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
	match := append([]int32(nil), ws.answer.Match...)
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
			if at, err = l.find(r, m.Agent, m.Tier); err != nil {
				return 0, err
			}
		} else if m.Tier != 0 {
			return 0, fmt.Errorf("tier %d of no agent", m.Tier)
		}
		if match[m.Task] == at {
			return 0, fmt.Errorf("task %d does not move", m.Task)
		}
		last, match[m.Task] = m.Task, at
	}
	price := make([]int64, len(l.seats))
	lastSeat := int32(-1)
	for _, p := range proof.Prices {
		a, err := l.find(r, p.Agent, p.Tier)
		if err != nil {
			return 0, err
		}
		if a <= lastSeat || p.Price <= 0 {
			return 0, fmt.Errorf("slot price %s: out of order or not positive", p.Price)
		}
		lastSeat, price[a] = a, int64(p.Price)
	}
	p := &ws.less
	in := certify.Instance{Off: p.Off, Seat: p.Seat, Weight: p.Weight, Slots: p.Slots}
	welfare, err := ws.checker.Best(in, match, price)
	return Credits(welfare), err
}
