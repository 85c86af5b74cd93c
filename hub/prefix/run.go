package prefix

import (
	"container/heap"
	"math"
	"time"

	"souk/bus"
)

// Run is a task's part of an agent's cache: expected to be computed by some time, and then held until the
// task has ended. nil stands for none.
type Run struct {
	belief *Cache
	leaf   int32
	born   uint32 // of the leaf
	tokens int    // beyond the nodes
	depth  int32  // prefixes that were held for certain when it was sent
	sure   int    // tokens of these
	exact  bool   // whose number is exact
	clock  uint32 // when it was sent
	media  bool   // pictures or sound are part of its prompt
	state  runState
	at     int64 // when something becomes of it
	listed bool  // in the agenda
	ends   int64 // of one that is over: until when it is vouched for
}

type runState uint8

const (
	sent     runState = iota // its first token has not come
	begun                    // it has, or should have
	over                     // it no longer runs; what it left is vouched for a little longer
	watching                 // it is of no task: see reported
)

// Before and Placed implement bounded.Heap, by the time of the next change.
func (r *Run) Before(o *Run) bool { return r.at < o.at }
func (r *Run) Placed(at int)      { r.listed = at > 0 }

// settled is how long a served text is believed to be held although the agent has not reported it yet.
const settled = 2 * time.Second

// Advance lets time pass, in nanoseconds from any beginning: prompts whose first tokens were expected by now
// are in caches.
func (x *Index) Advance(now int64) {
	if x.now == 0 {
		x.began = now
	}
	x.now = max(x.now, now)
	for len(x.due) > 0 && x.due[0].at <= x.now {
		r := heap.Pop(&x.due).(*Run)
		switch b := r.belief; {
		case b == nil || b.dropped:
		case r.state == sent:
			b.begin(r)
		case r.state == over && r.ends > x.now:
			b.list(r, r.ends)
		case r.state == over && r.leaf != none && b.nodes[r.leaf].born == r.born:
			// what it had believed to be held is left only as far as its agent reports it
			for i := r.leaf; i != none; i = b.nodes[i].parent {
				b.show(i)
			}
		case r.state == over:
			b.showAll() // some of it is gone
		case r.state == watching:
			b.weigh()
			b.rewatch()
		}
	}
}

// list sets the time of a run's next change.
func (b *Cache) list(r *Run, at int64) {
	r.at = at
	heap.Push(&b.index.due, r)
}

func (x *Index) tick() uint32 { return uint32((x.now - x.began) / int64(tick)) }

const (
	tick = time.Second / 10
	// always is later than every tick, and so is quiet: of texts of which agents do not say what they hold,
	// and of what those begin with, for their sake
	always = math.MaxUint32
	quiet  = always - 1
)

// Sent says that a prompt goes to the agent, where it is expected to need so many tokens, and so many for its
// answer, and to have its first token at some time, as [Index.Advance] has it: then the engine holds the
// prompt. Room is made for all of it at once, though the engine may do so a little later: what is believed
// beyond what is there would double where tasks that run need most of the cache.
func (b *Cache) Sent(p *bus.Prompt, prompt, output int, first int64) *Run {
	r := &Run{belief: b, leaf: none, tokens: max(0, output), clock: b.clock,
		media: p.Loose == bus.LooseMedia}
	// One task more of a text than are counted is of no text: once the others have ended the agent may hold
	// what it is not believed to. No later prefix has as many that the first has not: who runs with a prefix
	// runs with all before it.
	full := func() bool {
		i, ok := b.find(p.Prefixes[0].Hash)
		return ok && b.nodes[i].runs == math.MaxUint16
	}
	if b.fits(p) && !full() {
		r.leaf = b.put(p, prompt, func(n *node) {
			if n.sure {
				r.depth++
				r.exact = n.exact
			}
		})
		_, r.sure = b.ExpectAt(p, r.depth, prompt)
		for i := r.leaf; i != none; i = b.nodes[i].parent {
			if b.nodes[i].runs++; b.nodes[i].runs == 1 && b.nodes[i].sure {
				b.use.Remove(b.neighbours, i)
			}
		}
	}
	if r.leaf == none {
		r.tokens += max(0, prompt)
	} else {
		r.born = b.nodes[r.leaf].born
	}
	b.tokens += r.tokens
	b.fit()
	if first <= b.index.now {
		b.begin(r)
	} else {
		b.list(r, first)
	}
	return r
}

// begin notes that a run's first token has come.
func (b *Cache) begin(r *Run) {
	r.state = begun
	for i := r.leaf; i != none; i = b.nodes[i].parent {
		n := &b.nodes[i]
		if n.held = true; n.until != quiet {
			n.until = always
		}
		b.show(i)
	}
}

// show has a node in the index where its agent is believed to hold it: not where the agent says what it
// holds, and has had time to say so.
func (b *Cache) show(i int32) {
	n := &b.nodes[i]
	shown := n.held && (!b.reported.rules || n.until > b.index.tick())
	if shown == n.shown {
		return
	}
	n.shown = shown
	b.index.own.hold(n.hash, b.place, shown)
	b.index.change(bus.ShortHash(n.hash))
}

func (b *Cache) showAll() {
	for i := range b.nodes {
		if b.nodes[i].born != 0 {
			b.show(int32(i))
		}
	}
}

// Ended notes that a task no longer runs, where it is not known what it left in the cache.
func (b *Cache) Ended(r *Run) {
	if b.of(r) {
		b.release(r)
		b.fit()
	}
}

// of reports whether a run is the agent's, and runs.
func (b *Cache) of(r *Run) bool { return r != nil && r.belief == b && r.state != over }

// release is Ended, but for what then does not fit.
func (b *Cache) release(r *Run) {
	b.tokens -= r.tokens
	b.clock++
	until := b.index.tick() + uint32(settled/tick)
	pictured := r.media && r.state == begun
	r.state, r.ends = over, b.index.began+int64(until)*int64(tick)
	for i := r.leaf; i != none; {
		n := &b.nodes[i]
		up := n.parent
		if pictured && n.until == always { // and so is all before it, whatever else is served of that
			n.until = quiet
		}
		if n.runs--; n.runs == 0 {
			if n.until == always { // else it had not begun
				n.until = until
			}
			if n.sure {
				n.used = b.clock
				b.use.Push(b.neighbours, i)
			} else {
				b.free(i)
			}
		}
		i = up
	}
	if r.listed && r.at > r.ends { // its first token was expected later than it was over
		r = &Run{belief: b, leaf: r.leaf, born: r.born, state: over, ends: r.ends}
	}
	if b.reported.rules && !r.listed {
		b.list(r, r.ends)
	}
}
