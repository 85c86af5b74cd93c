package virtual

import "time"

// Crew is the number of callers of a closed loop from a moment on. Of those that are too many each plays its
// dialogue to the end.
type Crew struct {
	From    time.Duration
	Callers int
}

// Ramp is crews that grow evenly from one to so many within a time, beginning at a moment.
func Ramp(at, within time.Duration, from, to int) (crews []Crew) {
	for i := from + 1; i <= to; i++ {
		crews = append(crews, Crew{at + within*time.Duration(i-from-1)/time.Duration(to-from), i})
	}
	return crews
}

// hire plans how the callers change.
func (r *run) hire() {
	for _, c := range r.Crews {
		r.asking++ // the run is not over before
		r.add(c.From, func(now time.Duration) {
			r.asking--
			r.callers = c.Callers
			for ; r.hired < c.Callers; r.hired++ {
				lots := r.lots(r.hired)
				r.play(now+begins(lots), r.hired, lots)
			}
			r.hired = c.Callers
		})
	}
}

// leaves reports whether a caller is beyond that number, so that it asks no more.
func (r *run) leaves(caller int) bool { return len(r.Crews) > 0 && caller >= r.callers }

// crewsFollow reports whether they are in order.
func (s *Setting) crewsFollow() bool {
	for i, c := range s.Crews {
		if c.Callers < 0 || i > 0 && c.From < s.Crews[i-1].From {
			return false
		}
	}
	return true
}

// Template is a prompt that callers send again and again, by its lengths alone.
type Template struct {
	Prompt, Output int // tokens
	Common         int // of the prompt, those that every play has alike; 0: all
}

// NewTemplates are scripts of one turn each.
func NewTemplates(all []Template, blockSize int) (out []*Script) {
	for i, t := range all {
		s := &Script{number: i, turns: []turn{{prompt: t.Prompt, output: t.Output}}, chains: [][]uint64{nil}}
		for b := range t.Prompt / blockSize {
			s.chains[0] = append(s.chains[0], mix(uint64(i)<<32|uint64(b)))
		}
		s.common = len(s.chains[0])
		if t.Common > 0 {
			s.common = min(s.common, t.Common/blockSize)
		}
		out = append(out, s)
	}
	return out
}

// Text names the text of a request's prompt, where prompts are templates.
func (r *Request) Text() int { return r.script.number }
