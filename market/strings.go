package market

import "strings"

// Strings makes strings of bytes with few allocations, for a decoder that reads much. Not for use by several
// goroutines at once.
type Strings struct {
	// strings that come once are cut from pieces: who keeps one keeps all of its piece
	Pieces bool
	near   [1 << 10]string   // by their hashes, those that came last and come again and again
	all    map[string]string // of these, one copy
	piece  strings.Builder
}

const (
	pieceSize = 4 << 10
	mostNames = 1 << 16 // that are kept
)

// Name returns a string that probably comes again; of nil it is its own.
func (c *Strings) Name(b []byte) string {
	if c == nil || len(b) == 0 {
		return string(b)
	}
	near := &c.near[Mixed(b)%uint64(len(c.near))]
	if *near == string(b) {
		return *near
	}
	s, ok := c.all[string(b)]
	if !ok {
		if c.all == nil || len(c.all) >= mostNames {
			c.all = map[string]string{}
		}
		s = string(b)
		c.all[s] = s
	}
	*near = s
	return s
}

// Text returns a string that comes once or twice. Nothing of a piece is ever written twice.
func (c *Strings) Text(b []byte) string {
	if c == nil || !c.Pieces || len(b) == 0 {
		return string(b)
	}
	at := c.piece.Len()
	if c.piece.Cap()-at < len(b) {
		c.piece, at = strings.Builder{}, 0
		c.piece.Grow(max(pieceSize, len(b)))
	}
	c.piece.Write(b)
	return c.piece.String()[at:]
}

// Mixed tells most strings apart by few of their bytes. Who needs more compares them.
func Mixed[T string | []byte](s T) uint64 {
	n := len(s)
	x := uint64(n)
	four := func(at int) uint64 {
		b := s[at : at+4]
		return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24
	}
	switch {
	case n < 4:
		for i := range n {
			x = x<<8 ^ uint64(s[i])
		}
		return x * mixer >> 40
	case n < 8:
		return (x ^ four(0)*3 ^ four(n-4)<<32) * mixer >> 40
	}
	eight := func(at int) uint64 {
		b := s[at : at+8]
		return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 | uint64(b[4])<<32 |
			uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
	}
	return (x ^ eight(0)*3 ^ eight(n/2-4)*5 ^ eight(n-8)*mixer) * mixer >> 40
}

const mixer = 0x9e3779b97f4a7c15 // the golden ratio, of 2^64
