package bounded

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Whatever is pushed and removed, in either direction the order is that of a plain list.
func TestAnOrderIsThatOfAList(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	var places [9]Place
	at := func(i int32) *Place { return &places[i] }
	o := Empty()
	var want []int32 // oldest first
	for step := range 2000 {
		i := r.Int32N(int32(len(places)))
		if k := slices.Index(want, i); k >= 0 {
			o.Remove(at, i)
			want = slices.Delete(want, k, k+1)
		}
		if r.IntN(3) > 0 {
			o.Push(at, i)
			want = append(want, i)
		}
		var up, down []int32
		for i := o.Oldest; i != None; i = places[i].Newer {
			up = append(up, i)
		}
		for i := o.Newest; i != None; i = places[i].Older {
			down = append(down, i)
		}
		slices.Reverse(down)
		if !slices.Equal(up, want) || !slices.Equal(down, want) {
			t.Fatalf("step %d: %v and %v, want %v", step, up, down, want)
		}
	}
}
