package ledger

import "strings"

// room is memory for what a decoder reads, used again for the next frame: an audit is done with a frame's
// records by then, but for holds, which are given back one by one once they have ended, and for strings.
type room struct {
	records   []Record
	legs      []Leg
	captures  []Capture
	voids     []Void
	transfers []Transfer
	holds     []*Hold // that nobody keeps
	texts     strings.Builder
}

// textRoom is the size of the pieces that strings are cut from. Who keeps one of them keeps the piece.
const textRoom = 4 << 10

// begin returns the memory for a frame's records, empty, and has the rest used again.
func (m *room) begin() []Record {
	clear(m.records)
	m.legs, m.captures, m.voids, m.transfers = m.legs[:0], m.captures[:0], m.voids[:0], m.transfers[:0]
	return m.records[:0]
}

// text cuts a string from the piece at hand. Nothing of a piece is ever written twice.
func (m *room) text(b []byte) string {
	at := m.texts.Len()
	if m.texts.Cap()-at < len(b) {
		m.texts, at = strings.Builder{}, 0
		m.texts.Grow(max(textRoom, len(b)))
	}
	m.texts.Write(b)
	return m.texts.String()[at:]
}

// again is one more of a list that is used again.
func again[T any](list *[]T) *T {
	var none T
	*list = append(*list, none)
	return &(*list)[len(*list)-1]
}

// legs returns memory for so many legs. A list that grows leaves those made before where they are.
func (d *decoder) legs(n int) []Leg {
	if d.room == nil {
		return make([]Leg, n)
	}
	m := d.room
	at := len(m.legs)
	if cap(m.legs)-at < n {
		m.legs, at = make([]Leg, 0, 2*cap(m.legs)+n), 0
	}
	m.legs = m.legs[:at+n]
	return m.legs[at : at+n : at+n]
}

func (d *decoder) newHold() *Hold {
	if d.room == nil || len(d.room.holds) == 0 {
		return new(Hold)
	}
	last := len(d.room.holds) - 1
	h := d.room.holds[last]
	*h = Hold{}
	d.room.holds = d.room.holds[:last]
	return h
}

func (d *decoder) newCapture() *Capture {
	if d.room == nil {
		return new(Capture)
	}
	return again(&d.room.captures)
}

func (d *decoder) newVoid() *Void {
	if d.room == nil {
		return new(Void)
	}
	return again(&d.room.voids)
}

func (d *decoder) newTransfer() *Transfer {
	if d.room == nil {
		return new(Transfer)
	}
	return again(&d.room.transfers)
}

// text reads a string that comes once or twice.
func (d *decoder) text() string {
	b := d.Sized()
	if d.room == nil {
		return string(b)
	}
	return d.room.text(b)
}

// copies keeps one copy of each string that comes again and again.
type copies struct {
	near [1 << 10]string // by their hashes, those that came last
	all  map[string]string
}

// maxCopies bounds the strings that are kept.
const maxCopies = 1 << 16

func newCopies() *copies { return &copies{all: map[string]string{}} }

func (c *copies) of(b []byte) string {
	near := &c.near[mixed(b)%uint64(len(c.near))]
	if *near == string(b) {
		return *near
	}
	s, ok := c.all[string(b)]
	if !ok {
		if len(c.all) >= maxCopies {
			clear(c.all)
		}
		s = string(b)
		c.all[s] = s
	}
	*near = s
	return s
}

// mixed tells most strings apart by few of their bytes. Who needs more compares them.
func mixed[T string | []byte](s T) uint64 {
	n := len(s)
	x := uint64(n)
	if n < 8 {
		for i := range n {
			x = x<<8 ^ uint64(s[i])
		}
		return x * mixer >> 40
	}
	eight := func(at int) uint64 {
		b := s[at : at+8]
		return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 | uint64(b[4])<<32 |
			uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
	}
	return (x ^ eight(0)*3 ^ eight(n/2-4)*5 ^ eight(n-8)*mixer) * mixer >> 40
}

const mixer = 0x9e3779b97f4a7c15 // the golden ratio, of 2^64

// name reads a string that probably comes again.
func (d *decoder) name() string {
	b := d.Sized()
	if d.intern == nil {
		return string(b)
	}
	return d.intern.of(b)
}
