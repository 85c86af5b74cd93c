// Package tree is the Merkle tree over the records of a journal, as RFC 6962 has it. A checkpoint signs its
// size and its root; a proof of some twenty hashes shows that a record is in it.
//
// A leaf is the hash of a record's bytes as they are stored, with the head of its frame, which says when it
// was written: see ledger.Leaves. A record has 16 bytes of salt, so the hashes of its neighbours in a proof
// reveal nothing of them. Hashes are numbered and stored as [golang.org/x/mod/sumdb/tlog] does it, which also
// makes and checks the proofs.
package tree

import (
	"fmt"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"
)

// Hash of a leaf or a node.
type Hash = tlog.Hash

// levels of a tree, at most: no journal has more records than 2^48, and sums of sizes stay far from overflow.
const levels = 48

// MaxSize bounds the records of a tree.
const MaxSize = 1 << levels

// Leaf returns the hash of a record by its bytes, as ledger.Leaves gives them.
func Leaf(record []byte) Hash { return tlog.RecordHash(record) }

// Tree has as much of a tree as appending to it and its root need: the roots of the largest whole subtrees
// that it is made of. The zero value is the empty tree; a copy is a tree of its own.
type Tree struct {
	size int64
	// roots[l] is that of a subtree of 2^l records, where bit l of size is set; the largest stand first
	roots [levels + 1]Hash
}

// At returns the tree of a size whose hashes are stored.
func At(size int64, stored tlog.HashReader) (Tree, error) {
	t := Tree{size: size}
	if size < 0 || size > MaxSize {
		return t, fmt.Errorf("a tree of %d records, want at most %d", size, int64(MaxSize))
	}
	var index []int64
	at := int64(0)
	for l := levels; l >= 0; l-- {
		if size>>l&1 == 1 {
			index = append(index, tlog.StoredHashIndex(l, at>>l))
			at += 1 << l
		}
	}
	if len(index) == 0 {
		return t, nil
	}
	hashes, err := stored.ReadHashes(index)
	if err != nil {
		return t, err
	}
	for l, i := levels, 0; l >= 0; l-- {
		if size>>l&1 == 1 {
			t.roots[l] = hashes[i]
			i++
		}
	}
	return t, nil
}

// Size returns the number of records.
func (t *Tree) Size() int64 { return t.size }

// Append appends a record by its leaf's hash, and to a list the hashes that are to be stored for it.
func (t *Tree) Append(leaf Hash, stored []Hash) []Hash {
	h, l := leaf, 0
	stored = append(stored, h)
	for ; t.size>>l&1 == 1; l++ {
		h = tlog.NodeHash(t.roots[l], h)
		stored = append(stored, h)
	}
	t.roots[l] = h
	t.size++
	return stored
}

// Root returns the root of the tree.
func (t *Tree) Root() Hash {
	if t.size == 0 {
		empty, _ := tlog.TreeHash(0, nil)
		return empty
	}
	l := bits.TrailingZeros64(uint64(t.size))
	h := t.roots[l]
	for l++; l <= levels; l++ {
		if t.size>>l&1 == 1 {
			h = tlog.NodeHash(t.roots[l], h)
		}
	}
	return h
}

// Head is a tree as it is after a frame of its journal.
type Head struct {
	Frame uint64
	Size  int64
	Root  Hash
}
