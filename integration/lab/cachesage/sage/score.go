package sage

import (
	"time"

	"souk/bus/exact"
	"souk/bus/policy"
)

// Anchor is the chance that a role runs soon.
func (s *Sage) Anchor(role policy.ID) float64 {
	b := s.index(0, role, false)
	if b == 0 {
		return 0
	}
	if s.Paper {
		return s.hop(b)
	}
	return 1 - exact.Exp(-min(s.sum(b), 600))
}

// sum returns how many calls of a role are expected soon: over all sessions the chance that it runs there,
// and how many sessions are expected to begin with it.
func (s *Sage) sum(b uint8) (sum float64) {
	k := int(s.slot[b]) - 1
	open := 0.0
	for i := range s.tops {
		a := s.top[i]
		l := float64(s.live[a])
		if open += l; s.NoLive && s.graph.count[a] > 0 {
			l = 1
		}
		if k >= 0 {
			sum += float64(l * float64(s.one[i][k]) / 65535)
		}
	}
	if k < 0 {
		sum = float64(open * horizon * s.zero(b))
	}
	if s.total > 0 { // sessions that begin while those that are open take their steps
		sum += float64(float64(s.starts[b]) / float64(s.total) * horizon * max(1, open))
	}
	return sum
}

// horizon is the number of steps of the open sessions that count as soon.
const horizon = 8

// Tail is the chance that a session runs a role soon, and so uses again what its prompts had after the
// anchor.
func (s *Sage) Tail(now time.Time, key, role policy.ID) float64 {
	b := s.index(0, role, false)
	if s.NoTails || s.Paper {
		return s.Anchor(role)
	}
	x := s.session(key, false)
	if x == nil {
		return 0
	}
	live := 1.0
	if !s.NoLive {
		live = s.liveOf(x, since(now))
	}
	if b == 0 { // its roles are not known: who comes back soon goes before who does some day
		if x.phase != runs && !s.NoLive && s.shares.Known() && x.back == 0 {
			age := max(0, since(now)-x.at)
			later := s.shares.Of(int(x.class), age+soon)
			return max(0, s.shares.Of(int(x.class), age)-later) / max(1-later, 1e-5)
		}
		return live
	}
	switch { // its call has to end first
	case x.phase != runs:
	case s.NoRest:
		live *= meanLater
	default:
		live *= s.rest(x.before, x.last, max(0, since(now)-x.at).Seconds(), !s.NoPairs)
	}
	return float64(live * s.returns(x.before, x.last, b, !s.NoPairs))
}

// Score returns the expected loss in seconds if a text is not in the cache when it is wanted again: the
// chance that it is wanted soon, times the seconds to compute so many tokens of it behind so many others.
func (s *Sage) Score(now time.Time, i policy.Item, behind int) float64 {
	p := 0.0
	switch i.Kind {
	case policy.Anchor:
		p = s.Anchor(i.Role)
	case policy.Tail:
		p = s.Tail(now, i.Session, i.Role)
	}
	return float64(p * s.Seconds(i.Tokens, behind))
}

// Seconds returns an engine's time to compute so many tokens behind others.
func (s *Sage) Seconds(tokens, behind int) float64 {
	n := float64(tokens)
	return float64(n * (s.Token + float64(s.Before*(float64(behind)+float64(n/2)))))
}

// least is the chance below which one role does not follow another (runtime-layer, 3.3).
const least = 0.01

// hop is the published chance that a role survives: 1 - hops/far, in hops from the role that ran last.
func (s *Sage) hop(b uint8) float64 {
	far := uint8(min(max(s.Far, 1), 255))
	if s.hopsOf != s.current || s.current == 0 {
		for i := range s.hops {
			s.hops[i] = far
		}
		s.hopsOf = s.current
		s.hops[s.current] = 0
		queue := make([]uint8, 1, roles)
		queue[0] = s.current
		for len(queue) > 0 {
			a := queue[0]
			queue = queue[1:]
			if s.hops[a]+1 >= far {
				continue
			}
			st := &s.single[a]
			for i, y := range st.next {
				if st.n[i] > 0 && y != endOf && float64(st.n[i]) >= least*float64(st.total()) &&
					s.hops[a]+1 < s.hops[y] {
					s.hops[y] = s.hops[a] + 1
					queue = append(queue, y)
				}
			}
		}
	}
	return 1 - float64(s.hops[b])/float64(far)
}

// Forecast is a turn that is expected to run.
type Forecast struct {
	Session policy.ID
	Role    policy.ID
	P       float64 // chance, from 0 to 1
}

// Predict appends what sessions are expected to run next, the likeliest first, as far as there is room.
func (s *Sage) Predict(now time.Time, key policy.ID, to []Forecast) []Forecast {
	x := s.session(key, false)
	if x == nil || x.phase == over {
		return to
	}
	var room [2 * followers]follower
	before := x.before
	if s.NoPairs {
		before = 0
	}
	live, from := s.liveOf(x, since(now)), len(to)
	for _, f := range s.graph.next(before, x.last, room[:0]) {
		if f.role == endOf || s.ids[f.role] == 0 {
			continue
		}
		next := Forecast{Session: key, Role: s.ids[f.role], P: float64(live * f.p)}
		at := len(to)
		for at > from && to[at-1].P < next.P {
			at--
		}
		to = append(to, Forecast{})
		copy(to[at+1:], to[at:])
		to[at] = next
	}
	return to
}
