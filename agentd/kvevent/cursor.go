package kvevent

import "encoding/binary"

// cursor reads msgpack. Of what is broken it makes nothing and is bad from then on: it never reads past its
// end, and never believes a length that the bytes left cannot have.
type cursor struct {
	b   []byte
	at  int
	bad bool
}

// shape is what a value of msgpack is.
type shape uint8

const (
	nothing shape = iota // nil, or no value at all
	plain                // a number, true or false: no length, and its bytes are passed
	blob                 // text, bytes or an extension: n bytes follow
	array                // n values follow
	object               // n pairs of values follow
)

// head reads the first bytes of a value.
func (c *cursor) head() (k shape, n uint64) {
	if c.at >= len(c.b) {
		c.bad = true
		return nothing, 0
	}
	x := c.b[c.at]
	c.at++
	switch {
	case x < 0x80, x >= 0xe0:
		return plain, 0
	case x < 0x90:
		k, n = object, uint64(x&0x0f)
	case x < 0xa0:
		k, n = array, uint64(x&0x0f)
	case x < 0xc0:
		k, n = blob, uint64(x&0x1f)
	default:
		f := forms[x-0xc0]
		k, n = f.k, uint64(f.more)
		for range f.length {
			n = n<<8 + uint64(c.next())
		}
	}
	need := n
	if k == object {
		need = 2 * n
	}
	if need > uint64(len(c.b)-c.at) || c.bad {
		c.bad = true
		return nothing, 0
	}
	if k == plain {
		c.at += int(n)
	}
	return k, n
}

// forms are the values that begin with 0xc0 to 0xdf: how many bytes their length has, and how many they have
// without one.
var forms = [32]struct {
	k            shape
	length, more uint8
}{
	{nothing, 0, 0}, {nothing, 0, 0}, {plain, 0, 0}, {plain, 0, 0}, // nil, never used, false, true
	{blob, 1, 0}, {blob, 2, 0}, {blob, 4, 0}, // bytes
	{blob, 1, 0}, {blob, 2, 0}, {blob, 4, 0}, // extensions, whose type is skip's business
	{plain, 0, 4}, {plain, 0, 8}, // floats
	{plain, 0, 1}, {plain, 0, 2}, {plain, 0, 4}, {plain, 0, 8}, // unsigned
	{plain, 0, 1}, {plain, 0, 2}, {plain, 0, 4}, {plain, 0, 8}, // signed
	{plain, 0, 2}, {plain, 0, 3}, {plain, 0, 5}, {plain, 0, 9}, {plain, 0, 17}, // extensions of fixed length
	{blob, 1, 0}, {blob, 2, 0}, {blob, 4, 0}, // text
	{array, 2, 0}, {array, 4, 0}, {object, 2, 0}, {object, 4, 0},
}

func (c *cursor) next() byte {
	if c.at >= len(c.b) {
		c.bad = true
		return 0
	}
	c.at++
	return c.b[c.at-1]
}

// skip passes one value, however deep: it counts the values that are still to come, each of which has a byte
// at least.
func (c *cursor) skip() {
	for todo := uint64(1); todo > 0 && !c.bad; todo-- {
		if c.at < len(c.b) && c.b[c.at] >= 0xc7 && c.b[c.at] <= 0xc9 { // an extension has a type as well
			_, n := c.head()
			c.pass(n + 1)
			continue
		}
		switch k, n := c.head(); k {
		case blob:
			c.pass(n)
		case array:
			todo += n
		case object:
			todo += 2 * n
		}
		if todo > uint64(len(c.b)-c.at)+1 {
			c.bad = true
		}
	}
}

func (c *cursor) pass(n uint64) {
	if n > uint64(len(c.b)-c.at) {
		c.bad = true
		return
	}
	c.at += int(n)
}

// text reads text, without copying it; nil, having read nothing, if the next value is none.
func (c *cursor) text() []byte {
	at := c.at
	if at < len(c.b) {
		if x := c.b[at]; x >= 0xa0 && x < 0xc0 || x >= 0xd9 && x <= 0xdb {
			if k, n := c.head(); k == blob {
				c.at += int(n)
				return c.b[c.at-int(n) : c.at : c.at]
			}
		}
	}
	c.at = at
	return nil
}

// number reads a number that is not negative; false, if the next value is none.
func (c *cursor) number() (uint64, bool) {
	n, negative, ok := c.integer()
	return n, ok && !negative
}

// integer reads a number of 64 bits, with or without a sign.
func (c *cursor) integer() (n uint64, negative, ok bool) {
	if c.at >= len(c.b) {
		return 0, false, false
	}
	x := c.b[c.at]
	switch {
	case x < 0x80:
		c.at++
		return uint64(x), false, true
	case x >= 0xe0:
		c.at++
		return uint64(int64(int8(x))), true, true
	case x < 0xcc || x > 0xd3:
		return 0, false, false
	}
	wide := 1 << ((x - 0xcc) & 3)
	if c.at+1+wide > len(c.b) {
		return 0, false, false
	}
	for _, y := range c.b[c.at+1 : c.at+1+wide] {
		n = n<<8 + uint64(y)
	}
	c.at += 1 + wide
	if x >= 0xd0 {
		n = uint64(int64(n<<(64-8*wide)) >> (64 - 8*wide))
		negative = int64(n) < 0
	}
	return n, negative, true
}

// key reads a hash: a number, or the bytes of which it is the last 8.
func (c *cursor) key() (Key, bool) {
	if c.at < len(c.b) && c.b[c.at] >= 0xc4 && c.b[c.at] <= 0xc6 {
		k, n := c.head()
		if k != blob || n < 8 {
			return 0, false
		}
		c.at += int(n)
		return Key(binary.BigEndian.Uint64(c.b[c.at-8:])), true
	}
	n, _, ok := c.integer()
	return Key(n), ok
}
