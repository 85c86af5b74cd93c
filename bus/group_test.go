package bus

import (
	"fmt"
	"strings"
	"testing"
)

// Each group has salts of its own, for each cache_salt of a client's own; they are ids, the same for ever,
// and others under another key. No group that an operator can name is the group that a client is, and a salt
// that somebody heard is, sent as one's own, another one.
func TestSalts(t *testing.T) {
	key := func(b byte) *PrefixKeys { return &PrefixKeys{Salt: []byte(strings.Repeat(string(b), 32))} }
	seen := map[string]string{}
	put := func(what, salt string) {
		t.Helper()
		if other, ok := seen[salt]; ok {
			t.Errorf("%s has the salt of %s", what, other)
		}
		if !ValidID(salt) {
			t.Errorf("%s: %q is no id", what, salt)
		}
		seen[salt] = what
	}
	for _, k := range []byte("ab") {
		for _, group := range []string{GroupOf("ann", ""), GroupOf("ann", "ann"), GroupOf("bob", ""),
			GroupOf("bob", "team"), GroupOf("team", ""), GroupOf("an", "")} {
			for _, own := range []string{"", "n", "x", "nx"} {
				put(fmt.Sprintf("%s with %q under %c", group, own, k), key(k).SaltedBy(group, own))
			}
		}
	}
	if GroupOf("ann", "team") != GroupOf("bob", "team") {
		t.Error("two of a group have two")
	}
	heard := key('a').SaltedBy(GroupOf("ann", ""), "")
	put("a salt that was heard", key('a').SaltedBy(GroupOf("eve", ""), heard))
	if again := key('a').SaltedBy(GroupOf("ann", ""), ""); again != heard {
		t.Errorf("%s becomes %s", heard, again)
	}
}

// A group that cannot be read is none.
func TestCacheGroupsOfTheRegistry(t *testing.T) {
	value, err := EncodeEntry(&CacheGroup{Client: "ann", Group: "team-1"})
	x := new(CacheGroup)
	if err != nil || DecodeEntry(value, x) != nil || *x != (CacheGroup{"ann", "team-1"}) {
		t.Error(string(value), err)
	}
	for _, wrong := range []string{``, `{}`, `{"client":"ann"}`, `{"group":"team"}`,
		`{"client":"ann","group":""}`, `{"client":"a/b","group":"team"}`,
		`{"client":"ann","group":"client/bob"}`, `{"client":"ann","group":"team","grop":"x"}`,
		`{"client":"ann","group":"` + strings.Repeat("g", 65) + `"}`} {
		if err := DecodeEntry([]byte(wrong), new(CacheGroup)); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}

func BenchmarkSalt(b *testing.B) {
	k := &PrefixKeys{Salt: make([]byte, 32)}
	for b.Loop() {
		k.SaltedBy("client/ann", "")
	}
}
