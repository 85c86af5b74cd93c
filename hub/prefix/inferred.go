package prefix

import (
	"math"
	"slices"

	"souk/bus"
	"souk/bus/bounded"
)

// put finds a prompt's prefixes among the nodes, makes those that are missing, and returns the last. Each
// node that is there already is shown to known. A prefix that is there behind another text is no prefix of
// this one: there it ends.
func (b *Cache) put(p *bus.Prompt, prompt int, known func(*node)) int32 {
	last, i := none, 0
	for ; i < len(p.Prefixes); i++ {
		k, ok := b.find(p.Prefixes[i].Hash)
		if !ok {
			break
		}
		if b.nodes[k].parent != last {
			return last
		}
		known(&b.nodes[k])
		last = k
	}
	if !b.room(len(p.Prefixes)-i, last) {
		return none
	}
	bytes, upto := 0, 0
	if last != none {
		bytes, upto = p.Prefixes[i-1].Bytes, int(b.nodes[last].upto)
	}
	before := upto
	for ; i < len(p.Prefixes); i++ {
		if _, twice := b.find(p.Prefixes[i].Hash); twice {
			return last
		}
		at := between(p, p.Prefixes[i].Bytes, bytes, upto, min(prompt, bus.MaxTokens))
		k := b.alloc()
		b.births++
		b.nodes[k] = node{hash: p.Prefixes[i].Hash, parent: last, upto: int32(at),
			born: b.births}
		b.byHash[p.Prefixes[i].Hash] = k
		b.tokens += at - before
		if last != none {
			b.nodes[last].kids++
		}
		last, before = k, at
	}
	return last
}

// between guesses how many tokens a prompt has up to some byte, which has so many up to another and in all.
func between(p *bus.Prompt, at, bytes, upto, prompt int) int {
	return upto + int(int64(max(0, prompt-upto))*int64(at-bytes)/int64(max(1, p.Bytes-bytes)))
}

// way lists the nodes from the first prefix to one, in memory that the next call uses again.
func (b *Cache) way(end int32) []int32 {
	way := b.index.way[:0]
	for i := end; i != none; i = b.nodes[i].parent {
		way = append(way, i)
	}
	slices.Reverse(way)
	b.index.way = way
	return way
}

// move sets the number of tokens up to a node, at which the following text begins.
func (b *Cache) move(i int32, upto int) {
	n := &b.nodes[i]
	b.tokens += (upto - int(n.upto)) * int(1-n.kids)
	n.upto = int32(upto)
}

// Recount takes over how many tokens a prompt has up to the last prefix that another agent with the same
// tokenizer holds of it, too, if these are fewer than were guessed.
func (b *Cache) Recount(p *bus.Prompt, with *Cache) {
	depth := min(b.Depth(p), with.Depth(p))
	if depth == 0 {
		return
	}
	hash := p.Prefixes[depth-1].Hash
	i, held := b.find(hash)
	k, counted := with.find(hash)
	if !held || !counted {
		return
	}
	for upto := int(with.nodes[k].upto); i != none && !b.nodes[i].exact && int(b.nodes[i].upto) > upto; {
		b.move(i, upto)
		i = b.nodes[i].parent
	}
}

// room forgets what was used least recently until so many more prefixes can be remembered beside the text up
// to a node. It reports false if there is no room for them.
func (b *Cache) room(prefixes int, last int32) bool {
	most := b.limit()
	if len(b.byHash)+prefixes <= most {
		return true
	}
	for i := last; i != none; i = b.nodes[i].parent { // this text is used now
		if n := &b.nodes[i]; n.sure && n.runs == 0 {
			b.use.Remove(b.neighbours, i)
		}
	}
	for b.use.Oldest != none && len(b.byHash)+prefixes > most {
		b.free(b.use.Oldest)
	}
	way := b.way(last)
	for _, i := range slices.Backward(way) {
		if n := &b.nodes[i]; n.sure && n.runs == 0 {
			b.use.Push(b.neighbours, i) // as it is used now, it is the newest before long
		}
	}
	return len(b.byHash)+prefixes <= most
}

func (b *Cache) alloc() int32 {
	if n := len(b.spare); n > 0 {
		k := b.spare[n-1]
		b.spare = b.spare[:n-1]
		return k
	}
	if n := len(b.nodes); n == cap(b.nodes) { // no more than may be needed
		b.nodes = append(make([]node, 0, max(n+1, min(max(64, 2*n), b.most))), b.nodes...)
	}
	b.nodes = append(b.nodes, node{})
	return int32(len(b.nodes) - 1)
}

// free forgets a node without kids that no task needs.
func (b *Cache) free(i int32) {
	n := &b.nodes[i]
	b.tokens -= int(n.upto) + int(n.answer)
	if n.parent != none {
		b.tokens += int(b.nodes[n.parent].upto)
		b.nodes[n.parent].kids--
	}
	if n.sure {
		b.use.Remove(b.neighbours, i)
	}
	n.held = false
	b.show(i)
	delete(b.byHash, n.hash)
	*n = node{}
	b.spare = append(b.spare, i)
}

// limit bounds the prefixes that are remembered: half as many where the agent reports its cache.
func (b *Cache) limit() int {
	if b.reported.speaks {
		return b.most / 2
	}
	return b.most
}

// fit forgets the least recently used texts until the rest fits. Those of running tasks stay.
func (b *Cache) fit() {
	most := b.limit()
	for b.use.Oldest != none && (b.capacity > 0 && b.tokens > b.capacity || len(b.byHash) > most) {
		b.free(b.use.Oldest)
	}
}

// Resize sets the tokens that the engine has room for, 0 if not known: the least recently used texts that do
// not fit are no longer believed to be held.
func (b *Cache) Resize(capacity int) {
	b.capacity, b.most = max(0, capacity), b.index.limits.hashes(capacity)
	b.fit()
}

func (b *Cache) answer(i int32, tokens int) {
	n := &b.nodes[i]
	tokens = min(tokens, math.MaxInt16)
	b.tokens += tokens - int(n.answer)
	n.answer = int16(tokens)
}

func (b *Cache) neighbours(i int32) *bounded.Place { return &b.nodes[i].place }
