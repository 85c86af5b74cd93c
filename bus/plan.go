package bus

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"strings"
)

// Messages are written and read by a plan made once of their struct tags. The bytes are those of
// vmihailenco/msgpack, which the tests hold them against; that library looks at every field anew for every
// message, which was a sixth of the processor time of a task (ten pairs).

// plan is how a struct travels: as a map from the names in its tags.
type plan struct {
	fields []planned
	byName map[string]int
	maybe  bool // every field may be left out, so the whole struct may be
}

type planned struct {
	index int
	name  string
	head  []byte // the name as it is written
	omit  bool   // left out where empty
	value shape
}

// shape is how a value travels.
type shape struct {
	kind reflect.Kind // Pointer, Struct, Slice have an inner one
	raw  bool         // []byte
	to   *plan        // of a struct
	elem *shape       // of a pointer or a slice
}

// maxFields is what a set of fields in a word has room for.
const maxFields = 64

func planOf(t reflect.Type) *plan {
	p := &plan{byName: map[string]int{}, maybe: true}
	for i := range t.NumField() {
		f := t.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("msgpack"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		p.byName[name] = len(p.fields)
		p.fields = append(p.fields,
			planned{index: i, name: name, head: appendString(nil, name), omit: option == "omitempty",
				value: shapeOf(f.Type)})
		p.maybe = p.maybe && option == "omitempty"
	}
	if len(p.fields) > maxFields {
		panic(fmt.Sprintf("bus: %s has %d fields; a plan has room for %d", t, len(p.fields), maxFields))
	}
	return p
}

func shapeOf(t reflect.Type) shape {
	s := shape{kind: t.Kind()}
	switch s.kind {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint32, reflect.Uint64,
		reflect.Float64:
	case reflect.Struct:
		s.to = planOf(t)
	case reflect.Array: // of bytes: a checksum
	case reflect.Slice:
		if s.raw = t.Elem().Kind() == reflect.Uint8; s.raw {
			break
		}
		fallthrough
	case reflect.Pointer:
		e := shapeOf(t.Elem())
		s.elem = &e
	default:
		panic(fmt.Sprintf("bus: %s cannot be planned", t))
	}
	return s
}

// plans has the plan of each message.
var plans = func() map[reflect.Type]*plan {
	out := map[reflect.Type]*plan{}
	for _, m := range messages {
		t := reflect.TypeOf(m).Elem()
		out[t] = planOf(t)
	}
	return out
}()

// empty reports whether a field that may be left out is.
func (s *shape) empty(v reflect.Value) bool {
	switch s.kind {
	case reflect.String, reflect.Slice:
		return v.Len() == 0
	case reflect.Struct:
		return s.to.maybe && s.to.present(v) == 0
	}
	return v.IsZero()
}

// present is the set of fields that are written.
func (p *plan) present(v reflect.Value) (set uint64) {
	for i := range p.fields {
		f := &p.fields[i]
		if !f.omit || !f.value.empty(v.Field(f.index)) {
			set |= 1 << i
		}
	}
	return set
}

// append writes a struct.
func (p *plan) append(dst []byte, v reflect.Value) []byte {
	set := p.present(v)
	dst = appendLen(dst, bits.OnesCount64(set), 0x80, 15, 0xde, 1)
	for i := range p.fields {
		if set&(1<<i) != 0 {
			f := &p.fields[i]
			dst = f.value.append(append(dst, f.head...), v.Field(f.index))
		}
	}
	return dst
}

func (s *shape) append(dst []byte, v reflect.Value) []byte {
	switch s.kind {
	case reflect.String:
		return appendString(dst, v.String())
	case reflect.Bool:
		if v.Bool() {
			return append(dst, 0xc3)
		}
		return append(dst, 0xc2)
	case reflect.Int, reflect.Int64:
		return appendInt(dst, v.Int())
	case reflect.Uint32, reflect.Uint64:
		return appendUint(dst, v.Uint())
	case reflect.Float64:
		return binary.BigEndian.AppendUint64(append(dst, 0xcb), math.Float64bits(v.Float()))
	case reflect.Struct:
		return s.to.append(dst, v)
	case reflect.Array:
		return hex.AppendEncode(appendLen(dst, 2*v.Len(), 0, -1, 0xc4, 0), v.Bytes())
	}
	if v.IsNil() {
		return append(dst, 0xc0)
	}
	if s.kind == reflect.Pointer {
		return s.elem.append(dst, v.Elem())
	}
	n := v.Len()
	if s.raw {
		return append(appendLen(dst, n, 0, -1, 0xc4, 0), v.Bytes()...)
	}
	dst = appendLen(dst, n, 0x90, 15, 0xdc, 1)
	for i := range n {
		dst = s.elem.append(dst, v.Index(i))
	}
	return dst
}

// appendLen writes a length: in the byte fix where it is at most most, else behind the byte long, in 1<<k
// bytes or, behind the bytes after long, in twice as many and so on.
func appendLen(dst []byte, n int, fix byte, most int, long byte, k int) []byte {
	if n <= most {
		return append(dst, fix|byte(n))
	}
	for n>>(8<<k) != 0 {
		long, k = long+1, k+1
	}
	return appendBig(append(dst, long), uint64(n), k)
}

// appendBig writes the low 1<<k bytes of n, the highest first.
func appendBig(dst []byte, n uint64, k int) []byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	return append(dst, b[8-1<<k:]...)
}

func appendString(dst []byte, s string) []byte {
	return append(appendLen(dst, len(s), 0xa0, 31, 0xd9, 0), s...)
}

func appendUint(dst []byte, n uint64) []byte {
	if n <= math.MaxInt8 {
		return append(dst, byte(n))
	}
	k := 0
	for n>>(8<<k) != 0 {
		k++
	}
	return appendBig(append(dst, 0xcc+byte(k)), n, k)
}

func appendInt(dst []byte, n int64) []byte {
	switch {
	case n >= 0:
		return appendUint(dst, uint64(n))
	case n >= -32:
		return append(dst, byte(n))
	}
	k := 0
	for n>>(8<<k-1) != -1 {
		k++
	}
	return appendBig(append(dst, 0xd0+byte(k)), uint64(n), k)
}

// cursor reads bytes that anybody may have sent: nothing goes beyond their end, or is made larger than they
// can hold.
type cursor struct {
	data []byte
	at   int
}

// The kinds of values.
const (
	nothing = iota
	truth
	number
	fraction
	text // or bytes
	list
	table
)

// head is what a value begins with.
type head struct {
	kind int
	n    int    // of text its bytes, which follow; of a list its items, of a table its members
	bits uint64 // of a number, in two's complement; of a fraction, as a float64
	big  bool   // a number beyond int64
}

// wide is how many bytes of a length, or of a number, follow the first byte of a value.
var wide = [...]int{0xc4: 1, 0xc5: 2, 0xc6: 4, 0xca: 4, 0xcb: 8, 0xcc: 1, 0xcd: 2, 0xce: 4, 0xcf: 8, 0xd0: 1,
	0xd1: 2, 0xd2: 4, 0xd3: 8, 0xd9: 1, 0xda: 2, 0xdb: 4, 0xdc: 2, 0xdd: 4, 0xde: 2, 0xdf: 4}

func (c *cursor) head() (h head, err error) {
	if c.at >= len(c.data) {
		return h, c.short()
	}
	b := c.data[c.at]
	c.at++
	var n uint64
	if int(b) < len(wide) {
		if wide[b] > len(c.data)-c.at {
			return h, c.short()
		}
		for range wide[b] {
			n = n<<8 | uint64(c.data[c.at])
			c.at++
		}
	}
	switch {
	case b <= 0x7f || b >= 0xe0:
		return head{kind: number, bits: uint64(int8(b))}, nil
	case b >= 0xcc && b <= 0xcf:
		return head{kind: number, bits: n, big: n > math.MaxInt64}, nil
	case b >= 0xd0 && b <= 0xd3:
		unused := 64 - 8*wide[b]
		return head{kind: number, bits: uint64(int64(n<<unused) >> unused)}, nil
	case b == 0xc0:
		return head{}, nil
	case b == 0xc2 || b == 0xc3:
		return head{kind: truth, bits: uint64(b & 1)}, nil
	case b == 0xca:
		return head{kind: fraction, bits: math.Float64bits(float64(math.Float32frombits(uint32(n))))}, nil
	case b == 0xcb:
		return head{kind: fraction, bits: n}, nil
	case b <= 0x8f:
		h, n = head{kind: table}, uint64(b&0x0f)
	case b <= 0x9f:
		h, n = head{kind: list}, uint64(b&0x0f)
	case b <= 0xbf:
		h, n = head{kind: text}, uint64(b&0x1f)
	case b <= 0xc6 && b >= 0xc4 || b >= 0xd9 && b <= 0xdb:
		h.kind = text
	case b == 0xdc || b == 0xdd:
		h.kind = list
	case b >= 0xde:
		h.kind = table
	default:
		return h, c.bad("type 0x%02x is not used here", b)
	}
	h.n = int(n)
	switch left := len(c.data) - c.at; {
	case h.n > left || h.kind == table && 2*h.n > left:
		return h, c.short()
	case h.kind == table && h.n > MaxMembers:
		return h, c.bad("map of %d members: at most %d are taken", h.n, MaxMembers)
	case h.kind == list && h.n > MaxItems:
		return h, c.bad("array of %d items: at most %d are taken", h.n, MaxItems)
	}
	return h, nil
}

// take returns the bytes of a text whose head has been read.
func (c *cursor) take(h head) []byte {
	c.at += h.n
	return c.data[c.at-h.n : c.at]
}

// skip passes over a value, whatever is in it.
func (c *cursor) skip() error {
	for left := 1; left > 0; left-- {
		h, err := c.head()
		switch {
		case err != nil:
			return err
		case h.kind == text:
			c.at += h.n
		case h.kind == list:
			left += h.n
		case h.kind == table:
			left += 2 * h.n
		}
	}
	return nil
}

func (c *cursor) short() error {
	return c.bad("a length is declared that goes beyond the end of the message (%d bytes)", len(c.data))
}

func (c *cursor) bad(format string, args ...any) error {
	return fmt.Errorf("msgpack at byte %d: "+format, append([]any{c.at}, args...)...)
}

// message reads all of a message.
func (p *plan) message(data []byte, v reflect.Value) error {
	c := &cursor{data: data}
	h, err := c.head()
	switch {
	case len(data) == 0:
		return errors.New("empty message")
	case err == nil && h.kind != table:
		return c.bad("a message is a map")
	case err == nil:
		err = p.read(c, h, v)
	}
	if err == nil && c.at < len(data) {
		return c.bad("%d bytes behind the end of the message", len(data)-c.at)
	}
	return err
}

// read fills a struct. What the map does not name keeps its value; names that the struct does not have are
// passed over.
func (p *plan) read(c *cursor, h head, v reflect.Value) error {
	switch {
	case h.kind == nothing:
		v.SetZero()
		return nil
	case h.kind != table:
		return c.bad("a map is expected")
	}
	var seen uint64
	for next, n := 0, h.n; n > 0; n-- {
		h, err := c.head()
		if err != nil {
			return err
		}
		if h.kind != text {
			return c.bad("a map key is not a string")
		}
		name := c.take(h)
		// Members mostly come in the order of the fields.
		for next < len(p.fields) && p.fields[next].omit && p.fields[next].name != string(name) {
			next++
		}
		i, known := next, next < len(p.fields) && p.fields[next].name == string(name)
		if !known {
			i, known = p.byName[string(name)]
		}
		if !known {
			if err := c.skip(); err != nil {
				return err
			}
			next = 0
			continue
		}
		if seen&(1<<i) != 0 {
			return c.bad("key %.40q stands twice", name)
		}
		seen |= 1 << i
		next = i + 1
		f := &p.fields[i]
		if h, err = c.head(); err == nil {
			err = f.value.read(c, h, v.Field(f.index))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

// read fills a field with a value whose head has been read. Nothing is the same as zero.
func (s *shape) read(c *cursor, h head, v reflect.Value) error {
	switch {
	case s.kind == reflect.Struct:
		return s.to.read(c, h, v)
	case h.kind == nothing:
		v.SetZero()
	case s.kind == reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return s.elem.read(c, h, v.Elem())
	case s.kind == reflect.String && h.kind == text:
		v.SetString(string(c.take(h)))
	case s.raw && h.kind == text:
		b := c.take(h)
		v.SetBytes(append(make([]byte, 0, len(b)), b...))
	case s.kind == reflect.Array && h.kind == text:
		if h.n != 2*v.Len() {
			return c.bad("%d hexadecimal digits, want %d", h.n, 2*v.Len())
		}
		_, err := hex.Decode(v.Bytes(), c.take(h))
		return err
	case s.kind == reflect.Bool && h.kind == truth:
		v.SetBool(h.bits == 1)
	case v.CanInt() && h.big:
		return c.bad("number %d is beyond int64 (%d)", h.bits, int64(math.MaxInt64))
	case v.CanInt() && h.kind == number:
		v.SetInt(int64(h.bits))
	case v.CanUint() && h.kind == number && (v.OverflowUint(h.bits) || !h.big && int64(h.bits) < 0):
		return c.bad("number beyond %s", s.kind)
	case v.CanUint() && h.kind == number:
		v.SetUint(h.bits)
	case v.CanFloat() && h.kind == fraction:
		v.SetFloat(math.Float64frombits(h.bits))
	case v.CanFloat() && h.big:
		v.SetFloat(float64(h.bits))
	case v.CanFloat() && h.kind == number:
		v.SetFloat(float64(int64(h.bits)))
	case s.elem != nil && h.kind == list:
		v.Set(reflect.MakeSlice(v.Type(), h.n, h.n))
		for i := range h.n {
			h, err := c.head()
			if err == nil {
				err = s.elem.read(c, h, v.Index(i))
			}
			if err != nil {
				return fmt.Errorf("%d: %w", i, err)
			}
		}
	default:
		return c.bad("a %s is expected", s.kind)
	}
	return nil
}
