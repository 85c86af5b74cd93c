package bench

import (
	"slices"
	"testing"
)

// What a search finds is known: how far the nearest towns are by every way there is. It begins at each town
// in turn, sorts what it says it sorts, and allocates nothing.
func TestSearchIsFixed(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	s := newSearch()
	for range 5 {
		got := s.loop()
		if want := s.slow(s.from); got != want {
			t.Errorf("from town %d the nearest are %d away together, want %d", s.from, got, want)
		}
		if !slices.IsSortedFunc(s.heap[:sorted], func(a, b visit) int { return int(a.way - b.way) }) {
			t.Errorf("from town %d: the first %d ways are not sorted", s.from, sorted)
		}
	}
	begun := map[int32]bool{}
	for range towns {
		s.loop()
		begun[s.from] = true
	}
	if len(begun) != towns {
		t.Errorf("%d of %d searches began elsewhere", len(begun), towns)
	}
	if n := testing.AllocsPerRun(100, func() { s.loop() }); n != 0 {
		t.Errorf("%g allocations a search", n)
	}
	const least, most = 100 << 10, 1 << 20
	if n := len(s.roads)*8 + len(s.far)*8 + len(s.seen)*4; n < least || n > most {
		t.Errorf("it reads %d bytes, want %d to %d", n, least, most)
	}
}

// slow is the same by going along every road until nothing is nearer.
func (s *search) slow(from int32) (sum int64) {
	const never = 1 << 60
	far := make([]int64, towns)
	for i := range far {
		far[i] = never
	}
	far[from] = 0
	for changed := true; changed; {
		changed = false
		for i, r := range s.roads {
			if way := far[i/crossing] + int64(r.length); way < far[r.to] {
				far[r.to], changed = way, true
			}
		}
	}
	slices.Sort(far)
	for _, way := range far[:nearest] {
		sum += way
	}
	return sum
}
