package kvevent

import "testing"

// A listener that was away asks the replay whether the engine lives the same life. As long as the replay says
// nothing, what comes meanwhile may be another life's, and is not put behind what was known.
func TestASilentReplayProvesNothing(t *testing.T) {
	w := newWorld(t, true, 30)
	w.publishes(2)
	w.settle()
	w.restart()
	w.publishes(2) // missed
	w.flying = nil
	w.join()
	for w.o.Asking {
		w.answer, w.ended = nil, false
		w.reply()
	}
	w.publish()
	w.live(0) // number 2, of the new life, where 2 was due
	w.publish()
	w.live(0)
	w.settle()
	if n := len(w.applied); n == 0 || string(w.applied[n-1]) != string(w.log[3]) {
		t.Errorf("at the end %x is known", w.applied)
	}
}
