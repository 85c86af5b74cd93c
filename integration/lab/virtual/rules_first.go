package virtual

import "time"

// What vLLM does with --scheduling-policy priority behind a router that goes by prefixes: the line at an
// engine is by urgency, which callers say, and where a task goes is decided without it.

func init() {
	Add(Rule{Name: "two-block-first",
		About:  "two-block; at each engine the one that loses most by a second goes first",
		Source: "vLLM 0.19, --scheduling-policy priority, behind the rule two-block",
		Knob:   firstAfter, Values: []float64{2, 4, 8}, Holds: true,
		New: func(seed uint64, most float64) Policy {
			return &Line{Lots: NewLots(seed), Urgency: loses(seconds(most)),
				Choose: func(l *Line, _ time.Time, r *Request, v *View) int {
					return l.Least(twoBlock(r, v), l.Load)
				}}
		}})
}
