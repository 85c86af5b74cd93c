// Package prefix keeps what each agent is believed to hold in its KV cache: of all texts that it served,
// those that fit in there (iemas Eq. 4).
package prefix

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"souk/bus"
)

// Limits bounds what is known of one agent.
type Limits struct {
	Sessions int `yaml:"sessions"` // sessions remembered of one agent
	// prefix hashes remembered of one agent, some 130 bytes each, in maps and with the agent's place in the
	// index: at most, see Limits.hashes; half as many of one that says what it holds
	Hashes int `yaml:"hashes"`
	// and those that one agent may say it holds, some 35 bytes each
	Reported int `yaml:"reported"`
}

const (
	// mostHashes is the number of hashes for which 1.7 MB have room, with the sessions.
	mostHashes = 11 << 10
	// mostSessions is the greatest number that a prefix can count; mostReported takes tens of MB, more than
	// any agent needs.
	mostSessions = math.MaxInt16
	mostReported = 1 << 20
	// of a cache, the tokens that there is a prefix for: fewer than in long messages, as there are short ones
	tokensEach = 16
	// of the smallest cache
	fewestHashes = 2 << 10
)

// DefaultLimits remembers of an agent 512 sessions, and as many prefixes as its cache is large for, up to
// those of 5.6 MB of text in long messages, which are some 1,400,000 tokens; or half of that, and prefixes of
// 7 MB that it says it holds. That is less than 2 MB of memory: see TestAnAgentTakesLessThanTwoMegabytes.
func DefaultLimits() Limits { return Limits{Sessions: 512, Hashes: mostHashes, Reported: 14 << 10} }

// hashes bounds the prefixes remembered of an agent whose cache has room for so many tokens, 0 if that is not
// known.
func (l Limits) hashes(capacity int) int {
	most := min(l.Hashes, mostHashes)
	if capacity <= 0 {
		return most
	}
	return min(most, max(fewestHashes, capacity/tokensEach))
}

// Validate judges limits and changes nothing.
func (l Limits) Validate() error {
	switch {
	case l.Sessions < 1 || l.Sessions > mostSessions:
		return fmt.Errorf("sessions is %d: 1 to %d are remembered of an agent", l.Sessions, mostSessions)
	case l.Hashes < 1:
		return fmt.Errorf("hashes is %d: it must be at least 1", l.Hashes)
	case l.Reported < 0 || l.Reported > mostReported:
		return fmt.Errorf("reported is %d: an agent may say 0 to %d prefixes", l.Reported, mostReported)
	}
	return nil
}

// Index says of every prefix which agents of a hub are believed to hold the text before it, whoever of its
// cache group sent that. Not for concurrent use.
type Index struct {
	limits   Limits
	own      table    // by what was sent to agents and served there
	reported table    // by what they say, and by the short form of a prefix
	agents   []*Cache // by place; nil: it is free
	ruling   int      // agents whose word rules

	changes uint64              // of who holds what, so far
	changed [changedKept]uint64 // the last of them, by the prefix's short form

	way []int32 // scratch
	// of the prompt that was last asked for, whose depths are known until a cache changes
	asked []bus.PrefixHash
	known []int32
	reach reach

	adds, drops, merged []uint64 // scratch of what is reported

	began int64 // when the first Advance was
	now   int64
	due   agenda // runs of which something becomes with time
}

// table records who holds which prefix.
type table struct {
	shift   uint // bits that its keys lack of their hashes
	holders map[uint64]holders
	sets    [][]uint64 // of more than few agents, a bit for each
	unused  []int32    // of these
}

func (t *table) of(m bus.PrefixHash) holders { return t.holders[m.Hash>>t.shift] }

// holders are agents by their places: few by name, more as a set, whose number then stands in their stead.
type holders struct {
	n   uint16
	few [few]uint16
}

const few = 3

// set is the number of the set of more than few.
func (h *holders) set() int32 { return int32(uint32(h.few[0]) | uint32(h.few[1])<<16) }

func (h *holders) toSet(set int32) {
	h.few = [few]uint16{uint16(uint32(set)), uint16(uint32(set) >> 16)}
}

// changedKept is the number of changes that are told apart: 32 KB.
const changedKept = 1 << 12

// Holder is an agent that is believed to hold the first so many of a prompt's prefixes, by its [Cache.Place].
type Holder struct{ Place, Depth int32 }

// Holders appends to dst all that hold any of a prompt's prefixes.
func (x *Index) Holders(dst []Holder, prefixes []bus.PrefixHash) []Holder {
	if len(prefixes) == 0 || x.own.of(prefixes[0]).n == 0 && len(x.reported.holders) == 0 {
		return dst
	}
	x.ask(prefixes)
	dst = slices.Grow(dst, int(x.own.of(prefixes[0]).n))
	for place, depth := range x.known {
		if depth > 0 {
			dst = append(dst, Holder{int32(place), depth})
		}
	}
	return dst
}

// Lookup remembers who holds any of a prompt. The zero Lookup remembers nothing.
type Lookup struct {
	looked bool
	since  uint64 // changes
	all    []Holder
}

// Look returns all that hold any of a prompt. They are looked up again only if that may have changed.
func (x *Index) Look(k *Lookup, p *bus.Prompt) []Holder {
	if !k.looked || x.Changed(p.Prefixes, k.since) {
		x.Resolve(p)
		k.looked, k.all = true, x.Holders(k.all[:0], p.Prefixes)
	}
	k.since = x.changes
	return k.all
}

// Changed reports whether it may have changed who holds any of a prompt's prefixes, since there were so many
// changes.
func (x *Index) Changed(prefixes []bus.PrefixHash, since uint64) bool {
	if x.changes == since {
		return false
	}
	for i := range prefixes {
		if x.changed[bus.ShortHash(prefixes[i].Hash)%changedKept] > since {
			return true
		}
	}
	return false
}

// change notes that another holds a prefix.
func (x *Index) change(short uint64) {
	x.changes++
	x.changed[short%changedKept] = x.changes
	x.asked = nil
}

// NewIndex returns the index of a hub that knows no agent.
func NewIndex(l Limits) *Index {
	return &Index{limits: l, own: table{holders: map[uint64]holders{}},
		reported: table{shift: 64 - 8*bus.ShortHashBytes, holders: map[uint64]holders{}}}
}

// depth returns how many of a prompt's prefixes an agent is believed to hold. Agents are asked for one prompt
// after the other, so all are looked up at once.
func (x *Index) depth(prefixes []bus.PrefixHash, place uint16) int32 {
	if len(prefixes) == 0 {
		return 0
	}
	x.ask(prefixes)
	return x.known[place]
}

// ask makes known how deep all agents are.
func (x *Index) ask(prefixes []bus.PrefixHash) {
	if len(x.asked) != len(prefixes) || &x.asked[0] != &prefixes[0] {
		x.known = x.Depths(x.known, prefixes)
		x.asked = prefixes
	}
}

// Deepest returns the greatest number of a prompt's prefixes that any agent holds of tasks served there,
// whatever agents report, and how many agents hold so many.
func (x *Index) Deepest(p *bus.Prompt) (depth int32, agents int) {
	if len(p.Prefixes) == 0 {
		return 0, 0
	}
	look := func(place int) {
		b := x.agents[place]
		if b == nil || !b.hadPrefix(p, max(0, depth-1)) { // nor any later one
			return
		}
		had := b.Had(p, max(1, depth), int32(len(p.Prefixes)))
		if had > depth {
			depth, agents = had, 0
		}
		agents++
	}
	if x.ruling == 0 { // then the index names all who hold what they served
		x.own.each(x.own.of(p.Prefixes[0]), look)
		return depth, agents
	}
	for place := range x.agents {
		look(place)
	}
	return depth, agents
}

// Depths returns how many of a prompt's prefixes each agent is believed to hold, by its [Cache.Place], in the
// memory of dst.
func (x *Index) Depths(dst []int32, prefixes []bus.PrefixHash) []int32 {
	dst = resized(dst, (len(x.agents)+63)/64*64)
	clear(dst)
	if len(prefixes) == 0 {
		return dst
	}
	x.own.depths(dst, prefixes)
	x.reported.deepest(dst, prefixes, &x.reach)
	return dst
}

// resized returns a list of n elements, with any content.
func resized[T any](list []T, n int) []T { return slices.Grow(list[:0], n)[:n] }

// depths raises the depths of agents to what is said of them here. Whoever holds a text holds all that it
// begins with, so the sets of holders only shrink along the prefixes: between two of one size all are equal,
// and few have to be looked at.
func (t *table) depths(dst []int32, prefixes []bus.PrefixHash) {
	first, last := t.of(prefixes[0]), t.of(prefixes[len(prefixes)-1])
	if last.n > 0 {
		t.each(last, func(place int) { dst[place] = int32(len(prefixes)) })
	}
	if first.n > last.n {
		t.divide(dst, prefixes, 1, first, len(prefixes), last)
	}
}

// stride is the number of prefixes that are skipped at first where agents report their caches.
const stride = 8

// reach is scratch of deepest: of all agents, as sets, who has not been found yet, and of each how far it
// reaches.
type reach struct {
	left  []uint64
	depth []int32
	ends  []int32 // the strides at which somebody was found
}

// deepest raises the depths of agents to what each of them says it holds. What agents say need not begin at
// the first prefix, as some of it is not remembered and some is not true, so no agent's word tells anything
// of another's. Of each it is the last of every stride's prefixes that it says, and then, of those up to the
// next, the last that it says: all of it where it says what it holds from the beginning, and else less.
func (t *table) deepest(dst []int32, prefixes []bus.PrefixHash, r *reach) {
	if len(t.holders) == 0 {
		return
	}
	r.left, r.depth = resized(r.left, len(dst)/64), resized(r.depth, len(dst))
	clear(r.depth)
	for j := range r.left {
		r.left[j] = 1<<64 - 1
	}
	r.ends = r.ends[:0]
	for k := len(prefixes) / stride * stride; k > 0; k -= stride {
		if t.find(prefixes[k-1], r, int32(k)) {
			r.ends = append(r.ends, int32(k))
		}
	}
	for _, k := range append(r.ends, 0) {
		clear(r.left)
		for place, depth := range r.depth {
			if depth == k {
				r.left[place/64] |= 1 << (place % 64)
			}
		}
		for i := min(k+stride-1, int32(len(prefixes))); i > k; i-- {
			t.find(prefixes[i-1], r, i)
		}
	}
	for place, depth := range r.depth {
		dst[place] = max(dst[place], depth)
	}
}

// find notes how far those reach who say a prefix and were not found yet, and reports whether there are any.
func (t *table) find(m bus.PrefixHash, r *reach, depth int32) (any bool) {
	h := t.of(m)
	if h.n <= few {
		for _, place := range h.few[:h.n] {
			if bit := uint64(1) << (place % 64); r.left[place/64]&bit != 0 {
				r.left[place/64] &^= bit
				r.depth[place], any = depth, true
			}
		}
		return any
	}
	for j, word := range t.sets[h.set()] {
		fresh := word & r.left[j]
		for r.left[j] &^= fresh; fresh != 0; fresh &= fresh - 1 {
			r.depth[64*j+bits.TrailingZeros64(fresh)], any = depth, true
		}
	}
	return any
}

// divide sets the depth of the agents that hold low prefixes and not high ones.
func (t *table) divide(dst []int32, prefixes []bus.PrefixHash, low int, at holders, high int, above holders) {
	if high-low <= 1 {
		t.each(at, func(place int) { dst[place] = max(dst[place], int32(low)) })
		return
	}
	mid := (low + high) / 2
	between := t.of(prefixes[mid-1])
	if between.n > above.n {
		t.divide(dst, prefixes, mid, between, high, above)
	}
	if at.n > between.n {
		t.divide(dst, prefixes, low, at, mid, between)
	}
}

func (t *table) each(h holders, do func(place int)) {
	if h.n <= few {
		for _, place := range h.few[:h.n] {
			do(int(place))
		}
		return
	}
	for i, word := range t.sets[h.set()] {
		for ; word != 0; word &= word - 1 {
			do(64*i + bits.TrailingZeros64(word))
		}
	}
}

// add adds an agent to a prefix's holders.
func (t *table) add(key uint64, place uint16) {
	h := t.holders[key]
	switch {
	case h.n < few:
		h.few[h.n] = place
	case h.n == few:
		set := t.newSet()
		for _, other := range h.few {
			t.set(set, other)
		}
		h.toSet(set)
		fallthrough
	default:
		t.set(h.set(), place)
	}
	h.n++
	t.holders[key] = h
}

// remove removes an agent from a prefix's holders.
func (t *table) remove(key uint64, place uint16) {
	h := t.holders[key]
	h.n--
	switch {
	case h.n == 0:
		delete(t.holders, key)
		return
	case h.n < few:
		i := slices.Index(h.few[:h.n+1], place)
		h.few[i] = h.few[h.n]
	default:
		set := h.set()
		t.sets[set][place/64] &^= 1 << (place % 64)
		if h.n == few {
			i, all := 0, h
			all.n++
			t.each(all, func(place int) {
				h.few[i] = uint16(place)
				i++
			})
			clear(t.sets[set])
			t.unused = append(t.unused, set)
		}
	}
	t.holders[key] = h
}

func (t *table) newSet() int32 {
	if n := len(t.unused); n > 0 {
		set := t.unused[n-1]
		t.unused = t.unused[:n-1]
		return set
	}
	t.sets = append(t.sets, nil)
	return int32(len(t.sets) - 1)
}

func (t *table) set(set int32, place uint16) {
	for int(place/64) >= len(t.sets[set]) {
		t.sets[set] = append(t.sets[set], 0)
	}
	t.sets[set][place/64] |= 1 << (place % 64)
}

// settle finds a place for an agent.
func (x *Index) settle(b *Cache) *Cache {
	i := slices.Index(x.agents, nil)
	if i < 0 {
		i, x.agents, x.asked = len(x.agents), append(x.agents, nil), nil
	}
	if i > math.MaxUint16 {
		panic("prefix: more agents than a hub may know")
	}
	b.place, x.agents[i] = uint16(i), b
	return b
}
