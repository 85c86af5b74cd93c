package predict

import (
	"math"
	"reflect"
	"testing"
	"time"

	"souk/bus/learned"
)

// Whatever numbers are in a file, it is refused, or what is forecast by it is a time and not below none.
func TestAFileOfOddNumbers(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	l := &Learned{Classes: NewClasses(trees), Outputs: NewOutputs(trees)}
	for _, id := range []string{"a-1", "a-2"} {
		m := NewMeans()
		l.Classes.Enter(Key{Model: "llama"}, m)
		l.Agents = append(l.Agents, Learner{id, "llama", m})
		for range 5 {
			m.Learn(Features{Prompt: 100, MaxTokens: 50},
				Observation{Prompt: 100, Output: 9, TTFT: 40 * time.Millisecond, ITL: 9 * time.Millisecond})
		}
	}
	data, err := written(l)
	if err != nil {
		t.Fatal(err)
	}
	taken, refused := 0, 0
	for at, all := 0, 1; at < all; at++ {
		for _, odd := range []float64{math.Inf(1), math.NaN(), -1, 1e39} {
			var s Saved
			if err := learned.Read(data, &s); err != nil {
				t.Fatal(err)
			}
			all = 0
			floats(reflect.ValueOf(&s), func(v reflect.Value) {
				if all++; all == at+1 {
					v.SetFloat(odd)
				}
			})
			read, err := s.Restore(trees)
			if err != nil {
				refused++
				continue
			}
			taken++
			for _, a := range read.Agents {
				for range 2 {
					f := Features{Prompt: 1000, MaxTokens: 500, Load: Load{Decoding: 2}}
					c := a.Means.Forecast(f)
					if c.TTFT < 0 || c.Low < 0 || c.High < c.TTFT || c.ITL < 0 || c.Output < 0 ||
						c.Output > 500 {
						t.Fatalf("number %d is %v, and it forecasts %+v", at, odd, c)
					}
					a.Means.Learn(f, Observation{Prompt: 1000, Output: 9, TTFT: time.Second, ITL: 1e7})
				}
			}
		}
	}
	if taken == 0 || refused == 0 {
		t.Errorf("%d files were taken, %d refused: the test sees nothing", taken, refused)
	}
}

// floats visits every number of a struct.
func floats(v reflect.Value, visit func(reflect.Value)) {
	switch v.Kind() {
	case reflect.Float64:
		visit(v)
	case reflect.Pointer:
		if !v.IsNil() {
			floats(v.Elem(), visit)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			floats(v.Index(i), visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				floats(v.Field(i), visit)
			}
		}
	}
}
