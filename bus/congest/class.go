package congest

import (
	"math"
	"slices"
	"time"

	"souk/market"
)

// Classes are agents that should be equal, by class: what one of them showed is expected of all. No agent
// says much of the others: a class is the median of those that were seen enough, and of what an engine that
// nobody has measured is taken for. An agent that is far from its class is believed to be as it showed.
type Classes[K comparable] struct{ by map[K]*Class }

// Class is what was seen of the agents that should be equal.
type Class struct {
	slope, output float64 // of all its members, in steps
	members       []*Agent
	since         int // answers since it was judged
}

// Agent is what was seen of one agent.
type Agent struct {
	class *Class
	Line  Line
	Seen  int // answers, as many as enough at most
	off   bool

	running int   // tasks that are in hand
	at      int64 // since when
	spent   int64 // by all tasks until then, in nanoseconds
}

const (
	// enough answers of an agent say how load slows it
	enough = 20
	// far is how many times its class, or what part, an agent is that is not of it
	far = 2
	// an answer takes at most so many times what the line says, or that part, as it is counted
	absurd = 3
	// believed is by how much the time between tokens may be more, by the hub's own clock, than an agent says
	believed = 1.25
	delays   = time.Millisecond
	// leastOutput is of how many tokens an answer must be for the hub's clock to tell the time between them
	leastOutput = 16
	// beyond these nothing is believed
	mostOthers, mostITL = 1 << 16, 100 * time.Second
)

// Enter puts an agent into the class of a key. It reports whether it was in another.
func (cs *Classes[K]) Enter(k K, a *Agent) bool {
	c := cs.by[k]
	if c == nil {
		if cs.by == nil {
			cs.by = map[K]*Class{}
		}
		for k, c := range cs.by {
			if len(c.members) == 0 {
				delete(cs.by, k)
			}
		}
		c = &Class{slope: stepped(priorSlope), output: priorOutput}
		cs.by[k] = c
	}
	if a.class == c {
		return false
	}
	a.Leave()
	a.class, c.members = c, append(c.members, a)
	c.judge()
	return true
}

// Leave takes an agent out of its class.
func (a *Agent) Leave() {
	if c := a.class; c != nil {
		c.members = slices.DeleteFunc(c.members, func(b *Agent) bool { return a == b })
		a.class = nil
		c.judge()
	}
}

// Runs says how many tasks the agent has in hand from now on, in nanoseconds.
func (a *Agent) Runs(now int64, tasks int) {
	a.spent, a.at, a.running = a.Spent(now), now, tasks
}

// Spent is how long all its tasks took until now, together. What is spent while a task runs says how many ran
// beside it.
func (a *Agent) Spent(now int64) int64 { return a.spent + max(0, now-a.at)*int64(a.running) }

// Served is an answer, as it was served.
type Served struct {
	Spent  int64         // Agent.Spent, when it was handed out
	Took   time.Duration // since, by the hub's clock
	TTFT   time.Duration // as the agent says
	ITL    time.Duration // the same
	Output int
}

// Learn takes in an answer. It reports whether the tiers of its class, or of this agent, are others now.
func (a *Agent) Learn(now int64, s Served) bool {
	if s.ITL <= 0 || s.Took <= 0 || s.Output < 2 {
		return false
	}
	others := min(max(0, float64(a.Spent(now)-s.Spent)/float64(s.Took)-1), mostOthers)
	itl := float64(min(s.ITL, mostITL))
	if s.Output >= leastOutput { // no agent gains by saying that it is faster than it is
		by := min(float64(s.Took-min(s.Took, max(0, s.TTFT)))/float64(s.Output-1), float64(mostITL))
		if itl > by+float64(delays) {
			itl = by + float64(delays)
		} else if by > float64(believed*itl)+float64(delays) {
			itl = by
		}
	}
	if a.Seen >= enough {
		f := a.Line.at(others)
		itl = min(max(itl, f/absurd), float64(f*absurd))
	}
	a.Line.Learn(others, itl, s.Output)
	a.Seen = min(a.Seen+1, enough)
	c := a.class
	if c == nil {
		return false
	}
	if c.since++; c.since < max(enough, len(c.members)) {
		return false
	}
	return c.judge()
}

// at is how long the time between tokens is beside so many.
func (c *Line) at(others float64) float64 {
	alone, rise, _ := c.fit()
	if f := alone + float64(rise*others); f > 0 && rise >= 0 {
		return f
	}
	return c.Y / max(1, c.N)
}

// Agents that are nearly equal have equal tiers, and these change seldom: what is measured is taken in steps,
// four of which double it.
var (
	steps   = [5]float64{0.5, 0.5946035575013605, 0.7071067811865476, 0.8408964152537145, 1}
	between = [4]float64{0.5452538663326288, 0.6484197773255048, 0.7711054127039704, 0.9170040432046712}
)

// near is three quarters of a step.
const near = 1.1388

func stepped(x float64) float64 {
	if !(x > 1e-4) {
		return 0
	}
	part, exp := math.Frexp(x)
	i := 0
	for i < len(between) && part > between[i] {
		i++
	}
	return math.Ldexp(steps[i], exp)
}

// keptAt is x in steps, but what it was as long as it is near that.
func keptAt(was, x float64) float64 {
	if x < float64(was*near) && was < float64(x*near) {
		return was
	}
	return stepped(x)
}

// judge finds out what the class is like. It reports whether any of its agents has other tiers by that.
func (c *Class) judge() bool {
	c.since = 0
	slopes, outputs := []float64{priorSlope}, []float64(nil)
	for _, a := range c.members {
		if a.Seen >= enough {
			slopes, outputs = append(slopes, a.Line.Slope()), append(outputs, a.Line.Output())
		}
	}
	if len(outputs) == 0 {
		outputs = append(outputs, priorOutput)
	}
	if len(slopes) == 2 { // one alone was seen: it says what there is to say
		slopes = slopes[1:]
	}
	slope, output := keptAt(c.slope, median(slopes)), keptAt(c.output, median(outputs))
	changed := slope != c.slope || output != c.output
	c.slope, c.output = slope, output
	for _, a := range c.members {
		s := a.Line.Slope()
		off := a.Seen >= enough && len(slopes) > 2 &&
			(s > float64(far*slope)+priorSlope/2 || s*far < slope-priorSlope/2)
		changed = changed || off != a.off || off
		a.off = off
	}
	return changed
}

func median(of []float64) float64 {
	slices.Sort(of)
	k := len(of) / 2
	if len(of)%2 == 0 {
		return (of[k-1] + of[k]) / 2
	}
	return of[k]
}

// Beside reports whether another agent is of the same class.
func (a *Agent) Beside(b *Agent) bool { return a.class != nil && a.class == b.class }

// Tiers are the agent's slots by congestion charge, at a price of a million tokens of answers.
func (a *Agent) Tiers(slots int, out market.Credits) []market.Tier {
	output := float64(priorOutput)
	if a.class != nil {
		output = a.class.output
	}
	return Tiers(a.Slope(), output, slots, out)
}

// Slope is by what share one more task beside it lengthens a task of the agent, as its tiers have it.
func (a *Agent) Slope() float64 {
	switch {
	case a.class == nil:
		return stepped(priorSlope)
	case a.off:
		return stepped(a.Line.Slope())
	}
	return a.class.slope
}
