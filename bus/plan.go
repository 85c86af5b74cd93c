package bus

import (
	"encoding/binary"
	"encoding/hex"
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

// plans are those of all messages.
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

// cursor reads bytes that [Check] has passed: every length in them fits.
type cursor struct {
	data []byte
	at   int
}

func (c *cursor) wrong(want string) error {
	return fmt.Errorf("byte 0x%02x at %d is no %s", c.data[c.at], c.at, want)
}

// read fills a struct. What the map does not name keeps its value; names that the struct does not have are
// passed over.
func (p *plan) read(c *cursor, v reflect.Value) error {
	if c.isNil() {
		v.SetZero()
		return nil
	}
	n, ok := c.length(0x80, 0x0f, 0xde, 1)
	if !ok {
		return c.wrong("map")
	}
	for next := 0; n > 0; n-- {
		name, err := c.bytes("name of a member")
		if err != nil {
			return err
		}
		// Members mostly come in the order of the fields.
		for next < len(p.fields) && p.fields[next].omit && p.fields[next].name != string(name) {
			next++
		}
		i, known := next, next < len(p.fields) && p.fields[next].name == string(name)
		if !known {
			i, known = p.byName[string(name)]
		}
		if !known {
			c.skip()
			next = 0
			continue
		}
		next = i + 1
		f := &p.fields[i]
		if err := f.value.read(c, v.Field(f.index)); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

func (s *shape) read(c *cursor, v reflect.Value) error {
	switch s.kind {
	case reflect.String:
		b, err := c.bytes("text")
		if err == nil {
			v.SetString(string(b))
		}
		return err
	case reflect.Bool:
		switch b := c.data[c.at]; b {
		case 0xc0, 0xc2, 0xc3:
			c.at++
			v.SetBool(b == 0xc3)
			return nil
		}
		return c.wrong("true or false")
	case reflect.Int, reflect.Int64:
		n, err := c.integer()
		if err == nil {
			v.SetInt(int64(n))
		}
		return err
	case reflect.Uint32, reflect.Uint64:
		n, err := c.integer()
		if err == nil && s.kind == reflect.Uint32 {
			n = uint64(uint32(n))
		}
		if err == nil {
			v.SetUint(n)
		}
		return err
	case reflect.Float64:
		x, err := c.float()
		if err == nil {
			v.SetFloat(x)
		}
		return err
	case reflect.Struct:
		return s.to.read(c, v)
	case reflect.Array:
		b, err := c.bytes("checksum")
		if err == nil && len(b) != 2*v.Len() {
			return fmt.Errorf("%d hexadecimal digits, want %d", len(b), 2*v.Len())
		}
		if err == nil {
			_, err = hex.Decode(v.Bytes(), b)
		}
		return err
	}
	if c.isNil() {
		v.SetZero()
		return nil
	}
	switch {
	case s.kind == reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return s.elem.read(c, v.Elem())
	case s.raw:
		b, err := c.bytes("bytes")
		if err == nil {
			v.SetBytes(append(make([]byte, 0, len(b)), b...))
		}
		return err
	}
	n, ok := c.length(0x90, 0x0f, 0xdc, 1)
	if !ok {
		return c.wrong("list")
	}
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	for i := range n {
		if err := s.elem.read(c, v.Index(i)); err != nil {
			return fmt.Errorf("%d: %w", i, err)
		}
	}
	return nil
}

func (c *cursor) isNil() bool {
	if c.data[c.at] != 0xc0 {
		return false
	}
	c.at++
	return true
}

// length reads what appendLen writes: mask is of the bits beside fix.
func (c *cursor) length(fix, mask, long byte, k int) (n int, ok bool) {
	b := c.data[c.at]
	if b&^mask == fix {
		c.at++
		return int(b & mask), true
	}
	if b < long || int(b-long) > 2-k {
		return 0, false
	}
	c.at++
	return int(c.big(k + int(b-long))), true
}

// big reads 1<<k bytes, the highest first.
func (c *cursor) big(k int) (n uint64) {
	for _, b := range c.data[c.at : c.at+1<<k] {
		n = n<<8 | uint64(b)
	}
	c.at += 1 << k
	return n
}

// bytes reads text or bytes, of which it returns the original.
func (c *cursor) bytes(want string) ([]byte, error) {
	if c.isNil() {
		return nil, nil
	}
	n, ok := c.length(0xa0, 0x1f, 0xd9, 0)
	if !ok {
		n, ok = c.length(0, 0, 0xc4, 0)
	}
	if !ok {
		return nil, c.wrong(want)
	}
	c.at += n
	return c.data[c.at-n : c.at], nil
}

// integer reads a number, negative ones in two's complement.
func (c *cursor) integer() (uint64, error) {
	b := c.data[c.at]
	switch {
	case b <= 0x7f, b >= 0xe0:
		c.at++
		return uint64(int8(b)), nil
	case b >= 0xcc && b <= 0xcf:
		c.at++
		return c.big(int(b - 0xcc)), nil
	case b >= 0xd0 && b <= 0xd3:
		c.at++
		unused := 64 - 8<<(b-0xd0)
		return uint64(int64(c.big(int(b-0xd0))<<unused) >> unused), nil
	case c.isNil():
		return 0, nil
	}
	return 0, c.wrong("whole number")
}

func (c *cursor) float() (float64, error) {
	b := c.data[c.at]
	switch b {
	case 0xca:
		c.at++
		return float64(math.Float32frombits(uint32(c.big(2)))), nil
	case 0xcb:
		c.at++
		return math.Float64frombits(c.big(3)), nil
	}
	n, err := c.integer()
	if b >= 0xcc && b <= 0xcf {
		return float64(n), err
	}
	return float64(int64(n)), err
}

// skip passes over a value, which is in order.
func (c *cursor) skip() {
	past := checker{data: c.data, at: c.at}
	past.run()
	c.at = past.at
}
