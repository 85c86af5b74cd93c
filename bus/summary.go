package bus

import "souk/market"

// Summary is what an agent tells its hub about itself: on change, at most every 100 ms, at least every
// second. What its engine holds is said by Holdings.
type Summary struct {
	Agent    string       `msgpack:"agent" want:"id"`
	Boot     int64        `msgpack:"boot"`
	Seq      uint64       `msgpack:"seq"` // rises with every summary of a boot
	State    string       `msgpack:"state" want:"state"`
	Slots    int          `msgpack:"slots" want:"slots"`
	InFlight int          `msgpack:"in_flight" want:"slots"`
	Price    market.Price `msgpack:"price"`
	TTFTUS   int64        `msgpack:"ttft_us" want:"us"` // running mean; 0 = none yet
	// tasks that run and of which no token has come yet, and their tokens that are still to be computed, as
	// far as the agent knows what is cached
	Prefills int `msgpack:"prefills,omitempty" want:"slots"`
	Ahead    int `msgpack:"ahead,omitempty" want:"ever"`
	// holds of which no token has come in the time that their dispatches name, the oldest first, at most
	// MaxLate: the hub may have them served elsewhere, by HoldControl
	Late []string `msgpack:"late,omitempty" want:"most:64"`
	// Seq of the last Holdings that the agent has said; 0: it has said none in this boot. Who has not heard
	// that soon after has missed it.
	Held uint64 `msgpack:"held,omitempty"`
}

// MaxLate is how many holds a summary names that are late.
const MaxLate = 64

// Holdings says which texts an agent's engine holds in its cache, as prefix hashes: up to the end of each,
// every token is there. All of it is said in parts, and then what has changed. Who misses one of them asks
// for all of it again, by HoldControl.
type Holdings struct {
	Agent string `msgpack:"agent" want:"id"`
	Boot  int64  `msgpack:"boot"`
	// of the engine, counted in this boot: where it rises, nothing is left of what was held before
	Life uint64 `msgpack:"life,omitempty"`
	Seq  uint64 `msgpack:"seq"`  // rises by one with each of a boot
	Base uint64 `msgpack:"base"` // Seq of the first part of what this goes on from, or is part of
	// which of how many parts; Parts is 0 where this says what has changed
	Part  int `msgpack:"part,omitempty" want:"parts"`
	Parts int `msgpack:"parts,omitempty" want:"parts"`
	// share of what the engine holds that the agent knows of and has said
	Coverage float64 `msgpack:"coverage,omitempty"`
	Blocks   int     `msgpack:"blocks,omitempty"` // of the engine's cache that the agent knows of
	// of these, blocks of whose text it knows nothing, as where it was restarted and its engine was not
	Unnamed  int    `msgpack:"unnamed,omitempty"`
	Evidence string `msgpack:"evidence" want:"evidence"` // how it knows: one of the below
	// prefix hashes, ShortHashBytes each: those held from now on, and first those held no longer
	Add  []byte `msgpack:"add,omitempty"`
	Drop []byte `msgpack:"drop,omitempty"`
}

// How an agent knows what its engine holds.
const (
	EvidenceEvents   = "events"   // the engine says it
	EvidenceInferred = "inferred" // it follows from what was served
)

// ShortHashBytes is how long a prefix hash is in Holdings: its top 48 bits, the highest byte first. Of a
// million prefixes held, one prompt in 350,000 finds one that is none of its own.
const ShortHashBytes = 6

// AppendShortHash appends a prefix hash as Holdings has it, and ShortHash is what is left of it there.
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
