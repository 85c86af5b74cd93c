package kvevent

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"testing"

	"souk/bus/packed"
)

// wire writes msgpack in any form that a value has, as its specification lists them.
type wire struct {
	*rand.Rand
	b []byte
}

func (w *wire) length(n int, forms ...byte) { // of 8, 16 and 32 bits; 0: there is none
	fits := []int{1 << 8, 1 << 16, 1 << 32}
	for {
		k := w.IntN(len(forms))
		if forms[k] == 0 || n >= fits[k] {
			continue
		}
		w.b = append(w.b, forms[k])
		switch k {
		case 0:
			w.b = append(w.b, byte(n))
		case 1:
			w.b = binary.BigEndian.AppendUint16(w.b, uint16(n))
		default:
			w.b = binary.BigEndian.AppendUint32(w.b, uint32(n))
		}
		return
	}
}

func (w *wire) bytes(n int) {
	for range n {
		w.b = append(w.b, byte(w.Uint32()))
	}
}

// value writes one of any kind.
func (w *wire) value(depth int) {
	size := w.IntN(5)
	if w.IntN(20) == 0 {
		size = w.IntN(300)
	}
	switch kind := w.IntN(12); {
	case kind == 0:
		w.b = append(w.b, []byte{0xc0, 0xc2, 0xc3}[w.IntN(3)])
	case kind == 1:
		w.b = append(w.b, byte(w.IntN(128))) // small numbers
	case kind == 2:
		w.b = append(w.b, byte(0xe0+w.IntN(32)))
	case kind == 3: // numbers and floats of fixed length
		k := w.IntN(10)
		w.b = append(w.b, byte(0xca+k))
		w.bytes([]int{4, 8, 1, 2, 4, 8, 1, 2, 4, 8}[k])
	case kind == 4: // extensions of fixed length
		k := w.IntN(5)
		w.b = append(w.b, byte(0xd4+k))
		w.bytes(1 + 1<<k)
	case kind == 5:
		w.length(size, 0xc7, 0xc8, 0xc9)
		w.bytes(1 + size)
	case kind == 6:
		w.length(size, 0xc4, 0xc5, 0xc6)
		w.bytes(size)
	case kind == 7 && size < 32:
		w.b = append(w.b, 0xa0|byte(size))
		w.bytes(size)
	case kind <= 7:
		w.length(size, 0xd9, 0xda, 0xdb)
		w.bytes(size)
	case depth == 0:
		w.b = append(w.b, 0xc0)
	case kind <= 9:
		if size < 16 && w.IntN(2) == 0 {
			w.b = append(w.b, 0x90|byte(size))
		} else {
			w.length(size, 0, 0xdc, 0xdd)
		}
		for range size {
			w.value(depth - 1)
		}
	default:
		if size < 16 && w.IntN(2) == 0 {
			w.b = append(w.b, 0x80|byte(size))
		} else {
			w.length(size, 0, 0xde, 0xdf)
		}
		for range 2 * size {
			w.value(depth - 1)
		}
	}
}

// Any value is passed to its last byte and no further, and one that breaks off is seen to.
func TestAnyValueIsPassed(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := &wire{Rand: rand.New(rand.NewPCG(seed, 1))}
	for range 3000 {
		w.b = nil
		w.value(3)
		size := len(w.b)
		for _, after := range []int{0, 1, 9} {
			c := cursorAt(append(w.b[:size:size], make([]byte, after)...), 0)
			if c.skip(); c.bad || c.At != size {
				t.Fatalf("%x, and %d bytes behind it: passed to byte %d, bad %v", w.b, after, c.At, c.bad)
			}
		}
		for range min(size, 20) {
			cut := w.IntN(size)
			c := cursorAt(w.b[:cut:cut], 0)
			if c.skip(); !c.bad || c.At > cut {
				t.Fatalf("%x of %x is taken for a value, at byte %d", w.b[:cut], w.b, c.At)
			}
		}
	}
}

// integer reads a number with or without a sign.
func integer(c *cursor) (n uint64, negative, ok bool) {
	h, err := c.Head()
	return h.Bits, !h.Big && int64(h.Bits) < 0, err == nil && h.Kind == packed.Number
}

func textAt(b []byte, at int) []byte {
	c := cursorAt(b, at)
	return c.text()
}

// A number is read as it is in each of its forms, at the end of what there is, too, and is none where it
// breaks off or is something else.
func TestNumbersOfAnyForm(t *testing.T) {
	be := func(form byte, n uint64, bytes int) []byte {
		return append([]byte{form}, binary.BigEndian.AppendUint64(nil, n)[8-bytes:]...)
	}
	minus := func(n int64) uint64 { return uint64(n) }
	for _, c := range []struct {
		b        []byte
		n        uint64
		negative bool
	}{
		{[]byte{0x00}, 0, false}, {[]byte{0x7f}, 127, false},
		{[]byte{0xff}, minus(-1), true}, {[]byte{0xe0}, minus(-32), true},
		{be(0xcc, 255, 1), 255, false}, {be(0xcd, 65535, 2), 65535, false},
		{be(0xce, 1<<32-1, 4), 1<<32 - 1, false}, {be(0xcf, 1<<64-1, 8), 1<<64 - 1, false},
		{be(0xd0, 127, 1), 127, false}, {be(0xd0, minus(-128), 1), minus(-128), true},
		{be(0xd1, 32767, 2), 32767, false}, {be(0xd1, minus(-32768), 2), minus(-32768), true},
		{be(0xd2, 1<<31-1, 4), 1<<31 - 1, false}, {be(0xd2, minus(-1<<31), 4), minus(-1 << 31), true},
		{be(0xd3, 1<<63-1, 8), 1<<63 - 1, false}, {be(0xd3, minus(-1<<63), 8), minus(-1 << 63), true},
	} {
		for _, after := range [][]byte{nil, {0xc1}} {
			r := cursorAt(append(c.b[:len(c.b):len(c.b)], after...), 0)
			n, negative, ok := integer(&r)
			if n != c.n || negative != c.negative || !ok || r.At != len(c.b) || r.bad {
				t.Errorf("%x: %d, negative %v, a number %v, to byte %d", r.Data, n, negative, ok, r.At)
			}
			r.At = 0
			if k, ok := r.key(); k != Key(c.n) || !ok || r.At != len(c.b) {
				t.Errorf("%x: key %d %v, to byte %d", r.Data, k, ok, r.At)
			}
		}
		for cut := range c.b {
			r := cursorAt(c.b[:cut:cut], 0)
			if n, _, ok := integer(&r); ok {
				t.Errorf("%x of %x is taken for %d", r.Data, c.b, n)
			}
		}
	}
	for _, none := range []byte{0x80, 0x90, 0xa0, 0xc0, 0xc1, 0xc2, 0xca, 0xcb, 0xd4, 0xd9, 0xdc, 0xde} {
		r := cursorAt(append([]byte{none}, make([]byte, 20)...), 0)
		if n, _, ok := integer(&r); ok {
			t.Errorf("%#x is taken for %d", none, n)
		}
	}
}

// Members that are unknown change nothing of an event, whatever they are and wherever they stand, and what is
// behind a batch's events is of no use.
func TestUnknownMembersOfAnyKind(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := &wire{Rand: rand.New(rand.NewPCG(seed, 2))}
	text := func(s string) { w.b = appendText(w.b, s) }
	for range 2000 {
		members := []func(){
			func() { text("type"); text("BlockStored") },
			func() { text("block_hashes"); w.b = append(w.b, 0x92, 7, 0xcc, 200) },
			func() { text("parent_block_hash"); w.b = append(w.b, 0xd1, 0xff, 0) },
			func() { text("token_ids"); w.b = append(w.b, 0x94, 1, 0xcd, 1, 0, 0xce, 0, 1, 0, 0, 4) },
			func() { text("block_size"); w.b = append(w.b, 2) },
		}
		n := w.IntN(8)
		for range n {
			members = append(members, func() {
				for before := len(w.b); ; w.b = w.b[:before] { // a key of any kind that is no name
					w.value(1)
					if named[string(textAt(w.b, before))] == none {
						break
					}
				}
				w.value(2)
			})
		}
		w.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		w.b = []byte{0x90 | byte(2+w.IntN(2)), 0xcb, 1, 2, 3, 4, 5, 6, 7, 8, 0x91, 0xde, 0,
			byte(len(members))}
		extra := w.b[0] & 1
		for _, m := range members {
			m()
		}
		if extra == 1 {
			w.value(2)
		}
		got, err := new(Decoder).Decode(w.b)
		up := int64(-256)
		want := Batch{Events: []Event{{Kind: Stored, Blocks: []Key{7, 200}, Parent: Key(up), HasParent: true,
			Tokens: []uint32{1, 256, 65536, 4}, BlockSize: 2}}}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%x: %+v, %v", w.b, got, err)
		}
	}
	if _, err := new(Decoder).Decode(bytes.Repeat([]byte{0x91}, 100)); err == nil {
		t.Error("a batch of one member is taken")
	}
}
