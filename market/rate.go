package market

import (
	"math/bits"
	"slices"
	"time"
)

// Rate is the price of an agent's slots, as earlier rounds taught it. All of it is whole numbers, so that
// whoever reads the rounds comes to the same.
type Rate struct {
	Price  Credits  // a second, when it was learned last
	At     int64    // Unix milliseconds: then
	Excess []Excess // clients without whom the price were lower
}

// Excess says how much lower an agent's price would be had a client not been there.
type Excess struct {
	Client string
	Price  Credits
}

const (
	learns     = int64(time.Second / time.Millisecond) // over which prices move
	mostExcess = 64                                    // clients; of more the price counts in full
)

// PriceAt returns the price of a second of a slot at a time: half as much with each second since that was
// learned. Before that, by a clock that was set back, it is not known to cost anything.
func (r Rate) PriceAt(at int64) Credits {
	if at < r.At || r.Price == 0 {
		return 0
	}
	return waned(r.Price, at-r.At)
}

// Without returns that price had a client not been there.
func (r Rate) Without(at int64, client string) Credits {
	for i := range r.Excess {
		if r.Excess[i].Client == client {
			return r.Less(at, i)
		}
	}
	return r.PriceAt(at)
}

// Less returns that price without the client of an Excess.
func (r Rate) Less(at int64, excess int) Credits {
	if at < r.At {
		return 0
	}
	return waned(r.Price-min(r.Price, r.Excess[excess].Price), at-r.At)
}

// waned is an amount so much time after it was learned: half of it after a second, and after each second more
// half of the rest. So a day later nobody pays for what was wanted once.
func waned(c Credits, since int64) Credits {
	return Part(c>>min(63, since/learns), learns, learns+since%learns)
}

// Part is c * n / of, rounded down, at most [MaxCredits]; n and of are not negative.
func Part(c Credits, n, of int64) Credits {
	hi, lo := bits.Mul64(uint64(max(0, c)), uint64(n))
	if of = max(1, of); hi >= uint64(of) {
		return MaxCredits
	}
	q, _ := bits.Div64(hi, lo, uint64(of))
	return Credits(min(q, uint64(MaxCredits)))
}

// step is a price after a round so long after the one before, by what one more slot would have added to its
// plan. It moves towards that, half of the way in a second, and no more in one step.
//
// Where somebody waits beside a free slot of a dearer agent it does not wane: it rises by half of that in a
// second, or by half of what it is if that is more, as long as it is below the price at which the free slot
// were as good. Else it would be what those lose who wait, and what the seat to come costs them: so they
// would wait for what is cheap up to where a dearer agent costs them no more, as long as others come who do
// the same. It does not go there at once, since a price that keeps somebody from a wait of a moment costs
// more than the moment.
func step(price, more, beside Credits, dt int64) Credits {
	half := func(c Credits) Credits { return c - waned(c, min(dt, learns)) }
	stands := waned(price, max(0, dt-learns)) // before nobody knows what was wanted
	return max(waned(price, dt)+half(more), min(stands+half(max(more, stands)), beside))
}

// learn takes in what one more slot would have added to the plan of a round. What a client adds to the price
// is what it is more than had it learned the same rounds without that client.
func (r *Rate) learn(at int64, w Want) {
	if at < r.At {
		*r = Rate{} // the clock was set back: see PriceAt
	}
	dt := at - r.At
	if r.At == 0 {
		dt = 0
	}
	before := r.Price
	r.At, r.Price = at, step(before, w.More.All, w.Beside.All, dt)
	moved := func(client string, excess Credits) Excess {
		without := step(before-excess, w.More.without(client), w.Beside.without(client), dt)
		return Excess{client, r.Price - without}
	}
	kept := r.Excess[:0]
	for _, x := range r.Excess {
		if x = moved(x.Client, x.Price); x.Price > 0 {
			kept = append(kept, x)
		}
	}
	for _, c := range [2]string{w.More.Client, w.Beside.Client} {
		known := slices.ContainsFunc(kept, func(x Excess) bool { return x.Client == c })
		if x := moved(c, 0); x.Price > 0 && !known {
			kept = append(kept, x)
		}
	}
	r.Excess = kept
	for len(r.Excess) > mostExcess { // who moved it least counts with the others
		least := 0
		for i := range r.Excess {
			if r.Excess[i].Price < r.Excess[least].Price {
				least = i
			}
		}
		r.Excess = slices.Delete(r.Excess, least, least+1)
	}
}

// above reports whether an amount is more than so much a second for a time, without the time that it takes to
// divide.
func above(c, second Credits, of time.Duration) bool {
	hi, lo := bits.Mul64(uint64(max(0, c)), uint64(time.Second))
	least, low := bits.Mul64(uint64(max(0, second)), uint64(max(of, time.Millisecond)))
	return hi > least || hi == least && lo > low
}

// perSecond divides an amount by a time in seconds, at most [MaxWorth].
func perSecond(c Credits, of time.Duration) Credits {
	return min(Part(c, int64(time.Second), int64(max(of, time.Millisecond))), MaxWorth)
}
