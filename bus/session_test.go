package bus

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// Nobody names a session so that it is another client's to all that goes by keys: by xxhash, which can be
// reckoned backwards, that takes a millisecond.
func TestNobodyNamesAnothersSession(t *testing.T) {
	key := SessionKey("alice", "project-7")
	if session := forged("evil", key, 1<<20); session != "" && SessionKey("evil", session) == key {
		t.Errorf("session %s of evil is alice's project-7", session)
	}
	if SessionKey("ab", "c") == SessionKey("a", "bc") {
		t.Error("where a client's name ends does not count")
	}
}

// forged is a session of a client whose xxhash64 is so; "" if so many tries find none. The client's name has
// four bytes.
func forged(client string, target uint64, tries int) string {
	const p1, p2, p3 uint64 = 11400714785074694791, 14029467366897019727, 1609587929392839161
	const p4, p5 uint64 = 9650029242287828579, 2870177450012600261
	inverse := func(a uint64) uint64 {
		x := a
		for range 6 {
			x *= 2 - a*x
		}
		return x
	}
	unmix := func(h uint64, by int) uint64 {
		x := h
		for range 64/by + 1 {
			x = h ^ x>>by
		}
		return x
	}
	h := unmix(unmix(unmix(target, 32)*inverse(p3), 29)*inverse(p2), 33)
	for range tries {
		s := fmt.Sprintf("%s%012d", client, rand.IntN(1e12))
		x := uint64(len(client)) + p5 + uint64(len(s)+8)
		for i := 0; i+8 <= len(s); i += 8 {
			x ^= bits.RotateLeft64(binary.LittleEndian.Uint64([]byte(s[i:]))*p2, 31) * p1
			x = bits.RotateLeft64(x, 27)*p1 + p4
		}
		last := (bits.RotateLeft64((h-p4)*inverse(p1), -27) ^ x) * inverse(p1)
		last = bits.RotateLeft64(last, -31) * inverse(p2)
		if s = string(binary.LittleEndian.AppendUint64([]byte(s), last)); ValidID(s) {
			return s[len(client):]
		}
	}
	return ""
}
