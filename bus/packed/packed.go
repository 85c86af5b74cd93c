// Package packed walks msgpack that anybody may have sent: nothing goes beyond its end, or is taken to be
// longer than the bytes left can be.
package packed

import (
	"fmt"
	"math"
)

// Cursor is a place in such bytes.
type Cursor struct {
	Data []byte
	At   int

	// MostMembers and MostItems bound maps and arrays; 0: by the bytes left alone.
	MostMembers, MostItems int
	// Extensions are passed over, where they are refused else.
	Extensions bool
}

// Kind is the type of a value.
type Kind uint8

// The kinds of values.
const (
	Nothing Kind = iota
	Truth
	Number
	Fraction
	Text
	Bytes
	List
	Table
	Extension
)

// Head is the type of a value, and its length or number.
type Head struct {
	Kind Kind
	N    int    // bytes that follow, of text, bytes and extensions; items of a list; members of a table
	Bits uint64 // of a number, in two's complement; of a fraction, as a float64
	Big  bool   // a number beyond int64
}

// wide gives the bytes of length, or of number, that follow the first byte of a value.
var wide = [...]int{0xc4: 1, 0xc5: 2, 0xc6: 4, 0xc7: 1, 0xc8: 2, 0xc9: 4, 0xca: 4, 0xcb: 8, 0xcc: 1,
	0xcd: 2, 0xce: 4, 0xcf: 8, 0xd0: 1, 0xd1: 2, 0xd2: 4, 0xd3: 8, 0xd9: 1, 0xda: 2, 0xdb: 4, 0xdc: 2,
	0xdd: 4, 0xde: 2, 0xdf: 4}

// Head reads the head of the next value, all of one that is no text, bytes, extension, list or table.
func (c *Cursor) Head() (h Head, err error) {
	if c.At >= len(c.Data) {
		return h, c.short()
	}
	b := c.Data[c.At]
	c.At++
	var n uint64
	if int(b) < len(wide) {
		if wide[b] > len(c.Data)-c.At {
			return h, c.short()
		}
		for range wide[b] {
			n = n<<8 | uint64(c.Data[c.At])
			c.At++
		}
	}
	switch {
	case b <= 0x7f || b >= 0xe0:
		return Head{Kind: Number, Bits: uint64(int8(b))}, nil
	case b >= 0xcc && b <= 0xcf:
		return Head{Kind: Number, Bits: n, Big: n > math.MaxInt64}, nil
	case b >= 0xd0 && b <= 0xd3:
		unused := 64 - 8*wide[b]
		return Head{Kind: Number, Bits: uint64(int64(n<<unused) >> unused)}, nil
	case b == 0xc0:
		return Head{}, nil
	case b == 0xc2 || b == 0xc3:
		return Head{Kind: Truth, Bits: uint64(b & 1)}, nil
	case b == 0xca:
		return Head{Kind: Fraction, Bits: math.Float64bits(float64(math.Float32frombits(uint32(n))))}, nil
	case b == 0xcb:
		return Head{Kind: Fraction, Bits: n}, nil
	case b <= 0x8f:
		h, n = Head{Kind: Table}, uint64(b&0x0f)
	case b <= 0x9f:
		h, n = Head{Kind: List}, uint64(b&0x0f)
	case b <= 0xbf:
		h, n = Head{Kind: Text}, uint64(b&0x1f)
	case b >= 0xc4 && b <= 0xc6:
		h.Kind = Bytes
	case b >= 0xd9 && b <= 0xdb:
		h.Kind = Text
	case b == 0xdc || b == 0xdd:
		h.Kind = List
	case b >= 0xde:
		h.Kind = Table
	case b == 0xc1 || !c.Extensions:
		return h, c.Bad("type 0x%02x is not used here", b)
	case b >= 0xd4:
		h, n = Head{Kind: Extension}, 1+1<<(b-0xd4) // and its type
	default:
		h.Kind, n = Extension, n+1
	}
	h.N = int(n)
	switch left := len(c.Data) - c.At; {
	case h.N > left || h.Kind == Table && 2*h.N > left:
		return h, c.short()
	case h.Kind == Table && c.MostMembers > 0 && h.N > c.MostMembers:
		return h, c.Bad("map of %d members: at most %d are taken", h.N, c.MostMembers)
	case h.Kind == List && c.MostItems > 0 && h.N > c.MostItems:
		return h, c.Bad("array of %d items: at most %d are taken", h.N, c.MostItems)
	}
	return h, nil
}

// Take returns the bytes of a text whose head has been read.
func (c *Cursor) Take(h Head) []byte {
	c.At += h.N
	return c.Data[c.At-h.N : c.At : c.At]
}

// Skip passes over a value, however deep: it counts the values that are still to come, each of which has a
// byte at least.
func (c *Cursor) Skip() error {
	for left := 1; left > 0; left-- {
		h, err := c.Head()
		switch {
		case err != nil:
			return err
		case h.Kind == Text || h.Kind == Bytes || h.Kind == Extension:
			c.At += h.N
		case h.Kind == List:
			left += h.N
		case h.Kind == Table:
			left += 2 * h.N
		}
		if left > len(c.Data)-c.At+1 {
			return c.short()
		}
	}
	return nil
}

func (c *Cursor) short() error {
	return c.Bad("a length is declared that goes beyond the end of the message (%d bytes)", len(c.Data))
}

// Bad is an error that says where the cursor is.
func (c *Cursor) Bad(format string, args ...any) error {
	return fmt.Errorf("msgpack at byte %d: "+format, append([]any{c.At}, args...)...)
}
