package holdings

import (
	"slices"

	"souk/bus"
)

// prefix is the beginning of a text, tied to its last full block: it is held while the block is whole.
type prefix struct {
	short uint64
	node  int32 // none: there is none in this place
	exact bool  // where it is was seen in token ids; else it is guessed by bytes
	said  bool  // the hub has heard that it is held
}

// Limits of what is remembered of prefixes. Where they come to it, a prefix is not known, and not believed to
// be held.
const (
	maxPrefixes = 1 << 16
	// of the one block before all texts: the beginnings of prompts that are shorter than a block
	maxShallow = 512
	maxTied    = 8
)

// prefixes lists what is known of the prefixes of an engine's texts.
type prefixes struct {
	all    []prefix
	spare  []int32
	by     map[uint64]int32
	held   int      // prefixes that are
	said   int      // that the hub believes to be
	full   bool     // some are held that the hub is not told of, as it knows so many
	turned bool     // some are held and not said, or the other way
	gone   []uint64 // said, and forgotten since
	lost   int      // forgotten, or never known, for want of room
}

// tie ties a prefix to a block, from where it was.
func (s *State) tie(short uint64, k int32, exact bool) {
	m := &s.prefixes
	i, ok := m.by[short]
	if ok {
		s.untie(i)
	} else {
		if len(m.by) >= maxPrefixes {
			m.lost++
			return
		}
		if n := len(m.spare); n > 0 {
			i, m.spare = m.spare[n-1], m.spare[:n-1]
		} else {
			i = int32(len(m.all))
			m.all = append(m.all, prefix{})
		}
		m.by[short] = i
		m.all[i] = prefix{short: short}
	}
	n, a := &s.nodes[k], &m.all[i]
	a.node, a.exact = k, exact
	n.prefixes = append(n.prefixes, i)
	if n.whole {
		m.held++
	}
	s.turned(i)
	most := max(maxTied, s.block/2)
	if k == 0 {
		most = maxShallow
	}
	if len(n.prefixes) > most {
		m.lost++
		s.forget(n.prefixes[0])
	}
}

// untie takes a prefix off its block.
func (s *State) untie(i int32) {
	m := &s.prefixes
	n := &s.nodes[m.all[i].node]
	at := slices.Index(n.prefixes, i)
	n.prefixes = slices.Delete(n.prefixes, at, at+1)
	if n.whole {
		m.held--
	}
}

// forget drops a prefix whose block is no longer in the tree.
func (s *State) forget(i int32) {
	m := &s.prefixes
	s.untie(i)
	a := &m.all[i]
	delete(m.by, a.short)
	if a.said {
		m.gone = append(m.gone, a.short)
		m.said--
	}
	*a = prefix{node: none}
	m.spare = append(m.spare, i)
}

// rename has prefixes that are known by a prompt's former names go by its own.
func (s *State) rename(p *bus.Prompt) {
	m := &s.prefixes
	if !p.Former.Of(p.Prefixes) {
		return
	}
	for j := range p.Prefixes {
		from, to := bus.ShortHash(p.Former.At(j)), bus.ShortHash(p.Prefixes[j].Hash)
		i, ok := m.by[from]
		if _, known := m.by[to]; !ok || known {
			continue
		}
		a := &m.all[i]
		if a.said {
			m.gone = append(m.gone, from)
			a.said = false
			m.said--
		}
		delete(m.by, from)
		a.short, m.by[to] = to, i
		s.turned(i)
	}
}

// turned notes that a prefix may no longer be as it was said.
func (s *State) turned(i int32) {
	a := &s.prefixes.all[i]
	s.prefixes.turned = s.prefixes.turned || s.events && a.said != s.nodes[a.node].whole
}

// place ties the prefixes of a prompt to the blocks of its tokens, of which path has each full one, and
// earlier prompts the first so many. Where a prefix ends in the tokens is known if an earlier prompt had it,
// too: both have the same tokens as far as their texts are the same, and no further. So the last prefix that
// is known stands where the tokens part, since texts part at the end of a message. Of the others it is
// guessed by bytes between those, and rather too late than too early.
func (s *State) place(p *bus.Prompt, path []int32, tokens int, shared int32) {
	s.rename(p)
	at := s.at[:0]
	steps, deepest, last := 1<<16, int32(0), -1
	for j, m := range p.Prefixes {
		d := none
		if i, ok := s.prefixes.by[bus.ShortHash(m.Hash)]; ok {
			last = j
			k := s.prefixes.all[i].node
			n := s.nodes[k].depth
			if int(n) < len(path) && path[n] == k {
				if s.prefixes.all[i].exact {
					d = n
				}
			} else {
				for ; steps > 0 && (int(n) >= len(path) || path[n] != k); steps-- {
					k, n = s.nodes[k].parent, n-1
				}
				if steps > 0 {
					d = n
				}
			}
		}
		if d != none && d < deepest {
			d = none
		}
		deepest = max(deepest, d)
		at = append(at, d)
	}
	if last >= 0 && at[last] == none && shared >= deepest {
		at[last] = shared
	}
	s.at = at
	bytes, before := 0, 0
	for j := 0; j < len(at); {
		to := j
		for to < len(at) && at[to] == none {
			to++
		}
		end, upto := p.Bytes, tokens
		if to < len(at) {
			end, upto = p.Prefixes[to].Bytes, int(at[to])*s.block
		}
		upto = max(upto, before)
		for ; j < to; j++ {
			guess := before + int(int64(upto-before)*int64(p.Prefixes[j].Bytes-bytes)/int64(max(1,
				end-bytes)))
			guess = min(upto, guess+(upto-before)/10)
			s.tie(bus.ShortHash(p.Prefixes[j].Hash), path[min(guess/s.block, len(path)-1)], false)
		}
		if to < len(at) {
			s.tie(bus.ShortHash(p.Prefixes[to].Hash), path[at[to]], true)
			bytes, before = end, upto
			j = to + 1
		}
	}
}
