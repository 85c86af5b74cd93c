package ledger

import "strconv"

// slotKey is a hold's round and slot in one word.
type slotKey uint64

const (
	slotBits = 18
	maxRound = 1<<(64-slotBits) - 1
)

// keyOf packs a slot; ok is false beyond what can ever be.
func keyOf(round uint64, slot int) (k slotKey, ok bool) {
	return slotKey(round<<slotBits | uint64(slot)), round <= maxRound && slot >= 0 && slot < maxSlots
}

func (k slotKey) round() uint64 { return uint64(k) >> slotBits }
func (k slotKey) slot() int     { return int(k & (1<<slotBits - 1)) }

// key finds a hold's key if id is one of this journal's.
func (b *Book) key(id string) (slotKey, bool) {
	j := b.head.Journal
	if len(id) <= len(j) || id[:len(j)] != j || id[len(j)] != '/' {
		return 0, false
	}
	rest := id[len(j)+1:]
	for i := 0; i < len(rest); i++ {
		if rest[i] != '/' {
			continue
		}
		round, ok := parseNumber(rest[:i])
		slot, ok2 := parseNumber(rest[i+1:])
		if !ok || !ok2 || slot >= maxSlots {
			return 0, false
		}
		return keyOf(round, int(slot))
	}
	return 0, false
}

// isID reports whether id is that of hold k, without making the string.
func (b *Book) isID(id string, k slotKey) bool {
	var buf [96]byte
	s := append(buf[:0], b.head.Journal...)
	s = append(s, '/')
	s = strconv.AppendUint(s, k.round(), 10)
	s = append(s, '/')
	s = strconv.AppendInt(s, int64(k.slot()), 10)
	return string(s) == id
}
