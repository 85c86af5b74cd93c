package prefix

import (
	"math/bits"
	"time"

	"souk/bus"
)

// reported holds an agent's report of its cache. It raises the belief about that agent, and about no other;
// and where it covers nearly all, the agent is believed to hold nothing else but what was served just now.
type reported struct {
	hashes said     // by their short forms
	parts  []uint64 // of a whole of which not all was said yet
	seq    uint64   // of the last message
	base   uint64   // of the last whole, or the one that is being said
	part   int      // of that, which comes next
	known  bool     // a whole has been said, and nothing was missed since
	over   bool     // it says more than is remembered

	life     uint64 // of its engine
	coverage float64
	events   bool  // the engine publishes events
	heard    int64 // when the last whole was said
	muted    int64 // it is not heard until then
	watch    *Run  // in the agenda: what was reported expires, or is heard again

	misses, unsaid uint32 // of the last assertions that were judged, the latest in the lowest bit

	speaks bool // it counts: its prefixes are in the index
	rules  bool // and nothing else does
}

type said map[uint64]struct{}

const (
	// ruling is the share of its engine's cache that an agent must report for its report to rule.
	ruling = 0.9
	// three wholes that were not said: one comes each 72 seconds at the latest
	expiry = 3 * 72 * time.Second
	// of so many tasks that an agent got for its report, a few may have missed, and for half it must report
	// the hits. Else its reports are ignored for a while.
	judged    = 20
	mostMiss  = 2
	mostQuiet = judged / 2 // tasks whose answer was cut, so that its engine reported nothing, are among these
	notHeard  = 10 * time.Minute
	doubtful  = 10 // one part of so many, of what is guessed of the tokens of a prefix
	judgedNow = 1<<judged - 1
)

// Reported takes in a message of the agent's report. It returns whether one was missed, so that all is to be
// sent again: until then the report does not count.
func (b *Cache) Reported(h *bus.Holdings) (ask bool) {
	t := &b.reported
	if h.Seq <= t.seq {
		return false // it has overtaken this one
	}
	events := h.Evidence == bus.EvidenceEvents
	if t.seq > 0 && h.Life > t.life && (t.events || !events) { // else it has only begun to hear its engine
		b.Forget()
	}
	next := t.seq > 0 && h.Seq == t.seq+1 && h.Base == t.base
	t.seq, t.life = h.Seq, max(t.life, h.Life)
	switch {
	case h.Parts > 0 && h.Part == 0:
		t.base, t.part, t.parts = h.Base, 0, t.parts[:0]
	case !next, h.Parts > 0 && h.Part != t.part, h.Parts == 0 && !t.known:
		t.known, t.part = false, -1
		b.weigh()
		return true
	}
	t.part++
	if h.Parts == 0 {
		bus.EachShortHash(h.Drop, func(short uint64) { b.tell(short, false) })
		bus.EachShortHash(h.Add, func(short uint64) { b.tell(short, true) })
	} else if bus.EachShortHash(h.Add, func(short uint64) {
		if len(t.parts) <= b.index.limits.Reported { // one more tells that there are more
			t.parts = append(t.parts, short)
		}
	}); t.part == h.Parts {
		t.over = false
		b.retell(t.parts)
		t.known, t.heard, t.parts = true, b.index.now, nil
	}
	t.coverage, t.events = h.Coverage, events
	b.weigh()
	return false
}

// retell has the agent say these prefixes and no others.
func (b *Cache) retell(all []uint64) {
	still := make(said, len(all))
	for _, short := range all {
		still[short] = struct{}{}
	}
	for short := range b.reported.hashes {
		if _, says := still[short]; !says {
			b.tell(short, false)
		}
	}
	for _, short := range all {
		b.tell(short, true)
	}
}

// tell has a prefix in the report, or not.
func (b *Cache) tell(short uint64, holds bool) {
	t := &b.reported
	if _, held := t.hashes[short]; held == holds {
		return
	}
	switch {
	case !holds:
		delete(t.hashes, short)
	case len(t.hashes) >= b.index.limits.Reported:
		t.over = true
		return
	default:
		t.hashes[short] = struct{}{}
	}
	if t.speaks {
		b.tells(short, holds)
	}
}

// tells has a prefix of the report in the index, or not.
func (b *Cache) tells(short uint64, holds bool) {
	b.index.reported.hold(short, b.place, holds)
	b.index.change(short)
}

// says reports whether the agent's report has a prefix.
func (b *Cache) says(hash uint64) bool {
	_, ok := b.reported.hashes[bus.ShortHash(hash)]
	return ok
}

// shows reports whether the agent has a prefix by what was served there.
func (b *Cache) shows(hash uint64) bool {
	i, ok := b.find(hash)
	return ok && b.nodes[i].shown
}

// weigh decides whether the agent's report counts now, and whether it rules.
func (b *Cache) weigh() {
	t, now := &b.reported, b.index.now
	speaks := t.known && t.events && now >= t.muted && now < t.heard+expiry.Nanoseconds()
	rules := speaks && !t.over && t.coverage >= ruling
	if speaks != t.speaks {
		t.speaks = speaks
		for short := range t.hashes {
			b.tells(short, speaks)
		}
	}
	if rules != t.rules {
		t.rules = rules
		if b.showAll(); rules { // and what was served just now once more
			b.list(&Run{belief: b, leaf: none, state: over}, now+settled.Nanoseconds())
		}
	}
	if t.watch == nil && t.known {
		t.watch = &Run{belief: b, leaf: none, state: watching}
		b.rewatch()
	}
}

// rewatch puts the watch where the agent's word may next be worth more or less because of the time alone.
func (b *Cache) rewatch() {
	t, now := &b.reported, b.index.now
	at := t.heard + expiry.Nanoseconds()
	if t.muted > now {
		at = min(at, t.muted)
	}
	if at <= now {
		t.known, t.watch = false, nil // until all is said again
		b.weigh()
		return
	}
	b.list(t.watch, at)
}

// forget drops what was reported of an agent that goes.
func (t *reported) forget(b *Cache) {
	t.known, t.watch = false, nil
	b.weigh()
	*t = reported{hashes: said{}}
}

// Forget forgets all that the agent is believed to hold: its engine began anew. What tasks need that run is
// computed again, if they go on at all.
func (b *Cache) Forget() {
	b.sessions.Shrink(0)
	for b.use.Oldest != none {
		b.free(b.use.Oldest)
	}
	for i := range b.nodes {
		if n := &b.nodes[i]; n.born != 0 {
			b.answer(int32(i), 0)
			n.held, n.sure, n.exact = false, false, false
			b.show(int32(i))
		}
	}
	b.retell(nil)
}

// Asserted returns how many tokens of a prompt the agent is believed to hold only because it reported so. A
// report names a place in the text; the number of tokens before it may be a guess, and then a part is left
// out, so that nobody pays for wrong guesses. With pictures reports do not count, so nothing is asserted.
func (b *Cache) Asserted(p *bus.Prompt, estimate int) int {
	if !b.reported.speaks || p.Loose == bus.LooseMedia {
		return 0
	}
	depth, own := b.Depth(p), int32(0)
	for own < depth && b.shows(p.Prefixes[own].Hash) {
		own++ // where its word rules, that it was served there once counts no more
	}
	if own == depth {
		return 0
	}
	_, cached := b.ExpectAt(p, depth, estimate)
	// it said nothing of an answer
	cached = min(cached, b.upto(p, depth, p.Prefixes[depth-1].Bytes, estimate))
	if _, upto, exact := b.counted(p, depth); exact {
		cached -= max(0, cached-upto) / doubtful
	} else {
		cached -= cached / doubtful
	}
	return max(0, cached-b.block) / b.block * b.block
}

// Judge compares the cached tokens for which an agent got a task with those its engine found, -1 if it does
// not report them. The reports of an agent that is wrong, or silent, too often are ignored for a while.
func (b *Cache) Judge(asserted, found int) {
	t := &b.reported
	t.misses, t.unsaid = t.misses<<1&judgedNow, t.unsaid<<1&judgedNow
	switch {
	case found < 0:
		t.unsaid |= 1
	case found < asserted-2*b.block:
		t.misses |= 1
	}
	if bits.OnesCount32(t.misses) > mostMiss || bits.OnesCount32(t.unsaid) > mostQuiet {
		t.misses, t.unsaid, t.muted = 0, 0, b.index.now+notHeard.Nanoseconds()
		b.weigh()
		if t.watch != nil { // it comes sooner now
			t.watch.belief = nil
			t.watch = nil
			b.weigh()
		}
	}
}

// Speaks reports whether the agent's reports count, and Rules whether only they and what was just served do.
func (b *Cache) Speaks() bool { return b.reported.speaks }
func (b *Cache) Rules() bool  { return b.reported.rules }
