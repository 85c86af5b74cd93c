package local

import (
	"testing"

	"souk/bus"
)

// A market sells once every hub that will have agents has said that it has all of them, and a slot free.
func TestAMarketSellsOnceItsHubsHaveTheirAgents(t *testing.T) {
	math, law := &Watched{Domain: "math"}, &Watched{Domain: "law"}
	w := &Watcher{hubs: map[string]*Watched{"math": math}}
	want := map[string]int{"math": 2, "law": 1}
	for _, step := range []struct {
		says  func()
		sells bool
	}{
		{func() { math.Status = bus.Status{Agents: 2, Free: 1} }, false}, // law was never heard
		{func() { w.hubs["law"] = law }, false},
		{func() { law.Status = bus.Status{Agents: 1} }, false},
		{func() { law.Status.Free = 1 }, true},
		{func() { math.Status.Agents = 1 }, false},
		{func() { math.Status.Agents = 3 }, true},
	} {
		step.says()
		if got := w.sells(want); got != step.sells {
			t.Errorf("%+v and %+v: sells is %v", math.Status, law.Status, got)
		}
	}
}
