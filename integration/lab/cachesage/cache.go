// Package cachesage compares rules by which an engine gives up blocks of its cache, on the calls of agents
// that work together: a simulation of the cache alone, in which every rule sees the same calls at the same
// times.
package cachesage

import (
	"container/heap"
	"math"
	"time"

	"souk/bus/policy"
	"souk/integration/lab/cachesage/sage"
)

// node is a block in the cache. Those of a prompt are a chain; what begins alike is there once.
type node struct {
	hash     uint64
	parent   *node
	children int
	refs     int
	depth    int32
	group    *group
	used     int64 // when it was last let go
	times    int32 // how often it was used
	key      float64
	stamp    uint32 // of its latest place in a heap
	gone     bool
}

// group is blocks that are worth the same: the anchor of a role, or what a session has behind one.
type group struct {
	session, role policy.ID // session 0: an anchor
	leaves        queue
	blocks        int
	order         int // of making, so that equal groups are told apart
	last          time.Time
}

// place is a block in a heap; one whose stamp is not the block's is no longer meant.
type place struct {
	n     *node
	key   float64
	stamp uint32
}

// queue gives up the block of the least key first, and of equals the deepest.
type queue []place

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	if q[i].key != q[j].key {
		return q[i].key < q[j].key
	}
	if q[i].n.depth != q[j].n.depth {
		return q[i].n.depth > q[j].n.depth
	}
	return q[i].n.hash < q[j].n.hash
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(place)) }
func (q *queue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

// peek is the first that is still meant.
func (q *queue) peek() *node {
	for len(*q) > 0 {
		p := (*q)[0]
		if !p.n.gone && p.stamp == p.n.stamp && p.n.refs == 0 && p.n.children == 0 {
			return p.n
		}
		heap.Pop(q)
	}
	return nil
}

// cache is an engine's, of so many blocks.
type cache struct {
	room   int // blocks
	nodes  map[uint64]*node
	groups []*group
	of     map[[2]policy.ID]*group
	by     rule
	now    time.Time
	clock  int64
	leaves queue // of all groups, by the rule's own key
	made   int
	over   []*group // of sessions that have ended, as was told
}

// ended notes that a session is told to have ended: what it has is used no more.
func (c *cache) ended(session policy.ID) {
	for _, g := range c.alive() {
		if g.session == session && session != 0 {
			c.over = append(c.over, g)
		}
	}
}

// dead is a block of a session that was told to have ended; nil: there is none that may go.
func (c *cache) dead() (n *node) {
	kept := c.over[:0]
	for _, g := range c.over {
		if g.blocks > 0 {
			kept = append(kept, g)
			if n == nil {
				n = g.leaves.peek()
			}
		}
	}
	c.over = kept
	return n
}

// rule says which block goes first.
type rule interface {
	// used says that a block was let go; what it returns is its key among all leaves, least first.
	used(c *cache, n *node) float64
	// victim is the block that goes; nil: the first of all by their keys.
	victim(c *cache) *node
}

func newCache(room int, by rule) *cache {
	return &cache{room: room, nodes: map[uint64]*node{}, of: map[[2]policy.ID]*group{}, by: by}
}

func (c *cache) group(session, role policy.ID) *group {
	k := [2]policy.ID{session, role}
	g := c.of[k]
	if g == nil {
		c.made++
		g = &group{session: session, role: role, order: c.made}
		c.of[k] = g
		c.groups = append(c.groups, g)
	}
	return g
}

// take has a call find what it can of its blocks and makes room for the rest, as far as others in flight
// leave any. It returns the blocks that it holds and how many were found.
func (c *cache) take(call *Call, blocks []uint64, held []*node) (all []*node, found int) {
	all = held
	for len(all) < len(blocks) {
		n := c.nodes[blocks[len(all)]]
		if n == nil {
			break
		}
		n.refs++
		n.times++
		all = append(all, n)
	}
	found = len(all)
	for len(all) < len(blocks) {
		if len(c.nodes) >= c.room && !c.evict() {
			break
		}
		i := len(all)
		n := &node{hash: blocks[i], depth: int32(i), refs: 1, times: 1}
		if i > 0 {
			n.parent = all[i-1]
			n.parent.children++
		}
		if i < call.Anchor {
			n.group = c.group(0, call.Role)
		} else {
			n.group = c.group(call.Session, call.Role)
		}
		n.group.blocks++
		c.nodes[n.hash] = n
		all = append(all, n)
	}
	return all, found
}

// release lets go of a call's blocks.
func (c *cache) release(all []*node) {
	c.clock++
	for i := len(all) - 1; i >= 0; i-- {
		n := all[i]
		if n.refs--; n.refs == 0 {
			n.used = c.clock
			n.group.last = c.now
			n.key = c.by.used(c, n)
			c.queue(n)
		}
	}
}

// queue has a block wait to be given up, if it is a leaf.
func (c *cache) queue(n *node) {
	n.stamp++
	if n.children == 0 {
		heap.Push(&c.leaves, place{n, n.key, n.stamp})
		heap.Push(&n.group.leaves, place{n, float64(n.used), n.stamp})
	}
}

// evict gives up one block; false: all are in use.
func (c *cache) evict() bool {
	n := c.by.victim(c)
	if n == nil {
		n = c.leaves.peek()
	}
	if n == nil {
		return false
	}
	n.gone = true
	delete(c.nodes, n.hash)
	if n.group.blocks--; n.group.blocks == 0 {
		delete(c.of, [2]policy.ID{n.group.session, n.group.role})
	}
	if p := n.parent; p != nil {
		if p.children--; p.children == 0 && p.refs == 0 {
			c.queue(p)
		}
	}
	return true
}

// alive drops groups that have no blocks from the list.
func (c *cache) alive() []*group {
	kept := c.groups[:0]
	for _, g := range c.groups {
		if g.blocks > 0 {
			kept = append(kept, g)
		}
	}
	c.groups = kept
	return kept
}

// lru gives up what was used longest ago.
type lru struct{}

func (lru) used(_ *cache, n *node) float64 { return float64(n.used) }
func (lru) victim(*cache) *node            { return nil }

// told is lru, but what belongs to sessions that have ended goes before all else.
type told struct{ lru }

func (told) victim(c *cache) *node { return c.dead() }

// lfu gives up what was used least often, and of equals longest ago.
type lfu struct{}

func (lfu) used(_ *cache, n *node) float64 { return float64(n.times) + float64(n.used)*1e-9 }
func (lfu) victim(*cache) *node            { return nil }

// arc keeps a balance between what was used once and more often, by what it gave up of either too early
// (Megiddo and Modha, FAST 2003), leaf first.
type arc struct {
	target float64
	b1, b2 map[uint64]bool
	l1, l2 []uint64
}

func newARC() *arc { return &arc{b1: map[uint64]bool{}, b2: map[uint64]bool{}} }

func (a *arc) used(c *cache, n *node) float64 {
	if n.times == 1 {
		switch {
		case a.b1[n.hash]:
			a.target = min(a.target+max(1, float64(len(a.b2))/float64(max(1, len(a.b1)))), float64(c.room))
			n.times = 2
		case a.b2[n.hash]:
			a.target = max(a.target-max(1, float64(len(a.b1))/float64(max(1, len(a.b2)))), 0)
			n.times = 2
		}
		delete(a.b1, n.hash)
		delete(a.b2, n.hash)
	}
	return float64(n.used)
}

func (a *arc) victim(c *cache) *node {
	var first, again *node // leaves used once, and more often, longest ago
	ones := 0
	for _, g := range c.alive() {
		n := g.leaves.peek()
		if n == nil {
			continue
		}
		if n.times == 1 {
			ones += g.blocks
			if first == nil || n.used < first.used || n.used == first.used && n.depth > first.depth {
				first = n
			}
		} else if again == nil || n.used < again.used || n.used == again.used && n.depth > again.depth {
			again = n
		}
	}
	n := again
	if first != nil && (again == nil || float64(ones) > a.target) {
		n = first
	}
	if n == nil {
		return nil
	}
	ghosts, list := a.b2, &a.l2
	if n == first {
		ghosts, list = a.b1, &a.l1
	}
	ghosts[n.hash] = true
	if *list = append(*list, n.hash); len(*list) > c.room {
		delete(ghosts, (*list)[0])
		*list = (*list)[1:]
	}
	return n
}

// pinned gives up anchors last.
type pinned struct{}

func (pinned) used(_ *cache, n *node) float64 {
	if n.group.session == 0 {
		return float64(n.used) + 1e15
	}
	return float64(n.used)
}
func (pinned) victim(*cache) *node { return nil }

// ttl gives up what was used longest ago, but nothing that was used within so long while there is other.
type ttl time.Duration

func (ttl) used(_ *cache, n *node) float64 { return float64(n.used) }
func (t ttl) victim(c *cache) *node {
	var best *node
	for _, g := range c.alive() {
		if c.now.Sub(g.last) < time.Duration(t) {
			continue
		}
		if n := g.leaves.peek(); n != nil && (best == nil || n.used < best.used ||
			n.used == best.used && n.depth > best.depth) {
			best = n
		}
	}
	return best
}

// belady gives up what is used again last, which it knows.
type belady struct{ next func(hash uint64) float64 }

func (b belady) used(_ *cache, n *node) float64 { return -b.next(n.hash) }
func (b belady) victim(*cache) *node            { return nil }

// scored gives up what a Sage thinks is worth least.
type scored struct {
	sage  *sage.Sage
	block int // tokens
	// what recency counts beside a role, in the published score
	recency float64
	// of how often each of two ghosts found a block that was wanted, the difference, which fades
	duel *float64
	at   *chosen
}

// chosen is the group that was worth least, when nothing was let go since.
type chosen struct {
	clock int64
	group *group
	left  int
}

// sameGroup is the number of blocks of a group that are evicted before all groups are compared again.
const sameGroup = 16

func (s scored) used(_ *cache, n *node) float64 { return float64(n.used) }

// worth is the score of a group's first leaf.
func (s scored) worth(c *cache, g *group, n *node, oldest int64) float64 {
	if s.sage.Paper {
		p := s.sage.Anchor(g.role)
		return p + s.recency*float64(n.used-oldest)/math.Max(1, float64(c.clock-oldest))
	}
	p := 0.0
	if g.session == 0 {
		p = s.sage.Anchor(g.role)
	} else {
		p = s.sage.Tail(c.now, g.session, g.role)
	}
	return p * s.sage.Seconds(s.block, int(n.depth)*s.block)
}

func (s scored) victim(c *cache) *node {
	if s.duel != nil && *s.duel < 0 {
		return told{}.victim(c)
	}
	if s.at.clock == c.clock && s.at.left > 0 {
		s.at.left--
		if n := s.at.group.leaves.peek(); n != nil {
			return n
		}
	}
	oldest := c.clock
	groups := c.alive()
	for _, g := range groups {
		if n := g.leaves.peek(); n != nil {
			oldest = min(oldest, n.used)
		}
	}
	var best *node
	least := math.Inf(1)
	for _, g := range groups {
		n := g.leaves.peek()
		if n == nil {
			continue
		}
		w := s.worth(c, g, n, oldest)
		if w < least || w == least && (n.used < best.used || n.used == best.used && n.depth > best.depth) {
			best, least = n, w
		}
	}
	if best != nil {
		*s.at = chosen{c.clock, best.group, max(sameGroup, c.room/64)}
	}
	return best
}
