package follow_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"souk/bus/follow"
)

// All that a crew is given runs, at once and each only once, before its end and after it; and it leaves
// nobody behind, or the bubble would not end.
func TestCrew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := follow.NewCrew()
		var ran atomic.Int64
		for range 3 {
			var all sync.WaitGroup
			const many = 300 // more than are kept
			together, gate := make(chan struct{}, many), make(chan struct{})
			for range many {
				all.Add(1)
				c.Go(func() {
					defer all.Done()
					together <- struct{}{}
					<-gate // which opens once all run
					ran.Add(1)
				})
			}
			for range many {
				<-together
			}
			close(gate)
			all.Wait()
			synctest.Wait()
		}
		c.End()
		last := make(chan struct{})
		c.Go(func() { close(last) })
		<-last
		if n := ran.Load(); n != 900 {
			t.Errorf("%d ran of 900", n)
		}
	})
}
