package prefix

import "souk/bus"

// Resolve has a prompt and the index agree on the names of its prefixes, where the key that prefixes are
// named by is about to change, or has just changed. Where its text is known by the names that come next, the
// prompt goes by these; and what agents are believed to hold by its former names they now hold by these.
func (x *Index) Resolve(p *bus.Prompt) {
	if p.Next.Of(p.Prefixes) && x.knows(p.Next.At(0)) {
		p.Turn()
	}
	if !p.Former.Of(p.Prefixes) {
		return
	}
	for _, b := range x.agents {
		if b != nil {
			b.rename(p)
		}
	}
	x.retell(p)
}

// knows reports whether any agent holds, or computes, a prefix.
func (x *Index) knows(hash uint64) bool {
	for _, b := range x.agents {
		if b == nil {
			continue
		}
		if _, ok := b.find(hash); ok {
			return true
		}
	}
	return x.reported.by[bus.ShortHash(hash)].n > 0
}

// rename has the prefixes of what was sent to the agent go by a prompt's names instead of the former ones.
func (b *Cache) rename(p *bus.Prompt) {
	last := none
	for i := range p.Prefixes {
		to := p.Prefixes[i].Hash
		if k, known := b.find(to); known {
			last = k
			continue
		}
		k, ok := b.find(p.Former.At(i))
		if !ok || b.nodes[k].parent != last {
			return // it knows no text that begins so
		}
		last = k
		n := &b.nodes[k]
		delete(b.byHash, n.hash)
		held := n.held
		n.held = false
		b.show(k)
		n.hash, n.held = to, held
		b.byHash[to] = k
		b.show(k)
	}
}

// retell has the prefixes that agents say they hold go by a prompt's names instead of the former ones, until
// they say so themselves.
func (x *Index) retell(p *bus.Prompt) {
	for i, m := range p.Prefixes {
		old := bus.ShortHash(p.Former.At(i))
		if x.reported.by[old].n == 0 {
			continue
		}
		for _, b := range x.agents {
			if b != nil && b.says(p.Former.At(i)) {
				b.tell(old, false)
				b.tell(bus.ShortHash(m.Hash), true)
			}
		}
	}
}
