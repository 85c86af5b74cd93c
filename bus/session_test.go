package bus

import (
	"encoding/binary"
	"math/bits"
	"testing"
)

// inverted is a session of a client's for which the xxhash of both, seeded with the client's length, is of a
// certain value. It takes some 20,000 tries.
func inverted(client string, target uint64) string {
	const (
		p1, p2, p3 uint64 = 11400714785074694791, 14029467366897019727, 1609587929392839161
		p4, p5     uint64 = 9650029242287828579, 2870177450012600261
		letters           = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	)
	inverse := func(x uint64) uint64 {
		y := x
		for range 6 {
			y *= 2 - x*y
		}
		return y
	}
	round := func(h, k uint64) uint64 {
		return bits.RotateLeft64(h^bits.RotateLeft64(k*p2, 31)*p1, 27)*p1 + p4
	}
	h := target
	h ^= h >> 32
	h *= inverse(p3)
	h ^= h>>29 ^ h>>58
	h *= inverse(p2)
	want := bits.RotateLeft64(((h^h>>33)-p4)*inverse(p1), -27)
	for try := 0; ; try++ {
		text := []byte(client)
		for len(text)%8 != 0 {
			text = append(text, 'a')
		}
		for i := 0; i < 48; i += 6 {
			text = append(text, letters[try>>i&63])
		}
		state := uint64(len(client)) + p5 + uint64(len(text)+8)
		for b := text; len(b) > 0; b = b[8:] {
			state = round(state, binary.LittleEndian.Uint64(b))
		}
		last := bits.RotateLeft64((want^state)*inverse(p1), -31) * inverse(p2)
		if s := string(binary.LittleEndian.AppendUint64(text, last)[len(client):]); ValidID(s) {
			return s
		}
	}
}

// A client cannot name a session that has the key of another's, which it would end and have forgotten.
func TestNoSessionHasTheKeyOfAnothers(t *testing.T) {
	const other = "ann"
	key := SessionKey(other, "her-own")
	if s := inverted("mallory", key); SessionKey("mallory", s) == key {
		t.Errorf("mallory's session %s has the key of %s's", s, other)
	}
	if SessionKey("ann", "b1") == SessionKey("annb", "1") || SessionKey("ann", "1") != SessionKey("ann", "1") {
		t.Error("a key is not of client and session")
	}
}
