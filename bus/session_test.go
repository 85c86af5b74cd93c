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

// A session, role or earlier answer that is not there has key or count 0, and so has no task at all.
func TestKeysOfATask(t *testing.T) {
	var none *Task
	plain := &Task{Client: "ann", Role: "writer", Resume: &Resume{}}
	said := &Task{Client: "ann", Role: "writer", Declared: true, Resume: &Resume{Tokens: []uint32{5, 6}}}
	text := &Task{Client: "ann",
		Prompt: Prompt{SystemBoundary: 9, Prefixes: []PrefixHash{{Bytes: 9, Hash: 77}}}}
	for _, c := range []struct {
		task    *Task
		role    uint64
		carried int
	}{{none, 0, 0}, {plain, 0, 0}, {text, 77, 0}, {said, RoleKey("ann", "writer", &Prompt{}), 2}} {
		if role, carried := c.task.RoleKey(), c.task.Carried(); role != c.role || carried != c.carried {
			t.Errorf("%+v: role %d, %d tokens; want %d, %d", c.task, role, carried, c.role, c.carried)
		}
	}
	if SessionKey("ann", "") != 0 || SessionKey("ann", "s") == 0 || said.RoleKey() == 0 {
		t.Error("no session has a key, or a session has none")
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
