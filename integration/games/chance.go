package games

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"souk/hub/regime"
)

// Queue is slots with nothing else about them: tasks come at random, take one each for a time that is random,
// too, and wait in a line where none is free. It is played in place of a hub with engines where many hours
// are to be seen: what chance does there is what chance does to a hub with so many slots.
type Queue struct {
	Slots  int
	Hold   time.Duration // mean time for which a task has a slot
	Steady bool          // all take as long; else most are short and few are long (exponential)
}

const queueIdle = 50 * time.Millisecond // to a first token, where nobody waits

// stay is a task that has a slot.
type stay struct{ until, took float64 }

// line is a queue that is played, with the watch that is told of it.
type line struct {
	Queue
	*regime.Watch
	rng         *rand.Rand
	now, read   float64
	next        float64
	busy        []stay
	queue       []float64 // since when
	rises, told int
}

func (q Queue) play(seed uint64) *line {
	l := &line{Queue: q, Watch: regime.NewWatch(regime.DefaultControl()),
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
	rate, end := factor*float64(l.Slots)/l.Hold.Seconds(), l.now+length
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
			if l.Came(int64(l.now * 1e9)); len(l.busy) < l.Slots {
				l.begin(at)
			} else {
				l.queue = append(l.queue, at)
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

// Rises is how often a regime begins in some hours at 0.8 of what can be served.
func (q Queue) Rises(seed uint64, hours float64) int {
	l := q.play(seed)
	l.at(0.8, hours*3600, func() bool { return false })
	return l.rises
}

// Sees is how long after it twice as much as can be served is seen, an hour after 0.5 of it began; most if it
// is not within most.
func (q Queue) Sees(seed uint64, most time.Duration) time.Duration {
	l := q.play(seed)
	// it begins anywhere between two readings
	l.at(0.5, 3600+5*l.rng.Float64(), func() bool { return false })
	began, seen := l.now, most
	if l.State() != regime.Below {
		return 0
	}
	l.at(2, most.Seconds(), func() bool {
		if l.State() == regime.Below {
			return false
		}
		seen = secondsOf(l.now - began)
		return true
	})
	return seen
}

// Chance is what queues of one kind came to.
type Chance struct {
	Rate    float64   `json:"served"`  // tasks a second, at most
	Enough  float64   `json:"enough"`  // evidence, as a logarithm
	Soonest float64   `json:"soonest"` // seconds after which it is there in the mean, at twice the rate
	Hours   float64   `json:"hours"`   // at 0.8
	Rises   int       `json:"rises"`   // in these
	Sees    []float64 `json:"sees"`    // seconds after which twice the rate was seen, each an hour after 0.5
}

const (
	chanceHours = 40  // of each seed
	chanceTimes = 200 // that twice as much comes
	chanceMost  = 20 * time.Minute
)

// chance plays a queue.
func (q Queue) chance(seed uint64) *Chance {
	rate := float64(q.Slots) / q.Hold.Seconds()
	c := &Chance{Rate: rate, Enough: regime.Fewest(rate), Hours: chanceHours,
		Rises: q.Rises(seed, chanceHours)}
	c.Soonest = c.Enough / (rate * regime.Told)
	for i := range uint64(chanceTimes) {
		c.Sees = append(c.Sees, q.Sees(seed<<32+i+1, chanceMost).Seconds())
	}
	return c
}

func (q Queue) String() string {
	holds := "any, mean"
	if q.Steady {
		holds = "each"
	}
	return fmt.Sprintf("%d slots, %s %v", q.Slots, holds, q.Hold)
}

// queues are those of the page: few slots and many, of short tasks and of long ones.
func queues() (all []job) {
	for _, hold := range []time.Duration{2 * time.Second, 10 * time.Second} {
		for _, slots := range []int{1, 2, 4, 8, 16, 64} {
			q := Queue{Slots: slots, Hold: hold}
			all = append(all, job{queue: &q, parts: []part{{}}})
		}
	}
	q := Queue{Slots: 16, Hold: 2 * time.Second, Steady: true}
	return append(all, job{queue: &q, parts: []part{{}}})
}

// chanceOf is what a hub of so many slots can know.
func chanceOf(m *Made) string {
	if m == nil {
		return notPlayed
	}
	var b strings.Builder
	b.WriteString("| slots, and how long tasks take | served a second | enough | any test needs | " +
		"seen after, median | 95 % | within 15 s | begun by chance |\n|---|---|---|---|---|---|---|---|\n")
	for i := range m.Rows {
		r := &m.Rows[i]
		if r.Chance == nil {
			continue
		}
		in := 0
		for _, at := range r.Chance.Sees {
			if at <= 15 {
				in++
			}
		}
		sees := slices.Sorted(slices.Values(r.Chance.Sees))
		fmt.Fprintf(&b, "| %s | %.1f | e^%.1f | %.0f s | %.0f s | %.0f s | %.0f %% | %d in %.0f h |\n",
			r.Topology, r.Chance.Rate, r.Chance.Enough, r.Chance.Soonest, sees[len(sees)/2],
			sees[len(sees)*95/100],
			100*float64(in)/float64(len(sees)), r.Chance.Rises, r.Chance.Hours)
	}
	return b.String()
}
