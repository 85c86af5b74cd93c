package predict

import (
	"testing"
	"time"
)

// An agent whose answers are far shorter than those of the others of its class says nothing of those who ask,
// and is no measure of its class; the others do, and so does one that has not answered yet. The time between
// its tokens is its own.
func TestAnAgentWhoseAnswersAreNotLikeTheOthers(t *testing.T) {
	e := newEngine(t)
	cs, all := fleet(4)
	e.serve(all, 100, func(i int, o *Observation) {
		if i == 3 {
			o.Output, o.ITL = 1, 40*time.Millisecond
		}
	})
	fresh := NewMeans()
	cs.Enter(Key{Model: "llama"}, fresh)
	for i, m := range append(all, fresh) {
		if m.Typical() != (i != 3) {
			t.Errorf("agent %d: typical %v", i, m.Typical())
		}
		if got := m.Line().Usual(400); got < 60 || got > 140 {
			t.Errorf("agent %d: %d tokens are expected, about 100 are usual", i, got)
		}
		want := []time.Duration{10, 10, 10, 40, 0}[i] * time.Millisecond
		if own := m.OwnITL(); own < want-time.Millisecond || own > want+time.Millisecond {
			t.Errorf("agent %d: %v between its tokens, want %v", i, own, want)
		}
		if itl := m.Line().ITL(); itl < 9*time.Millisecond || itl > 14*time.Millisecond {
			t.Errorf("agent %d: %v between tokens of its class", i, itl)
		}
	}
	alone := NewMeans()
	e.serve([]*Means{alone}, 30, func(_ int, o *Observation) { o.Output = 400 })
	if !alone.Typical() {
		t.Error("an agent alone is not like itself")
	}
}
