package hub

import (
	"strings"
	"testing"
	"time"

	"souk/market"
)

// The record of a crowded round says what of each toll is for load, for age and for running beside others;
// what is left is the regime's, which is idle here. Explain shows them where somebody is served.
func TestTheRecordSaysWhatTollsAreFor(t *testing.T) {
	var load, age, beside, shown int
	for seed := range uint64(60) {
		h := crowdedHouse(t, seed)
		r, o := h.weigh(everybody)
		for i, p := range r.Parts {
			if sum := p.Sum(); sum != r.Edges[i].Toll {
				t.Fatalf("seed %d: a toll of %s, for %+v", seed, r.Edges[i].Toll, p)
			}
			load, age, beside = load+charged(p.Load), age+charged(p.Age), beside+charged(p.Beside)
		}
		if len(r.Parts) == 0 {
			for _, e := range r.Edges {
				if e.Toll != 0 {
					t.Fatalf("seed %d: nothing says what the toll %s is for", seed, e.Toll)
				}
			}
		}
		if len(o.Awards) == 0 {
			continue
		}
		x, err := market.Explain(r, o)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if strings.Contains(x.String(), " age toll ") || strings.Contains(x.String(), " load toll ") {
			shown++
		}
	}
	if load == 0 || age == 0 || beside == 0 || shown == 0 {
		t.Errorf("tolls of %d load, %d age, %d beside; %d rounds show some: the test sees nothing", load, age,
			beside, shown)
	}
}

// A hub that ends between its journal and its agents dispatches the hold again, with each part of the toll as
// it was: of frames and of a snapshot.
func TestTollsOutliveTheirHub(t *testing.T) {
	for _, snapshot := range []bool{false, true} {
		h := newHouse(t, func(c *Config) { c.Crowd.Beside = time.Millisecond })
		h.join("a-1", "llama", 2, 0.9, card(1, 1, 4))
		h.must(h.step(h.task("bob", "t1")))
		m := h.task("ann", "t2")
		h.must(h.step(m))
		d := h.take("ann", "t2")
		if d.Crowd == nil || d.Crowd.Beside == 0 {
			t.Fatalf("a task beside another is charged %+v for that", d.Crowd)
		}
		if h.restart(); snapshot {
			data, err := h.n.Past().Snapshot()
			h.must(err)
			h.must(h.n.Past().Load(data))
		}
		h.must(h.n.Lead(h.now, 8))
		h.join("a-1", "llama", 2, 0.9, card(1, 1, 4))
		h.again = nil
		again := *m
		h.must(h.step(&again))
		if len(h.again) != 1 || h.again[0].Hold != d.Hold {
			t.Fatalf("snapshot %v: dispatched again is %+v", snapshot, h.again)
		}
		if a := h.again[0]; a.Crowd == nil || *a.Crowd != *d.Crowd || a.Toll != d.Toll ||
			a.Congestion != d.Congestion {
			t.Errorf("snapshot %v: tolls %s, of the tier %s, the crowd's %+v; were %s, %s and %+v", snapshot,
				a.Toll, a.Congestion, a.Crowd, d.Toll, d.Congestion, *d.Crowd)
		}
	}
}

func charged(c market.Credits) int {
	if c < 0 {
		return 1
	}
	return 0
}
