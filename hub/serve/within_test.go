package serve

import (
	"testing"
	"time"
)

// What a histogram says is cumulative.
func TestWithin(t *testing.T) {
	m := newMeasures()
	for _, d := range []time.Duration{time.Microsecond, 60 * time.Microsecond, 2 * time.Millisecond,
		time.Minute} {
		m.one(m.round, d)
	}
	w := within(m.round)
	if w.Count != 4 || w.Counts[0] != 1 || w.Counts[1] != 2 || w.Counts[len(bounds)-1] != 3 ||
		w.Sum < 59*time.Second || w.Sum > 61*time.Second {
		t.Errorf("%+v", w)
	}
}
