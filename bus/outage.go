package bus

import (
	"slices"
	"time"
)

// SayAgain is how often a lasting trouble is logged.
const SayAgain = time.Minute

// Outage is the trouble that the parts of a process have with one server, each of which tries again and
// again. It says which of those times is worth a line: when the trouble begins, once in [SayAgain] while it
// lasts or comes and goes, and when the last part is through. The zero value is none. Not for concurrent use.
type Outage struct {
	parts       []string // in trouble
	began, said time.Time
	told        bool // of this one
}

// Failed notes that a part is in trouble, and reports whether to say so.
func (o *Outage) Failed(now time.Time, part string) bool {
	if len(o.parts) == 0 {
		o.began, o.told = now, false
	}
	if !slices.Contains(o.parts, part) {
		o.parts = append(o.parts, part)
	}
	if !o.said.IsZero() && now.Sub(o.said) < SayAgain {
		return false
	}
	o.said, o.told = now, true
	return true
}

// Works notes that a part is through. over says that it was the last one of a trouble that was named, which
// lasted so long.
func (o *Outage) Works(now time.Time, part string) (lasted time.Duration, over bool) {
	i := slices.Index(o.parts, part)
	if i < 0 {
		return 0, false
	}
	if o.parts = slices.Delete(o.parts, i, i+1); len(o.parts) > 0 {
		return 0, false
	}
	return now.Sub(o.began), o.told
}
