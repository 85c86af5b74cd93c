package bus

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// Whoever finds a text in a cache that somebody else put there learns that somebody sent it: by the price, by
// a quote, by how soon the first token comes. So caches, and what is known of them, are kept apart by cache
// group: a group is one client, unless the operator has several share one. Doors alone know the groups. They
// hash a prompt's prefixes together with its group, so that prefixes of two groups have nothing in common,
// and give each task the salt of its group for the engine's cache.

// CacheGroup puts a client into a group, in the registry at GroupKey. A client in none is its own.
type CacheGroup struct {
	Client string `json:"client" want:"id"`
	Group  string `json:"group" want:"id"` // its name, in a namespace of its own
}

// GroupOf names the group of a client, where joined is the one that it was put into, or "". No client's own
// has a name that can be given to a group, whatever the two are called.
func GroupOf(client, joined string) string {
	if joined != "" {
		return "group/" + joined
	}
	return "client/" + client
}

// SaltedBy returns the salt under which engines keep the prompts of a group, together with the client's own
// cache_salt if there is one. From a salt nobody can make another, and sent as a client's own it is another.
func (m *PrefixKeys) SaltedBy(group, own string) string {
	h := hmac.New(sha256.New, m.Salt)
	var size [4]byte
	binary.LittleEndian.PutUint32(size[:], uint32(len(group)))
	h.Write(size[:]) // a hash never fails to write
	h.Write([]byte(group))
	h.Write([]byte(own))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
