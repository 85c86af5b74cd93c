package agentd

import (
	"math"
	"testing"
	"time"
)

// How old what an engine gives up is follows its counters, many blocks more than few; nothing is learned from
// the first look, from counters that went down as the engine started again, nor from what is no number.
func TestEvictAge(t *testing.T) {
	a := &Agent{}
	for i, c := range []struct {
		blocks, idle float64
		want         time.Duration
	}{
		{1000, 9e6, 0}, {1000, 9e6, 0},
		{1010, 9e6 + 100, 10 * time.Second},
		{1042, 9e6 + 100 + 32*20, 15 * time.Second},
		{5, 100, 15 * time.Second},
		{5 + 1e6, 100 + 60e6, 60 * time.Second},
		{math.NaN(), 1, 60 * time.Second}, {10, math.NaN(), 60 * time.Second}, {11, 5, 60 * time.Second},
		{12, 1e30, 60*time.Second + time.Duration((24*time.Hour-time.Minute)/33)},
	} {
		if a.Evicts(c.blocks, c.idle); (a.evicts.age - c.want).Abs() > 10*time.Millisecond {
			t.Errorf("%d: %+v: %v", i, c, a.evicts.age)
		}
	}
}
