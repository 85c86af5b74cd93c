package games

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"souk/bus/exact"
	"souk/hub/regime"
)

// Queue is a bare queueing system: tasks come at random, take one slot each for a time that is random, too,
// and wait in a line where none is free. It stands in for a hub with engines where many hours are to be
// played: chance acts on it as on a hub with so many slots.
type Queue struct {
	Slots  int
	Hold   time.Duration // mean time for which a task has a slot
	Steady bool          // all take as long; else most are short and few are long (exponential)
	Burst  int           // so many tasks come at once; 0: one by one
}

const queueIdle = 50 * time.Millisecond // to a first token, where nobody waits

// stay is a task that has a slot.
type stay struct{ until, took float64 }

// line is a queue that is played, with the watch that is told of it.
type line struct {
	Queue
	*regime.Watch
	rng       *rand.Rand
	now, read float64
	next      float64
	busy      []stay
	queue     []float64 // since when
	rises     int
}

func (q Queue) play(seed uint64) *line {
	l := &line{Queue: q, Watch: regime.NewWatch(),
		rng: rand.New(rand.NewPCG(seed, 0x71)), read: regime.Every.Seconds()}
	l.Due(1)
	return l
}

func secondsOf(s float64) time.Duration { return time.Duration(s * 1e9) }

func (l *line) begin(came float64) {
	took := l.Hold.Seconds()
	if !l.Steady {
		took *= l.rng.ExpFloat64()
	}
	l.busy = append(l.busy, stay{l.now + took, took})
	l.Served(secondsOf(l.now-came), queueIdle, queueIdle)
}

// at plays for some seconds, where so many times what can be served comes; seen is called after each reading,
// until it says that this is enough.
func (l *line) at(factor, length float64, seen func() (enough bool)) {
	burst := max(1, l.Burst)
	rate, end := factor*float64(l.Slots)/l.Hold.Seconds()/float64(burst), l.now+length
	l.next = l.now + l.rng.ExpFloat64()/rate
	for {
		first := -1
		for i := range l.busy {
			if first < 0 || l.busy[i].until < l.busy[first].until {
				first = i
			}
		}
		at := min(l.next, l.read, end)
		switch {
		case first >= 0 && l.busy[first].until <= at:
			l.now = l.busy[first].until
			l.Ended(secondsOf(l.busy[first].took))
			if l.busy = slices.Delete(l.busy, first, first+1); len(l.queue) > 0 {
				l.begin(l.queue[0])
				l.queue = l.queue[1:]
			}
		case at == end:
			l.now = end
			return
		case at == l.next:
			l.now = at
			l.next += l.rng.ExpFloat64() / rate
			for range burst {
				if l.Came(int64(l.now * 1e9)); len(l.busy) < l.Slots {
					l.begin(at)
				} else {
					l.queue = append(l.queue, at)
				}
			}
		default:
			l.now = at
			l.read += regime.Every.Seconds()
			now, before := int64(at*1e9)+2, l.State()
			l.Room(now, l.Slots)
			for _, came := range l.queue {
				l.Waits(secondsOf(at-came), 0, queueIdle, 1)
			}
			l.Read(now)
			if l.State() > before {
				l.rises++
			}
			if seen() {
				return
			}
		}
	}
}

// Rises counts how often a regime begins in some hours at 0.8 of the capacity.
func (q Queue) Rises(seed uint64, hours float64) int {
	l := q.play(seed)
	l.at(calm, hours*3600, func() bool { return false })
	return l.rises
}

const calm = 0.8 // of what can be served: no regime

// Sees returns how long it takes until a regime begins at a load of after times the capacity, following an
// hour at before; most if none does within most. It is no time where one was there before.
func (q Queue) Sees(seed uint64, before, after float64, most time.Duration) time.Duration {
	l := q.play(seed)
	// it begins anywhere between two readings
	l.at(before, 3600+5*l.rng.Float64(), func() bool { return false })
	began, seen := l.now, most
	if l.State() != regime.Below {
		return 0
	}
	l.at(after, most.Seconds(), func() bool {
		if l.State() == regime.Below {
			return false
		}
		seen = secondsOf(l.now - began)
		return true
	})
	return seen
}

// Chance holds the results of queues of one kind.
type Chance struct {
	Rate    float64   `json:"served"`  // tasks a second, at most
	Enough  float64   `json:"enough"`  // evidence, as a logarithm
	Soonest float64   `json:"soonest"` // seconds after which it is there in the mean, at 2 after 0.5
	Hours   float64   `json:"hours"`   // at 0.8
	Rises   int       `json:"rises"`   // in these
	Sees    []float64 `json:"sees"`    // seconds after which twice the rate was seen, each an hour after 0.5
	Later   []float64 `json:"later"`   // the same after 0.8
	Wrong   int       `json:"wrong"`   // times that 0.8 was taken for more after 0.5, of as many as Later
}

const (
	chanceHours = 40  // of each seed
	chanceTimes = 200 // that twice as much comes after 0.5
	chanceFewer = 50  // times after 0.8, and 0.8 after 0.5
	chanceMost  = 20 * time.Minute
)

// told returns the mean evidence that each task served gives for a load of twice the capacity, at that load,
// where the load before was a given part of it: no test that is wrong as seldom sees it sooner than after
// regime.Fewest/told tasks (Lorden).
func told(before float64) float64 { return float64(2*exact.Ln(2/before)) - (2 - before) }

// chance plays a queue.
func (q Queue) chance(seed uint64) *Chance {
	rate := float64(q.Slots) / q.Hold.Seconds()
	c := &Chance{Rate: rate, Enough: regime.Fewest(rate), Hours: chanceHours,
		Rises: q.Rises(seed, chanceHours)}
	alone := rate / float64(max(1, q.Burst)) // what comes at once tells as much as one task
	c.Soonest = regime.Fewest(alone) / (alone * told(0.5))
	for i := range uint64(chanceTimes) {
		c.Sees = append(c.Sees, q.Sees(seed<<32+i+1, 0.5, 2, chanceMost).Seconds())
	}
	for i := range uint64(chanceFewer) {
		c.Later = append(c.Later, q.Sees(seed<<32+i+1, calm, 2, chanceMost).Seconds())
		if q.Sees(seed<<32+i+1, 0.5, calm, chanceMost) < chanceMost {
			c.Wrong++
		}
	}
	return c
}

func (q Queue) String() string {
	holds := "any, mean"
	if q.Steady {
		holds = "each"
	}
	name := fmt.Sprintf("%d slots, %s %v", q.Slots, holds, q.Hold)
	if q.Burst > 1 {
		name += fmt.Sprintf(", %d at once", q.Burst)
	}
	return name
}

// queues lists the page's queues: few slots and many, of short tasks and of long ones.
func queues() (all []job) {
	for _, hold := range []time.Duration{2 * time.Second, 10 * time.Second} {
		for _, slots := range []int{1, 2, 4, 8, 16, 64} {
			q := Queue{Slots: slots, Hold: hold}
			all = append(all, job{queue: &q, parts: []part{{}}})
		}
	}
	for _, q := range []Queue{{Slots: 16, Hold: 2 * time.Second, Steady: true},
		{Slots: 16, Hold: 2 * time.Second, Burst: 4}, {Slots: 16, Hold: 10 * time.Second, Burst: 4}} {
		all = append(all, job{queue: &q, parts: []part{{}}})
	}
	return all
}

// chanceOf describes what a hub of so many slots can know.
func chanceOf(m *Made) string {
	if m == nil {
		return notPlayed
	}
	var b strings.Builder
	b.WriteString("| slots, and how long tasks take | served a second | enough | any test needs | " +
		"seen after, median | 95 % | within 15 s | after 0.8, median | begun by chance | wrong after 0.5 |\n" +
		"|---|---|---|---|---|---|---|---|---|---|\n")
	for i := range m.Rows {
		r := &m.Rows[i]
		c := r.Chance
		if c == nil {
			continue
		}
		in := 0
		for _, at := range c.Sees {
			if at <= 15 {
				in++
			}
		}
		sees, later := slices.Sorted(slices.Values(c.Sees)), slices.Sorted(slices.Values(c.Later))
		fmt.Fprintf(&b, "| %s | %.1f | e^%.1f | %.0f s | %.0f s | %.0f s | %.0f %% | %.0f s | %d in %.0f h | "+
			"%d of %d |\n", r.Topology, c.Rate, c.Enough, c.Soonest, sees[len(sees)/2],
			sees[len(sees)*95/100], 100*float64(in)/float64(len(sees)), later[len(later)/2], c.Rises, c.Hours,
			c.Wrong, len(later))
	}
	return b.String()
}
