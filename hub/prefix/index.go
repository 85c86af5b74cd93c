// Package prefix keeps what each agent is believed to hold in its KV cache: of all texts that it served,
// those that fit in there (iemas Eq. 4).
package prefix

import (
	"math/bits"
	"slices"
	"sort"

	"souk/bus"
	"souk/bus/bounded"
)

// Limits bounds what is known of one agent.
type Limits struct {
	Sessions int // sessions remembered of one agent
	// prefix hashes remembered of one agent, some 130 bytes each with the agent's place in the index: at
	// most, see Limits.hashes; half as many of one that says what it holds
	Hashes int
	// and those that one agent may say it holds, some 60 bytes each
	Reported int
}

const (
	// mostHashes is the number of hashes for which a megabyte and a half has room, with the sessions.
	mostHashes = 11 << 10
	// of a cache, the tokens that there is a prefix for: fewer than in long messages, as there are short ones
	tokensEach = 16
	// of the smallest cache
	fewestHashes = 2 << 10
)

// DefaultLimits remembers of an agent 512 sessions, and as many prefixes as its cache is large for, up to
// those of 5.6 MB of text in long messages, which are some 1,400,000 tokens; or half of that, and prefixes of
// 7 MB that it says it holds. That is less than 2 MB of memory: see TestAnAgentTakesLessThanTwoMegabytes.
func DefaultLimits() Limits { return Limits{Sessions: 512, Hashes: mostHashes, Reported: 14 << 10} }

// hashes bounds the prefixes remembered of an agent whose cache has room for so many tokens; 0: not known.
func (l Limits) hashes(capacity int) int {
	most := min(l.Hashes, mostHashes)
	if capacity <= 0 {
		return most
	}
	return min(most, max(fewestHashes, capacity/tokensEach))
}

// Index says of every prefix which agents of a hub are believed to hold the text before it, whoever of its
// cache group sent that. Not for concurrent use.
type Index struct {
	limits   Limits
	own      table    // by what was sent to agents and served there
	reported table    // by what they say, and by the short form of a prefix
	agents   []*Cache // by place; nil: it is free

	changes uint64              // of who holds what, so far
	changed [changedKept]uint64 // the last of them, by the prefix's short form

	way   []int32 // scratch
	known []int32 // scratch for Cache.Depth

	began int64 // when the first Advance was
	now   int64
	due   bounded.Heap[*Run] // runs of which something becomes with time
}

// table records who holds which prefix.
type table struct {
	by   map[uint64]holders
	sets map[uint64][]uint64 // of more than few agents, a bit for each
}

// holders are agents by their places, as long as they are few.
type holders struct {
	n   uint16
	few [few]uint16
}

const few = 3

// changedKept is the number of changes that are told apart: 32 KB.
const changedKept = 1 << 12

// Lookup remembers how much of a prompt agents hold. The zero Lookup remembers nothing.
type Lookup struct {
	since  uint64 // changes
	depths []int32
}

// Look is [Index.Depths] of a prompt, asked for again only if that may have changed.
func (x *Index) Look(k *Lookup, p *bus.Prompt) []int32 {
	if len(k.depths) != len(x.agents) || x.Changed(p.Prefixes, k.since) {
		x.Resolve(p)
		k.depths = x.Depths(k.depths, p.Prefixes)
	}
	k.since = x.changes
	return k.depths
}

// Changed reports whether it may have changed since so many changes who holds any of a prompt's prefixes.
func (x *Index) Changed(prefixes []bus.PrefixHash, since uint64) bool {
	return x.changes != since && slices.ContainsFunc(prefixes, func(p bus.PrefixHash) bool {
		return x.changed[bus.ShortHash(p.Hash)%changedKept] > since
	})
}

// NewIndex returns the index of a hub that knows no agent.
func NewIndex(l Limits) *Index {
	return &Index{limits: l, own: newTable(), reported: newTable()}
}

func newTable() table { return table{map[uint64]holders{}, map[uint64][]uint64{}} }

// Deepest returns the greatest number of a prompt's prefixes that any agent holds of tasks served there,
// whatever agents report, and how many agents hold so many.
func (x *Index) Deepest(p *bus.Prompt) (depth int32, agents int) {
	for i := len(p.Prefixes); i > 0 && agents == 0; i-- {
		depth, agents = int32(i), int(x.own.by[p.Prefixes[i-1].Hash].n)
	}
	if agents == 0 {
		depth = 0
	}
	for _, b := range x.agents {
		if b == nil || !b.reported.rules { // all of it is in the index
			continue
		}
		had := b.Had(p, max(0, depth-1), int32(len(p.Prefixes)))
		if had > depth {
			depth, agents = had, 1
		} else if had == depth && depth > 0 && !b.shows(p.Prefixes[depth-1].Hash) {
			agents++
		}
	}
	return depth, agents
}

// Depths returns how many of a prompt's prefixes each agent is believed to hold, by its [Cache.Place], in the
// memory of dst. Whoever holds a text by what was served holds what it begins with, so few prefixes are
// looked up. What agents say need not begin at the first prefix, as some of it is not remembered and some is
// not true: it is the last that the agent holds which counts, of every stride's last prefixes, and then of
// those up to the next stride's.
func (x *Index) Depths(dst []int32, prefixes []bus.PrefixHash) []int32 {
	dst = slices.Grow(dst[:0], len(x.agents))[:len(x.agents)]
	clear(dst)
	left, held := make([]uint64, 0, 16), make([]uint64, 0, 16) // agents that are looked for, and found
	for range (len(x.agents) + 63) / 64 {
		left, held = append(left, 1<<64-1), append(held, 0)
	}
	ends := append(make([]int, 0, 16), 0) // strides at which some were found, and the first
	found := func(set []uint64, depth int) {
		if end := depth / stride * stride; !slices.Contains(ends, end) {
			ends = append(ends, end)
		}
		for j, word := range set {
			for ; word != 0; word &= word - 1 {
				place := 64*j + bits.TrailingZeros64(word)
				dst[place] = max(dst[place], int32(depth))
			}
		}
	}
	for at := 0; at < len(prefixes) && x.own.among(left, held, prefixes[at].Hash); {
		copy(left, held)
		at += 1 + sort.Search(len(prefixes)-at-1, func(k int) bool {
			return !x.own.among(left, held, prefixes[at+1+k].Hash) || !slices.Equal(left, held)
		})
		found(left, at)
	}
	if len(x.reported.by) == 0 {
		return dst
	}
	find := func(depth int) {
		if x.reported.among(left, held, bus.ShortHash(prefixes[depth-1].Hash)) {
			found(held, depth)
			for j := range left {
				left[j] &^= held[j]
			}
		}
	}
	for j := range left {
		left[j] = 1<<64 - 1
	}
	for depth := len(prefixes) / stride * stride; depth > 0; depth -= stride {
		find(depth)
	}
	for _, end := range ends {
		clear(left)
		for place, depth := range dst {
			if int(depth)/stride*stride == end {
				left[place/64] |= 1 << (place % 64)
			}
		}
		for depth := min(end+stride-1, len(prefixes)); depth > end; depth-- {
			find(depth)
		}
	}
	return dst
}

// stride is the number of prefixes of which one is looked up at first.
const stride = 8

// among finds a prefix's holders among some, and reports whether there are any.
func (t *table) among(some, held []uint64, key uint64) (any bool) {
	h := t.by[key]
	if h.n == 0 {
		return false
	}
	if clear(held); h.n <= few {
		for _, place := range h.few[:h.n] {
			held[place/64] |= some[place/64] & (1 << (place % 64))
		}
	} else {
		copy(held, t.sets[key])
	}
	for j := range held {
		held[j] &= some[j]
		any = any || held[j] != 0
	}
	return any
}

// hold has an agent among a prefix's holders, or no longer.
func (t *table) hold(key uint64, place uint16, holds bool) {
	h, set := t.by[key], t.sets[key]
	switch {
	case holds && h.n < few:
		h.few[h.n] = place
	case holds:
		if set == nil {
			for _, other := range h.few {
				set = with(set, other)
			}
		}
		t.sets[key] = with(set, place)
	case set == nil:
		h.few[slices.Index(h.few[:h.n], place)] = h.few[h.n-1]
	default:
		if set[place/64] &^= 1 << (place % 64); h.n == few+1 {
			left := h.few[:0]
			for j, word := range set {
				for ; word != 0; word &= word - 1 {
					left = append(left, uint16(64*j+bits.TrailingZeros64(word)))
				}
			}
			delete(t.sets, key)
		}
	}
	if holds {
		h.n++
	} else if h.n--; h.n == 0 {
		delete(t.by, key)
		return
	}
	t.by[key] = h
}

// with is a set with an agent.
func with(set []uint64, place uint16) []uint64 {
	for int(place/64) >= len(set) {
		set = append(set, 0)
	}
	set[place/64] |= 1 << (place % 64)
	return set
}

// change notes that another holds a prefix.
func (x *Index) change(short uint64) {
	x.changes++
	x.changed[short%changedKept] = x.changes
}
