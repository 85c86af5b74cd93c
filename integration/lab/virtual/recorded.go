package virtual

import (
	"slices"
	"time"

	"souk/integration/lab/traces"
)

// NewChains are sessions of which blocks and lengths are known, in blocks of a size that is a multiple of
// theirs. Where they say when each request came, and are not played so, the next is asked as long after an
// answer as it came after the request before.
func NewChains(all []traces.Chain, size int) (out []*Script) {
	for i := range all {
		s := chained(&all[i], size)
		for k := 1; all[i].Timed && k < len(s.turns); k++ {
			s.turns[k].think = max(time.Millisecond, min(s.turns[k].at-s.turns[k-1].at, longestIdle))
		}
		out = append(out, s)
	}
	return out
}

// Trim leaves requests out that have more tokens than a cache has room for, or than the context of an engine,
// of which a hub keeps a sixteenth of the prompt free; and says how many. A dialogue ends before the first of
// them.
func Trim(all []*Script, room, context int) (kept []*Script, left int) {
	for _, s := range all {
		for k := 0; k < len(s.turns); k++ {
			switch t := s.turns[k]; {
			case t.prompt+t.output <= room && t.prompt+t.prompt/16+t.output < context-16:
			case s.chains == nil:
				left += len(s.turns) - k
				s.turns = s.turns[:k]
			default:
				left++
				s.turns, s.chains = slices.Delete(s.turns, k, k+1), slices.Delete(s.chains, k, k+1)
				k--
			}
		}
		if len(s.turns) > 0 {
			kept = append(kept, s)
		}
	}
	return kept, left
}

// Requests returns the number of requests.
func Requests(all []*Script) (n int) {
	for _, s := range all {
		n += len(s.turns)
	}
	return n
}

// stretch returns when a timed trace begins: with its first request, or, with Anywhere, with one that the
// seed chooses of those that leave enough to ask.
func (r *run) stretch() time.Duration {
	if !r.Anywhere || r.Tasks == 0 {
		return 0
	}
	var at []time.Duration
	for _, s := range r.Scripts {
		for _, t := range s.turns {
			at = append(at, t.at)
		}
	}
	slices.Sort(at)
	return at[r.random.IntN(max(1, len(at)-r.Tasks+1))]
}
