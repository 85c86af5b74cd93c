// Package sage learns which role of an agentic workflow runs next and which session comes back, and says
// how much each text in a cache is worth keeping: the chance that it is used again soon, times the seconds
// that it takes to compute it anew (runtime-layer, section 3, with another score).
package sage

import (
	"encoding/binary"
	"math/bits"

	"souk/bus/policy"
)

// Bounds of the graph. A state is the last role of a session, or the last two.
const (
	roles     = 256 // with none, 0, and the session's end, last
	endOf     = roles - 1
	followers = 8   // roles that a state remembers to have come after it, the most frequent
	pairs     = 224 // states of two roles, so that all fits in 64 KB with what is known of pauses
	near      = 4   // places in which such a state may be
	halveStep = 4096
	pseudo    = 4   // steps of the shorter state that one is thought to have had
	busy      = 64  // roles between which the chances of a return are kept
	often     = 16  // of those, the ones to which they are kept from states of two roles
	fade      = 0.2 // how fast a later use counts less: e^-fade for a call of mean length
	spans     = 12  // of how long calls take: up to shortest, and each twice as long as the one before
	shortest  = 0.1 // seconds
)

// state counts what came after it, and how long the calls of its last role took.
type state struct {
	later uint16 // what a use counts less for such a call before it, in 65535ths; 0: as for a mean one
	n     [followers]uint8
	next  [followers]uint8
	took  [spans]uint8
}

// graph is which role follows which, in fixed memory: order two, backed off to order one and to none.
type graph struct {
	ids    [roles]policy.ID
	of     [roles]policy.ID // whose it is: the client that was first to have it
	places [2 * roles]uint8 // of ids, by their hashes; those that collide come after
	used   [roles]uint32    // step at which it last ran
	gen    [roles]uint8     // how often others had its place before, of 256 times
	forgot bool             // any role was
	live   [roles]float32   // sessions that are thought to go on of which it ran last
	starts [roles]uint16    // sessions that began with it
	count  [roles]uint32    // how often it ran
	total  uint32
	single [roles]state
	double [pairs]state
	// of double, the role before and the last; 0: the place is free. The first come once more behind the
	// last, so that those of near places are read at once.
	keys  [pairs + near - 1]uint16
	steps uint32

	slot [roles]uint8 // of roles among the busy, from 1, those that run often first; 0: it is none
	top  [busy]uint8  // the role of a slot; 0: it is free
	// beyond so many all are free. Some before may be free again, as their roles were forgotten or have
	// better ones: who runs next takes them. Till then they stand for role 0, which never runs and counts
	// nothing.
	tops int
	// one and two value a return to the role of a slot, in 65535ths: the chance that a session whose last
	// role is that of the row, or whose last two are those of the state, runs it again if it goes on,
	// discounted for each call before. They follow the counts step by step, see relax.
	one    [busy][busy]uint16
	two    [pairs][often]uint16
	common [busy]float32 // what the step after any role is worth, whatever that role was, in 65535ths
	turn   int           // the slot of which all is worked out next

	mean  float32 // seconds of a call
	decay [spans]float32
	then  float32 // mean, as it was for decay
}

// index is the number of a role; 0 if it is not known. With add it is made known, in the place of the one
// that its client has used longest ago, or else of the client that has most.
func (g *graph) index(client, id policy.ID, add bool) uint8 {
	if id == 0 {
		return 0
	}
	at := int(policy.Mixed(id) % (2 * roles))
	for ; g.places[at] != 0; at = (at + 1) % (2 * roles) {
		if r := g.places[at]; g.ids[r] == id {
			return r
		}
	}
	if !add {
		return 0
	}
	spare := 1
	for spare < endOf && g.ids[spare] != 0 {
		spare++
	}
	if spare == endOf {
		spare = g.victim(client)
		g.forget(uint8(spare))
	}
	g.ids[spare], g.of[spare], g.used[spare] = id, client, g.steps
	g.place(uint8(spare))
	return uint8(spare)
}

// place has a role be found by its id.
func (g *graph) place(r uint8) {
	at := int(policy.Mixed(g.ids[r]) % (2 * roles))
	for g.places[at] != 0 {
		at = (at + 1) % (2 * roles)
	}
	g.places[at] = r
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
	g.ids[r], g.of[r], g.used[r], g.count[r], g.live[r], g.starts[r] = 0, 0, 0, 0, 0, 0
	g.gen[r]++
	g.forgot = true
	clear(g.places[:])
	for i := 1; i < endOf; i++ {
		if g.ids[i] != 0 {
			g.place(uint8(i))
		}
	}
	g.single[r] = state{}
	for i := range g.single {
		g.single[i].drop(r)
	}
	for i := range g.double {
		if key := g.keys[i]; uint8(key>>8) == r || uint8(key) == r {
			g.become(i, 0)
			continue
		}
		g.double[i].drop(r)
	}
	if k := g.slot[r]; k > 0 {
		g.slot[r], g.top[k-1] = 0, 0
		g.empty(int(k - 1))
	}
}

func (s *state) drop(r uint8) {
	for i, b := range s.next {
		if b == r {
			s.next[i], s.n[i] = 0, 0
		}
	}
}

// empty forgets what is known of the role of a slot.
func (g *graph) empty(k int) {
	g.one[k], g.common[k] = [busy]uint16{}, 0
	for i := range g.one {
		g.one[i][k] = 0
	}
	if k < often {
		for i := range g.two {
			g.two[i][k] = 0
		}
	}
}

// become has a place be of a state of two roles of which nothing is known.
func (g *graph) become(at int, key uint16) {
	g.double[at], g.two[at], g.keys[at] = state{}, [often]uint16{}, key
	if at < near-1 {
		g.keys[pairs+at] = key
	}
}

// find is the place of a state of two roles, -1 if it is not known; with add it is made, in the place of the
// one near by that was seen least.
func (g *graph) find(before, last uint8, add bool) int {
	if before == 0 || last == 0 {
		return -1
	}
	const each = 1 | 1<<16 | 1<<32 | 1<<48 // of four keys in a word
	key := uint16(before)<<8 | uint16(last)
	at := int(policy.Mixed(uint64(key)) % pairs)
	keys := g.keys[at : at+near]
	// All are compared at once, as where it stands is hard to guess: of the sixteens of bits that are 0, the
	// lowest is the first that a borrow reaches.
	differs := (uint64(keys[0]) | uint64(keys[1])<<16 | uint64(keys[2])<<32 | uint64(keys[3])<<48) ^
		uint64(key)*each
	if same := (differs - each) &^ differs & (each << 15); same != 0 {
		return (at + bits.TrailingZeros64(same)/16) % pairs
	}
	if !add {
		return -1
	}
	least, fewest := at, 1<<30
	for i := range near {
		k := (at + i) % pairs
		if n := g.double[k].total(); n < fewest {
			least, fewest = k, n
		}
	}
	g.become(least, key)
	return least
}

// total returns the number of remembered steps from a state.
func (s *state) total() int {
	const odd = 0xff | 0xff<<16 | 0xff<<32 | 0xff<<48
	all := binary.LittleEndian.Uint64(s.n[:])
	return int(((all&odd + all>>8&odd) * (1 | 1<<16 | 1<<32 | 1<<48)) >> 48)
}

// saw counts that a role came after others; endOf is the session's end.
func (g *graph) saw(before, last, next uint8) {
	g.steps++
	if next != endOf {
		g.count[next]++
		g.total++
		g.used[next] = g.steps
		g.rank(next)
	}
	if last != 0 {
		g.single[last].saw(next)
		g.relax(last)
		if k := g.find(before, last, true); k >= 0 {
			g.double[k].saw(next)
			g.relaxTwo(k)
		}
	}
	if g.steps%halveStep == 0 {
		g.halve()
	}
}

func (s *state) saw(next uint8) {
	least := 0
	for i := range followers {
		if s.n[i] > 0 && s.next[i] == next {
			if s.n[i]++; s.n[i] == 255 {
				s.halve()
			}
			return
		}
		if s.n[i] < s.n[least] {
			least = i
		}
	}
	s.next[least], s.n[least] = next, 1
}

func (s *state) halve() {
	for i := range s.n {
		s.n[i] /= 2
	}
}

func (g *graph) halve() {
	g.total = 0
	for i := range g.count {
		g.count[i] /= 2
		g.total += g.count[i]
		g.single[i].halve()
	}
	for i := range g.double {
		g.double[i].halve()
	}
}

// zero is the chance that a role runs, whatever was before.
func (g *graph) zero(b uint8) float64 {
	if g.total == 0 || b == endOf {
		return 0
	}
	return float64(g.count[b]) / float64(g.total)
}

// after is the chance that a role comes after another.
func (g *graph) after(last, b uint8) float64 {
	s := &g.single[last]
	n := 0.0
	for i, x := range s.next {
		if x == b {
			n = float64(s.n[i])
		}
	}
	return (n + float64(pseudo*g.zero(b))) / (float64(s.total()) + pseudo)
}

// chance values a return from a role to another; to roles that are not busy, by the next step alone.
func (g *graph) chance(last, b uint8) float64 {
	i, j := g.slot[last], g.slot[b]
	if i > 0 && j > 0 {
		return float64(g.one[i-1][j-1]) / 65535
	}
	return g.after(last, b)
}

// returns values that a session which had these two roles last runs b again, if it goes on.
func (g *graph) returns(before, last, b uint8, second bool) float64 {
	if last == 0 || b == 0 {
		return 0
	}
	at := -1
	if second {
		at = g.find(before, last, false)
	}
	if at < 0 {
		return g.chance(last, b)
	}
	j := int(g.slot[b]) - 1
	if j >= 0 && j < often {
		return float64(g.two[at][j]) / 65535
	}
	s := &g.double[at]
	all := float64(s.total() + pseudo)
	p := float64(pseudo / all * g.chance(last, b))
	for i, y := range s.next {
		if s.n[i] == 0 || y == endOf {
			continue
		}
		worth := 1.0
		if k := int(g.slot[y]) - 1; y != b && j >= 0 && k >= 0 {
			worth = float64(float64(g.single[y].less()) * (float64(g.one[k][j]) / 65535))
		} else if y != b {
			worth = float64(float64(g.single[y].less()) * g.after(y, b))
		}
		p += float64(float64(s.n[i]) / all * worth)
	}
	return min(p, 1)
}

// next appends the roles that come next and their chances, by both roles.
func (g *graph) next(before, last uint8, to []follower) []follower {
	at := g.find(before, last, false)
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
	if at >= 0 {
		s := &g.double[at]
		all := float64(s.total() + pseudo)
		for i, y := range s.next {
			if s.n[i] > 0 {
				add(y, float64(s.n[i])/all)
			}
		}
		share = pseudo / all
	}
	one := &g.single[last]
	all := float64(one.total() + pseudo)
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
