package prefix

import "time"

// An agent that was restarted beside a running engine hears which blocks the engine holds, but not of which
// texts. It reports how many they are. What was served in its earlier life is believed to be held as far as
// it fits into that number, the last used first; so nothing is where the engine was restarted as well.

// rehears bounds how long an agent takes to hear of all blocks. After it the number of blocks of unknown text
// only falls: new ones belong to somebody else's tasks.
const rehears = 10 * time.Second

// Again notes that the agent was restarted, while its engine may run on.
func (b *Cache) Again() {
	if w := b.reported.watch; w != nil {
		w.belief = nil
	}
	b.reported.forget(b)
	b.doubt()
}

// doubt drops the belief in served texts until the agent reports how many of their blocks may remain.
func (b *Cache) doubt() {
	b.olds = 0
	for i := range b.nodes {
		n := &b.nodes[i]
		if n.born == 0 {
			continue
		}
		n.held, n.until = false, 0
		if n.sure {
			n.until = old
			b.olds++
		}
		b.show(int32(i))
	}
	b.reported.unnamed = 0
}

// found has the agent hold a node by what it does now. For itself that is believed like what else is served
// now; where a text goes on from it that is old, it is shown as long as that may be.
func (b *Cache) found(n *node) {
	n.held = true
	if n.until == old {
		b.olds--
		if n.until = 0; n.kids > 0 {
			n.until = quiet
		}
	}
}

// trust believes in old texts again, as far as they fit into so many blocks.
func (b *Cache) trust(blocks int) {
	t := &b.reported
	if b.olds == 0 || !t.events {
		return
	}
	last := b.index.now >= t.since+rehears.Nanoseconds()
	if last {
		blocks = min(blocks, t.unnamed)
	}
	t.unnamed = blocks
	left := blocks * b.block
	for i := b.use.Newest; i != none; i = b.nodes[i].place.Older {
		n := &b.nodes[i]
		if n.until != old {
			continue
		}
		more, begins := int(n.upto)+int(n.answer), true
		if n.parent != none {
			up := &b.nodes[n.parent]
			more, begins = more-int(up.upto), up.held
		}
		// what an agent says of its prompts may have a text be longer than one that goes on from it
		left -= max(0, more)
		if fits := begins && left >= 0; fits != n.held {
			n.held = fits
			b.show(i)
		}
	}
	for i := b.use.Oldest; last && i != none; { // who goes on from a text is older than it
		at := i
		i = b.nodes[i].place.Newer
		if n := &b.nodes[at]; n.until == old && !n.held && n.kids == 0 {
			b.free(at)
		}
	}
}
