package prefix

import (
	"math"
	"slices"
	"sort"

	"souk/bus"
	"souk/bus/bounded"
)

// Cache is the believed content of one agent's cache: as reported, and as inferred from its tasks. It acts as
// the engine's cache does: texts that begin alike are held once, the prompts of running tasks stay, and of
// all else the least recently used goes first, from its end. Not for concurrent use.
type Cache struct {
	index    *Index
	place    uint16
	block    int // tokens of a KV block: only full blocks are reused
	capacity int // tokens of the KV cache, 0 if unknown

	nodes         []node
	spare         []int32
	byHash        map[uint64]int32
	most          int           // prefixes that are remembered of it
	use           bounded.Order // of what no task that runs needs
	tokens        int           // of all nodes and answers, and of tasks that run
	clock, births uint32        // ends of tasks, and nodes made, so far
	again         int8          // below 0: answers were not found with the texts that repeat them: see reread

	// What was last served of each session, which verifies what the same text needs.
	sessions *bounded.Cache[struct{}, uint64, session]

	reported reported // by the agent
	dropped  bool
}

// node is a prefix that the agent holds, or computes. Its parent is the prefix before.
type node struct {
	hash   uint64
	parent int32
	place  bounded.Place // by last use; a parent is always newer
	kids   int16
	runs   uint16 // tasks that run and need it: then it is not among those that may go
	answer int16  // tokens of the answer that was given here, until the text goes on: as many as fit
	upto   int32  // tokens of the text up to here, by what prompts were found to need
	used   uint32 // clock when it was last needed
	born   uint32 // its number among births: 0 if there is none in this place
	until  uint32 // it is believed in so long whatever its agent says; see Index.tick
	held   bool   // the agent is believed to hold it; else a task will compute it
	sure   bool   // it was served; else a task that runs is expected to have computed it
	shown  bool   // in the index
	exact  bool   // upto was counted; else it is guessed by bytes
}

// none is no node.
const none = bounded.None

type session struct {
	end    int32
	born   uint32
	bytes  int // of the prompt
	prompt int // tokens of the prompt
}

// New returns an empty cache of an agent. A block below 1 counts as 1; a capacity of 0 means unknown.
func (x *Index) New(block, capacity int) *Cache {
	i := slices.Index(x.agents, nil)
	if i < 0 {
		i, x.agents = len(x.agents), append(x.agents, nil)
	}
	if i > math.MaxUint16 {
		panic("prefix: more agents than a hub may know")
	}
	b := &Cache{index: x, place: uint16(i), block: max(1, block), capacity: max(0, capacity),
		reported: reported{hashes: said{}}, most: x.limits.hashes(capacity), use: bounded.Empty(),
		sessions: bounded.New[struct{}, uint64, session](x.limits.Sessions, 0), byHash: map[uint64]int32{}}
	x.agents[i] = b
	return b
}

// Drop forgets the agent. Its runs end as if they had been in vain.
func (b *Cache) Drop() {
	b.reported.forget(b)
	for i := range b.nodes {
		n := &b.nodes[i]
		n.held = false
		b.show(int32(i))
	}
	b.dropped = true
	b.index.agents[b.place] = nil
}

// find finds a prefix among the nodes.
func (b *Cache) find(hash uint64) (i int32, ok bool) {
	i, ok = b.byHash[hash]
	return i, ok
}

// Place is the agent's among the depths of [Index.Depths].
func (b *Cache) Place() int { return int(b.place) }

// ExpectAt returns the expected tokens of a prompt, given an estimate of the whole, and how many of them the
// agent is believed to hold (the numerator of Eq. 4, in tokens rather than characters), if it holds the first
// depth prefixes. Up to the last of these the tokens were counted before; the rest has its share of the
// estimate. Where an earlier prompt ended there and the new one goes on, the answer given then is held, too,
// since an engine caches output blocks like any other, unless texts that went on there did not find theirs.
// The last token of a prompt is always computed, and only full blocks are reused.
//
// For a prompt with pictures or sound the agent's report does not count, as prefixes do not show how many
// tokens these take: only what was served there is believed to be held.
func (b *Cache) ExpectAt(p *bus.Prompt, depth int32, estimate int) (tokens, cached int) {
	if p.Loose == bus.LooseMedia {
		depth = b.Had(p, 0, depth)
	}
	if depth <= 0 || int(depth) > len(p.Prefixes) || p.Bytes <= 0 {
		return estimate, 0
	}
	at := p.Prefixes[depth-1]
	i, ok := b.find(at.Hash)
	for p.Loose != bus.LooseMedia && ok && b.nodes[i].until == quiet && b.reported.rules && !b.says(at.Hash) {
		if depth--; depth == 0 { // it is shown for what goes on from it alone
			return estimate, 0
		}
		at = p.Prefixes[depth-1]
		i, ok = b.find(at.Hash)
	}
	if !ok { // the agent reports it, and its other texts are guessed
		tokens = max(1, b.upto(p, depth, p.Bytes, estimate))
		return tokens, min(b.upto(p, depth, at.Bytes, estimate), tokens-1) / b.block * b.block
	}
	n := &b.nodes[i]
	tokens = max(1, int(n.upto)+int(int64(estimate)*int64(p.Bytes-at.Bytes)/int64(p.Bytes)))
	cached = int(n.upto)
	if p.Bytes > at.Bytes && b.again >= 0 {
		cached += int(n.answer)
	}
	return tokens, min(cached, tokens-1) / b.block * b.block
}

// reread learns from a text that went on whether the answer that it repeats was found with it. An engine
// keeps the tokens that it wrote, and a tokenizer may make others of their text, or a template leave out a
// part. So answers count until a text that tells did not find its own, and again once several have.
func (b *Cache) reread(depth int, way []int32, prompt, found int) {
	if found < 0 || depth == 0 || depth >= len(way) {
		return
	}
	n := &b.nodes[way[depth-1]]
	without := int(n.upto) / b.block * b.block
	with := min(int(n.upto)+int(n.answer), prompt-1) / b.block * b.block
	if !n.sure || !n.exact || with-without < 2*b.block {
		return
	}
	switch {
	case found >= with-b.block:
		b.again = min(b.again+1, rereads-1)
	case found >= without-b.block && found <= without+b.block:
		b.again = max(b.again-3, -rereads)
	}
}

// rereads bounds the balance of texts that find their answers, of which each counts for three, against those
// that do not. So where every other answer is read otherwise, one turn in twenty is believed to find more
// than it does, and where one in fifty is, one in fifty.
const rereads = 4

// Had returns how many of a prompt's first prefixes, between least and most, were served there, or have begun
// to be, and fit in the cache beside all that was served since, whatever the agent says.
func (b *Cache) Had(p *bus.Prompt, least, most int32) int32 {
	most = min(most, int32(len(p.Prefixes)))
	had := func(i int32) bool {
		k, ok := b.find(p.Prefixes[i].Hash)
		return ok && b.nodes[k].held
	}
	if most <= least || !had(least) {
		return min(least, most)
	}
	// who holds a text holds all that it begins with
	least++
	beyond := func(k int) bool { return !had(least + int32(k)) }
	return least + int32(sort.Search(int(most-least), beyond))
}

// counted is the last of a prompt's first prefixes of which it is known how many tokens stand before it, and
// whether they were counted.
func (b *Cache) counted(p *bus.Prompt, prefixes int32) (bytes, upto int, exact bool) {
	k := sort.Search(int(prefixes), func(i int) bool { _, ok := b.find(p.Prefixes[i].Hash); return !ok })
	if k == 0 {
		return 0, 0, true
	}
	i, _ := b.find(p.Prefixes[k-1].Hash)
	n := &b.nodes[i]
	return p.Prefixes[k-1].Bytes, int(n.upto), n.exact
}

// upto guesses how many tokens a prompt has up to a byte at or behind so many prefixes.
func (b *Cache) upto(p *bus.Prompt, prefixes int32, to, estimate int) int {
	bytes, upto, _ := b.counted(p, prefixes)
	return upto + int(int64(estimate)*int64(to-bytes)/int64(p.Bytes))
}

// Depth returns how many of a prompt's prefixes the agent is believed to hold.
func (b *Cache) Depth(p *bus.Prompt) int32 {
	b.index.known = b.index.Depths(b.index.known, p.Prefixes)
	return b.index.known[b.place]
}

// Verified returns how many tokens of a prompt the agent holds by the text alone: those of the session's
// last prompt, where this one is the same or goes on from all of it. It is less than [Cache.ExpectAt],
// which also expects what is likely: that the answer given then is part of the new prompt, and that half
// a text has half its tokens. Whoever wrote the prompts may have seen to it that neither is so.
func (b *Cache) Verified(key uint64, p *bus.Prompt) int {
	s := b.sessions.Peek(key)
	if s == nil {
		return 0
	}
	i := sort.Search(len(p.Prefixes), func(i int) bool { return p.Prefixes[i].Bytes >= s.bytes })
	switch {
	case i == len(p.Prefixes) || b.nodes[s.end].born != s.born || !b.nodes[s.end].held ||
		p.Prefixes[i].Bytes != s.bytes || p.Prefixes[i].Hash != b.nodes[s.end].hash:
		return 0
	case p.Bytes > s.bytes: // the last block ended with what the template wrote for an answer to begin
		return max(0, s.prompt/b.block-1) * b.block
	}
	return s.prompt / b.block * b.block
}

// fits reports whether a prompt's prefixes are remembered.
func (b *Cache) fits(p *bus.Prompt) bool {
	return p.Bytes > 0 && len(p.Prefixes) > 0 && len(p.Prefixes) <= b.most
}

// Served records that the agent has computed a prompt of a session, 0 if of none, with its measured tokens.
// cached is the number that the engine reported, or -1 if it reports none. An engine that found nothing, or
// much less than it held for certain, has dropped what it did not find, and, as it drops the least recently
// used first, whatever was used before that: this is forgotten.
func (b *Cache) Served(r *Run, key uint64, p *bus.Prompt, prompt, output, cached int) {
	end, lost, short := none, uint32(0), false
	runs := b.of(r)
	if runs {
		if r.state == sent {
			b.begin(r)
		}
		end = r.leaf
		lost, short = b.lost(r, cached)
	}
	for short && b.use.Oldest != none && b.nodes[b.use.Oldest].used <= lost {
		b.free(b.use.Oldest)
	}
	prompt, output = min(prompt, bus.MaxTokens), min(max(0, output), bus.MaxTokens)
	if prompt > 0 && end == none && b.fits(p) {
		end = b.put(p, prompt, func(*node) {})
	}
	if prompt <= 0 || end == none {
		b.Ended(r)
		return
	}
	b.clock++
	way, depth := b.way(end), 0
	if runs {
		depth = int(r.depth)
	}
	b.reread(depth, way, prompt, cached)
	b.measure(depth, p, way, prompt, cached)
	for _, i := range slices.Backward(way) {
		n := &b.nodes[i]
		if p.Loose == bus.LooseMedia && !runs { // else its end will record it
			n.until = quiet
		}
		n.held = true
		if !n.sure {
			n.sure = true
			if n.parent != none { // an answer given there is part of this text, or is another
				b.answer(n.parent, 0)
			}
		} else if n.runs == 0 {
			b.use.Remove(b.neighbours, i)
		}
		if n.runs == 0 {
			n.used = b.clock
			b.use.Push(b.neighbours, i) // the newest of those that may go
		}
		b.show(i)
	}
	if runs {
		b.release(r)
	}
	if len(way) == len(p.Prefixes) {
		n := &b.nodes[end]
		if n.kids == 0 {
			b.answer(end, output)
		}
		if key != 0 {
			b.sessions.Put(struct{}{}, key, session{end, n.born, p.Bytes, prompt}, 1)
		}
	}
	b.fit()
}

// measure corrects how many tokens the text is thought to have up to the end of each prefix on the way, as
// the whole is known now, and what the engine found of what it held.
func (b *Cache) measure(d int, p *bus.Prompt, way []int32, prompt, found int) {
	held := 0
	for held < len(way) && b.nodes[way[held]].sure {
		held++
	}
	if found > 0 && d <= held {
		most := prompt
		if d < len(way) {
			most = int(b.nodes[way[d]].upto)
		}
		for i := d - 1; i >= 0 && !b.nodes[way[i]].exact; i-- {
			if upto := int(b.nodes[way[i]].upto); upto > found || i == d-1 && upto < found && found < most {
				b.move(way[i], found)
			}
		}
	}
	bytes, upto := 0, 0
	if held > 0 {
		bytes, upto = p.Prefixes[held-1].Bytes, int(b.nodes[way[held-1]].upto)
	}
	for i := held; i < len(way); i++ {
		b.move(way[i], between(p, p.Prefixes[i].Bytes, bytes, upto, prompt))
	}
	if len(way) == len(p.Prefixes) {
		b.move(way[len(way)-1], prompt)
		b.nodes[way[len(way)-1]].exact = true
	}
}

// lost reports whether the engine found much less for a run than it had held for certain, and when that was
// last used which it did not find.
func (b *Cache) lost(r *Run, cached int) (used uint32, any bool) {
	least := r.sure/4 - 2*b.block
	switch {
	case r.exact && cached == 0:
		least = r.sure
	case r.exact:
		least = r.sure*3/4 - 2*b.block
	}
	if cached < 0 || cached >= least {
		return 0, false
	}
	for i := r.leaf; i != none; i = b.nodes[i].parent {
		n := &b.nodes[i]
		if n.sure && n.used <= r.clock && (cached == 0 || int(n.upto) > cached+2*b.block) {
			used, any = n.used, true // of the first on the way
		}
	}
	return used, any
}
