package market

import (
	"cmp"
	"fmt"
	"slices"
)

// ValidateTiers judges tiers: each with 1 to [MaxSlots] slots and a toll of 0 or less that falls from tier to
// tier, at most [MaxTiers] of them. It returns their slots together.
func ValidateTiers(tiers []Tier) (slots int, err error) {
	if len(tiers) > MaxTiers {
		return 0, fmt.Errorf("%d tiers, want at most %d", len(tiers), MaxTiers)
	}
	for k, t := range tiers {
		switch {
		case t.Slots < 1 || t.Slots > MaxSlots:
			return 0, fmt.Errorf("tier %d has %d slots, want 1 to %d", k, t.Slots, MaxSlots)
		case t.Toll > 0 || t.Toll < -MaxWorth:
			return 0, fmt.Errorf("tier %d has toll %s, want %s to 0 credits", k, t.Toll, -MaxWorth)
		case k > 0 && t.Toll >= tiers[k-1].Toll:
			return 0, fmt.Errorf("tier %d has toll %s, not below the toll %s of the tier before: slots of "+
				"one charge are one tier",
				k, t.Toll, tiers[k-1].Toll)
		}
		slots += t.Slots
	}
	return slots, nil
}

// AppendFree appends to dst what is left of an agent's tiers where taken slots are in use. Tasks fill the
// tiers in order, so a task that comes to a busy agent meets the higher charges. It stops once least slots
// are free: where least is the number of tasks, more free slots change no round.
func AppendFree(dst, tiers []Tier, taken, least int) []Tier {
	for _, t := range tiers {
		if least <= 0 {
			break
		}
		used := min(taken, t.Slots)
		taken -= used
		if t.Slots -= used; t.Slots > 0 {
			dst = append(dst, t)
			least -= t.Slots
		}
	}
	return dst
}

// TierAt is the tier of an agent's next slot where taken slots are in use: the last tier if all are in use,
// and one without a toll if there are no tiers.
func TierAt(tiers []Tier, taken int) (t Tier) {
	for _, t = range tiers {
		if taken -= t.Slots; taken < 0 {
			break
		}
	}
	return t
}

// Tolls splits up an award's toll. Each part is <= 0: the tier's congestion charge, the regime's toll, what
// else the edge is charged for, and minus the flat fee.
func (r *Round) Tolls(a Award) (congestion, regime Credits, parts Toll, fee Credits) {
	i, ok := r.place(a.Agent)
	if ok && a.Tier >= 0 && a.Tier < len(r.Agents[i].Tiers) {
		congestion = r.Agents[i].Tiers[a.Tier].Toll
	}
	if len(r.Parts) > 0 {
		t, _ := slices.BinarySearchFunc(r.Tasks, a.Task,
			func(t Task, id TaskID) int { return cmp.Compare(t.ID, id) })
		if e, ok := slices.BinarySearchFunc(r.Edges, Edge{Task: t, Agent: i}, compareEdges); ok {
			parts = r.Parts[e]
		}
	}
	return congestion, a.Toll - congestion - parts.Sum() + r.Fee, parts, -r.Fee
}
