package holdings

import (
	"encoding/binary"
	"math/bits"
	"testing"

	"github.com/cespare/xxhash/v2"

	"souk/agentd/kvevent"
	"souk/bus"
)

// alike are two first blocks of four tokens each that xxhash gives one name. No search is needed for them:
// its steps can be gone backwards, so that the second half of a block makes up for the first.
func alike(t *testing.T) (a, b []uint32) {
	const p1, p2, p4, p5 = 0x9e3779b185ebca87, 0xc2b2ae3d27d4eb4f, 0x85ebca77c2b2ae63, 0x27d4eb2f165667c5
	inverse := func(x uint64) uint64 {
		y := x
		for range 6 {
			y *= 2 - x*y
		}
		return y
	}
	mix := func(x uint64) uint64 { return bits.RotateLeft64(x*p2, 31) * p1 }
	unmix := func(y uint64) uint64 { return bits.RotateLeft64(y*inverse(p1), -31) * inverse(p2) }
	after := func(h, word uint64) uint64 { return bits.RotateLeft64(h^mix(word), 27)*p1 + p4 }
	start := after(p5+24, 0) // what is before every text
	first, second, other := uint64(7)<<32|5, uint64(13)<<32|11, uint64(3)<<32|2
	makesUp := unmix(mix(second) ^ after(start, first) ^ after(start, other))
	var names [2]uint64
	for i, words := range [][]uint64{{first, second}, {other, makesUp}} {
		text := make([]byte, 8)
		var ids []uint32
		for _, w := range words {
			text = binary.LittleEndian.AppendUint64(text, w)
			ids = append(ids, uint32(w), uint32(w>>32))
		}
		names[i] = xxhash.Sum64(text)
		a, b = b, ids
	}
	if names[0] != names[1] {
		t.Fatalf("%x and %x: these do not collide", names[0], names[1])
	}
	return a, b
}

// Whoever may write prompts makes no two texts that are one block here: then an agent would forget all that
// it knows of its engine, or know nothing of a text.
func TestNobodyMakesTwoTextsOneBlock(t *testing.T) {
	a, b := alike(t)
	s := New(block, 400, 1, [32]byte{1})
	newEngine(s)
	for i, ids := range [][]uint32{a, b} {
		s.Apply(kvevent.Batch{Events: []kvevent.Event{{Kind: kvevent.Stored, BlockSize: block,
			Blocks: []kvevent.Key{kvevent.Key(i + 1)}, Tokens: ids}}})
	}
	if c := s.Counts; c.Blind != 0 || c.Bad != 0 || s.Blocks != 2 {
		t.Errorf("two blocks are stored, and %d known: %+v", s.Blocks, c)
	}
	sound(t, s)
	s = New(block, 400, 1, [32]byte{1}) // of prompts that await what is said of them
	s.Listen()
	for i, ids := range [][]uint32{a, b} {
		p := bus.Prompt{Bytes: 16, Tokens: 5, Prefixes: []bus.PrefixHash{{Bytes: 16,
			Hash: uint64(i+1) << 40}}}
		s.Prompt(&p, append(ids, 1), "")
	}
	if s.size() != 2 {
		t.Errorf("two texts were served, and %d of them are awaited", s.size())
	}
}
