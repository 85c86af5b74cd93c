package classifier

import (
	"fmt"
	"hash/maphash"
	"testing"

	"souk/bus"
)

// One client whose bodies come slowly keeps no other from the door.
func TestSlowBodiesOfAClient(t *testing.T) {
	c := Default()
	d := NewDesk(&c, maphash.MakeSeed())
	n := 0
	for d.EnterBody("slow", bus.MaxBody+1) == nil {
		n++
	}
	if no := d.EnterBody("slow", bus.MaxBody+1); no.Code != bus.CodeTooManyTasks || n != 32 {
		t.Errorf("%d bodies of one client, then %v", n, no)
	}
	others := 0
	for d.EnterBody(fmt.Sprint("other", others), bus.MaxBody+1) == nil {
		others++
	}
	if others != 96 {
		t.Errorf("beside it there is room for %d", others)
	}
	for range n {
		d.LeaveBody("slow", bus.MaxBody+1)
	}
	if no := d.EnterBody("slow", bus.MaxBody+1); no != nil {
		t.Errorf("when these have come: %v", no)
	}
}
