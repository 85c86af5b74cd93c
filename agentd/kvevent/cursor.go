package kvevent

import (
	"encoding/binary"

	"souk/bus/packed"
)

// cursor reads msgpack. Of what is broken it makes nothing, and is bad from then on.
type cursor struct {
	packed.Cursor
	bad bool
}

// cursorAt is before the value at a place of a payload.
func cursorAt(payload []byte, at int) cursor {
	return cursor{Cursor: packed.Cursor{Data: payload, At: at, Extensions: true}}
}

// head reads what a value begins with.
func (c *cursor) head() packed.Head {
	h, err := c.Head()
	c.bad = c.bad || err != nil
	return h
}

func (c *cursor) skip() { c.bad = c.bad || c.Skip() != nil }

// text reads text, without copying it; nil, having read nothing, if the next value is none.
func (c *cursor) text() []byte {
	at := c.At
	if h, err := c.Head(); err == nil && h.Kind == packed.Text {
		return c.Take(h)
	}
	c.At = at
	return nil
}

// number reads a number that is not negative; false, if the next value is none.
func (c *cursor) number() (uint64, bool) {
	h, err := c.Head()
	return h.Bits, err == nil && h.Kind == packed.Number && (h.Big || int64(h.Bits) >= 0)
}

// key reads a hash: a number, or the bytes of which it is the last 8.
func (c *cursor) key() (Key, bool) {
	switch h, err := c.Head(); {
	case err != nil:
	case h.Kind == packed.Number:
		return Key(h.Bits), true
	case h.Kind == packed.Bytes && h.N >= 8:
		b := c.Take(h)
		return Key(binary.BigEndian.Uint64(b[len(b)-8:])), true
	}
	return 0, false
}
