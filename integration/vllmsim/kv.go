package vllmsim

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// cache is the KV cache: blocks of equal size, of which full ones can be found by their hash as long as
// nobody needed the room. It follows vLLM's block pool (vllm/v1/core): a block in use has references; one
// without is on the free list, where it keeps its content until it is taken; the list is used from its head;
// a finished request's blocks go to its tail, last block first, so that the end of a prompt is forgotten
// before its beginning. All operations are O(1) a block.
type cache struct {
	size   int // tokens in a block
	blocks []block
	index  map[uint64]int32 // hash -> newest block that holds it
	// blocks on the free list, a ring through block 0, which is never used, as in vLLM
	free int
}

type block struct {
	hash         uint64 // valid if full
	full         bool   // can be found in the index
	refs         int32
	prev, next   int32 // in the free list
	older, newer int32 // other blocks with this hash, 0 if none
}

func newCache(blocks, size int) *cache {
	c := &cache{size: size, blocks: make([]block, blocks), index: map[uint64]int32{}}
	for i := 1; i < blocks; i++ {
		c.putFree(int32(i))
	}
	return c
}

// capacity is the number of blocks that requests can use.
func (c *cache) capacity() int { return len(c.blocks) - 1 }

// used is the number of blocks with references.
func (c *cache) used() int { return c.capacity() - c.free }

// chain is the hash of a block of tokens that follows parent. The first parent is root(model, salt). 64 bits:
// with a million blocks the chance of any collision is 3e-8 (vLLM takes 256 because an adversary could look
// for one).
func chain(parent uint64, tokens []uint32) uint64 {
	var room [8 + 4*64]byte
	b := binary.LittleEndian.AppendUint64(room[:0], parent)
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, t)
	}
	return xxhash.Sum64(b)
}

func root(model, salt string) uint64 {
	return xxhash.Sum64String(model + "\x00" + salt)
}

// find returns the blocks of the longest prefix of hashes that is cached, without taking references.
func (c *cache) find(out []int32, hashes []uint64) []int32 {
	for _, h := range hashes {
		b, ok := c.index[h]
		if !ok {
			break
		}
		out = append(out, b)
	}
	return out
}

// idle is how many of the blocks have no references: taking them uses up room as new ones do.
func (c *cache) idle(blocks []int32) (n int) {
	for _, b := range blocks {
		if c.blocks[b].refs == 0 {
			n++
		}
	}
	return n
}

// hold takes a reference on each block.
func (c *cache) hold(blocks []int32) {
	for _, b := range blocks {
		if c.blocks[b].refs == 0 {
			c.takeFree(b)
		}
		c.blocks[b].refs++
	}
}

// take appends n blocks with one reference each, forgetting what they held. The caller has checked c.free.
func (c *cache) take(out []int32, n int) []int32 {
	for range n {
		b := c.blocks[0].next
		c.takeFree(b)
		if c.blocks[b].full {
			c.forget(b)
		}
		c.blocks[b].refs = 1
		out = append(out, b)
	}
	return out
}

// fill makes a full block known by its hash.
func (c *cache) fill(b int32, hash uint64) {
	p := &c.blocks[b]
	if p.full {
		return
	}
	old := c.index[hash]
	p.full, p.hash, p.older, p.newer = true, hash, old, 0
	if old != 0 {
		c.blocks[old].newer = b
	}
	c.index[hash] = b
}

// release drops one reference on each block, the last block first.
func (c *cache) release(blocks []int32) {
	for i := len(blocks) - 1; i >= 0; i-- {
		p := &c.blocks[blocks[i]]
		if p.refs--; p.refs == 0 {
			c.putFree(blocks[i])
		}
	}
}

// reset forgets all content. It reports false, and does nothing, while any block is in use.
func (c *cache) reset() bool {
	if c.used() > 0 {
		return false
	}
	clear(c.index)
	for i := range c.blocks {
		c.blocks[i].full = false
	}
	return true
}

func (c *cache) forget(b int32) {
	p := &c.blocks[b]
	p.full = false
	if p.older != 0 {
		c.blocks[p.older].newer = p.newer
	}
	switch {
	case p.newer != 0:
		c.blocks[p.newer].older = p.older
	case p.older != 0:
		c.index[p.hash] = p.older
	default:
		delete(c.index, p.hash)
	}
}

func (c *cache) putFree(b int32) {
	last := c.blocks[0].prev
	c.blocks[b].prev, c.blocks[b].next = last, 0
	c.blocks[last].next, c.blocks[0].prev = b, b
	c.free++
}

func (c *cache) takeFree(b int32) {
	p := &c.blocks[b]
	c.blocks[p.prev].next, c.blocks[p.next].prev = p.next, p.prev
	c.free--
}
