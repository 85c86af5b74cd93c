package serve

import (
	"testing"
	"time"

	"souk/hub/regime"
)

// A window without tasks has no price of anarchy, and one that could not be dealt out better has one that is
// by its own constants 1.
func TestAnarchyOfWindows(t *testing.T) {
	if got := anarchyOf(&regime.Window{}); got != (Anarchy{}) {
		t.Errorf("%+v of nothing", got)
	}
	w := regime.Window{Slots: []int{8, 8}}
	for i := range 40 {
		w.Done = append(w.Done, regime.Done{Agent: i % 2, Seconds: 2, Beside: 3})
	}
	got := anarchyOf(&w)
	if got.Tasks != 40 || got.Fitted < 0.999 || got.Fitted > 1.001 || got.Theirs < 40 {
		t.Errorf("%+v", got)
	}
}

// What a histogram says is cumulative.
func TestWithin(t *testing.T) {
	m := newMeasures()
	for _, d := range []time.Duration{time.Microsecond, 60 * time.Microsecond, 2 * time.Millisecond,
		time.Minute} {
		m.cleared(d)
	}
	w := within(m.round)
	if w.Count != 4 || w.Counts[0] != 1 || w.Counts[1] != 2 || w.Counts[len(bounds)-1] != 3 ||
		w.Sum < 59*time.Second || w.Sum > 61*time.Second {
		t.Errorf("%+v", w)
	}
}
