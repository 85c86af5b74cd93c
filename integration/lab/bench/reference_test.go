package bench

import (
	"errors"
	"testing"
	"time"
)

// What the loop comes to is known, and the same each time; the walk is a cycle through the whole table;
// nothing is allocated.
func TestReferenceIsFixed(t *testing.T) {
	r := newReference()
	var slow [places][places]int64 // the same by Bellman's equation, until nothing changes
	for i := range places {
		for j := range places {
			slow[i][j] = r.lengths[i*places+j]
		}
	}
	want := int64(0)
	for changed := true; changed; {
		changed = false
		for i := range places {
			for j := range places {
				for k := range places {
					if way := slow[i][k] + slow[k][j]; way < slow[i][j] {
						slow[i][j], changed = way, true
					}
				}
			}
		}
	}
	for _, row := range slow {
		for _, way := range row {
			want += way
		}
	}
	for range 3 {
		if got := r.loop(); got != want {
			t.Fatalf("the ways add up to %d, want %d", got, want)
		}
	}
	n, at := 0, r.table[0]
	for ; at != 0; at = r.table[at] {
		n++
	}
	if n+1 != tableSize {
		t.Errorf("the walk is back after %d places of %d", n+1, tableSize)
	}
	if n := testing.AllocsPerRun(10, func() { r.loop() }); n != 0 {
		t.Errorf("%g allocations a loop", n)
	}
}

// Work of a known number of loops measures as that many, whatever the machine.
func TestBesideCountsInLoops(t *testing.T) {
	r, other := newReference(), newReference()
	call, loop, err := r.beside(50*time.Millisecond, func() error {
		for range 5 {
			other.loop()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if x := float64(call) / float64(loop); x < 3 || x > 8 {
		t.Errorf("five loops measure as %.2f: %v beside %v", x, call, loop)
	}
	broken := errors.New("broken")
	if _, _, err := r.beside(time.Millisecond, func() error { return broken }); err != broken {
		t.Errorf("got %v", err)
	}
}
