package agentd

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
)

// An engine that answers that its queue is full is asked seldom, with pauses that grow; what it does take it
// is given; and once it has room it is used again, up to all slots.
func TestAFullEngineIsAskedSeldom(t *testing.T) {
	for _, room := range []int{0, 3} {
		a := newTestAgent(8, Config{})
		a.Claimed(claim(5))
		now, asked, refused := begun, 0, 0
		var last bus.Summary
		ends := map[*bus.Dispatch]time.Time{}
		end := func(d *bus.Dispatch, c bus.Completion) {
			c.Hold = d.Hold
			a.Ended(d, &Ending{Completion: c})
			a.Acked(d.Hold, "")
			delete(ends, d)
		}
		step := func(room int) { // a hub gives it as many tasks as it offers
			now = now.Add(50 * time.Millisecond)
			for d, at := range ends {
				if !now.Before(at) {
					end(d, bus.Completion{Outcome: bus.OutcomeDone})
				}
			}
			if s := a.Ready(now).Summary; s != nil {
				last = *s
			}
			for last.State == bus.StateReady && len(ends) < last.Slots {
				asked++
				d := dispatch(fmt.Sprint("h", asked))
				if reply, start := a.Dispatch("math", d); !start {
					if reply.Code != bus.CodeNoSlot {
						t.Fatal(reply)
					}
					return
				}
				if len(ends) < room {
					a.Began(d, nil)
					ends[d] = now.Add(500 * time.Millisecond)
					continue
				}
				refused++
				end(d, bus.Completion{Outcome: bus.OutcomeFailed, Code: bus.CodeNoSlot})
			}
		}
		for range 1200 { // a minute
			step(room)
		}
		if refused < 5 || refused > 12 {
			t.Errorf("room for %d: in a minute it is asked %d times, %d of them in vain", room, asked, refused)
		}
		if room > 0 && asked-refused < 250 {
			t.Errorf("room for %d: it is given %d tasks", room, asked-refused)
		}
		for range 400 { // twenty seconds
			step(8)
		}
		if len(ends) != 8 || last.Slots != 8 || last.State != bus.StateReady {
			t.Errorf("with room again it has %d tasks of %d slots", len(ends), last.Slots)
		}
	}
}
