package prefix

import (
	"fmt"
	"slices"
	"testing"
)

// idle lists what Idle shows.
func idle(b *Belief) (all []string) {
	b.Idle(func(session uint64, tokens int) bool {
		all = append(all, fmt.Sprint(session, ":", tokens))
		return true
	})
	return all
}

// What is shown first goes first; what a task needs is not shown; what was used again goes last.
func TestIdleSessionsInTheOrderTheyGo(t *testing.T) {
	b := NewIndex(DefaultLimits()).New(16, 1000)
	one, two, three := chat(text(0, 100)), chat(text(1, 200)), chat(text(2, 300))
	serve(b, t0, 1, &one, 100, 20, 0)
	serve(b, t0, 2, &two, 200, 20, 0)
	serve(b, t0, 3, &three, 300, 20, 0)
	if got, want := idle(b), []string{"1:120", "2:220", "3:320"}; !slices.Equal(got, want) {
		t.Errorf("idle: %v, want %v", got, want)
	}
	if got := b.Room(); got != 340 {
		t.Errorf("of 1000 tokens %d are free, want 340", got)
	}
	b.Used(1)
	if got, want := idle(b), []string{"2:220", "3:320", "1:120"}; !slices.Equal(got, want) {
		t.Errorf("idle after 1 was used: %v, want %v", got, want)
	}
	run := b.Sent(&two, 200, 0, 0)
	if got, want := idle(b), []string{"3:320", "1:120"}; !slices.Equal(got, want) {
		t.Errorf("idle while 2 runs: %v, want %v", got, want)
	}
	b.Ended(run)
	b.Used(2)
	four := chat(text(3, 400))
	serve(b, t0, 4, &four, 400, 0, 0)
	// 3 was used least recently, so its end is gone; 1 was used again, and is not
	if got, want := idle(b), []string{"1:120", "2:220", "4:400"}; !slices.Equal(got, want) {
		t.Errorf("idle after 400 more were needed: %v, want %v", got, want)
	}
	b.Used(99) // nobody
}
