package market

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// An integer is read as encoding/binary reads it, wherever it stands, but in its shortest form alone.
func TestIntegersInTheirShortestForm(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var data []byte
	for i := range 20_000 {
		data = data[:0]
		for range rng.IntN(12) {
			data = append(data, byte(rng.Uint32())|byte(rng.IntN(8)>>2<<7))
		}
		if i%3 == 0 {
			data = append(binary.AppendUvarint(nil, rng.Uint64()>>rng.IntN(64)), data...)
		}
		x, n := binary.Uvarint(data)
		ok := n > 0 && (n == 1 || data[n-1] != 0)
		d := Decoder{Data: data}
		got := d.Uvarint()
		if (d.Fault == "") != ok || ok && (got != x || d.At != n) || !ok && (got != 0 || d.At != 0) {
			t.Fatalf("%x: %d in %d bytes, fault %q; want %d in %d, %v", data, got, d.At, d.Fault, x, n, ok)
		}
	}
}
