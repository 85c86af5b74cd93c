package prefix

import "time"

// An agent that was restarted beside an engine that was not hears which blocks the engine holds, and of none
// of them which text it is. It says how many they are. What was served in its earlier life is believed as far
// as it fits into so many, what was used last first; so nothing is where the engine began anew as well.

// rehears is how long an agent may take to hear all of that. After it the blocks of unknown text only become
// fewer: those that come are of what somebody else asked for.
const rehears = 10 * time.Second

// Again says that the agent was restarted, and that its engine may be as it was.
func (b *Cache) Again() {
	if w := b.reported.watch; w != nil {
		w.belief = nil
	}
	b.reported.forget(b)
	b.doubt()
}

// doubt believes nothing of what was served, until the agent says for how much of it there is room.
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
	b.changes++
}

// found has the agent hold a node by what it does now. For itself that is believed like what else is served
// now; where a text goes on from it that is old, it is shown as long as that may be.
func (b *Cache) found(n *node) {
	n.held = true
	if n.until == old {
		b.olds--
		b.changes++
		if n.until = 0; n.kids > 0 {
			n.until = quiet
		}
	}
}

// trust believes as much of what is old as so many blocks have room for.
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
			b.changes++
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
