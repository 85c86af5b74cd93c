package round

import (
	"cmp"
	"slices"
	"time"

	"souk/market"
)

// Agent is what a round needs of an agent that takes tasks.
type Agent struct {
	ID    market.AgentID
	Class *Class // of agents that are alike
	Rate  *Rate  // of its slots

	Slots, Running int           // it has, and of these are in use
	Free           int           // that may be given away now
	Since          int64         // nanoseconds: when the task began that runs longest; 0: nothing runs
	Ahead          time.Duration // to compute the prompts that it has in hand

	Seats []market.Seat // see Seat

	rank int // how many of its class have a task that runs longer than each of its own
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

const (
	single = 8 // seats to come of an agent that stand one by one; after these they are taken together
	// of an agent: a plan for more reaches further than any forecast
	mostLater = 1 << 10
)

// Seat sets the seats of all agents for so many tasks: those that are free, one behind the other by the time
// that a prompt takes, and those to come. Ends of agents that are alike are taken together: the first of four
// comes four times as soon as that of one. With n agents alike, of which r run something longer than agent a,
// the k-th seat to come of a comes after k*n + r + 1 such ends.
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
		for rank, k := range c.agents {
			agents[k].rank = rank
		}
	}
	each := 2*tasks/max(1, len(agents)) + 1
	for i := range agents {
		agents[i].seat(min(tasks, max(agents[i].Slots, each+agents[i].Slots)))
	}
	for i := range agents {
		agents[i].Class.agents = agents[i].Class.agents[:0]
	}
}

// seat sets the seats of an agent, at most so many slots.
func (a *Agent) seat(most int) {
	a.Seats = a.Seats[:0]
	in := a.Ahead
	for range min(a.Free, most) {
		a.add(market.Seat{Slots: 1, In: in})
		in += a.Class.prefill
	}
	n, service := len(a.Class.agents), a.Class.Service()
	for k, size := 0, 1; k < min(most-a.Free, mostLater); k += size {
		if k >= single {
			size *= 2
		}
		middle := k + (size-1)/2
		end := service * time.Duration(middle*n+a.rank+1) / time.Duration(max(1, a.Slots)*n)
		a.add(market.Seat{Slots: size, In: max(end, a.Ahead), Later: true})
	}
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
