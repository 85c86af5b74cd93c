package market

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
)

// PricingPosted serves clients one after another at published prices: nobody's bid moves anybody's price. It is what thin markets
// use, and what a hub may fall back to, under its own name, when a solve had to be stopped: a round without prices is never
// passed off as one with.
const PricingPosted = "posted"

// ClearPosted clears a round whose rule says [PricingPosted]. Clients come one after another in an order drawn from the round before and
// from their names, with no bid in it; each gets, of the slots that are left, those that suit its tasks best together, and pays cost
// and toll: slot prices are 0. So no client gains by lying, whatever it says about however many tasks of its own name; one
// that comes under several names has several places in the line. The same round gives the same outcome on every machine. It
// fails only on a round that [Round.Validate] would refuse under vcg, or on another pricing.
func ClearPosted(r Round) (Outcome, error) {
	if err := r.validatePosted(); err != nil {
		return Outcome{}, err
	}
	ws := workspaces.Get().(*workspace)
	defer workspaces.Put(ws)
	l := &ws.layout
	l.of(&r)
	seed := r.postedSeed()
	left := slices.Clone(l.slots)
	match := make([]int32, len(r.Tasks))
	for t := range match {
		match[t] = -1
	}
	for _, tasks := range r.line(seed) {
		if err := ws.choose(&r, seed, tasks, left, match); err != nil {
			return Outcome{}, fmt.Errorf("round %s-%d: %w", clip(r.Domain), r.Number, err)
		}
	}
	var o Outcome
	for t, a := range match {
		if a < 0 {
			continue
		}
		e, ok := l.edgeOf(&r, int32(t), a)
		if !ok {
			panic("market: a task sits where it has no edge")
		}
		award := r.award(e, l.seats[a], 0)
		o.Welfare += award.Value - award.Cost + award.Toll
		o.Awards = append(o.Awards, award)
	}
	return o, nil
}

// CheckPosted verifies that o is the outcome of a posted round. There is nothing shorter to check than the line itself, so it goes
// down the line again. Its errors are ErrOutcome, or those of [ClearPosted].
func CheckPosted(r Round, o Outcome) error {
	want, err := ClearPosted(r)
	if err != nil {
		return err
	}
	if !bytes.Equal(o.AppendCanonical(nil), want.AppendCanonical(nil)) {
		return fmt.Errorf("round %s-%d: %w: the line of clients gives another", clip(r.Domain), r.Number, ErrOutcome)
	}
	return nil
}

func (r *Round) validatePosted() error {
	if r.Rule.Pricing != PricingPosted {
		return fmt.Errorf("round %s-%d: rule: pricing is %q, want %q", clip(r.Domain), r.Number, r.Rule.Pricing, PricingPosted)
	}
	as := *r
	as.Rule.Pricing = PricingVCG // every other field is judged alike
	return as.Validate()
}

// postedSeed holds no bid: else a client could look for the bid that takes it to the front.
func (r *Round) postedSeed() [32]byte {
	buf := append([]byte("souk posted 1\n"), r.Prev[:]...)
	buf = binary.BigEndian.AppendUint64(buf, r.Number)
	return sha256.Sum256(append(buf, r.Domain...))
}

func postedKey(seed [32]byte, kind byte, name string, tier int) [32]byte {
	buf := append(append(make([]byte, 0, len(seed)+2+len(name)), seed[:]...), kind, byte(tier))
	return sha256.Sum256(append(buf, name...))
}

// line lists the tasks of every client, clients in their order. A task without a client stands for itself.
func (r *Round) line(seed [32]byte) [][]int32 {
	type spot struct {
		key   [32]byte
		tasks []int32
	}
	index := make(map[string]int)
	var spots []spot
	for t, task := range r.Tasks {
		kind, name := byte('c'), task.Client
		if name == "" {
			kind, name = 't', string(task.ID)
		}
		id := string(kind) + name
		i, ok := index[id]
		if !ok {
			i = len(spots)
			index[id] = i
			spots = append(spots, spot{key: postedKey(seed, kind, name, 0)})
		}
		spots[i].tasks = append(spots[i].tasks, int32(t))
	}
	slices.SortFunc(spots, func(a, b spot) int {
		return cmp.Or(bytes.Compare(a.key[:], b.key[:]), cmp.Compare(a.tasks[0], b.tasks[0]))
	})
	out := make([][]int32, len(spots))
	for i, s := range spots {
		out[i] = s.tasks
	}
	return out
}

// choose gives one client what suits its tasks best of what is left. Equal choices are told apart by a hash without a bid in it.
func (ws *workspace) choose(r *Round, seed [32]byte, tasks, left, match []int32) error {
	l, p := &ws.layout, &ws.less
	p.Off, p.Seat, p.Weight, p.Slots = append(p.Off[:0], 0), p.Seat[:0], p.Weight[:0], nil
	// Only the seats that somebody wants, so that a client costs what its own edges cost.
	var seats []int32
	for _, t := range tasks {
		for _, a := range l.seat[l.off[t]:l.off[t+1]] {
			if left[a] > 0 {
				seats = append(seats, a)
			}
		}
	}
	slices.Sort(seats)
	seats = slices.Compact(seats)
	if len(seats) == 0 {
		return nil
	}
	for _, a := range seats {
		p.Slots = append(p.Slots, left[a])
	}
	for _, t := range tasks {
		for i := l.off[t]; i < l.off[t+1]; i++ {
			if at, ok := slices.BinarySearch(seats, l.seat[i]); ok {
				p.Seat, p.Weight = append(p.Seat, int32(at)), append(p.Weight, l.weight[i])
			}
		}
		p.Off = append(p.Off, int32(len(p.Seat)))
	}
	s := &ws.again
	if err := s.Solve(p, nil); err != nil {
		return err
	}
	s.Settle(p, func(task, at int32) uint64 {
		where := l.seats[seats[at]]
		t := postedKey(seed, 't', string(r.Tasks[tasks[task]].ID), 0)
		a := postedKey(seed, 'a', string(r.Agents[where.agent].Agent), int(where.tier))
		sum := sha256.Sum256(append(t[:], a[:]...))
		return binary.BigEndian.Uint64(sum[:])
	})
	for i, at := range s.Match {
		if at >= 0 {
			match[tasks[i]] = seats[at]
			left[seats[at]]--
		}
	}
	return nil
}
