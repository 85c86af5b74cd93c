// Package kv is the prefix cache of a simulated engine, and of whoever mirrors one: values in, values out.
package kv

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// Cache is the KV cache: blocks of equal size, of which full ones can be found by their hash as long as
// nobody needed the room. It follows vLLM's block pool (vllm/v1/core): a block in use has references; one
// without is on the free list, where it keeps its content until it is taken; the list is used from its head;
// a finished request's blocks go to its tail, last block first, so that the end of a prompt is forgotten
// before its beginning; those that hold nothing that can be found go to its head. All operations are O(1) a
// block.
type Cache struct {
	Forgotten func(hash uint64) // is told of each block whose content is given up; may be nil

	Size   int // tokens in a block
	blocks []block
	index  map[uint64]int32 // hash -> newest block that holds it
	// blocks on the free list, a ring through block 0, which is never used, as in vLLM
	Free int
}

type block struct {
	hash         uint64 // valid if full
	full         bool   // can be found in the index
	refs         int32
	prev, next   int32 // in the free list
	older, newer int32 // other blocks with this hash, 0 if none
}

// New is an empty cache of so many blocks, of which block 0 is never used, each of size tokens.
func New(blocks, size int) *Cache {
	c := &Cache{Size: size, blocks: make([]block, blocks), index: map[uint64]int32{}}
	for i := 1; i < blocks; i++ {
		c.putFree(int32(i), c.blocks[0].prev)
	}
	return c
}

// Capacity is the number of blocks that requests can use.
func (c *Cache) Capacity() int { return len(c.blocks) - 1 }

// Used is the number of blocks with references.
func (c *Cache) Used() int { return c.Capacity() - c.Free }

// Chain is the hash of a block of tokens that follows parent. The first parent is Root(model, salt). 64 bits:
// with a million blocks the chance of any collision is 3e-8 (vLLM takes 256 because an adversary could look
// for one).
func Chain(parent uint64, tokens []uint32) uint64 {
	var room [8 + 4*64]byte
	b := binary.LittleEndian.AppendUint64(room[:0], parent)
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, t)
	}
	return xxhash.Sum64(b)
}

// Root is the parent of a prompt's first block.
func Root(model, salt string) uint64 {
	return xxhash.Sum64String(model + "\x00" + salt)
}

// Find returns the blocks of the longest prefix of hashes that is cached, without taking references.
func (c *Cache) Find(out []int32, hashes []uint64) []int32 {
	for _, h := range hashes {
		b, ok := c.index[h]
		if !ok {
			break
		}
		out = append(out, b)
	}
	return out
}

// Idle counts the blocks without references: taking them uses up room as new ones do.
func (c *Cache) Idle(blocks []int32) (n int) {
	for _, b := range blocks {
		if c.blocks[b].refs == 0 {
			n++
		}
	}
	return n
}

// Hold takes a reference on each block.
func (c *Cache) Hold(blocks []int32) {
	for _, b := range blocks {
		if c.blocks[b].refs == 0 {
			c.takeFree(b)
		}
		c.blocks[b].refs++
	}
}

// Take appends n blocks with one reference each, forgetting what they held. The caller has checked Free.
func (c *Cache) Take(out []int32, n int) []int32 {
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

// Fill makes a full block known by its hash.
func (c *Cache) Fill(b int32, hash uint64) {
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

// Release drops one reference on each block, the last block first.
func (c *Cache) Release(blocks []int32) {
	empty := int32(0) // the last at the head of the list
	for i := len(blocks) - 1; i >= 0; i-- {
		b := blocks[i]
		switch p := &c.blocks[b]; {
		case p.refs > 1:
			p.refs--
		case p.full:
			p.refs = 0
			c.putFree(b, c.blocks[0].prev)
		default:
			p.refs = 0
			c.putFree(b, empty)
			empty = b
		}
	}
}

// Reset forgets all content. It reports false, and does nothing, while any block is in use.
func (c *Cache) Reset() bool {
	if c.Used() > 0 {
		return false
	}
	clear(c.index)
	for i := range c.blocks {
		c.blocks[i].full = false
	}
	return true
}

func (c *Cache) forget(b int32) {
	p := &c.blocks[b]
	p.full = false
	if c.Forgotten != nil {
		c.Forgotten(p.hash)
	}
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

// putFree puts a block on the free list, behind another.
func (c *Cache) putFree(b, behind int32) {
	next := c.blocks[behind].next
	c.blocks[b].prev, c.blocks[b].next = behind, next
	c.blocks[behind].next, c.blocks[next].prev = b, b
	c.Free++
}

func (c *Cache) takeFree(b int32) {
	p := &c.blocks[b]
	c.blocks[p.prev].next, c.blocks[p.next].prev = p.next, p.prev
	c.Free--
}

// Known counts the different full blocks that can be found.
func (c *Cache) Known() int { return len(c.index) }

// Held are the hashes that can be found, and of each how many blocks have it.
func (c *Cache) Held() map[uint64]int {
	held := make(map[uint64]int, len(c.index))
	for hash, b := range c.index {
		for ; b != 0; b = c.blocks[b].older {
			held[hash]++
		}
	}
	return held
}

// Put remembers a prefix as if a request for it had come and gone: as much of it as there is room for.
func (c *Cache) Put(hashes []uint64) {
	held := c.Find(nil, hashes)
	c.Hold(held)
	n := len(held)
	held = c.Take(held, min(len(hashes)-n, c.Free))
	for i := n; i < len(held); i++ {
		c.Fill(held[i], hashes[i])
	}
	c.Release(held)
}

// Match returns the number of blocks that Find would find.
func (c *Cache) Match(hashes []uint64) (n int) {
	for n < len(hashes) {
		if _, ok := c.index[hashes[n]]; !ok {
			break
		}
		n++
	}
	return n
}
