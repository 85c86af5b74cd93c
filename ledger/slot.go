package ledger

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

func (k slotKey) slot() int { return int(k & (1<<slotBits - 1)) }

// key returns a hold's key if id is of this journal.
func (b *Book) key(id string) (slotKey, bool) {
	n := len(b.head.Journal)
	if len(id) <= n || id[:n] != b.head.Journal || id[n] != '/' {
		return 0, false
	}
	round, slot, ok := parseSlot(id[n+1:])
	k, is := keyOf(round, slot)
	return k, ok && is
}
