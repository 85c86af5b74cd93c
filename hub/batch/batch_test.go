package batch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var start = time.Unix(1000, 0)

func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

// Each line is one story: the rule, tasks by arrival (ms), the free slots, and from when on the batch is due.
func TestDue(t *testing.T) {
	paper := Rule{MaxBatch: 4, ClosesAt: 16, MaxWait: 10 * time.Millisecond}
	eager := paper
	eager.Eager = true
	for _, c := range []struct {
		name    string
		rule    Rule
		arrived []int
		free    int
		due     int // ms; -1 never
	}{
		{"a lone task meets a free slot", eager, []int{0}, 1, 0},
		{"the paper's window waits even then", paper, []int{0}, 1, 10},
		{"two tasks, two slots: nothing contends", eager, []int{0, 0}, 2, 0},
		{"two tasks, one slot: the window opens", eager, []int{0, 0}, 1, 10},
		{"a full batch closes at once", eager, []int{0, 0, 0, 0}, 1, 0},
		{"a full batch closes the paper's window", paper, []int{0, 0, 0, 0}, 9, 0},
		{"no slot, no round", eager, []int{0, 0, 0, 0, 0}, 0, -1},
		{"nothing waits", eager, nil, 3, -1},
		{"the oldest counts, wherever it stands", eager, []int{8, 2, 5}, 1, 12},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := New[int](c.rule)
			for i, ms := range c.arrived {
				b.Add(i, at(ms))
			}
			got := -1
			for ms := range 100 {
				if b.Due(at(ms), c.free) {
					got = ms
					break
				}
			}
			if got != c.due {
				t.Errorf("due at %d ms, want %d", got, c.due)
			}
		})
	}
}

// Rounds of tasks that compete keep apart, by how many they are, up to MaxWait. Those that have a slot each
// wait for no round before, nor does anybody whose clock was set back.
func TestRoundsOfACrowdKeepApart(t *testing.T) {
	for _, c := range []struct {
		tasks, free int
		cleared     int // ms
		due         int
	}{{40, 1, 1000, 1004}, {90, 1, 1000, 1009}, {90, 89, 1000, 1009}, {90, 90, 1000, 1000},
		{300, 1, 1000, 1010}, {90, 1, 990, 1000}, {90, 1, 997, 1006}, {90, 1, 1001, 1000},
		{2, 1, 1000, 1010}} {
		b := New[int](Default())
		b.Cleared(at(c.cleared))
		for i := range c.tasks {
			b.Add(i, at(1000))
		}
		due := 1000
		for !b.Due(at(due), c.free) {
			due++
		}
		if due != c.due {
			t.Errorf("%+v: due at %d ms", c, due)
		}
		if wake := b.Deadline(); c.free < c.tasks && c.cleared <= 1000 && wake.After(at(1000)) &&
			!wake.Equal(at(c.due)) || c.due > 1000 && !wake.After(at(1000)) {
			t.Errorf("%+v: to be looked at in %v", c, wake.Sub(at(1000)))
		}
	}
}

func TestTakeKeepsOrderAndLeavesTheRest(t *testing.T) {
	b := New[int](Default())
	for i := range 7 {
		b.Add(i, at(i))
	}
	if !b.Remove(1) || b.Remove(1) {
		t.Error("a task is removed exactly once")
	}
	b.Add(9, at(3)) // it comes back, behind the one that came as early
	var story []string
	for b.Len() > 0 {
		story = append(story, fmt.Sprint(b.Take(nil, 3)))
	}
	if got, want := strings.Join(story, " "), "[0 2 3] [9 4 5] [6]"; got != want {
		t.Errorf("rounds %s, want %s", got, want)
	}
	if !b.Deadline().IsZero() {
		t.Error("an empty batch has a deadline")
	}
}

// Who was left is not considered before there is news, and then in line with those that came meanwhile.
func TestWhoIsLeftWaitsForNews(t *testing.T) {
	b := New[int](Default())
	b.Leave(2, at(2))
	b.Leave(1, at(1))
	if b.Len() != 0 || b.All() != 2 || b.Due(at(99), 1) {
		t.Errorf("%d to be considered of %d, due: %v", b.Len(), b.All(), b.Due(at(99), 1))
	}
	b.Add(4, at(3))
	b.Add(0, at(0))
	b.Add(3, at(2))
	if x, _ := b.Latest(func(i int) bool { return i < 4 }); x != 3 {
		t.Errorf("the latest below 4 is %d, want 3", x)
	}
	if _, ok := b.Latest(func(i int) bool { return i > 4 }); ok {
		t.Error("one above 4 was found")
	}
	b.Wake()
	if got := b.Take(nil, 9); !slices.Equal(got, []int{0, 1, 2, 3, 4}) {
		t.Errorf("%v are considered", got)
	}
}

// The queue against a plain slice, under a fixed mix of operations.
func TestAgainstSlice(t *testing.T) {
	b := New[int](Default())
	var plain, left []int
	for i := range 5000 {
		switch i % 11 {
		case 3, 9:
			n := min(2, len(plain))
			got := b.Take(nil, 2)
			if !slices.Equal(got, plain[:n]) {
				t.Fatalf("step %d: took %v, want %v", i, got, plain[:n])
			}
			plain = plain[n:]
			for _, x := range got {
				b.Leave(x, at(x))
				left = append(left, x)
			}
		case 5:
			victim := i - 4
			find := func(list *[]int) bool {
				at := slices.Index(*list, victim)
				if at >= 0 {
					*list = slices.Delete(*list, at, at+1)
				}
				return at >= 0
			}
			if b.Remove(victim) != (find(&plain) || find(&left)) {
				t.Fatalf("step %d: remove %d disagrees", i, victim)
			}
		case 6:
			if i%5 == 0 {
				b.Wake()
				plain, left = append(plain, left...), nil
				slices.Sort(plain)
			}
		case 10:
			for _, x := range left[:min(1, len(left))] {
				if got, ok := b.Latest(func(i int) bool { return i <= x }); !ok || got < x {
					t.Fatalf("step %d: the latest up to %d is %d, %v", i, x, got, ok)
				}
			}
		default:
			b.Add(i, at(i))
			plain = append(plain, i)
		}
		if b.Len() != len(plain) || b.All() != len(plain)+len(left) {
			t.Fatalf("step %d: %d of %d held, want %d of %d", i, b.Len(), b.All(), len(plain),
				len(plain)+len(left))
		}
	}
}

func TestValidate(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
	for _, r := range []Rule{{}, {MaxBatch: 1, ClosesAt: 1, MaxWait: -1},
		{MaxBatch: 1, ClosesAt: 1, MaxWait: time.Hour}, {MaxBatch: 1}, {ClosesAt: 1},
		{MaxBatch: 1, ClosesAt: 1, Apart: -1},
		{MaxBatch: MostBatch + 1, ClosesAt: 1}, {MaxBatch: 1, ClosesAt: MostBatch + 1}} {
		if r.Validate() == nil {
			t.Errorf("%+v passes", r)
		}
	}
}
