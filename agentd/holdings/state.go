// Package holdings knows what one engine holds in its cache, and says it as prefix hashes. The engine says
// which blocks of tokens it stores and removes; a prompt comes with the hashes of prefixes of its text, and
// with its tokens; so each prefix is tied to a block. Where the engine says nothing, nothing is known here:
// hubs infer what it holds from what was served. Values in, values out.
package holdings

import (
	"souk/agentd/kvevent"
	"souk/bus"
)

// State tracks the cache contents of one engine. Not for concurrent use.
type State struct {
	block    int    // tokens; 0: not known yet, and nothing is
	capacity int    // blocks; 0: unknown
	adapter  string // that all its prompts are computed with

	tree
	prefixes prefixes
	engine   map[kvevent.Key]copies // what the engine calls a block
	copies   int                    // of all blocks
	came     int                    // blocks that were stored since the engine held nothing

	events bool   // the engine says what it holds
	blind  bool   // it holds something that is not known
	Counts Counts // events that could not be applied

	pinned []int32 // blocks that prompts await, oldest first
	at     []int32 // scratch
	path   []int32

	say
}

type copies struct{ node, n int32 }

// Counts counts events that could not be applied, since the start.
type Counts struct {
	Unplaced int64 `json:"unplaced"` // blocks stored behind one that is not known
	Unknown  int64 `json:"unknown"`  // blocks removed that were not known; events of no use here
	Bad      int64 `json:"bad"`      // events that make no sense
	Blind    int64 `json:"blind"`    // times that all was forgotten, as something was missed
}

// Limits of what is remembered.
const (
	maxPinned = 64      // prompts whose blocks are awaited
	maxBlocks = 1 << 18 // where the engine's capacity is not known
	mostEver  = 1 << 21
)

// New returns the state of an engine that holds nothing, with blocks of so many tokens and room for so many;
// 0 where it is not known. seed spreads in time what many agents say; secret is known to this process alone.
func New(block, capacity int, seed uint64, secret [32]byte) *State {
	s := &State{say: say{seed: seed}, tree: tree{secret: secret}}
	s.sized(block, capacity)
	s.clear()
	return s
}

func (s *State) sized(block, capacity int) {
	s.block, s.capacity = max(0, block), 0
	if block > 0 {
		s.capacity = max(0, capacity) / block
	}
}

// Adapter says which LoRA adapter of the engine its prompts are computed with; empty: none. What the engine
// holds of other adapters, and of the model itself, is nothing to them.
func (s *State) Adapter(name string) {
	if s.adapter != name {
		s.adapter = name
		s.clear()
		s.blind = s.events
	}
}

// Became begins anew for an engine that was replaced: it holds nothing but what it has said since it began.
func (s *State) Became(block, capacity int) {
	s.sized(block, capacity)
	s.Restarted()
	s.blind = s.events
}

// Listen says that the engine says what it stores. Until it is known to begin from nothing, it may hold
// what is not known.
func (s *State) Listen() {
	if !s.events {
		s.events, s.blind = true, true
		s.clear()
	}
}

// clear forgets all blocks, and so all prefixes.
func (s *State) clear() {
	s.tree, s.engine, s.copies, s.came = newTree(s.secret), map[kvevent.Key]copies{}, 0, 0
	s.prefixes = prefixes{by: map[uint64]int32{}, lost: s.prefixes.lost}
	s.pinned = nil
	s.reset = true
}

// Restarted says that the engine holds nothing but what it is said to store from now on.
func (s *State) Restarted() {
	s.clear()
	s.blind = false
	s.life++
}

// Blind says that something was missed for good: what is known may be wrong, and is forgotten. Where nothing
// was heard, nothing was missed.
func (s *State) Blind() {
	if !s.events {
		return
	}
	s.clear()
	s.blind = true
	s.Counts.Blind++
}

// Evidence says how it is known what the engine holds.
func (s *State) Evidence() string {
	if s.events {
		return bus.EvidenceEvents
	}
	return bus.EvidenceInferred
}

// Prefixes returns the number of prefixes held, Blocks the number of blocks.
func (s *State) Prefixes() int { return s.prefixes.held }

// Coverage is the share of what the engine holds that is known here and was said. Of an engine that was
// heard from its beginning, that is as much as it stored and has room for; of another one, all of its room
// may hold something.
func (s *State) Coverage() float64 {
	total := s.capacity
	if !s.blind && (total == 0 || s.came < total) {
		total = s.came
	}
	switch {
	case !s.events || s.blind && total == 0:
		return 0
	case total == 0:
		return 1
	}
	share := min(1, float64(s.copies)/float64(total))
	if most := max(s.prefixes.held, s.prefixes.said); most > 0 {
		share *= float64(min(s.prefixes.held, s.prefixes.said)) / float64(most)
	}
	return share
}

// Apply takes in what the engine said.
func (s *State) Apply(b kvevent.Batch) {
	s.Listen()
	s.Counts.Unknown += int64(b.Unknown)
	s.Counts.Bad += int64(b.Bad)
	s.came += b.Bad
	for i := range b.Events {
		switch e := &b.Events[i]; {
		case e.Host:
		case e.Kind == kvevent.Stored:
			s.stored(e)
		case e.Kind == kvevent.Removed:
			s.removed(e)
		case e.Kind == kvevent.Cleared:
			s.Restarted()
		}
	}
	if b.Lost || s.size() > s.most() || len(s.engine) > s.most() {
		s.Blind()
	}
}

// most bounds the blocks that are remembered: what the engine has room for, as often as prompts may await it
// and holes may be in it.
func (s *State) most() int {
	if s.capacity == 0 {
		return maxBlocks
	}
	return min(mostEver, 2*s.capacity+4096)
}

func (s *State) stored(e *kvevent.Event) {
	n := len(e.Blocks)
	if s.block == 0 {
		s.block = max(0, e.BlockSize)
	}
	if s.block == 0 || e.BlockSize != s.block || len(e.Tokens) != n*s.block {
		s.Counts.Bad++
		s.came += n
		return
	}
	s.came += n
	at := int32(0)
	if e.HasParent {
		up, ok := s.engine[e.Parent]
		if !ok {
			s.Counts.Unplaced += int64(n)
			return
		}
		at = up.node
	}
	for i, name := range e.Blocks {
		k := s.follow(at, s.chain(s.nodes[at].key, e.Space, e.Tokens[i*s.block:(i+1)*s.block]))
		c, known := s.engine[name]
		if k == none || known && c.node != k { // one name for two texts: nothing is sure any more
			s.Counts.Bad++
			s.Blind()
			return
		}
		s.engine[name] = copies{k, c.n + 1}
		s.copies++
		s.hold(k, s.prefixesTurned)
		at = k
	}
}

func (s *State) removed(e *kvevent.Event) {
	for _, name := range e.Blocks {
		c, ok := s.engine[name]
		if !ok {
			s.Counts.Unknown++
			continue
		}
		if c.n--; c.n == 0 {
			delete(s.engine, name)
		} else {
			s.engine[name] = c
		}
		s.drop(c.node)
	}
}

// drop takes away a copy of a block.
func (s *State) drop(k int32) {
	s.copies--
	s.letGo(k, s.prefixesTurned)
	s.prune(k, s.freed)
}

// prefixesTurned notes that the prefixes of a block are held now, or are no longer.
func (s *State) prefixesTurned(k int32) {
	n := &s.nodes[k]
	by := 1
	if !n.whole {
		by = -1
	}
	s.prefixes.held += by * len(n.prefixes)
	for _, i := range n.prefixes {
		s.turned(i)
	}
}

// freed forgets the prefixes of a block that goes.
func (s *State) freed(n *node) {
	for len(n.prefixes) > 0 {
		s.forget(n.prefixes[len(n.prefixes)-1])
	}
}

// Prompt takes in a prompt that the engine has computed: what there is to know of its text, its tokens, and
// the salt that it was asked with, if it was, which has blocks of these tokens be others than those of
// another salt.
func (s *State) Prompt(p *bus.Prompt, ids []uint32, salt string) {
	if !s.events || s.block == 0 || len(ids) == 0 || len(ids) > bus.MaxTokens || p.Loose == bus.LooseMedia {
		return
	}
	path, shared := append(s.path[:0], 0), 0
	room := s.most() - s.size()
	space, behind := kvevent.SpaceOf(s.adapter, salt)
	for i := 0; i+s.block <= len(ids) && room > 0; i += s.block {
		up := path[len(path)-1]
		before := s.size()
		k := s.follow(up, s.chain(s.nodes[up].key, space, ids[i:i+s.block]))
		space = behind
		if k == none {
			break
		}
		room -= s.size() - before
		path = append(path, k)
		if n := &s.nodes[k]; n.seen {
			shared = len(path) - 1
		} else {
			n.seen = true
		}
	}
	s.path = path
	s.pin(path[len(path)-1])
	if p.Next.Of(p.Prefixes) {
		if _, known := s.prefixes.by[bus.ShortHash(p.Next.At(0))]; known {
			turned := *p
			turned.Turn()
			p = &turned
		}
	}
	s.place(p, path, len(ids), int32(shared))
}

// pin keeps the blocks of a prompt in the tree until the engine has had time to say that it stored them.
func (s *State) pin(leaf int32) {
	s.nodes[leaf].pins++
	s.pinned = append(s.pinned, leaf)
	for len(s.pinned) > maxPinned || len(s.pinned) > 1 && s.size() > s.most()*3/4 {
		k := s.pinned[0]
		s.pinned = append(s.pinned[:0], s.pinned[1:]...)
		s.nodes[k].pins--
		s.prune(k, s.freed)
	}
}
