package prefix

import "time"

// An agent that was restarted beside a running engine hears which blocks the engine holds, but not of which
// texts. It reports how many they are. What was served in its earlier life is believed to be held as long as
// these are half of that; so nothing is where the engine was restarted as well.

// rehears bounds how long an agent takes to hear of all blocks.
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
	b.earlier = b.tokens
	for i := range b.nodes {
		n := &b.nodes[i]
		if n.held, n.until = false, 0; n.sure {
			n.until = old
		}
		b.show(int32(i))
	}
}

// found has the agent hold a node by what it does now.
func (n *node) found() {
	if n.held = true; n.until == old {
		n.until = 0
	}
}

// trust believes in old texts, or no longer, by how many blocks they may be.
func (b *Cache) trust(blocks int) {
	t := &b.reported
	if b.earlier == 0 || !t.events {
		return
	}
	holds := blocks*b.block >= b.earlier/2
	for i := range b.nodes {
		if n := &b.nodes[i]; n.until == old && n.held != holds {
			n.held = holds
			b.show(int32(i))
		}
	}
	if holds || b.index.now < t.since+rehears.Nanoseconds() {
		return
	}
	b.earlier = 0
	for i := b.use.Oldest; i != none; { // who goes on from a text is older than it
		at := i
		i = b.nodes[i].place.Newer
		if n := &b.nodes[at]; n.until == old && n.kids == 0 {
			b.free(at)
		}
	}
}
