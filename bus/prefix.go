package bus

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// PrefixKeys are the keys of prefix hashes, in the registry at PrefixKeysKey. Whoever hears a plain hash of a
// text can find out whether the text is the one that he guesses. So doors, which alone have these keys, hash
// prefixes under the latest. Each is new for a day, and is there before it is due, so that doors whose clocks
// differ agree; around that time a prompt has its prefix hashes under both.
type PrefixKeys struct {
	Keys []PrefixKey `json:"keys"` // one or two, the earlier first
	// of the salts of engines' caches, see SaltedBy: it stays, as another one would empty every cache
	Salt []byte `json:"salt"`
}

// PrefixKey is a key, and when it begins to count.
type PrefixKey struct {
	From int64  `json:"from"` // Unix seconds: prefixes are hashed under it from then on
	Key  []byte `json:"key"`
}

const (
	prefixKeyBytes = 32
	prefixKeyEvery = 24 * time.Hour
	// so long before and after a key is due prompts have hashes under both: no two doors' clocks differ by
	// more
	prefixKeysBoth = time.Hour
	// so long before it is due a key is made
	prefixKeyAhead = 2 * prefixKeysBoth
	// so long a door has seen the keys as they are before it changes them: one that was made as it should be
	// is in use by then, and hashes under the one before are over
	prefixKeysSeen = prefixKeyAhead + 2*prefixKeysBoth
)

// Format shows no key in any log or error.
func (PrefixKeys) Format(f fmt.State, _ rune) { f.Write([]byte(Redacted)) }
func (PrefixKey) Format(f fmt.State, _ rune)  { f.Write([]byte(Redacted)) }

func (m *PrefixKeys) Validate() error {
	if len(m.Keys) < 1 || len(m.Keys) > 2 {
		return fmt.Errorf("keys: %d: there are one or two", len(m.Keys))
	}
	if len(m.Salt) != prefixKeyBytes {
		return fmt.Errorf("salt: %d bytes, it has %d", len(m.Salt), prefixKeyBytes)
	}
	last := int64(0)
	for i, k := range m.Keys {
		switch {
		case len(k.Key) != prefixKeyBytes:
			return fmt.Errorf("keys[%d].key: %d bytes, it has %d", i, len(k.Key), prefixKeyBytes)
		case k.From < last || k.From > 1<<40:
			return fmt.Errorf("keys[%d].from: %d is not within that of the key before it and %d", i, k.From,
				int64(1)<<40)
		}
		last = k.From
	}
	return nil
}

// After returns the keys for the time from now on, with a fresh one; nil: they stay, for now. m may be nil,
// where there are none yet: then salt becomes the secret that salts are made with. seen is for how long the
// caller has seen the keys as they are, by a clock that nobody sets: so one door whose clock is wrong, by
// however much, can have a key follow on another within hours instead of a day, and can neither end that nor
// take a key away from those who use it.
func (m *PrefixKeys) After(now time.Time, seen time.Duration, fresh, salt []byte) *PrefixKeys {
	if m == nil {
		return &PrefixKeys{Keys: []PrefixKey{{From: now.Unix(), Key: fresh}}, Salt: salt}
	}
	last := m.Keys[len(m.Keys)-1]
	due, soonest := time.Unix(last.From, 0).Add(prefixKeyEvery), now.Add(prefixKeyAhead)
	switch {
	case seen < prefixKeysSeen:
		return nil
	case time.Unix(last.From, 0).After(now.Add(prefixKeyEvery + prefixKeysBoth)): // whoever made it was ahead
		return m.by(soonest)
	case now.Before(due.Add(-prefixKeyAhead)):
		return nil
	case due.Before(soonest): // no door was there when it was time
		due = soonest
	}
	return &PrefixKeys{Keys: []PrefixKey{last, {From: due.Unix(), Key: fresh}}, Salt: m.Salt}
}

// by are the same keys, the last of them due then at the latest.
func (m *PrefixKeys) by(due time.Time) *PrefixKeys {
	out := &PrefixKeys{Keys: slices.Clone(m.Keys), Salt: m.Salt}
	for i := range out.Keys {
		out.Keys[i].From = max(0, min(out.Keys[i].From, due.Unix()))
	}
	return out
}

// Name hashes a prompt's prefixes under the keys of now.
func (m *PrefixKeys) Name(p *Prompt, now time.Time) {
	if len(p.Digests) != DigestBytes*len(p.Prefixes) {
		panic(fmt.Sprintf("bus: %d bytes of digests for %d prefixes", len(p.Digests), len(p.Prefixes)))
	}
	this, former, next := &m.Keys[0], (*PrefixKey)(nil), (*PrefixKey)(nil)
	if len(m.Keys) > 1 {
		later := &m.Keys[1]
		switch due := time.Unix(later.From, 0); {
		case now.Before(due.Add(-prefixKeysBoth)):
		case now.Before(due):
			next = later
		case now.Before(due.Add(prefixKeysBoth)):
			this, former = later, this
		default:
			this = later
		}
	}
	p.Former, p.Next = former.hashes(p.Digests), next.hashes(p.Digests)
	own := this.hashes(p.Digests)
	for i := range p.Prefixes {
		p.Prefixes[i].Hash = own.At(i)
	}
	p.Digests = nil
}

// DigestBytes is the number of bytes of a text's SHA-256 that are hashed into its name under a key: as many
// as fit with the key into one block of the hash. Nobody finds two texts that have so many in common. With
// fewer, such as a plain hash of 8 bytes, two texts could be found that have one name under every key.
const DigestBytes = 55 - prefixKeyBytes

// hashes returns the hash of each digest under the key.
func (k *PrefixKey) hashes(digests []byte) Hashes {
	if k == nil || len(digests) == 0 {
		return nil
	}
	var block [prefixKeyBytes + DigestBytes]byte
	copy(block[:], k.Key)
	list := make(Hashes, 0, len(digests)/DigestBytes*hashBytes)
	for ; len(digests) > 0; digests = digests[DigestBytes:] {
		copy(block[prefixKeyBytes:], digests[:DigestBytes])
		sum := sha256.Sum256(block[:])
		list = append(list, sum[:hashBytes]...)
	}
	return list
}

// Hashes lists the hashes of a prompt's prefixes, the highest byte of each first.
type Hashes []byte

const hashBytes = 8

// At returns hash i, counted from 0.
func (h Hashes) At(i int) uint64 { return binary.BigEndian.Uint64(h[hashBytes*i:]) }

// Of reports whether they are those of so many prefixes.
func (h Hashes) Of(prefixes []PrefixHash) bool {
	return len(h) > 0 && len(h) == hashBytes*len(prefixes)
}

// Turn has a prompt's prefixes go by their hashes under the next key; those they had are the former ones.
func (p *Prompt) Turn() {
	if !p.Next.Of(p.Prefixes) {
		return
	}
	prefixes, former := make([]PrefixHash, len(p.Prefixes)), make(Hashes, 0, len(p.Next))
	for i, m := range p.Prefixes {
		prefixes[i], former = PrefixHash{m.Bytes, p.Next.At(i)}, binary.BigEndian.AppendUint64(former, m.Hash)
	}
	p.Prefixes, p.Former, p.Next = prefixes, former, nil
}
