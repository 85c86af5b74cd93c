package settle

import (
	"testing"

	"souk/bus"
)

// "An event of which nothing comes does nothing."
func TestNothingComesOfIt(t *testing.T) {
	for _, e := range []Event{NoReply, SentAgain} {
		h := newHouse(t)
		x := h.begun()
		h.must(h.room.Replied(&bus.DispatchReply{Agent: "a-1", Boot: 1, Hold: x.ID}))
		x.inquired = h.turn.Now()
		if x.State.May(e) {
			t.Fatalf("%s: something comes of it", e)
		}
		if h.room.happens(x, e); x.Repeated() || x.inquired.IsZero() {
			t.Errorf("%s while %s: nothing comes of it by the table, and it is repeated %v, its reader was asked %v",
				e, x.State, x.Repeated(), !x.inquired.IsZero())
		}
	}
	h := newHouse(t)
	x := h.hold()
	h.room.Cancel(x)
	if x.Cancelled {
		t.Errorf("a hold that is not there yet is cancelled")
	}
}
