package bus

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// MarkKeys are the keys of cache marks, in the registry at MarksKey. Whoever hears a mark that is a plain
// hash of a text can find out whether a text is the one that he guesses. So doors, which alone have these
// keys, say marks under the latest. Each is new for a day, and is there before it is due, so that doors whose
// clocks differ agree; around that time a prompt has the hashes of its marks under both.
type MarkKeys struct {
	Keys []MarkKey `json:"keys"` // one or two, the earlier first
	// of the salts of engines' caches, see SaltedBy: it stays, as another one would empty every cache
	Salt []byte `json:"salt"`
}

// MarkKey is a key, and when it begins to count.
type MarkKey struct {
	From int64  `json:"from"` // Unix seconds: marks are said under it from then on
	Key  []byte `json:"key"`
}

const (
	markKeyBytes = 32
	markKeyEvery = 24 * time.Hour
	// so long before and after a key is due prompts have hashes under both: no two doors' clocks differ by
	// more
	markKeysBoth = time.Hour
	// so long before it is due a key is made
	markKeyAhead = 2 * markKeysBoth
	// so long a door has seen the keys as they are before it changes them: one that was made as it should be
	// is in use by then, and hashes under the one before are over
	markKeysSeen = markKeyAhead + 2*markKeysBoth
)

// Format shows no key in any log or error.
func (MarkKeys) Format(f fmt.State, _ rune) { f.Write([]byte(Redacted)) }
func (MarkKey) Format(f fmt.State, _ rune)  { f.Write([]byte(Redacted)) }

func (m *MarkKeys) Validate() error {
	if len(m.Keys) < 1 || len(m.Keys) > 2 {
		return fmt.Errorf("keys: %d: there are one or two", len(m.Keys))
	}
	if len(m.Salt) != markKeyBytes {
		return fmt.Errorf("salt: %d bytes, it has %d", len(m.Salt), markKeyBytes)
	}
	last := int64(0)
	for i, k := range m.Keys {
		switch {
		case len(k.Key) != markKeyBytes:
			return fmt.Errorf("keys[%d].key: %d bytes, it has %d", i, len(k.Key), markKeyBytes)
		case k.From < last || k.From > 1<<40:
			return fmt.Errorf("keys[%d].from: %d is not within that of the key before it and %d", i, k.From,
				int64(1)<<40)
		}
		last = k.From
	}
	return nil
}

// After is what the keys are to be from now on, with a fresh one; nil: as they are, for now. m may be nil,
// where there are none yet: then salt is what salts are made of. seen is for how long whoever asks has seen
// them as they are, by a clock that nobody sets: so one door whose clock is wrong, by however much, can have
// a key follow on another within hours instead of a day, and can neither end that nor take a key away from
// those who use it.
func (m *MarkKeys) After(now time.Time, seen time.Duration, fresh, salt []byte) *MarkKeys {
	if m == nil {
		return &MarkKeys{Keys: []MarkKey{{From: now.Unix(), Key: fresh}}, Salt: salt}
	}
	last := m.Keys[len(m.Keys)-1]
	due, soonest := time.Unix(last.From, 0).Add(markKeyEvery), now.Add(markKeyAhead)
	switch {
	case seen < markKeysSeen:
		return nil
	case time.Unix(last.From, 0).After(now.Add(markKeyEvery + markKeysBoth)): // whoever made it was ahead
		return m.by(soonest)
	case now.Before(due.Add(-markKeyAhead)):
		return nil
	case due.Before(soonest): // no door was there when it was time
		due = soonest
	}
	return &MarkKeys{Keys: []MarkKey{last, {From: due.Unix(), Key: fresh}}, Salt: m.Salt}
}

// by are the same keys, the last of them due then at the latest.
func (m *MarkKeys) by(due time.Time) *MarkKeys {
	out := &MarkKeys{Keys: slices.Clone(m.Keys), Salt: m.Salt}
	for i := range out.Keys {
		out.Keys[i].From = max(0, min(out.Keys[i].From, due.Unix()))
	}
	return out
}

// Name says a prompt's marks under the keys of now.
func (m *MarkKeys) Name(p *Prompt, now time.Time) {
	if len(p.Sums) != SumBytes*len(p.Marks) {
		panic(fmt.Sprintf("bus: %d bytes of sums for %d marks", len(p.Sums), len(p.Marks)))
	}
	this, former, next := &m.Keys[0], (*MarkKey)(nil), (*MarkKey)(nil)
	if len(m.Keys) > 1 {
		later := &m.Keys[1]
		switch due := time.Unix(later.From, 0); {
		case now.Before(due.Add(-markKeysBoth)):
		case now.Before(due):
			next = later
		case now.Before(due.Add(markKeysBoth)):
			this, former = later, this
		default:
			this = later
		}
	}
	p.Former, p.Next = former.hashes(p.Sums), next.hashes(p.Sums)
	own := this.hashes(p.Sums)
	for i := range p.Marks {
		p.Marks[i].Hash = own.At(i)
	}
	p.Sums = nil
}

// SumBytes is how much of a text's SHA-256 becomes its name under a key: as much as fits with the key into
// one block of the hash. Nobody finds two texts that have so much in common. Two that had less, such as a
// mark's plain hash, would have one name under every key, whoever knows it.
const SumBytes = 55 - markKeyBytes

// hashes returns the hash of each sum under the key.
func (k *MarkKey) hashes(sums []byte) Hashes {
	if k == nil || len(sums) == 0 {
		return nil
	}
	var block [markKeyBytes + SumBytes]byte
	copy(block[:], k.Key)
	list := make(Hashes, 0, len(sums)/SumBytes*hashBytes)
	for ; len(sums) > 0; sums = sums[SumBytes:] {
		copy(block[markKeyBytes:], sums[:SumBytes])
		sum := sha256.Sum256(block[:])
		list = append(list, sum[:hashBytes]...)
	}
	return list
}

// Hashes lists the hashes of a prompt's marks, the highest byte of each first.
type Hashes []byte

const hashBytes = 8

// At returns hash i, counted from 0.
func (h Hashes) At(i int) uint64 { return binary.BigEndian.Uint64(h[hashBytes*i:]) }

// Of reports whether they are those of so many marks.
func (h Hashes) Of(marks []Mark) bool { return len(h) > 0 && len(h) == hashBytes*len(marks) }

// Turn has a prompt's marks go by their hashes under the next key; those they had are the former ones.
func (p *Prompt) Turn() {
	if !p.Next.Of(p.Marks) {
		return
	}
	marks, former := make([]Mark, len(p.Marks)), make(Hashes, 0, len(p.Next))
	for i, m := range p.Marks {
		marks[i], former = Mark{m.Bytes, p.Next.At(i)}, binary.BigEndian.AppendUint64(former, m.Hash)
	}
	p.Marks, p.Former, p.Next = marks, former, nil
}
