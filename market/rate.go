package market

import (
	"math/bits"
	"time"
)

// Rate is the price of an agent's slots, as earlier rounds taught it. All of it is whole numbers, so that
// whoever reads the rounds comes to the same.
type Rate struct {
	Price  Credits  // a second, when it was learned last
	At     int64    // Unix milliseconds: then
	Last   Want     // of the round then, a second
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
	return part(c>>min(63, since/learns), learns, learns+since%learns)
}

// part is c * n / of, rounded down; n and of are not negative, and n is at most of.
func part(c Credits, n, of int64) Credits {
	hi, lo := bits.Mul64(uint64(max(0, c)), uint64(n))
	q, _ := bits.Div64(hi, lo, uint64(max(1, of)))
	return Credits(q)
}

// towards moves a mean to x, in a second half of the way, and after each second more half of the rest: so a
// plan that wants nothing leaves a price as it is read.
func towards(mean, x Credits, dt int64) Credits {
	if x >= mean {
		return x - waned(x-mean, dt)
	}
	return x + waned(mean-x, dt) // rounded down: a nano-credit would stay for ever
}

// without returns what one more slot would have added had a client not been there.
func (w *Want) without(client string) Credits {
	if client == w.Client {
		return w.Others
	}
	return w.More
}

// second divides a want by the time for which tasks keep a slot.
func (w *Want) second(service time.Duration) Want {
	return Want{perSecond(w.More, service), perSecond(min(w.More, w.Others), service), w.Client}
}

// learn takes in what one more slot would have added to the plan of a round. The price moves to what this
// plan and the last one on record would have had of it: who is there for one plan, and cancelled before the
// next, moves nothing.
func (r *Rate) learn(at int64, service time.Duration, want Want) {
	if at < r.At {
		*r = Rate{} // the clock was set back: see PriceAt
	}
	dt := at - r.At
	if r.At == 0 {
		dt = 0
	}
	r.At = at
	w := want.second(service)
	both := min(w.More, r.Last.More)
	r.Price = towards(r.Price, both, dt)
	less := func(client string) Credits {
		return both - min(w.without(client), r.Last.without(client))
	}
	kept, known := r.Excess[:0], [2]bool{}
	for _, x := range r.Excess {
		known[0], known[1] = known[0] || x.Client == w.Client, known[1] || x.Client == r.Last.Client
		if x.Price = min(towards(x.Price, less(x.Client), dt), r.Price); x.Price > 0 {
			kept = append(kept, x)
		}
	}
	r.Excess = kept
	if !known[0] {
		r.owe(Excess{w.Client, min(towards(0, less(w.Client), dt), r.Price)})
	}
	if last := r.Last.Client; !known[1] && last != w.Client {
		r.owe(Excess{last, min(towards(0, less(last), dt), r.Price)})
	}
	r.Last = w
}

// owe remembers a client that moves the price. Of too many who moved it least counts with the others.
func (r *Rate) owe(x Excess) {
	if x.Price <= 0 {
		return
	}
	if len(r.Excess) < mostExcess {
		r.Excess = append(r.Excess, x)
		return
	}
	least := 0
	for i := range r.Excess {
		if r.Excess[i].Price < r.Excess[least].Price {
			least = i
		}
	}
	if r.Excess[least].Price < x.Price {
		r.Excess[least] = x
	}
}

// perSecond divides an amount by a time in seconds, at most [MaxWorth].
func perSecond(c Credits, of time.Duration) Credits {
	of = max(of, time.Millisecond)
	hi, lo := bits.Mul64(uint64(max(0, c)), uint64(time.Second))
	if hi >= uint64(of) {
		return MaxWorth
	}
	q, _ := bits.Div64(hi, lo, uint64(of))
	return Credits(min(q, uint64(MaxWorth)))
}
