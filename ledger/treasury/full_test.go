package treasury

import (
	"testing"

	"souk/bus"
	"souk/market"
)

// While the disk is nearly full nothing new is made, and whoever asks is told so for certain. What was made
// before is said again: it takes no room.
func TestAFullDiskIsNoDoubt(t *testing.T) {
	o := open(t)
	ask := func(op string, req bus.FundsRequest, room bool) bus.FundsReply {
		t.Helper()
		o.tr.Handle(op, vouched(op, &req), nil, room)
		a := o.settle()
		if len(a) != 1 {
			t.Fatalf("%s: %d answers", op, len(a))
		}
		return a[0].Reply
	}
	made := map[string]bus.FundsRequest{
		bus.OpDeposit: {ID: "d", Client: "ann", Amount: 100},
		bus.OpPayout:  {ID: "p", Client: "ann", Amount: 10},
		bus.OpMove:    {ID: "m", Client: "ann", To: "bob", Amount: 10},
		bus.OpBudget:  {ID: "b", Client: "ann", To: "key", Amount: 10, Every: "day"},
		bus.OpAllot:   {ID: "a", Client: "ann", Hub: "h", Epoch: 1, Amount: 10},
	}
	ops := []string{bus.OpDeposit, bus.OpPayout, bus.OpMove, bus.OpBudget, bus.OpAllot}
	o.tr.Leads("h", "of-h", 1)
	for _, op := range ops {
		if r := ask(op, made[op], true); r.Code != "" {
			t.Fatalf("%s: %+v", op, r)
		}
	}
	frames := len(o.frames)
	for _, op := range ops {
		was := ask(op, made[op], true)
		if r := ask(op, made[op], false); r.Code != "" || r.Prepaid != was.Prepaid || r.Unmade {
			t.Errorf("%s, made before: %+v, with room %+v", op, r, was)
		}
		again := made[op]
		again.ID += "2"
		again.Amount++
		if r := ask(op, again, false); r.Code != bus.CodeUnavailable || !r.Unmade {
			t.Errorf("%s, anew: %+v", op, r)
		}
	}
	other := made[bus.OpDeposit]
	other.Amount++
	if r := ask(bus.OpDeposit, other, false); r.Code != bus.CodeIDConflict {
		t.Errorf("another deposit of the same id: %+v", r)
	}
	if len(o.frames) != frames {
		t.Errorf("%d frames were written", len(o.frames)-frames)
	}
	prepaid, _ := o.tr.Book.Prepaid("ann")
	if prepaid != market.Credits(100-10-10-10-10) {
		t.Errorf("ann has %v", prepaid)
	}
	// one that waits for hubs is made yet, once there is room
	ask(bus.OpAllotted, bus.FundsRequest{ID: "h", Hub: "h", Domain: "h", Epoch: 1, After: 1}, true)
	o.tr.Handle(bus.OpPayout, &bus.FundsRequest{ID: "w", Client: "ann", Amount: 65}, "w", true)
	if a := o.settle(); len(a) != 0 {
		t.Fatalf("it does not wait: %+v", a)
	}
	if r := ask(bus.OpPayout, bus.FundsRequest{ID: "w", Client: "ann", Amount: 65}, false); r.Code !=
		bus.CodeUnavailable || r.Unmade {
		t.Errorf("one that waits: %+v", r)
	}
}
