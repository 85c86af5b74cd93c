// Package cachesage learns which role of an agentic workflow runs next and which session comes back, and says
// how much each text in a cache is worth keeping: the chance that it is used again soon, times the seconds
// that it takes to compute it anew (runtime-layer, section 3, with another score).
package cachesage

import (
	"souk/bus/policy"
	"souk/hub/seat"
)

// Bounds of the graph. A state is the last role of a session, or the last two.
const (
	roles     = 256 // with none, 0, and the session's end, last
	endOf     = roles - 1
	followers = 8   // roles that a state remembers to have come after it, the most frequent
	pairs     = 512 // states of two roles
	halveStep = 4096
	pseudo    = 4   // steps of the shorter state that one is thought to have had
	busy      = 64  // roles between which the chances of a return are worked out
	horizon   = 8   // steps of a session
	fade      = 0.2 // how fast a later use counts less: e^-fade for a call of mean length
	anewEvery = 64  // steps
)

// state counts what came after it.
type state struct {
	key   uint16 // of two roles: the one before, and the last; 0: the place is free
	total uint16
	n     [followers]uint16
	next  [followers]uint8
}

// graph is which role follows which, in fixed memory: order two, backed off to order one and to none.
type graph struct {
	ids    [roles]policy.ID
	of     [roles]policy.ID // whose it is: the client that was first to have it
	used   [roles]uint32    // step at which it last ran
	count  [roles]uint32    // how often it ran
	total  uint32
	single [roles]state
	double [pairs]state
	steps  uint32

	// h is the chance that a session whose last role is that of the row runs that of the column within the
	// next steps, if it goes on.
	h    [busy][busy]uint16 // in 65535ths
	rank [roles]uint8       // of the busiest roles, from 1; 0: it is none
	top  [busy]uint8
	took [roles]float32 // seconds of a call of each role, the mean, and of all, under none
	// what a use counts less for a call of each role that comes before it, as of late; 0: as for a mean one
	later [roles]float64
	tops  int
}

// index is the number of a role; 0 if it is not known. With add it is made known, in the place of the one
// that its client has used longest ago, or else of the client that has most.
func (g *graph) index(client, id policy.ID, add bool) uint8 {
	if id == 0 {
		return 0
	}
	spare := 0
	for i := 1; i < endOf; i++ {
		if g.ids[i] == id {
			return uint8(i)
		}
		if g.ids[i] == 0 && spare == 0 {
			spare = i
		}
	}
	if !add {
		return 0
	}
	if spare == 0 {
		spare = g.victim(client)
		g.forget(uint8(spare))
	}
	g.ids[spare], g.of[spare], g.used[spare] = id, client, g.steps
	return uint8(spare)
}

// victim is the role that makes room for one of a client's.
func (g *graph) victim(client policy.ID) int {
	var clients [roles]policy.ID
	var has [roles]int
	n := 0
	for i := 1; i < endOf; i++ {
		k := 0
		for k < n && clients[k] != g.of[i] {
			k++
		}
		if k == n {
			clients[k] = g.of[i]
			n++
		}
		has[k]++
	}
	whose, most, own := client, 0, 0
	for k := range n {
		if has[k] > most {
			whose, most = clients[k], has[k]
		}
		if clients[k] == client {
			own = has[k]
		}
	}
	if own > 0 && own*n >= endOf-1 {
		whose = client
	}
	oldest := 0
	for i := 1; i < endOf; i++ {
		if g.of[i] == whose && (oldest == 0 || g.used[i] < g.used[oldest]) {
			oldest = i
		}
	}
	return oldest
}

// forget takes a role out of all that was counted.
func (g *graph) forget(r uint8) {
	g.total -= g.count[r]
	g.ids[r], g.of[r], g.used[r], g.count[r], g.took[r] = 0, 0, 0, 0, 0
	g.later[r] = 0
	g.single[r] = state{}
	for _, all := range [][]state{g.single[:], g.double[:]} {
		for i := range all {
			s := &all[i]
			if k := s.key; k != 0 && (uint8(k>>8) == r || uint8(k) == r) {
				*s = state{}
				continue
			}
			for j, b := range s.next {
				if b == r {
					s.total -= s.n[j]
					s.next[j], s.n[j] = 0, 0
				}
			}
		}
	}
	if k := g.rank[r]; k > 0 {
		g.rank[r] = 0
		g.top[k-1] = 0
		for i := range g.tops {
			g.h[i][k-1], g.h[k-1][i] = 0, 0
		}
	}
}

// find is the state of two roles; with add it is made, in the place of the one near by that was seen least.
func (g *graph) find(before, last uint8, add bool) *state {
	if before == 0 || last == 0 {
		return nil
	}
	key := uint16(before)<<8 | uint16(last)
	at := int(policy.Mixed(uint64(key)) % pairs)
	least := &g.double[at]
	for i := range 4 {
		s := &g.double[(at+i)%pairs]
		if s.key == key {
			return s
		}
		if s.total < least.total || s.key == 0 && least.key != 0 {
			least = s
		}
	}
	if !add {
		return nil
	}
	*least = state{key: key}
	return least
}

// saw counts that a role came after others; endOf is the session's end.
func (g *graph) saw(before, last, next uint8) {
	g.steps++
	if next != endOf {
		g.count[next]++
		g.total++
		g.used[next] = g.steps
	}
	if last != 0 {
		g.single[last].saw(next)
		if s := g.find(before, last, true); s != nil {
			s.saw(next)
		}
	}
	if g.steps%halveStep == 0 {
		g.halve()
	}
	if g.steps%anewEvery == 0 {
		g.anew()
	}
}

func (s *state) saw(next uint8) {
	least := 0
	for i := range followers {
		if s.n[i] > 0 && s.next[i] == next {
			s.n[i]++
			s.total++
			return
		}
		if s.n[i] < s.n[least] {
			least = i
		}
	}
	s.total -= s.n[least]
	s.next[least], s.n[least] = next, 1
	s.total++
}

func (g *graph) halve() {
	g.total = 0
	for i := range g.count {
		g.count[i] /= 2
		g.total += g.count[i]
	}
	for _, all := range [][]state{g.single[:], g.double[:]} {
		for i := range all {
			s := &all[i]
			s.total = 0
			for j := range s.n {
				s.n[j] /= 2
				s.total += s.n[j]
			}
		}
	}
}

// zero is the chance that a role runs, whatever was before.
func (g *graph) zero(b uint8) float64 {
	if g.total == 0 || b == endOf {
		return 0
	}
	return float64(g.count[b]) / float64(g.total)
}

// one is the chance that a role comes after another.
func (g *graph) one(last, b uint8) float64 {
	s := &g.single[last]
	n := 0.0
	for i, x := range s.next {
		if x == b {
			n = float64(s.n[i])
		}
	}
	return (n + float64(pseudo*g.zero(b))) / (float64(s.total) + pseudo)
}

// anew works out the chances of a return between the busiest roles: f0 = 0, and
// fk(a) = sum over y of P(y|a) * (1 if y is b, else fk-1(y)). What comes after a role by the shorter state
// alone is the same for all roles, so it is summed up once.
func (g *graph) anew() {
	g.rank = [roles]uint8{}
	g.tops = 0
	for i := 1; i < endOf; i++ { // the busiest, by insertion
		if g.count[i] == 0 {
			continue
		}
		at := g.tops
		for at > 0 && g.count[g.top[at-1]] < g.count[i] {
			at--
		}
		if at >= busy {
			continue
		}
		g.tops = min(g.tops+1, busy)
		copy(g.top[at+1:g.tops], g.top[at:g.tops-1])
		g.top[at] = uint8(i)
	}
	for k := range g.tops {
		g.rank[g.top[k]] = uint8(k + 1)
		g.later[g.top[k]] = g.latest(g.top[k])
	}
	var w, was [busy][lanes]float64
	var zero, later [busy]float64
	type edge struct {
		to uint8
		p  float64
	}
	var edges [busy * followers]edge
	var from [busy + 1]int
	var back [busy]float64
	n := 0
	for k := range g.tops {
		a := g.top[k]
		zero[k], later[k] = g.zero(a), g.laterBy(a)
		s := &g.single[a]
		all := float64(s.total) + pseudo
		back[k] = pseudo / all
		from[k] = n
		for i, b := range s.next {
			if to := g.rank[b]; s.n[i] > 0 && b != endOf && to > 0 {
				edges[n] = edge{to - 1, float64(s.n[i]) / all}
				n++
			}
		}
	}
	from[g.tops] = n
	for b := 0; b < g.tops; b += lanes { // for some roles at once, each by itself
		clear(was[:])
		for range horizon {
			var common [lanes]float64
			for k := range g.tops { // what it is worth to come to a role: 1 if it is the one
				x := &w[k]
				for i := range lanes {
					x[i] = float64(later[k] * was[k][i])
				}
				if k >= b && k < b+lanes {
					x[k-b] = 1
				}
				for i := range lanes {
					common[i] += float64(zero[k] * x[i])
				}
			}
			for a := range g.tops {
				var sum [lanes]float64
				for i := range lanes {
					sum[i] = float64(back[a] * common[i])
				}
				for _, e := range edges[from[a]:from[a+1]] {
					x := &w[e.to%busy]
					sum[0] += float64(e.p * x[0])
					sum[1] += float64(e.p * x[1])
					sum[2] += float64(e.p * x[2])
					sum[3] += float64(e.p * x[3])
				}
				was[a] = sum
			}
		}
		for a := range g.tops {
			for i := range min(lanes, g.tops-b) {
				g.h[a][b+i] = uint16(float64(min(was[a][i], 1) * 65535))
			}
		}
	}
}

// lanes is for how many roles the chances of a return are worked out at once.
const lanes = 4

// meanLater is e^-fade.
const meanLater = 0.8187307530779818

// laterBy is what a use counts less for a call of a role before it.
func (g *graph) laterBy(r uint8) float64 {
	if x := g.later[r]; x > 0 {
		return x
	}
	return meanLater
}

// latest is that as it is by now.
func (g *graph) latest(r uint8) float64 {
	if g.took[0] <= 0 || g.took[r] <= 0 {
		return 0
	}
	return seat.Exp(-fade * float64(min(max(g.took[r]/g.took[0], 0.1), 10)))
}

// lasted takes in how long a call of a role took.
func (g *graph) lasted(r uint8, seconds float32) {
	for _, t := range []*float32{&g.took[0], &g.took[r]} {
		if *t == 0 {
			*t = seconds
		}
		*t += float32(0.05 * (seconds - *t))
	}
	g.later[r] = g.latest(r)
}

// chance is h for roles that may not be among the busiest: those are looked up one step far.
func (g *graph) chance(last, b uint8) float64 {
	i, j := g.rank[last], g.rank[b]
	if i > 0 && j > 0 {
		return float64(g.h[i-1][j-1]) / 65535
	}
	return g.one(last, b)
}

// returns is the chance that a session which had these two roles last runs one within the next steps, if it
// goes on: the next step by both, those after by the last one alone.
func (g *graph) returns(before, last, b uint8, second bool) float64 {
	if last == 0 || b == 0 {
		return 0
	}
	s := g.find(before, last, false)
	if s == nil || !second {
		return g.chance(last, b)
	}
	all := float64(s.total) + pseudo
	p := float64(pseudo / all * g.chance(last, b))
	for i, y := range s.next {
		switch {
		case s.n[i] == 0 || y == endOf:
		case y == b:
			p += float64(s.n[i]) / all
		default:
			p += float64(float64(s.n[i]) / all * float64(g.laterBy(y)*g.chance(y, b)))
		}
	}
	return min(p, 1)
}

// likeliest appends the roles that come next and their chances, by both roles.
func (g *graph) next(before, last uint8, to []follower) []follower {
	s := g.find(before, last, false)
	add := func(b uint8, p float64) {
		for i := range to {
			if to[i].role == b {
				to[i].p += p
				return
			}
		}
		to = append(to, follower{b, p})
	}
	share := 1.0
	if s != nil {
		all := float64(s.total) + pseudo
		for i, y := range s.next {
			if s.n[i] > 0 {
				add(y, float64(s.n[i])/all)
			}
		}
		share = pseudo / all
	}
	one := &g.single[last]
	all := float64(one.total) + pseudo
	for i, y := range one.next {
		if one.n[i] > 0 {
			add(y, float64(share*float64(one.n[i]))/all)
		}
	}
	return to
}

type follower struct {
	role uint8
	p    float64
}
