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
			if r.doubted(fmt.Sprint("t", i), now) > 0 {
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
