package bus

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Limits of a message's structure.
const (
	MaxMessage = 1 << 20 // bytes: the payload limit of the servers
	MaxDepth   = 8       // of nesting; a Dispatch, the deepest of ours, needs 5
	MaxItems   = 1 << 14 // of one array: a hostile byte may become a whole struct of a slice
	MaxMembers = 64      // of one map; our largest struct has half as many
)

// Check reports whether data is one well-formed msgpack map within the limits: every declared length
// fits in the bytes left, no extension types, no map key twice, no number beyond int64 except the
// 64-bit hashes under the keys "h" and "k", nothing behind the end. It allocates only for its error.
func Check(data []byte) error {
	if len(data) == 0 {
		return fmt.Errorf("empty message")
	}
	c := checker{data: data}
	if !isMap(data[0]) {
		return c.bad("a message is a map")
	}
	if err := c.run(); err != nil {
		return err
	}
	if c.at != len(data) {
		return c.bad("%d bytes behind the end of the message", len(data)-c.at)
	}
	return nil
}

// level is an open map or array.
type level struct {
	left  int // values still to come; in a map, members still to come
	keys  int // map: keys read so far; array: -1
	value bool
	seen  uint64 // map: a set of the keys' hashes, so that most keys need no comparison
}

type checker struct {
	data  []byte
	at    int
	depth int
	open  [MaxDepth]level
	// where the keys of each open map stand in data
	keyAt, keyEnd [MaxDepth][MaxMembers]uint32
}

// run passes over one value.
func (c *checker) run() error {
	for {
		if err := c.item(); err != nil {
			return err
		}
		for c.depth > 0 && c.open[c.depth-1].left == 0 {
			c.depth--
		}
		if c.depth == 0 {
			return nil
		}
	}
}

// item reads a key or a value of the innermost level, or the message itself.
func (c *checker) item() error {
	if c.depth > 0 {
		l := &c.open[c.depth-1]
		switch {
		case l.keys < 0: // array
			l.left--
		case !l.value:
			l.value = true
			return c.key(l)
		default:
			l.value = false
			l.left--
		}
	}
	return c.value()
}

func (c *checker) value() error {
	if c.at >= len(c.data) {
		return c.short()
	}
	b := c.data[c.at]
	c.at++
	switch {
	case b <= 0x7f || b >= 0xe0: // fixint
		return nil
	case b <= 0x8f:
		return c.enter(int(b&0x0f), true)
	case b <= 0x9f:
		return c.enter(int(b&0x0f), false)
	case b <= 0xbf:
		return c.skip(int(b & 0x1f))
	}
	switch b {
	case 0xc0, 0xc2, 0xc3: // nil, false, true
		return nil
	case 0xc4, 0xd9: // bin, str
		return c.sized(1)
	case 0xc5, 0xda:
		return c.sized(2)
	case 0xc6, 0xdb:
		return c.sized(4)
	case 0xcc, 0xd0:
		return c.skip(1)
	case 0xcd, 0xd1:
		return c.skip(2)
	case 0xca, 0xce, 0xd2:
		return c.skip(4)
	case 0xcb, 0xd3:
		return c.skip(8)
	case 0xcf:
		if c.at+8 <= len(c.data) && c.data[c.at] > 0x7f && !c.isHash() {
			return c.bad("number %d is beyond int64 (%d)", binary.BigEndian.Uint64(c.data[c.at:]),
				int64(math.MaxInt64))
		}
		return c.skip(8)
	case 0xdc, 0xde:
		n, err := c.length(2)
		if err != nil {
			return err
		}
		return c.enter(n, b == 0xde)
	case 0xdd, 0xdf:
		n, err := c.length(4)
		if err != nil {
			return err
		}
		return c.enter(n, b == 0xdf)
	}
	return c.bad("type 0x%02x is not used here", b)
}

// isHash reports whether the value at hand stands under the key of a 64-bit hash.
func (c *checker) isHash() bool {
	if c.depth == 0 { // a value alone: its message has been checked
		return true
	}
	l := &c.open[c.depth-1]
	if l.keys <= 0 {
		return false
	}
	key := c.data[c.keyAt[c.depth-1][l.keys-1]:c.keyEnd[c.depth-1][l.keys-1]]
	return len(key) == 1 && (key[0] == 'h' || key[0] == 'k')
}

func (c *checker) enter(n int, isMap bool) error {
	need := n
	if isMap {
		need = 2 * n
	}
	switch {
	case need > len(c.data)-c.at:
		return c.short()
	case isMap && n > MaxMembers:
		return c.bad("map of %d members: at most %d are taken", n, MaxMembers)
	case !isMap && n > MaxItems:
		return c.bad("array of %d items: at most %d are taken", n, MaxItems)
	case c.depth == MaxDepth:
		return c.bad("nested more than %d deep", MaxDepth)
	}
	l := level{left: n, keys: -1}
	if isMap {
		l.keys = 0
	}
	c.open[c.depth] = l
	c.depth++
	return nil
}

// key reads a map key: a string that the map has not had yet.
func (c *checker) key(l *level) error {
	if c.at >= len(c.data) {
		return c.short()
	}
	b := c.data[c.at]
	c.at++
	n := int(b & 0x1f)
	switch {
	case b&0xe0 == 0xa0:
	case b == 0xd9 || b == 0xda || b == 0xdb:
		var err error
		if n, err = c.length(1 << (b - 0xd9)); err != nil {
			return err
		}
	default:
		return c.bad("a map key is not a string")
	}
	from := c.at
	if err := c.skip(n); err != nil {
		return err
	}
	d := c.depth - 1
	key := c.data[from:c.at]
	if bit := keyBit(key); l.seen&bit != 0 {
		for i := range l.keys {
			if string(c.data[c.keyAt[d][i]:c.keyEnd[d][i]]) == string(key) {
				return c.bad("key %.40q stands twice", key)
			}
		}
	} else {
		l.seen |= bit
	}
	c.keyAt[d][l.keys], c.keyEnd[d][l.keys] = uint32(from), uint32(c.at)
	l.keys++
	return nil
}

// keyBit maps a key to one of 64 bits.
func keyBit(key []byte) uint64 {
	h := uint32(len(key))
	if n := len(key); n > 0 {
		h = h*31 + uint32(key[0])*7 + uint32(key[n-1])*13 + uint32(key[n/2])*3
	}
	return 1 << (h & 63)
}

// sized skips a string or byte slice whose length stands in the next size bytes.
func (c *checker) sized(size int) error {
	n, err := c.length(size)
	if err != nil {
		return err
	}
	return c.skip(n)
}

func (c *checker) length(size int) (int, error) {
	if size > len(c.data)-c.at {
		return 0, c.short()
	}
	n := 0
	for range size {
		n = n<<8 | int(c.data[c.at])
		c.at++
	}
	return n, nil
}

func (c *checker) skip(n int) error {
	if n > len(c.data)-c.at {
		return c.short()
	}
	c.at += n
	return nil
}

func (c *checker) short() error {
	return c.bad("a length is declared that goes beyond the end of the message (%d bytes)", len(c.data))
}

func (c *checker) bad(format string, args ...any) error {
	return fmt.Errorf("msgpack at byte %d: "+format, append([]any{c.at}, args...)...)
}
