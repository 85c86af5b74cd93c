package ledger

import (
	"fmt"
	"maps"
	"slices"

	"souk/bus/tip"
	"souk/market"
)

// By a rule the surplus of a hub goes to its agents, by the slots that they have offered, or to its clients
// in equal parts. What a distribution by a rule shares out was there at the one before it, and slots count
// that were offered since: no report of a round moves who gets the surplus of that round. The first one
// shares nothing out, and says from when on slots count. Where no agent has offered a slot since, nothing is
// shared out among agents either, and all is carried to the next.

// Ripe is the surplus that the next distribution by a rule shares out.
func (b *Book) Ripe() market.Credits { return min(b.head.Ripe, b.Balance(Surplus)) }

// Offered lists the agents that have offered slots since the last distribution by a rule, sorted.
func (b *Book) Offered() (all []tip.Share) {
	for _, agent := range slices.Sorted(maps.Keys(b.kept.Offered)) {
		all = append(all, tip.Share{Agent: agent, Slots: b.kept.Offered[agent]})
	}
	return all
}

// maxShares bounds the agents of one distribution.
const maxShares = 4096

// sharedOut reports whether a record is a distribution by a rule that says who gets it.
func sharedOut(r *Record) bool {
	o := r.Transfer.Order
	return r.Kind == KindDistribute && o != nil && (o.Rule == tip.ByAgents || o.Rule == tip.ByClients)
}

// applyShare judges a distribution by its rule, and begins the next one's time.
func (b *Book) applyShare(r *Record) error {
	t, o, hub := r.Transfer, r.Transfer.Order, b.head.Role == RoleHub
	no := func(expected, format string, args ...any) error {
		return broken(ErrIllegal, "I23", r.ID, expected, format, args...)
	}
	if o.Agent+o.Receipt+o.From != "" || o.Capture != nil || o.Rule != tip.ByAgents && len(o.Shares) > 0 {
		return no("a distribution of surplus alone", "agent %q, receipt %q", clip(o.Agent), clip(o.Receipt))
	}
	switch o.Rule {
	case "", tip.Kept:
		return nil
	case tip.ByAgents, tip.ByClients:
	default:
		return no("a rule: kept, agents or clients", "%q", clip(o.Rule))
	}
	if t.Client != "" {
		return no("nobody's name, where a rule says who gets it", "%q", clip(t.Client))
	}
	if o.Rule == tip.ByAgents {
		if t.Amount > 0 && len(o.Shares) == 0 || len(o.Shares) > maxShares {
			return no(fmt.Sprintf("1 to %d agents that have offered slots", maxShares), "%d", len(o.Shares))
		}
		for i, s := range o.Shares {
			if !ValidID(s.Agent) || s.Slots <= 0 || i > 0 && o.Shares[i-1].Agent >= s.Agent {
				return no("agents in order, each with its slots", "%q with %d", clip(s.Agent), s.Slots)
			}
		}
	}
	if !hub {
		return nil
	}
	carried := o.Rule == tip.ByAgents && t.Amount == 0 // if rightly, level 4 finds out
	if ripe := b.Ripe(); t.Amount != ripe && !carried {
		return no(fmt.Sprintf("%s, what there was at the last distribution by a rule", ripe), "%s", t.Amount)
	}
	b.head.Ripe = b.Balance(Surplus) - t.Amount // the head of before comes back with a refusal
	old := b.kept.Offered
	b.kept.Offered = map[string]int64{}
	b.undo = append(b.undo, undo{do: func() { b.kept.Offered = old }})
	return nil
}

// surplusLegs returns the legs of a distribution.
func (b *Book) surplusLegs(dst []Leg, t *Transfer) []Leg {
	hub, rule := b.head.Role == RoleHub, ""
	if t.Order != nil {
		rule = t.Order.Rule
	}
	var names []string
	var weights []int64
	from, to := Surplus, Clearing(Treasury)
	switch {
	case rule == tip.ByAgents && !hub: // the agents have it at the hub
		return dst
	case rule == tip.ByAgents:
		for _, s := range t.Order.Shares {
			names, weights = append(names, Payable(s.Agent)), append(weights, s.Slots)
		}
	case hub:
	case rule == tip.ByClients:
		from, to = Clearing(t.Hub), External("distributed")
		for _, c := range b.dealtWith(t.Hub) {
			names, weights = append(names, Prepaid(c)), append(weights, 1)
		}
	default:
		if from, to = Clearing(t.Hub), External("distributed"); t.Client != "" {
			to = Prepaid(t.Client)
		}
	}
	dst = leg(dst, from, -t.Amount)
	if len(names) == 0 {
		return leg(dst, to, t.Amount)
	}
	for i, part := range parts(t.Amount, weights) {
		dst = leg(dst, names[i], part)
	}
	return dst
}

// dealtWith lists the clients that a hub was ever granted money of, but for those with a budget, sorted.
func (b *Book) dealtWith(hub string) (all []string) {
	for key := range b.kept.Allotted {
		if key[1] == hub && b.Budgets[key[0]] == nil && len(all) < maxBack {
			all = append(all, key[0])
		}
	}
	slices.Sort(all)
	return all
}

// parts shares an amount out by weights above 0. What does not come out even goes to the first ones, a unit
// each.
func parts(amount market.Credits, weights []int64) []market.Credits {
	all, out, left := int64(0), make([]market.Credits, len(weights)), amount
	for _, w := range weights {
		all += w
	}
	for i, w := range weights {
		out[i] = market.Part(amount, w, all)
		left -= out[i]
	}
	for i := 0; left > 0; i++ {
		out[i%len(out)]++
		left--
	}
	return out
}

// shared compares the slots by which a distribution was shared out with those of the rounds (level 4).
func (a *Audit) shared(seq uint64, r *Record) {
	if o := r.Transfer.Order; o != nil && o.Rule == tip.ByAgents && a.book.head.Role == RoleHub &&
		a.book.Ripe() > 0 {
		if want := a.book.Offered(); !slices.Equal(want, o.Shares) {
			a.wrong(LevelAuctions, seq, "I23", r.ID, "shares by the slots offered since the last "+
				"distribution: "+
				clip(fmt.Sprint(want)), "%s", clip(fmt.Sprint(o.Shares)))
		}
	}
}
