package bus

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"souk/market"
)

// Voucher is a door's statement with each task, for the treasury: how much all tasks of the task's client
// that it placed at the hub may cost, so far. The hub shows it when it asks for the client's money, and gets
// no more than doors vouched for. Doors count up, so that the last voucher covers all before it: one that is
// lost, repeated or late does no harm. It has the layout
//
//	line 8 bytes, total 8 bytes, most 8 bytes; proof 16 bytes
//
// A total is of its line; a door begins a new one, with a higher number, whenever it has lost count. Most is
// the part of the total that the task itself may cost.
type Voucher []byte

const (
	voucherBytes = 40
	voucherHead  = 24 // before the proof
	// VouchKeyBytes is the length of the key that a door proves its vouchers with.
	VouchKeyBytes = 32
	// MaxVouchers bounds those that a hub shows with one request: doors, and their lines.
	MaxVouchers = 16
	// maxVouchKeys: the one in use, the next or the one before, and one more, in case the door starts again.
	maxVouchKeys = 3
)

// NewVoucher makes the voucher that a door with such a key gives for a client at the hub of a journal.
func NewVoucher(key []byte, door, client, journal string, line uint64, total, most market.Credits) Voucher {
	v := make(Voucher, voucherHead, voucherBytes)
	binary.LittleEndian.PutUint64(v, line)
	binary.LittleEndian.PutUint64(v[8:], uint64(total))
	binary.LittleEndian.PutUint64(v[16:], uint64(most))
	proof := v.proof(key, door, client, journal)
	return append(v, proof[:voucherBytes-voucherHead]...)
}

// Line, Total and Most return a voucher's fields; 0 for an empty one.
func (v Voucher) Line() uint64          { return v.word(0) }
func (v Voucher) Total() market.Credits { return market.Credits(v.word(8)) }
func (v Voucher) Most() market.Credits  { return market.Credits(v.word(16)) }

func (v Voucher) word(at int) uint64 {
	if len(v) != voucherBytes {
		return 0
	}
	return binary.LittleEndian.Uint64(v[at:])
}

// Proves reports whether a door that has such a key gave the voucher for that client at that hub.
func (v Voucher) Proves(key []byte, door, client, journal string) bool {
	if len(v) != voucherBytes || len(key) != VouchKeyBytes {
		return false
	}
	proof := v.proof(key, door, client, journal)
	return hmac.Equal(proof[:voucherBytes-voucherHead], v[voucherHead:])
}

// proof is the HMAC of what is said, to whom and of whom. A zero, which no id has, ends each name.
func (v Voucher) proof(key []byte, door, client, journal string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(v[:voucherHead])
	for _, name := range [...]string{door, client, journal} {
		h.Write(append([]byte(name), 0))
	}
	return h.Sum(nil)
}

// Validate: an empty one says nothing.
func (v Voucher) Validate() error {
	most := market.MaxCredits
	switch {
	case len(v) == 0:
	case len(v) != voucherBytes:
		return fmt.Errorf("%d bytes, a voucher has %d", len(v), voucherBytes)
	case v.Line() > uint64(maxCount):
		return fmt.Errorf("line %d is above %d", v.Line(), maxCount)
	case min(v.Total(), v.Most()) < 0 || max(v.Total(), v.Most()) > most:
		return fmt.Errorf("total %s, most %s: not within 0 and %s", v.Total(), v.Most(), most)
	}
	return nil
}

// DoorVoucher is a voucher and the door that gave it.
type DoorVoucher struct {
	Door    string  `json:"door" msgpack:"door" want:"id"`
	Voucher Voucher `json:"voucher" msgpack:"voucher"`
}

// VouchKeys has the keys by which a door proves its vouchers, in the registry at [VouchKey]: the last that it
// made, and those before it, since tasks of theirs may wait for money yet. The door and the treasury alone
// know them.
type VouchKeys struct {
	Keys [][]byte `json:"keys"` // the latest first
	Line uint64   `json:"line"` // the last that the door began
}

// Format shows no key in any log or error.
func (VouchKeys) Format(f fmt.State, _ rune) { f.Write([]byte(Redacted)) }

// With returns the keys once the door has another, and has begun such a line.
func (k *VouchKeys) With(key []byte, line uint64) *VouchKeys {
	out := &VouchKeys{Keys: [][]byte{key}, Line: max(k.Line, line)}
	for _, old := range k.Keys {
		if len(out.Keys) < maxVouchKeys && !bytes.Equal(old, key) {
			out.Keys = append(out.Keys, old)
		}
	}
	return out
}

func (k *VouchKeys) Validate() error {
	if n := len(k.Keys); n < 1 || n > maxVouchKeys {
		return fmt.Errorf("keys: %d: there are 1 to %d", n, maxVouchKeys)
	}
	for i := range k.Keys {
		if n := len(k.Keys[i]); n != VouchKeyBytes {
			return fmt.Errorf("keys[%d]: %d bytes, it has %d", i, n, VouchKeyBytes)
		}
	}
	return judge(k)
}

// ProberOf is the client that pays for what the hub of a domain does of its own accord: the only one for
// which no door vouches, as no door places its tasks.
func ProberOf(domain string) string {
	client := "probe-" + domain
	return client[:min(len(client), MaxID)]
}
