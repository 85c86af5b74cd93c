package bus

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

// byTheBook encodes a message by the library, from its tags.
func byTheBook(t testing.TB, m Message) []byte {
	var out bytes.Buffer
	e := msgpack.NewEncoder(&out)
	e.UseCompactInts(true)
	if err := e.Encode(m); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// fill sets about one field in some of a struct to something, and the others to nothing.
func fill(rng *rand.Rand, v reflect.Value, some int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() || f.Tag.Get("msgpack") == "-" || rng.IntN(some) > 0 {
				continue
			}
			fill(rng, v.Field(i), some)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(rng, v.Elem(), some)
	case reflect.Slice:
		n := rng.IntN(20)
		if v.Type().Elem().Kind() == reflect.Uint8 {
			n = rng.IntN(1 << rng.IntN(18))
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(rng, v.Index(i), some)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(rng, v.Index(i), some)
		}
	case reflect.String:
		v.SetString(strings.Repeat("é", rng.IntN(1<<rng.IntN(17))))
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 0)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(rng.Uint64()) >> rng.IntN(64))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(rng.Uint64() >> rng.IntN(64) & (1<<v.Type().Bits() - 1))
	case reflect.Float64:
		v.SetFloat(rng.NormFloat64())
	}
}

// A plan writes the very bytes that the library does, whatever is set.
func TestPlansWriteAsTheTagsSay(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for typ := range plans {
		for range 300 {
			m := reflect.New(typ)
			fill(rng, m.Elem(), 1+rng.IntN(4))
			got, err := Encode(m.Interface().(Message))
			if err != nil {
				t.Fatal(err)
			}
			if want := byTheBook(t, m.Interface().(Message)); !bytes.Equal(got, want) {
				t.Fatalf("%+v\nplan    %x\nlibrary %x", m.Interface(), got, want)
			}
		}
	}
}

// Nothing set, and nothing there at all.
func TestPlansOfEmptyMessages(t *testing.T) {
	for typ := range plans {
		m := reflect.New(typ).Interface().(Message)
		if got, err := Encode(m); err != nil || !bytes.Equal(got, byTheBook(t, m)) {
			t.Errorf("%s: %x, %v; the library writes %x", typ, got, err, byTheBook(t, m))
		}
		none := reflect.Zero(reflect.PointerTo(typ)).Interface().(Message)
		if got, err := Encode(none); err == nil {
			t.Errorf("no %s is written as %x", typ, got)
		}
	}
}

// FuzzPlan holds the plans' reading against the library's, on whatever they take.
func FuzzPlan(f *testing.F) {
	for _, m := range full() {
		data, err := Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, s := range []string{
		"\x83\xa1t\xc0\xa1k\xc0\xa1r\xc0", // nil everywhere
		// a field that is not known
		"\x82\xa1t\xa1t\xa5later\x81\xa1x\x01",
		"\x82\xa1h\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xa4task\xa1t",                  // one that is a hash
		"\x82\xa1t\x01\xa1n\xa1n",                                                     // other types
		"\x84\xa4task\xa1t\xa6client\xa1c\xa4cost\x07\xa6answer\x92\x01\x81\xa1x\xc3", // another order
		"\x83\xa4free\xcb?\xf0\x00\x00\x00\x00\x00\x00\xa4cost\xca?\x80\x00\x00\xa5relay\xd0\x80",
		"\x81\xa5terms\x81\xa5delta\x01", "\x81\xa6prompt\xc0", "\x81\xa6resume\x81\xa6tokens\x91\xff",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for typ, p := range plans {
			own, book := reflect.New(typ), reflect.New(typ)
			if p.message(data, own.Elem()) != nil {
				continue
			}
			if err := msgpack.NewDecoder(bytes.NewReader(data)).Decode(book.Interface()); err != nil {
				t.Fatalf("%s of %x: the library refuses it: %v", typ, data, err)
			}
			if !bytes.Equal(byTheBook(t, own.Interface().(Message)),
				byTheBook(t, book.Interface().(Message))) {
				t.Fatalf("%s of %x\nplan    %+v\nlibrary %+v", typ, data, own.Interface(), book.Interface())
			}
		}
	})
}
