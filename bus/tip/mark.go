// Package tip says how far a journal is, in frames of it and in messages about it.
package tip

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"

	"souk/market"
)

// Sum is a checksum: the first half of the SHA-256 of some bytes. A frame's records carry 16 random bytes
// each, so equal sums of two frames mean one history up to there.
type Sum [16]byte

// SumOf is the checksum of a frame's bytes.
func SumOf(data []byte) (s Sum) {
	full := sha256.Sum256(data)
	copy(s[:], full[:])
	return s
}

func (s Sum) String() string               { return hex.EncodeToString(s[:]) }
func (s Sum) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, s[:]), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Sum) UnmarshalText(text []byte) error {
	if len(text) != 2*len(s) {
		return fmt.Errorf("a checksum of %d characters, want %d hexadecimal digits", len(text), 2*len(s))
	}
	_, err := hex.Decode(s[:], text)
	return err
}

// Mark says how far a journal is: its last frame that holds more than marks of other journals, so that two
// journals without news do not keep each other writing.
type Mark struct {
	Journal Sum    `json:"journal" msgpack:"journal"` // which one, see ledger.Book.ID
	Seq     uint64 `json:"seq" msgpack:"seq"`         // of the frame; 0: no mark
	Sum     Sum    `json:"sum" msgpack:"sum"`         // of its bytes
}

// MaxSeq bounds the sequence of a frame that anyone may speak of.
const MaxSeq = math.MaxInt64 >> 10

// Zero reports whether there is none.
func (m Mark) Zero() bool { return m == Mark{} }

// Valid reports whether there can be such a mark.
func (m Mark) Valid() bool {
	return m.Seq > 0 && m.Seq <= MaxSeq && m.Journal != Sum{} && m.Sum != Sum{}
}

// Validate says what is to be in a mark that is none.
func (m Mark) Validate() error {
	if m.Valid() {
		return nil
	}
	return fmt.Errorf("%s is no mark: want a frame from 1 to %d, and two checksums", m, uint64(MaxSeq))
}

// String names it as people do, by the first digits of its checksums.
func (m Mark) String() string {
	return fmt.Sprintf("frame %d (%.8s) of journal %.8s", m.Seq, m.Sum, m.Journal)
}

// Spent is the sum of all charges of a client at a hub.
type Spent struct {
	Client string         `json:"client" msgpack:"client" want:"id"`
	Amount market.Credits `json:"amount" msgpack:"amount" want:"sum"`
}

// MaxSpent bounds the clients of one record, and of one message.
const MaxSpent = 512
