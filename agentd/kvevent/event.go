// Package kvevent reads what a vLLM server publishes of its prefix cache: which blocks it stored, which it
// removed. Decode reads one batch, in either encoding; Order puts batches in sequence, asks for those that
// were missed and says when something is missing for good. Values in, values out: package agentd/vllm has the
// socket.
package kvevent

import (
	"crypto/sha256"
	"encoding/binary"
)

// Key names a block of an engine's cache: the low 64 bits of vLLM's hash of the block and all before it.
// The engine publishes it as a number, with or without a sign, or as the 32 bytes of which it is the last 8.
type Key uint64

// Kind says what happened to the cache.
type Kind uint8

// The kinds of events.
const (
	Stored  Kind = iota + 1 // blocks were cached
	Removed                 // blocks are no longer cached
	Cleared                 // nothing is cached any more
)

// Event is one change of an engine's cache. The engine may store a block of one key twice, as two physical
// copies, and then removes it twice.
type Event struct {
	Kind Kind
	// Stored: in the order of their chain, each the parent of the next; Removed: in any order
	Blocks    []Key
	Parent    Key      // Stored: of the first block
	HasParent bool     // else the first block begins a prompt
	Tokens    []uint32 // Stored: of all the blocks, len(Blocks)*BlockSize
	BlockSize int      // Stored: tokens in a block
	// Stored: what else than tokens and parent makes these blocks. Of a salt only the first block of a prompt
	// has it: those that follow are told apart by their parent.
	Space Space
	Host  bool // in the host's memory or further away, not in the GPU's: kept apart
}

// Space tells blocks of the same tokens apart that are not the same: those of an adapter, of a salt, of
// images. Zero: tokens alone make a block. Clients choose salts; nobody finds two that have one space.
type Space [16]byte

// SpaceOf returns the spaces of a prompt's first block and of the blocks behind it, for an adapter and a
// salt, either of which may be empty. A prompt's blocks are found by tokens and space, as vLLM publishes
// both. (vLLM does not publish where an adapter was loaded from: an adapter loaded from elsewhere under an
// old name is taken for the old one until the engine has dropped what it held.)
func SpaceOf(adapter, salt string) (first, behind Space) {
	if adapter != "" {
		behind = adapterSpace(appendText(nil, adapter))
	}
	if first = behind; salt != "" {
		first = behind.with(appendText(nil, salt))
	}
	return first, behind
}

// adapterSpace is the space of an adapter's blocks, by its name or number as written. No salt is written so.
func adapterSpace(name []byte) Space { return Space{}.with(append([]byte{0xc1}, name...)) }

// with is a space within a space; never the one of tokens alone.
func (s Space) with(inner []byte) (out Space) {
	sum := sha256.Sum256(append(s[:], inner...))
	copy(out[:], sum[:])
	return out
}

// appendText writes a text as an engine does: msgpack, as short as it can be.
func appendText(b []byte, text string) []byte {
	switch n := len(text); {
	case n < 1<<5:
		b = append(b, 0xa0|byte(n))
	case n < 1<<8:
		b = append(b, 0xd9, byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0xda), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(n))
	}
	return append(b, text...)
}

// Batch holds the events that an engine published at once: those of one step of its scheduler.
type Batch struct {
	Events []Event
	// Unknown counts events that are none of ours: of another type, or of layers that see only part of a
	// prompt. Bad counts those that make no sense and were dropped.
	Unknown, Bad int
	Lost         bool // one of the dropped removed blocks, nobody knows which: forget all
}

// Update is one step in following an engine's cache. At most one of Restarted, Blind and Batch is set.
type Update struct {
	// the engine holds nothing but what comes after this
	Restarted bool
	// what was believed may be wrong: forget it; what comes after this is true, but not all
	Blind bool
	Why   string // of Restarted and Blind, for people
	Batch Batch
}
