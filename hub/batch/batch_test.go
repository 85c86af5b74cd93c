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
	paper := Rule{MaxBatch: 4, MaxWait: 10 * time.Millisecond}
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

func TestTakeKeepsOrderAndLeavesTheRest(t *testing.T) {
	b := New[int](Rule{MaxBatch: 3, MaxWait: time.Second})
	for i := range 7 {
		b.Add(i, at(i))
	}
	if !b.Remove(1) || b.Remove(1) {
		t.Error("a task is removed exactly once")
	}
	var story []string
	for b.Len() > 0 {
		story = append(story, fmt.Sprint(b.Take(nil)))
	}
	if got, want := strings.Join(story, " "), "[0 2 3] [4 5 6]"; got != want {
		t.Errorf("rounds %s, want %s", got, want)
	}
	if !b.Deadline().IsZero() {
		t.Error("an empty batch has a deadline")
	}
}

// The queue against a plain slice, under a fixed mix of operations.
func TestAgainstSlice(t *testing.T) {
	b := New[int](Rule{MaxBatch: 2, MaxWait: time.Second})
	var plain []int
	for i := range 5000 {
		switch i % 7 {
		case 3, 6:
			n := min(2, len(plain))
			if got := b.Take(nil); !slices.Equal(got, plain[:n]) {
				t.Fatalf("step %d: took %v, want %v", i, got, plain[:n])
			}
			plain = plain[n:]
		case 5:
			victim := i - 4
			at := slices.Index(plain, victim)
			if b.Remove(victim) != (at >= 0) {
				t.Fatalf("step %d: remove %d disagrees", i, victim)
			}
			if at >= 0 {
				plain = slices.Delete(plain, at, at+1)
			}
		default:
			b.Add(i, start)
			plain = append(plain, i)
		}
		if b.Len() != len(plain) {
			t.Fatalf("step %d: %d held, want %d", i, b.Len(), len(plain))
		}
	}
}

func TestValidate(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
	for _, r := range []Rule{{}, {MaxBatch: 1, MaxWait: -1}, {MaxBatch: 1, MaxWait: time.Hour},
		{MaxBatch: MostBatch + 1}} {
		if r.Validate() == nil {
			t.Errorf("%+v passes", r)
		}
	}
}
