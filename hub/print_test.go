package hub

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"math"
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"souk/bus"
	"souk/ledger"
)

// BytesOf writes everything that a Ready says.
func BytesOf(r *Ready) (b []byte) {
	add := func(m bus.Message) {
		data, err := bus.Encode(m)
		if err != nil {
			panic(err) // a Node says nothing that cannot be sent
		}
		b = append(b, data...)
	}
	for i := range r.Frames {
		b = ledger.AppendFrame(b, &r.Frames[i])
	}
	for i := range r.Dispatches {
		add(&r.Dispatches[i])
	}
	for _, l := range r.Messages {
		b = append(b, l.Subject...)
		add(l.Body)
	}
	for i := range r.Funds {
		b = append(b, r.Funds[i].Op...)
		add(&r.Funds[i].Request)
	}
	if r.Status != nil {
		add(r.Status)
	}
	return fmt.Appendln(b, r.Faults, r.Wake.UnixNano(), r.Probes, r.Placed, r.Rounds)
}

// place locates a value of a type.
type place struct {
	at unsafe.Pointer
	of reflect.Type
}

// printOf is a print of all that can be reached from a value, addresses and what caches hold among it. Where
// types are left out, two values have the same print if the rest of them is alike, wherever it is in memory:
// then pointers count by which of them are the same.
func printOf(v reflect.Value, leaveOut ...reflect.Type) uint64 {
	var h maphash.Hash
	h.SetSeed(printSeed)
	seen := map[place]int{}
	alike := len(leaveOut) > 0
	number := func(n uint64) { maphash.WriteComparable(&h, n) }
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		if alike && (v.Kind() == reflect.Func || slices.Contains(leaveOut, v.Type())) {
			return
		}
		switch v.Kind() {
		case reflect.Pointer:
			p := place{v.UnsafePointer(), v.Type()}
			if number(uint64(seen[p])); !alike {
				number(uint64(uintptr(p.at)))
			}
			if p.at != nil && seen[p] == 0 {
				seen[p] = len(seen) + 1
				walk(v.Elem())
			}
		case reflect.Interface:
			if number(0); !v.IsNil() {
				h.WriteString(v.Elem().Type().String())
				walk(v.Elem())
			}
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i))
			}
		case reflect.Slice, reflect.Array:
			if number(uint64(v.Len())); alike && v.Kind() == reflect.Slice && v.IsNil() {
				number(1 << 63)
			}
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Map:
			if number(uint64(v.Len())); alike && v.IsNil() {
				number(1 << 63)
			}
			keys := v.MapKeys()
			slices.SortFunc(keys, func(a, b reflect.Value) int {
				return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
			})
			for _, k := range keys {
				walk(k)
				walk(v.MapIndex(k))
			}
		case reflect.String:
			number(uint64(v.Len()))
			h.WriteString(v.String())
		case reflect.Bool:
			h.WriteString(fmt.Sprint(v.Bool()))
		case reflect.Float32, reflect.Float64:
			number(math.Float64bits(v.Float()))
		case reflect.Func:
			number(uint64(v.Pointer()))
		default:
			if v.CanInt() {
				number(uint64(v.Int()))
			} else {
				number(v.Uint())
			}
		}
	}
	walk(v)
	return h.Sum64()
}

var printSeed = maphash.MakeSeed()

// Print is a print of all that the Node has.
func (n *Node) Print() uint64 { return printOf(reflect.ValueOf(n)) }

// Values alike have one print, wherever they are; others have another.
func TestPrintsOfValuesAlike(t *testing.T) {
	type link struct{ to string }
	type value struct {
		one, other *int
		of         map[string][]float64
		link       *link
		f          func()
	}
	one, other := 1, 1
	print := func(v value) uint64 { return printOf(reflect.ValueOf([]any{&v}), reflect.TypeFor[link]()) }
	is := func() value {
		a, b := 1, 2
		of := map[string][]float64{"x": {1, 2}, "y": nil}
		return value{&a, &b, of, &link{fmt.Sprint(a)}, func() { a++ }}
	}
	if print(is()) != print(is()) {
		t.Error("values alike have two prints")
	}
	for what, change := range map[string]func(*value){
		"a number behind a pointer":    func(v *value) { *v.other = 3 },
		"no number":                    func(v *value) { v.other = nil },
		"a number in a list in a map":  func(v *value) { v.of["x"][1] = 3 },
		"a key":                        func(v *value) { v.of["z"] = nil },
		"an empty list where none was": func(v *value) { v.of["y"] = []float64{} },
		"no map":                       func(v *value) { v.of = nil },
		"one pointer twice":            func(v *value) { v.one, v.other = &one, &one },
	} {
		v := is()
		if change(&v); print(v) == print(is()) {
			t.Errorf("%s: another value has the same print", what)
		}
	}
	if print(value{one: &one, other: &one}) == print(value{one: &one, other: &other}) {
		t.Error("whether two pointers are the same makes no difference")
	}
	if v := is(); func() uint64 { v.link.to = "y"; return print(v) }() != print(is()) {
		t.Error("what is left out makes a difference")
	}
}
