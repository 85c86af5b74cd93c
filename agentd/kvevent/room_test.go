package kvevent

import (
	"encoding/binary"
	"testing"
	"unsafe"
)

// Blocks that are all told apart by what else makes them take no more memory than a few times their bytes:
// where they would, they are none, and the events beside them are read.
func TestBlocksToldApartTakeLittleMemory(t *testing.T) {
	for _, blocks := range []int{100, 1 << 18} {
		b := append([]byte{0x92, 0, 0x92, 0x99, 0xab}, "BlockStored"...)
		list := func(of func(i int) byte) {
			b = binary.BigEndian.AppendUint32(append(b, 0xdd), uint32(blocks))
			for i := range blocks {
				b = append(b, of(i))
			}
		}
		one := func(int) byte { return 1 }
		list(one)
		b = append(b, 0xc0)
		list(one)
		b = append(b, 1, 0xc0, 0xc0, 0xc0)
		list(func(i int) byte { return byte(i % 2) })
		b = append(append(b, 0x91, 0xb0), "AllBlocksCleared"...)
		got, err := new(Decoder).Decode(b)
		want, bad := blocks+1, 0
		if blocks > fewEvents {
			want, bad = 1, 1
		}
		if err != nil || len(got.Events) != want || got.Bad != bad || got.Events[want-1].Kind != Cleared {
			t.Errorf("%d blocks: %v, %d events, %d bad", blocks, err, len(got.Events), got.Bad)
		}
		if size := cap(got.Events) * int(unsafe.Sizeof(Event{})); size > 8*len(b)+3*fewEvents*96 {
			t.Errorf("%d blocks: events of %d bytes, of a payload of %d", blocks, size, len(b))
		}
	}
}
