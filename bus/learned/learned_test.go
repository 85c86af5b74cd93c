package learned

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
)

type thing struct {
	Name  string
	N     int
	X     [2]float64
	Parts []part
	own   int
}

type part struct {
	Y    float64
	Next *part
}

func written(t *testing.T, v any) []byte {
	t.Helper()
	data, err := Append(nil, v)
	if err == nil {
		data, err = Sealed(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return data
}

var some = thing{Name: "ann", N: 3, X: [2]float64{1e-300, math.Inf(1)},
	Parts: []part{{Y: -0.1}, {0, &part{}}}}

// What was written is read as it was; what is damaged, cut or of structs that are otherwise is refused.
func TestWhatWasWrittenIsRead(t *testing.T) {
	data := written(t, &some)
	var got thing
	if err := Read(data, &got); err != nil || !reflect.DeepEqual(got, some) {
		t.Errorf("%+v, %v", got, err)
	}
	for i := range data {
		other := bytes.Clone(data)
		other[i] ^= 4
		for what, bad := range map[string][]byte{"damaged": other, "cut": data[:i]} {
			if err := Read(bad, new(thing)); err == nil {
				t.Errorf("%s at %d of %d bytes, it was read", what, i, len(data))
			}
		}
	}
	type part struct{ Y, Z float64 }
	type thing struct {
		Name  string
		N     int
		X     [2]float64
		Parts []part
	}
	if err := Read(data, new(thing)); err == nil || !strings.Contains(err.Error(), "another build") {
		t.Errorf("into a struct that is otherwise: %v", err)
	}
	if err := Read(make([]byte, Most+1), new(thing)); err == nil {
		t.Error("more is read than may be")
	}
	more := append(data[:len(data)-32:len(data)-32], 0)
	more, err := Sealed(more)
	if err == nil {
		err = Read(more, new(struct{ thing }))
	}
	if err == nil {
		t.Error("a byte too many is read")
	}
}

// A map is part of a struct, and one of another kind is another struct.
func TestMapsAreWrittenAndTold(t *testing.T) {
	type kept struct{ By map[[2]string]*part }
	some := kept{By: map[[2]string]*part{{"a", "b"}: {Y: 1}, {"a", "c"}: {Y: 2}}}
	data := written(t, &some)
	got := kept{By: map[[2]string]*part{}}
	if err := Read(data, &got); err != nil || !reflect.DeepEqual(got, some) {
		t.Errorf("%+v, %v", got, err)
	}
	{
		type kept struct{ By map[[2]string]part }
		if err := Read(data, new(kept)); err == nil {
			t.Error("a map of other values was read")
		}
	}
}
