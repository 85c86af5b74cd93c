package prefix

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"souk/bus"
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
	serve(b, 1, &one, 100, 20, 0)
	serve(b, 2, &two, 200, 20, 0)
	serve(b, 3, &three, 300, 20, 0)
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
	serve(b, 4, &four, 400, 0, 0)
	// 3 was used least recently, so its end is gone; 1 was used again, and is not
	if got, want := idle(b), []string{"1:120", "2:220", "4:400"}; !slices.Equal(got, want) {
		t.Errorf("idle after 400 more were needed: %v, want %v", got, want)
	}
	b.Used(99) // nobody
}

// However many tasks run of one text, as many as an agent may have slots for and a few more: the text is kept
// while one of them runs that is counted, and is idle after the last.
func TestATextThatAllNeed(t *testing.T) {
	b := NewIndex(DefaultLimits()).New(16, 1<<20)
	one := chat(text(0, 100))
	serve(b, 1, &one, 100, 20, 0)
	var runs []*Run
	for range bus.MaxSlots + 4 {
		runs = append(runs, b.Sent(&one, 100, 0, 0))
		if n := len(runs); n%1024 == 0 && len(idle(b)) > 0 {
			t.Fatalf("%d tasks need it, and it may go", n)
		}
	}
	for i, r := range runs {
		if i < math.MaxUint16 && len(idle(b)) > 0 {
			t.Fatalf("%d of %d tasks have ended, and it may go", i, len(runs))
		}
		if b.Ended(r); i%1023 == 0 && i < math.MaxUint16 && b.Depth(&one) != int32(len(one.Marks)) {
			t.Fatalf("%d of %d tasks have ended, and it is believed to be gone", i+1, len(runs))
		}
	}
	if got, want := idle(b), []string{"1:120"}; !slices.Equal(got, want) {
		t.Errorf("idle after the last: %v, want %v", got, want)
	}
}
