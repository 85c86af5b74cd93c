package round

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"souk/market"
)

// Agent is what a round needs of an agent that takes tasks.
type Agent struct {
	ID    market.AgentID
	Class *Class // of agents that are alike
	Rate  *Rate  // of its slots

	Second market.Credits // of a slot, by rounds before: the price that tolls of this round are made of

	Slots, Running int           // it has, and of these are in use
	Free           int           // that may be given away now
	Since          int64         // nanoseconds: when what runs longest and is not overdue began; 0: nothing
	Overdue        int           // tasks in its slots that have run so long that they are not expected to end
	Age            time.Duration // of these, for how long the youngest has run
	Ahead          time.Duration // to compute the prompts that it has in hand

	Seats []market.Seat // see Seat

	beside int // agents of its class that run something, itself among them
	rank   int // how many of these have a task that runs longer than each of its own
}

// Class is what agents have in common that are alike.
type Class struct {
	service, prefill time.Duration // mean time that a task keeps a slot, and that its prompt takes
	agents           []int32       // while seats are set
}

// usualService is how long a task is taken to keep a slot before one has ended.
const usualService = 3 * time.Second

// Service is how long a task keeps a slot of the class, on the mean.
func (c *Class) Service() time.Duration {
	return max(time.Millisecond, cmp.Or(c.service, usualService))
}

// Ended takes in how long a task kept its slot.
func (c *Class) Ended(held time.Duration) { c.service = moved(c.Service(), held) }

// moved is a moving mean over some twenty.
func moved(mean, x time.Duration) time.Duration {
	if x = max(0, min(x, market.MaxIn)); mean == 0 {
		return x
	}
	return mean + (x-mean)/20
}

// Overdue is how many times as long as is usual a task runs that is not expected to end.
const Overdue = 3

const (
	single = 8 // seats of an agent that stand one by one; after these they are taken together
	// to come, of an agent: a plan for more reaches further than any forecast
	mostLater = 1 << 10
)

// Seat sets the seats of all agents for so many tasks: those that are free, one behind the other by the time
// that a prompt takes, and those to come. Ends of agents that are alike are taken together: the first of four
// comes four times as soon as that of one. With n agents alike that run something, of which r do so longer
// than agent a, the k-th seat to come of a comes after k*n + r + 1 such ends. What is overdue ends no sooner
// than it has run so far.
func Seat(agents []Agent, tasks int) {
	for i := range agents {
		c := agents[i].Class
		c.agents = append(c.agents, int32(i))
	}
	for i := range agents {
		c := agents[i].Class
		if int(c.agents[0]) != i {
			continue // it is done with the first of the class
		}
		slices.SortStableFunc(c.agents, func(a, b int32) int {
			x, y := &agents[a], &agents[b]
			if (x.Since == 0) != (y.Since == 0) {
				return cmp.Compare(y.Since, x.Since) // who runs nothing comes last
			}
			return cmp.Compare(x.Since, y.Since)
		})
		run := len(c.agents)
		for run > 0 && agents[c.agents[run-1]].Since == 0 {
			run--
		}
		for rank, k := range c.agents {
			if a := &agents[k]; rank < run {
				a.beside, a.rank = run, rank
			} else {
				a.beside, a.rank = 1, 0
			}
		}
	}
	share := 2*tasks/max(1, len(agents)) + 1
	for i := range agents {
		agents[i].seat(min(tasks, share+agents[i].Slots))
	}
	for i := range agents {
		agents[i].Class.agents = agents[i].Class.agents[:0]
	}
}

// seat sets the seats of an agent, at most so many slots. None to come comes before one that is free.
func (a *Agent) seat(most int) {
	a.Seats = a.Seats[:0]
	free := max(0, a.Ahead)
	each(min(a.Free, most), func(middle, size int) {
		free = max(0, a.Ahead) + times(a.Class.prefill, middle, 1)
		a.add(market.Seat{Slots: size, In: free})
	})
	slots, service := a.Slots-a.Overdue, a.Class.Service()
	if slots < 1 { // nothing else runs
		slots, free = 1, max(free, min(a.Age, market.MaxIn))
	}
	each(min(most-a.Free, mostLater), func(middle, size int) {
		end := times(service, middle*a.beside+a.rank+1, slots*a.beside)
		a.add(market.Seat{Slots: size, In: max(end, free), Later: true})
	})
}

// each shows n slots: the first one by one, then two, four and so on together. The middle one of some stands
// for all.
func each(n int, show func(middle, size int)) {
	for k, size := 0, 1; k < n; k += size {
		if k >= single {
			size = min(2*size, n-k)
		}
		show(k+(size-1)/2, size)
	}
}

// times is d * n / of, at most [market.MaxIn]. None is negative, and of is not 0.
func times(d time.Duration, n, of int) time.Duration {
	hi, lo := bits.Mul64(uint64(d), uint64(n))
	if hi >= uint64(of) {
		return market.MaxIn
	}
	q, _ := bits.Div64(hi, lo, uint64(of))
	return time.Duration(min(q, uint64(market.MaxIn)))
}

// add appends a seat. One of the same time as the last is one with it.
func (a *Agent) add(s market.Seat) {
	s.In = min(s.In.Truncate(time.Microsecond), market.MaxIn)
	if k := len(a.Seats) - 1; k >= 0 && a.Seats[k].In == s.In && a.Seats[k].Later == s.Later {
		a.Seats[k].Slots += s.Slots
		return
	}
	a.Seats = append(a.Seats, s)
}
