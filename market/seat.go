package market

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// MaxIn is the latest that a seat may come: beyond it nobody plans.
const MaxIn = 24 * time.Hour

// ValidateSeats judges seats: each with 1 to [MaxSlots] slots, in the order of time, those that are free
// before those to come, at most [MaxSeats] of them. It returns their slots together.
func ValidateSeats(seats []Seat) (slots int, err error) {
	if len(seats) > MaxSeats {
		return 0, fmt.Errorf("%d seats, want at most %d", len(seats), MaxSeats)
	}
	for k, s := range seats {
		switch {
		case s.Slots < 1 || s.Slots > MaxSlots:
			return 0, fmt.Errorf("seat %d has %d slots, want 1 to %d", k, s.Slots, MaxSlots)
		case s.In < 0 || s.In > MaxIn:
			return 0, fmt.Errorf("seat %d comes in %v, want 0 to %v", k, s.In, MaxIn)
		case k > 0 && s.Later == seats[k-1].Later && s.In < seats[k-1].In:
			return 0, fmt.Errorf("seat %d comes in %v, sooner than the seat before it", k, s.In)
		case k > 0 && !s.Later && seats[k-1].Later:
			return 0, fmt.Errorf("seat %d is free, and the seat before it is to come", k)
		}
		slots += s.Slots
	}
	return slots, nil
}

// Delay returns the cost of a time to the task: Second for each second, rounded up, at most [MaxCredits];
// that where it is longer than Within.
func (t *Task) Delay(in time.Duration) Credits {
	if t.Within > 0 && in > t.Within {
		return MaxCredits
	}
	if t.Second <= 0 || in <= 0 {
		return 0
	}
	return PerSecond(t.Second, in)
}

// PerSecond returns the cost of a time at a price a second, rounded up, at most [MaxCredits]. Neither may be
// negative.
func PerSecond(second Credits, of time.Duration) Credits {
	const whole = uint64(time.Second)
	hi, lo := bits.Mul64(uint64(second), uint64(of))
	lo, carry := bits.Add64(lo, whole-1, 0)
	switch hi += carry; {
	case hi == 0: // as nearly always, and ten times as fast
		return Credits(lo / whole)
	case hi >= whole:
		return MaxCredits
	}
	q, _ := bits.Div64(hi, lo, whole)
	return Credits(min(q, uint64(MaxCredits)))
}

// Weight returns an edge's part in the plan when its task is given a seat: the value at the time that it
// comes, less cost and fee, and the toll.
func (r *Round) Weight(e Edge, seat int) Credits {
	return e.Value - r.Tasks[e.Task].Delay(r.Agents[e.Agent].Seats[seat].In) - e.Cost + e.Toll - r.Fee
}

// String is a seat for people: free, or when it comes.
func (s Seat) String() string {
	if s.Later {
		return fmt.Sprintf("free in %v", s.In.Round(time.Millisecond))
	}
	if s.In > 0 {
		return fmt.Sprintf("free, behind %v of prompts", s.In.Round(100*time.Microsecond))
	}
	return "free"
}

// Own is the part of an award's toll that is not charged.
func (r *Round) Own(a Award) Credits {
	i, _ := r.place(a.Agent)
	t, _ := slices.BinarySearchFunc(r.Tasks, a.Task,
		func(t Task, id TaskID) int { return cmp.Compare(t.ID, id) })
	if e, ok := slices.BinarySearchFunc(r.Edges, Edge{Task: t, Agent: i}, compareEdges); ok {
		return r.Edges[e].Own
	}
	return 0
}
