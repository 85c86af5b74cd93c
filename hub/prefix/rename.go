package prefix

import "souk/bus"

// Resolve has a prompt and the index agree on the names of its marks, where the key that marks are named by
// is about to change, or has just changed. Where its text is known by the names that come next, the prompt
// goes by these; and what agents are believed to hold by its former names they hold by these from now on.
func (x *Index) Resolve(p *bus.Prompt) {
	if p.Next.Of(p.Marks) && x.knows(p.Next.At(0)) {
		p.Turn()
	}
	if !p.Former.Of(p.Marks) {
		return
	}
	for _, b := range x.agents {
		if b != nil {
			b.rename(p)
		}
	}
	x.retell(p)
}

// knows reports whether any agent holds, or computes, a text up to a mark.
func (x *Index) knows(hash uint64) bool {
	for _, b := range x.agents {
		if b == nil {
			continue
		}
		if _, ok := b.find(hash); ok {
			return true
		}
	}
	return x.told.of(bus.Mark{Hash: hash}).n > 0
}

// rename has the marks of what was sent to the agent go by a prompt's names instead of the former ones.
func (b *Belief) rename(p *bus.Prompt) {
	last := none
	for i := range p.Marks {
		to := p.Marks[i].Hash
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
		b.unname(k)
		held := n.held
		n.held = false
		b.show(k)
		n.hash, n.held = to, held
		b.name(k)
		b.show(k)
		b.changes++
	}
}

// retell has the marks that agents say they hold go by a prompt's names instead of the former ones, until
// they say so themselves.
func (x *Index) retell(p *bus.Prompt) {
	var adds, drops map[int][]byte // by place
	for i, m := range p.Marks {
		old, to := bus.ShortMark(p.Former.At(i)), bus.ShortMark(m.Hash)
		x.told.each(x.told.holders.get(old), func(place int) {
			if adds == nil {
				adds, drops = map[int][]byte{}, map[int][]byte{}
			}
			adds[place] = bus.AppendMark(adds[place], to)
			drops[place] = bus.AppendMark(drops[place], old)
		})
	}
	for place, b := range x.agents {
		if len(adds[place]) > 0 {
			b.change(adds[place], drops[place])
		}
	}
}
