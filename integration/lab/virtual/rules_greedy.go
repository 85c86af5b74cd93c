package virtual

import "time"

// Each task, as it comes, goes to the engine with its greatest surplus: value less cost, by a forecast of its
// wait there. That is the best rule without prices: it sees what others have asked for, and not what they
// lose.

func greedily(l *Line, now time.Time, r *Request, v *View) int {
	return l.Least(v.Able(), func(i int) float64 { return -float64(l.Gain(now, i, r, l.After(i))) })
}

// beyondAll is more than a second costs anybody.
const beyondAll = 1e100

// loses returns the cost of a second to a task, in credits; after so long in line every task goes before the
// others.
func loses(most time.Duration) func(now time.Time, r *Request) float64 {
	return func(now time.Time, r *Request) float64 {
		if waited := now.Sub(Start) - r.Arrived; waited > most {
			return beyondAll * (1 + waited.Seconds())
		}
		return float64(r.Terms.Worth) * (1 - r.Terms.Delta) / r.Terms.Patience.Seconds()
	}
}

const (
	ownSource  = "this page's own: the simplest that uses what callers say"
	firstAfter = "seconds after which a task goes first, whoever else waits"
)

func seconds(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }

func init() {
	Add(Rule{Name: "greedy", About: "where its value less cost is greatest; first come, first served there",
		Source: ownSource, Holds: true,
		New: func(seed uint64, _ float64) Policy { return &Line{Lots: NewLots(seed), Choose: greedily} }})
	Add(Rule{Name: "greedy-first", About: "greedy; at each engine the one that loses most by a second goes first",
		Source: ownSource, Knob: firstAfter, Values: []float64{2, 4, 8}, Holds: true,
		New: func(seed uint64, most float64) Policy {
			return &Line{Lots: NewLots(seed), Choose: greedily, Urgency: loses(seconds(most))}
		}})
}
