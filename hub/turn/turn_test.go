package turn

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"souk/ledger"
)

var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func newTurn() *Turn {
	t := New("hub-math", "math", ledger.NewBook(), [32]byte{1})
	t.Advance(start)
	return &t
}

// Timers against a sorted list, under random setting, moving and clearing.
func TestTimers(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	turn := newTurn()
	var rang []int
	all := make([]*Timer, 50)
	want := map[int]time.Time{}
	for i := range all {
		all[i] = &Timer{Due: func() { rang = append(rang, i) }}
	}
	for now := range 2000 {
		i := r.IntN(len(all))
		if r.IntN(5) == 0 {
			turn.Set(all[i], time.Time{})
			delete(want, i)
		} else {
			want[i] = start.Add(time.Duration(now+r.IntN(100)) * time.Millisecond)
			turn.Set(all[i], want[i])
		}
		first := time.Time{}
		for _, at := range want {
			first = Earlier(first, at)
		}
		if !turn.Next().Equal(first) {
			t.Fatalf("step %d: next at %v, want %v", now, turn.Next(), first)
		}
		rang = rang[:0]
		turn.Advance(start.Add(time.Duration(now) * time.Millisecond))
		turn.Ring()
		if !slices.IsSortedFunc(rang, func(a, b int) int { return want[a].Compare(want[b]) }) {
			t.Fatalf("step %d: %v rang, out of turn", now, rang)
		}
		for i, at := range want {
			if !at.After(turn.Now()) != slices.Contains(rang, i) {
				t.Fatalf("step %d: %v rang, %d is set for %v", now, rang, i, at.Sub(start))
			}
		}
		for i, x := range all {
			if at, set := want[i]; x.IsSet() != (set && at.After(turn.Now())) {
				t.Fatalf("step %d: timer %d is set: %v", now, i, x.IsSet())
			}
		}
		for _, i := range rang {
			delete(want, i)
		}
	}
}

// A timer that is set by another which is due rings in the same turn where its time has come; those of one
// time ring in the order in which they were set.
func TestTimersThatSetOthers(t *testing.T) {
	turn := newTurn()
	var rang []string
	third := Timer{Due: func() { rang = append(rang, "third") }}
	late := Timer{Due: func() { rang = append(rang, "late") }}
	second := Timer{Due: func() { rang = append(rang, "second") }}
	first := Timer{Due: func() {
		rang = append(rang, "first")
		turn.Set(&third, turn.Now())
		turn.Set(&late, turn.Now().Add(1))
	}}
	turn.Set(&first, start)
	turn.Set(&second, start)
	if turn.Ring(); !slices.Equal(rang, []string{"first", "second", "third"}) ||
		!turn.Next().Equal(late.At()) {
		t.Errorf("%v rang; next at %v", rang, turn.Next())
	}
}

// The clock never goes back, but for the first time of a life that has replayed a journal.
func TestTheClockNeverGoesBack(t *testing.T) {
	turn := newTurn()
	turn.Replay(start.Add(time.Hour).UnixNano())
	for _, c := range []struct{ now, want time.Duration }{
		{time.Minute, time.Minute}, {time.Second, time.Minute}, {time.Hour, time.Hour},
	} {
		turn.Advance(start.Add(c.now))
		at := start.Add(c.want)
		if !turn.Now().Equal(at) || turn.Nano() != at.UnixNano() ||
			turn.In(time.Second) != at.Add(time.Second).UnixNano() {
			t.Errorf("told that it is %v later, the turn says %v and %d", c.now, turn.Now().Sub(start), turn.Nano())
		}
	}
}

// A frame follows the last one, is told to who wants to know, and carries what is added to it; one that
// cannot be changes nothing.
func TestCommit(t *testing.T) {
	turn := newTurn()
	turn.Epoch = 3
	var wrote []ledger.Frame
	turn.Wrote = func(f *ledger.Frame) { wrote = append(wrote, *f) }
	if err := turn.Commit(ledger.NewAccept("hub-math", 1, "ann", 5, turn.Salt())); err == nil {
		t.Fatal("a journal that was not begun takes records")
	}
	if seq, _, _ := turn.Book.Last(); seq != 0 || len(turn.Out.Frames)+len(wrote) != 0 {
		t.Errorf("a frame that failed is written: %+v", turn.Out)
	}
	if err := turn.Commit(ledger.NewOpen("hub-math", ledger.RoleHub, "math", turn.Salt())); err != nil {
		t.Fatal(err)
	}
	turn.Along = func(all []ledger.Record) []ledger.Record {
		return append(all, ledger.NewAccept("hub-math", 1, "ann", 5, turn.Salt()))
	}
	if err := turn.Commit(); err != nil {
		t.Fatal(err)
	}
	out := turn.Take()
	if len(out.Frames) != 2 || len(wrote) != 2 || out.Frames[1].Seq != 2 || out.Frames[1].Epoch != 3 ||
		out.Frames[1].Time != start.UnixNano() || turn.Book.Avail("ann") != 5 {
		t.Errorf("%+v; %v of ann's", out.Frames, turn.Book.Avail("ann"))
	}
	turn.Send("", nil)
	turn.Fault(errors.New("it should never happen"))
	if out := turn.Take(); len(out.Frames)+len(out.Messages) != 0 || len(out.Faults) != 1 ||
		turn.Faults != 1 {
		t.Errorf("once taken, %+v is to be done", out)
	}
	if salt := turn.Salt(); turn.Salt() == salt {
		t.Error("a salt is used twice")
	}
}
