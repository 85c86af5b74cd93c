package bus

import "souk/market"

// Summary is an agent's report to its hub about itself: on change, at most every 100 ms, at least every
// second. Its engine's cache is reported by Holdings.
type Summary struct {
	Agent    string       `msgpack:"agent" want:"id"`
	Boot     int64        `msgpack:"boot"`
	Seq      uint64       `msgpack:"seq"` // rises with every summary of a boot
	State    string       `msgpack:"state" want:"state"`
	Slots    int          `msgpack:"slots" want:"slots"`
	InFlight int          `msgpack:"in_flight" want:"slots"`
	Price    market.Price `msgpack:"price"`
	// a task beyond its slots is taken into the engine's own queue
	Queue bool `msgpack:"queue,omitempty"`
	// tasks that run and of which no token has come yet
	Prefills int `msgpack:"prefills,omitempty" want:"slots"`
	// holds without a token in the time that their dispatches name, the oldest first, at most MaxLate: the
	// hub may have them served elsewhere, by HoldControl
	Late []string `msgpack:"late,omitempty" want:"most:64"`
}

// MaxLate bounds the late holds that a summary names.
const MaxLate = 64

// Holdings reports the texts in an agent's engine's cache, as prefix hashes: up to the end of each, every
// token is there. First all of it is sent in parts, and then the changes. A hub that misses a message asks
// for all of it again, by HoldControl.
type Holdings struct {
	Agent string `msgpack:"agent" want:"id"`
	Boot  int64  `msgpack:"boot"`
	// of the engine, counted in this boot: where it rises, the cache is empty
	Life uint64 `msgpack:"life,omitempty"`
	Seq  uint64 `msgpack:"seq"`  // rises by one with each of a boot
	Base uint64 `msgpack:"base"` // Seq of the first part of what this goes on from, or is part of
	// which of how many parts; Parts is 0 where this says what has changed
	Part  int `msgpack:"part,omitempty" want:"parts"`
	Parts int `msgpack:"parts,omitempty" want:"parts"`
	// share of the engine's cache that the agent knows and has reported
	Coverage float64 `msgpack:"coverage,omitempty"`
	Blocks   int     `msgpack:"blocks,omitempty"`         // of the engine's cache that the agent knows of
	Evidence string  `msgpack:"evidence" want:"evidence"` // how it knows: one of the below
	// prefix hashes, ShortHashBytes each: those held from now on, and first those held no longer
	Add  []byte `msgpack:"add,omitempty"`
	Drop []byte `msgpack:"drop,omitempty"`
}

// How an agent knows its engine's cache.
const (
	EvidenceEvents   = "events"   // by the engine's events
	EvidenceInferred = "inferred" // inferred from served tasks
)

// ShortHashBytes is the length of a prefix hash in Holdings: its top 48 bits, the highest byte first. Among a
// million prefixes held, one prompt in 350,000 matches one by chance.
const ShortHashBytes = 6

// AppendShortHash appends a prefix hash in the form of Holdings, and ShortHash shortens one to it.
func AppendShortHash(dst []byte, short uint64) []byte {
	return append(dst, byte(short>>40), byte(short>>32), byte(short>>24), byte(short>>16), byte(short>>8),
		byte(short))
}

func ShortHash(hash uint64) uint64 { return hash >> 16 }

// EachShortHash calls do with each hash of a list.
func EachShortHash(list []byte, do func(short uint64)) {
	for ; len(list) >= ShortHashBytes; list = list[ShortHashBytes:] {
		do(uint64(list[0])<<40 | uint64(list[1])<<32 | uint64(list[2])<<24 | uint64(list[3])<<16 |
			uint64(list[4])<<8 | uint64(list[5]))
	}
}
