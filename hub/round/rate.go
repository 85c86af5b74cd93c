package round

import (
	"math/bits"
	"time"

	"souk/market"
)

// Rate is what the slots of an agent cost, as earlier rounds taught it.
type Rate struct {
	price   market.Credits // a second, when it was learned last
	at      int64          // nanoseconds: then
	density market.Credits // mean value less cost, a second, of what begins there
	busy    time.Duration  // of the last some seconds, those in which it computed prompts; fades
	busyAt  int64
	excess  []excess // clients without whom the price were lower
}

// excess is by how much an agent's price would be lower had a client not been there.
type excess struct {
	client string
	price  market.Credits
}

const (
	learns     = time.Second // over which prices move
	fades      = 5 * time.Second
	mostExcess = 64 // clients; of more the price counts in full
	// what is worth more a second than so many times the mean counts as that
	outlier = 10
	full    = 1 << 16
)

// Price is what a second of a slot costs: less with each second since that was learned.
func (r *Rate) Price(now int64) market.Credits { return waned(r.price, now-r.at) }

// Without is what it would cost had a client not been there.
func (r *Rate) Without(now int64, client string) market.Credits {
	for i := range r.excess {
		if x := &r.excess[i]; x.client == client {
			return waned(max(0, r.price-x.price), now-r.at)
		}
	}
	return r.Price(now)
}

// waned is an amount so much time after it was learned.
func waned(c market.Credits, since int64) market.Credits {
	return part(c, int64(learns), int64(learns)+max(0, since))
}

// part is c * n / of, rounded down; n and of are not negative, and n is at most of.
func part(c market.Credits, n, of int64) market.Credits {
	hi, lo := bits.Mul64(uint64(max(0, c)), uint64(n))
	q, _ := bits.Div64(hi, lo, uint64(max(1, of)))
	return market.Credits(q)
}

// towards moves a mean to x in a time of which it takes a second to come half of the way.
func towards(mean, x market.Credits, dt int64) market.Credits {
	of := dt + int64(learns)
	if x >= mean {
		return mean + part(x-mean, dt, of)
	}
	return x + part(mean-x, int64(learns), of) // rounded down: a nano-credit would stay for ever
}

// Learn takes in what one more slot would have added to the plan of a round: more, of which a client's tasks
// would have had all but others.
func (r *Rate) Learn(now int64, service time.Duration, client string, more, others market.Credits) {
	dt := now - r.at
	if r.at == 0 || dt < 0 {
		dt = 0
	}
	r.at = now
	a, b := perSecond(more, service), perSecond(others, service)
	r.price = towards(r.price, a, dt)
	known := false
	kept := r.excess[:0]
	for _, x := range r.excess {
		less := market.Credits(0)
		if x.client == client {
			known, less = true, a-b
		}
		if x.price = min(towards(x.price, less, dt), r.price); x.price > 0 {
			kept = append(kept, x)
		}
	}
	clear(r.excess[len(kept):])
	if r.excess = kept; known || a <= b {
		return
	}
	switch x := (excess{client, min(towards(0, a-b, dt), r.price)}); {
	case x.price <= 0:
	case len(kept) < mostExcess:
		r.excess = append(r.excess, x)
	default: // who moved it least counts with the others
		least := 0
		for i := range kept {
			if kept[i].price < kept[least].price {
				least = i
			}
		}
		if kept[least].price < x.price {
			kept[least] = x
		}
	}
}

// perSecond is what an amount comes to a second, at most [market.MaxWorth].
func perSecond(c market.Credits, of time.Duration) market.Credits {
	of = max(of, time.Millisecond)
	hi, lo := bits.Mul64(uint64(max(0, c)), uint64(time.Second))
	if hi >= uint64(of) {
		return market.MaxWorth
	}
	q, _ := bits.Div64(hi, lo, uint64(of))
	return market.Credits(min(q, uint64(market.MaxWorth)))
}

// Begun takes in a task that begins: what it is worth there beyond its cost, and for how long its prompt is
// computed.
func (r *Rate) Begun(now int64, c *Class, bare market.Credits, prefill time.Duration) {
	x := perSecond(bare, c.Service())
	if r.density == 0 {
		r.density = x
	} else {
		r.density += (min(x, outlier*r.density) - r.density) / 20
	}
	r.busy, r.busyAt = min(r.busyBy(now)+max(0, min(prefill, market.MaxIn)), market.MaxIn), now
	c.prefill = moved(c.prefill, prefill)
}

func (r *Rate) busyBy(now int64) time.Duration {
	since := time.Duration(max(0, now-r.busyAt))
	return time.Duration(float64(r.busy) * float64(fades) / float64(fades+since))
}

// stalls is what a second of a prompt costs each of those who run at an agent, where slots are not short.
func (r *Rate) stalls(now int64) market.Credits {
	u := int64(min(full, full*r.busyBy(now)/fades))
	return part(part(r.density, u, full), u, full)
}

// Owes reports whether the price counts a client's tasks.
func (r *Rate) Owes(client string) bool {
	for i := range r.excess {
		if r.excess[i].client == client {
			return true
		}
	}
	return false
}
