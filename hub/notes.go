package hub

import (
	"souk/hub/prefix"
)

// notes are what a task keeps while it waits: its quotes, and what agents hold of its prompt.
type notes struct {
	looked bool
	since  uint64 // by the index's changes: when holds was looked up
	holds  []holding
	found  []prefix.Holder
	quotes [quotesKept]noted
}

// holding is what an agent holds of a task's prompt.
type holding struct {
	prefix.Holder
	known         bool   // held is of these:
	changes, fits uint64 // of the agent's cache, and of its predictor
	held          held
}

// heldOf is what agents hold of a task's prompt.
func (n *Node) heldOf(t *task) []holding {
	k, x := n.notes(t), n.prefixes
	if k.looked && k.since == x.Changes() {
		return k.holds
	}
	if p := &t.msg.Prompt; !k.looked || x.Changed(p.Prefixes, k.since) {
		x.Resolve(p)
		k.looked, k.holds = true, k.holds[:0]
		k.found = x.Holders(k.found[:0], p.Prefixes)
		for _, f := range k.found {
			k.holds = append(k.holds, holding{Holder: f})
		}
	}
	k.since = x.Changes()
	return k.holds
}

// heldBy is what an agent holds of a prompt.
func (n *Node) heldBy(t *task, a *agent) held {
	holds := n.heldOf(t)
	for i := range holds {
		if h := &holds[i]; h.Place == a.place {
			return h.of(a, t)
		}
	}
	return a.cold(t)
}

// of is what an agent holds.
func (h *holding) of(a *agent, t *task) held {
	changes, fits := a.cache.Changes(), a.predictor.Fits()
	if !h.known || h.changes != changes || h.fits != fits {
		p := &t.msg.Prompt
		h.known, h.changes, h.fits = true, changes, fits
		h.held.tokens, h.held.cached = a.cache.ExpectAt(p, h.Depth, a.predictor.Tokens(p.Tokens))
	}
	return h.held
}

// cold is what is expected of a prompt that an agent holds nothing of.
func (a *agent) cold(t *task) held { return held{tokens: a.predictor.Tokens(t.msg.Prompt.Tokens)} }

// notes returns the notes of a task.
func (n *Node) notes(t *task) *notes {
	if t.notes == nil {
		if k, last := &n.kinds, len(n.kinds.spare)-1; last >= 0 {
			t.notes, k.spare = k.spare[last], k.spare[:last]
		} else {
			t.notes = new(notes)
		}
	}
	return t.notes
}

// unquote gives up the notes of a task that waits no more.
func (n *Node) unquote(t *task) {
	if k := t.notes; k != nil && len(n.kinds.spare) < 64 {
		for i := range k.quotes {
			k.quotes[i].kind = nil // what is of none is made anew
		}
		k.looked = false
		n.kinds.spare = append(n.kinds.spare, k)
	}
	t.notes, t.length = nil, length{}
}
