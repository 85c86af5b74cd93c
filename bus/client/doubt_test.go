package client

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/openai"
	"souk/bus/reader"
)

// All that a gateway has in hand, 4,096 answers of eight tasks, may be in doubt at once, as where its hub
// dies: each is remembered, or it would be sent again as if for the first time, and might be served twice.
// However many tasks end so, no more are.
func TestDoubtsAreBounded(t *testing.T) {
	const inHand = 4096 * openai.MaxAnswers
	r, now := newReader("r", deaf{}), time.Now()
	remembered := func(tasks int) (n int) {
		for i := range tasks {
			r.settle(fmt.Sprint(i%7), fmt.Sprint("t", i), new(reader.Stream), bus.CodeUnknown, now)
		}
		for i := range tasks {
			if again, _ := r.doubted(fmt.Sprint("t", i), now); again > 0 {
				n++
			}
		}
		return n
	}
	if n := remembered(inHand); n < inHand {
		t.Errorf("%d of %d tasks are remembered", n, inHand)
	}
	if n := remembered(2 * inHand); n != maxDoubts {
		t.Errorf("%d tasks are remembered", n)
	}
}

// A task that is sent again is as old as since it was first sent, however often that was in doubt.
func TestADoubtIsAsOldAsItsTask(t *testing.T) {
	r, begun := newReader("r", deaf{}), time.Now()
	ends := func(m *reader.Stream, at time.Duration) {
		r.settle("ada", "t", m, bus.CodeUnknown, begun.Add(at))
	}
	sent := func(at time.Duration, want int64) *bus.Task {
		t.Helper()
		again, age := r.doubted("t", begun.Add(at))
		if again != bus.AgainUnheard || age != want {
			t.Errorf("after %v: sent %d, %d ms old, want %d", at, again, age, want)
		}
		return &bus.Task{ID: "t", AgeMS: age}
	}
	ends(reader.New(reader.Config{}, &bus.Task{ID: "t"}, begun), 3*time.Second)
	next := sent(5*time.Second, 5000)
	ends(reader.New(reader.Config{}, next, begun.Add(5*time.Second)), 9*time.Second)
	sent(10*time.Second, 10_000)
	ends(new(reader.Stream), 0)
	sent(time.Second, bus.MaxPatient)
}
