package bus

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"strings"
)

// The messages that every task and token needs are written and read by a plan made once of their struct tags.
// The bytes are those of the msgpack library, which the tests hold them against; the library looks at every
// field anew for every message, and that was a seventh of the processor time of a task.

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

// plans are of the messages that tasks and tokens need.
var plans = func() map[reflect.Type]*plan {
	out := map[reflect.Type]*plan{}
	for _, m := range []Message{
		&Task{}, &Accepted{}, &Answer{}, &Dispatch{}, &DispatchReply{}, &Chunk{}, &Result{}, &Completion{},
		&CompletionAck{}, &StreamControl{},
	} {
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
	case reflect.Bool:
		return !v.Bool()
	case reflect.Int, reflect.Int64:
		return v.Int() == 0
	case reflect.Uint32, reflect.Uint64:
		return v.Uint() == 0
	case reflect.Float64:
		return v.Float() == 0
	case reflect.Pointer:
		return v.IsNil()
	}
	return s.to.maybe && s.to.present(v) == 0
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
	n := 0
	for s := set; s != 0; s &= s - 1 {
		n++
	}
	dst = appendLen(dst, n, 0x80, 15, 0xde)
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
	}
	if v.IsNil() {
		return append(dst, 0xc0)
	}
	if s.kind == reflect.Pointer {
		return s.elem.append(dst, v.Elem())
	}
	n := v.Len()
	if s.raw {
		switch {
		case n <= math.MaxUint8:
			dst = append(dst, 0xc4, byte(n))
		case n <= math.MaxUint16:
			dst = binary.BigEndian.AppendUint16(append(dst, 0xc5), uint16(n))
		default:
			dst = binary.BigEndian.AppendUint32(append(dst, 0xc6), uint32(n))
		}
		return append(dst, v.Bytes()...)
	}
	dst = appendLen(dst, n, 0x90, 15, 0xdc)
	for i := range n {
		dst = s.elem.append(dst, v.Index(i))
	}
	return dst
}

// appendLen writes a length: in the byte fix where it is at most most, else in 16 bits behind the byte long,
// or in 32 behind the next.
func appendLen(dst []byte, n int, fix byte, most int, long byte) []byte {
	switch {
	case n <= most:
		return append(dst, fix|byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, long), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, long+1), uint32(n))
}

func appendString(dst []byte, s string) []byte {
	if n := len(s); n > 31 && n <= math.MaxUint8 {
		dst = append(dst, 0xd9, byte(n))
	} else {
		dst = appendLen(dst, n, 0xa0, 31, 0xda)
	}
	return append(dst, s...)
}

func appendUint(dst []byte, n uint64) []byte {
	switch {
	case n <= math.MaxInt8:
		return append(dst, byte(n))
	case n <= math.MaxUint8:
		return append(dst, 0xcc, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, 0xcd), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, 0xce), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xcf), n)
}

func appendInt(dst []byte, n int64) []byte {
	switch {
	case n >= 0:
		return appendUint(dst, uint64(n))
	case n >= -32:
		return append(dst, byte(n))
	case n >= math.MinInt8:
		return append(dst, 0xd0, byte(n))
	case n >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(dst, 0xd1), uint16(n))
	case n >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(dst, 0xd2), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xd3), uint64(n))
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
	b := c.data[c.at]
	n := 0
	switch {
	case b == 0xc0:
		c.at++
		v.SetZero()
		return nil
	case b&0xf0 == 0x80:
		n = int(b & 0x0f)
		c.at++
	case b == 0xde, b == 0xdf:
		n = c.long(b == 0xdf)
	default:
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
	}
	if c.data[c.at] == 0xc0 {
		c.at++
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
	n := 0
	switch b := c.data[c.at]; {
	case b&0xf0 == 0x90:
		n = int(b & 0x0f)
		c.at++
	case b == 0xdc, b == 0xdd:
		n = c.long(b == 0xdd)
	default:
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

// long reads a length of 16 or 32 bits behind the byte at hand.
func (c *cursor) long(wide bool) (n int) {
	c.at++
	if wide {
		n = int(binary.BigEndian.Uint32(c.data[c.at:]))
		c.at += 4
		return n
	}
	n = int(binary.BigEndian.Uint16(c.data[c.at:]))
	c.at += 2
	return n
}

// bytes reads text or bytes, of which it returns the original.
func (c *cursor) bytes(want string) ([]byte, error) {
	b, n := c.data[c.at], 0
	switch {
	case b&0xe0 == 0xa0:
		n = int(b & 0x1f)
		c.at++
	case b == 0xc4, b == 0xd9:
		n = int(c.data[c.at+1])
		c.at += 2
	case b == 0xc5, b == 0xda:
		n = c.long(false)
	case b == 0xc6, b == 0xdb:
		n = c.long(true)
	case b == 0xc0:
		c.at++
		return nil, nil
	default:
		return nil, c.wrong(want)
	}
	c.at += n
	return c.data[c.at-n : c.at], nil
}

// integer reads a number, negative ones in two's complement. One that is written as a float loses its
// fraction.
func (c *cursor) integer() (uint64, error) {
	b, rest := c.data[c.at], c.data[c.at+1:]
	width := 0
	var n uint64
	switch b {
	case 0xc0:
	case 0xcc:
		width, n = 1, uint64(rest[0])
	case 0xcd:
		width, n = 2, uint64(binary.BigEndian.Uint16(rest))
	case 0xce:
		width, n = 4, uint64(binary.BigEndian.Uint32(rest))
	case 0xcf:
		width, n = 8, binary.BigEndian.Uint64(rest)
	case 0xd0:
		width, n = 1, uint64(int8(rest[0]))
	case 0xd1:
		width, n = 2, uint64(int16(binary.BigEndian.Uint16(rest)))
	case 0xd2:
		width, n = 4, uint64(int32(binary.BigEndian.Uint32(rest)))
	case 0xd3:
		width, n = 8, binary.BigEndian.Uint64(rest)
	default:
		if b > 0x7f && b < 0xe0 {
			return 0, c.wrong("whole number")
		}
		n = uint64(int8(b))
	}
	c.at += 1 + width
	return n, nil
}

func (c *cursor) float() (float64, error) {
	b, rest := c.data[c.at], c.data[c.at+1:]
	switch b {
	case 0xca:
		c.at += 5
		return float64(math.Float32frombits(binary.BigEndian.Uint32(rest))), nil
	case 0xcb:
		c.at += 9
		return math.Float64frombits(binary.BigEndian.Uint64(rest)), nil
	}
	n, err := c.integer()
	if err != nil {
		return 0, err
	}
	if b == 0xcf || b == 0xcc || b == 0xcd || b == 0xce {
		return float64(n), nil
	}
	return float64(int64(n)), nil
}

// skip passes over a value.
func (c *cursor) skip() {
	for left := 1; left > 0; left-- {
		b := c.data[c.at]
		switch {
		case b&0xf0 == 0x80:
			left += 2 * int(b&0x0f)
			c.at++
		case b&0xf0 == 0x90:
			left += int(b & 0x0f)
			c.at++
		case b == 0xde, b == 0xdf:
			left += 2 * c.long(b == 0xdf)
		case b == 0xdc, b == 0xdd:
			left += c.long(b == 0xdd)
		case b&0xe0 == 0xa0, b >= 0xc4 && b <= 0xc6, b >= 0xd9 && b <= 0xdb:
			c.bytes("")
		case b == 0xca:
			c.at += 5
		case b == 0xcb:
			c.at += 9
		case b >= 0xcc && b <= 0xd3:
			c.integer()
		default:
			c.at++
		}
	}
}
