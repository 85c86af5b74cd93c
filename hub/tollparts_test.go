package hub

import (
	"strings"
	"testing"

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

func charged(c market.Credits) int {
	if c < 0 {
		return 1
	}
	return 0
}
