package serve

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"souk/bus"
)

// Tasks of more clients than are remembered, at once: each is told its own group, while others' make room.
func TestEachAtOnceHasItsOwnGroup(t *testing.T) {
	g := newGroups(nil, "s", nil)
	for i := range mostKnown {
		g.of(fmt.Sprint("c-", i))
	}
	var all sync.WaitGroup
	var came atomic.Int64
	ask := func(client string) {
		if got, want := g.of(client).name, bus.GroupOf(client, ""); got != want {
			t.Errorf("client %s is of group %s, want %s", client, got, want)
		}
	}
	all.Go(func() {
		for i := range mostKnown {
			ask(fmt.Sprint("new-", i))
			came.Add(1)
		}
	})
	for range 3 { // beside those who make room for them next
		all.Go(func() {
			for i := came.Load(); i < mostKnown; i = came.Load() {
				ask(fmt.Sprint("c-", i))
			}
		})
	}
	all.Wait()
}
