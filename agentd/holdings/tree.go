package holdings

import (
	"encoding/binary"

	"github.com/minio/highwayhash"

	"souk/agentd/kvevent"
	"souk/bus/bounded"
)

// tree has the blocks of an engine's cache by the text that they end: each block follows another, and so has
// one name wherever it is computed, whatever the engine calls it. Blocks that are not held are in it only as
// long as something else needs them there.
type tree struct {
	secret [32]byte // of the names of blocks

	nodes  []node // the first is before every text, and always held
	spare  []int32
	byKey  map[uint64]int32
	Blocks int // nodes that are whole
	stack  []int32
}

// node is a block.
type node struct {
	key        uint64 // of its tokens and all before them
	parent     int32
	kid        int32   // the first of those that follow it
	next, prev int32   // among the kids of its parent
	depth      int32   // blocks of the text up to its end
	copies     int32   // that the engine holds
	pins       int32   // prompts that await it
	prefixes   []int32 // that are tied to it, the newest last
	whole      bool    // it is held, and so is all before it
	seen       bool    // it is of a prompt, not only of an answer
}

// none is no node and no prefix.
const none = bounded.None

func newTree(secret [32]byte) tree {
	return tree{secret: secret, byKey: map[uint64]int32{}, nodes: []node{{parent: none, kid: none, next: none,
		prev: none, copies: 1, whole: true, seen: true}}}
}

// chain names the block of some tokens that follows another one. space is not zero where something else than
// tokens makes the block another. Who writes prompts chooses tokens, and does not know the secret: so nobody
// makes two texts that have one name.
func (t *tree) chain(parent uint64, space kvevent.Space, tokens []uint32) uint64 {
	var room [8 + 16 + 4*128]byte
	b := binary.LittleEndian.AppendUint64(room[:0], parent)
	if space != (kvevent.Space{}) {
		b = append(b, space[:]...)
	}
	for _, id := range tokens {
		b = binary.LittleEndian.AppendUint32(b, id)
	}
	return highwayhash.Sum64(b, t.secret[:])
}

// follow finds the block of a key behind a parent, or makes it; none, if the key is another block's.
func (t *tree) follow(parent int32, key uint64) int32 {
	k, ok := t.byKey[key]
	switch {
	case ok && t.nodes[k].parent == parent:
		return k
	case ok:
		return none
	}
	if n := len(t.spare); n > 0 {
		k, t.spare = t.spare[n-1], t.spare[:n-1]
	} else {
		k = int32(len(t.nodes))
		t.nodes = append(t.nodes, node{})
	}
	up := &t.nodes[parent]
	t.nodes[k] = node{key: key, parent: parent, kid: none, next: up.kid, prev: none, depth: up.depth + 1}
	if up.kid != none {
		t.nodes[up.kid].prev = k
	}
	up.kid = k
	t.byKey[key] = k
	return k
}

// hold adds a copy of a block, and calls turned with each block that is whole now and was not.
func (t *tree) hold(k int32, turned func(k int32)) {
	n := &t.nodes[k]
	if n.copies++; n.copies == 1 && t.nodes[n.parent].whole {
		t.turn(k, true, turned)
	}
}

// letGo takes away a copy, and calls turned with each block that is not whole now and was.
func (t *tree) letGo(k int32, turned func(k int32)) {
	n := &t.nodes[k]
	if n.copies--; n.copies == 0 && n.whole {
		t.turn(k, false, turned)
	}
}

// turn makes a block whole, or not, and all that follow it and are held.
func (t *tree) turn(k int32, whole bool, turned func(k int32)) {
	t.stack = append(t.stack[:0], k)
	for len(t.stack) > 0 {
		k := t.stack[len(t.stack)-1]
		t.stack = t.stack[:len(t.stack)-1]
		n := &t.nodes[k]
		n.whole = whole
		if whole {
			t.Blocks++
		} else {
			t.Blocks--
		}
		turned(k)
		for kid := n.kid; kid != none; kid = t.nodes[kid].next {
			if t.nodes[kid].copies > 0 {
				t.stack = append(t.stack, kid)
			}
		}
	}
}

// prune takes a block out of the tree that nothing needs there, and then those before it.
func (t *tree) prune(k int32, free func(n *node)) {
	for k != 0 {
		n := &t.nodes[k]
		if n.copies > 0 || n.kid != none || n.pins > 0 {
			return
		}
		free(n)
		if n.prev != none {
			t.nodes[n.prev].next = n.next
		} else {
			t.nodes[n.parent].kid = n.next
		}
		if n.next != none {
			t.nodes[n.next].prev = n.prev
		}
		delete(t.byKey, n.key)
		k, t.spare = n.parent, append(t.spare, k)
	}
}

func (t *tree) size() int { return len(t.byKey) }
