package prefix

import "math/bits"

// spread is the secret by which hashes get their slots. Clients and agents choose the hashes, but do not know
// the spread, so they cannot crowd many into one slot, where each search would pass all of them.
type spread uint64

// place returns the home slot of a hash among so many.
func (s spread) place(key uint64, of int) int {
	const golden = 0x9e3779b97f4a7c15 // spreads hashes that differ in few bits
	key ^= uint64(s)
	key = (key ^ key>>32) * golden
	key = (key ^ key>>29) * (uint64(s) | 1)
	place, _ := bits.Mul64(key^key>>32, uint64(of))
	return int(place)
}

// byHash maps each prefix to its holders: an open-addressing table that takes little room however often
// prefixes come and go.
type byHash struct {
	by  spread
	all []entry
	n   int
}

// entry is a prefix hash and who holds it; nobody: it is free.
type entry struct {
	key uint64
	holders
}

// full is the part of all, in tenths, that are in use when there is room for a quarter more.
const full = 8

func (m *byHash) begins(key uint64) int { return m.by.place(key, len(m.all)) }

func (m *byHash) next(at int) int {
	if at++; at == len(m.all) {
		return 0
	}
	return at
}

// at returns the slot of a hash, or the free one where it would go.
func (m *byHash) at(key uint64) int {
	at := m.begins(key)
	for m.all[at].n > 0 && m.all[at].key != key {
		at = m.next(at)
	}
	return at
}

func (m *byHash) get(key uint64) holders {
	if m.n == 0 {
		return holders{}
	}
	return m.all[m.at(key)].holders
}

// set sets the holders of a prefix, of which there is at least one.
func (m *byHash) set(key uint64, h holders) {
	if 10*(m.n+1) > full*len(m.all) {
		before := m.all
		m.all = make([]entry, max(16, len(before)+len(before)/4))
		for i := range before {
			if e := &before[i]; e.n > 0 {
				m.all[m.at(e.key)] = *e
			}
		}
	}
	e := &m.all[m.at(key)]
	if e.n == 0 {
		m.n++
	}
	*e = entry{key, h}
}

// remove removes a prefix, and moves up those behind it that may stand closer to their slots.
func (m *byHash) remove(key uint64) {
	at := m.at(key)
	m.n--
	m.all[at] = entry{}
	behind := func(a, b int) int { // how far a stands behind b
		if a -= b; a < 0 {
			a += len(m.all)
		}
		return a
	}
	for next := m.next(at); m.all[next].n > 0; next = m.next(next) {
		if behind(next, m.begins(m.all[next].key)) >= behind(next, at) {
			m.all[at], m.all[next] = m.all[next], entry{}
			at = next
		}
	}
}
