package bus

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"souk/bus/packed"
)

// Messages are encoded and decoded by a plan made once from their struct tags. The bytes are those of
// vmihailenco/msgpack, to which tests compare them; that library looks at every field anew for every message,
// which was a sixth of the processor time of a task (ten pairs).

// plan says how a struct is encoded: as a map from the names in its tags.
type plan struct {
	fields []planned
	byName map[string]int
}

type planned struct {
	index int
	name  string
	head  []byte // the name as it is written
	omit  bool   // left out where empty
	value shape
}

// shape says how a value is encoded.
type shape struct {
	kind reflect.Kind // Pointer, Struct, Slice have an inner one
	raw  bool         // []byte
	to   *plan        // of a struct
	elem *shape       // of a pointer or a slice
}

// maxFields is the number of bits in a set of fields.
const maxFields = 64

func planOf(t reflect.Type) *plan {
	p := &plan{byName: map[string]int{}}
	for i := range t.NumField() {
		f := t.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("msgpack"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		name = cmp.Or(name, f.Name)
		p.byName[name] = len(p.fields)
		p.fields = append(p.fields,
			planned{index: i, name: name, head: appendString(nil, name), omit: option == "omitempty",
				value: shapeOf(f.Type)})
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

// append writes a struct, and says how many of its fields were there to write.
func (p *plan) append(dst []byte, v reflect.Value) (_ []byte, n int) {
	at := len(dst)
	dst = append(dst, 0x80)
	for i := range p.fields {
		f := &p.fields[i]
		field := v.Field(f.index)
		if f.omit && f.value.empty(field) {
			continue
		}
		before, members := len(dst), 1
		dst = append(dst, f.head...)
		if f.value.to == nil {
			dst = f.value.append(dst, field)
		} else if dst, members = f.value.to.append(dst, field); members == 0 && f.omit {
			dst = dst[:before]
			continue
		}
		n++
	}
	if n > 15 { // few are, so that a byte is room for how many
		dst = slices.Insert(dst, at, 0xde, 0)
		dst[at+2] = 0
		at += 2
	}
	dst[at] |= byte(n)
	return dst, n
}

// empty reports whether a field is, that is no struct.
func (s *shape) empty(v reflect.Value) bool {
	switch s.kind {
	case reflect.String, reflect.Slice:
		return v.Len() == 0
	case reflect.Int, reflect.Int64:
		return v.Int() == 0
	case reflect.Bool:
		return !v.Bool()
	case reflect.Struct:
		return false // its fields say
	}
	return v.IsZero()
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
		dst, _ = s.to.append(dst, v)
		return dst
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

// isText reports whether a value is text or bytes: readers of either take both.
func isText(h packed.Head) bool { return h.Kind == packed.Text || h.Kind == packed.Bytes }

// message reads all of a message.
func (p *plan) message(data []byte, v reflect.Value) error {
	c := &packed.Cursor{Data: data, MostMembers: MaxMembers, MostItems: MaxItems}
	h, err := c.Head()
	switch {
	case len(data) == 0:
		return errors.New("empty message")
	case err == nil && h.Kind != packed.Table:
		return c.Bad("a message is a map")
	case err == nil:
		err = p.read(c, h, v)
	}
	if err == nil && c.At < len(data) {
		return c.Bad("%d bytes behind the end of the message", len(data)-c.At)
	}
	return err
}

// read fills a struct. What the map does not name keeps its value; names that the struct does not have are
// passed over.
func (p *plan) read(c *packed.Cursor, h packed.Head, v reflect.Value) error {
	switch {
	case h.Kind == packed.Nothing:
		v.SetZero()
		return nil
	case h.Kind != packed.Table:
		return c.Bad("a map is expected")
	}
	var seen uint64
	for next, n := 0, h.N; n > 0; n-- {
		h, err := c.Head()
		if err != nil {
			return err
		}
		if !isText(h) {
			return c.Bad("a map key is not a string")
		}
		name := c.Take(h)
		// Members mostly come in the order of the fields.
		for next < len(p.fields) && p.fields[next].omit && p.fields[next].name != string(name) {
			next++
		}
		i, known := next, next < len(p.fields) && p.fields[next].name == string(name)
		if !known {
			i, known = p.byName[string(name)]
		}
		if !known {
			if err := c.Skip(); err != nil {
				return err
			}
			next = 0
			continue
		}
		if seen&(1<<i) != 0 {
			return c.Bad("key %.40q stands twice", name)
		}
		seen |= 1 << i
		next = i + 1
		f := &p.fields[i]
		if h, err = c.Head(); err == nil {
			err = f.value.read(c, h, v.Field(f.index))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

// read fills a field with a value whose head has been read. Nothing is the same as zero.
func (s *shape) read(c *packed.Cursor, h packed.Head, v reflect.Value) error {
	switch {
	case s.kind == reflect.Struct:
		return s.to.read(c, h, v)
	case h.Kind == packed.Nothing:
		v.SetZero()
	case s.kind == reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return s.elem.read(c, h, v.Elem())
	case s.kind == reflect.String && isText(h):
		v.SetString(string(c.Take(h)))
	case s.raw && isText(h):
		b := c.Take(h)
		v.SetBytes(append(make([]byte, 0, len(b)), b...))
	case s.kind == reflect.Array && isText(h):
		if h.N != 2*v.Len() {
			return c.Bad("%d hexadecimal digits, want %d", h.N, 2*v.Len())
		}
		_, err := hex.Decode(v.Bytes(), c.Take(h))
		return err
	case s.kind == reflect.Bool && h.Kind == packed.Truth:
		v.SetBool(h.Bits == 1)
	case v.CanInt() && h.Big:
		return c.Bad("number %d is beyond int64 (%d)", h.Bits, int64(math.MaxInt64))
	case v.CanInt() && h.Kind == packed.Number:
		v.SetInt(int64(h.Bits))
	case v.CanUint() && h.Kind == packed.Number && (v.OverflowUint(h.Bits) || !h.Big && int64(h.Bits) < 0):
		return c.Bad("number beyond %s", s.kind)
	case v.CanUint() && h.Kind == packed.Number:
		v.SetUint(h.Bits)
	case v.CanFloat() && h.Kind == packed.Fraction:
		v.SetFloat(math.Float64frombits(h.Bits))
	case v.CanFloat() && h.Big:
		v.SetFloat(float64(h.Bits))
	case v.CanFloat() && h.Kind == packed.Number:
		v.SetFloat(float64(int64(h.Bits)))
	case s.elem != nil && h.Kind == packed.List:
		v.Set(reflect.MakeSlice(v.Type(), h.N, h.N))
		for i := range h.N {
			h, err := c.Head()
			if err == nil {
				err = s.elem.read(c, h, v.Index(i))
			}
			if err != nil {
				return fmt.Errorf("%d: %w", i, err)
			}
		}
	default:
		return c.Bad("a %s is expected", s.kind)
	}
	return nil
}
