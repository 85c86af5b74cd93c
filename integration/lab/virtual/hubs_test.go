package virtual

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// hubsOf plays a setting with so many hubs, whose journals must audit clean.
func hubsOf(t *testing.T, s Setting, n int, change func(*MarketOptions)) ([]*Request, *Hubs) {
	t.Helper()
	o := NewMarketOptions(s)
	if change != nil {
		change(&o)
	}
	h, err := NewHubs(n, o)
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := Run(s, h)
	if err != nil {
		t.Fatal(err)
	}
	reports, err := h.Close()
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range reports {
		if got := h.Markets[i].Rounds.Rounds; uint64(got) != r.Rounds || h.Markets[i].Held < got {
			t.Errorf("hub %d: %d rounds held and %d recorded, the audit has %d", i, h.Markets[i].Held, got,
				r.Rounds)
		}
	}
	return all, h
}

// One hub is a market, whether or not a clock runs beside it.
func TestOneHubIsAMarket(t *testing.T) {
	s := small(t, 1)
	s.Tasks = 60
	alone, _, _ := sell(t, s, nil)
	now := time.Duration(0)
	all, h := hubsOf(t, s, 1, func(o *MarketOptions) {
		o.Clock = func() time.Duration { now++; return now }
	})
	if digest(t, all) != digest(t, alone) {
		t.Error("it places tasks elsewhere")
	}
	c := &h.Markets[0].Clocks
	if len(c.Rounds) != h.Markets[0].Held || c.Hub <= time.Duration(len(c.Rounds)) || c.Audit <= 0 {
		t.Errorf("of %d rounds the clock has %d, of the hub %v and of the audit %v", h.Markets[0].Held,
			len(c.Rounds), c.Hub, c.Audit)
	}
}

// Of several hubs each has as many engines of a kind as any other, or one fewer, and a dialogue stays with
// one.
func TestHubsShareEnginesAndSessions(t *testing.T) {
	mixed, err := FleetNamed("mixed")
	if err != nil {
		t.Fatal(err)
	}
	s := small(t, 1)
	s.Tasks = 60
	mixed.behind(&s)
	all, h := hubsOf(t, s, 3, nil)
	hub, kinds := make([]int, s.Engines), make([]map[string]int, 3)
	for k, m := range h.Markets {
		kinds[k] = map[string]int{}
		for _, i := range m.Only {
			hub[i] = k + 1
			kinds[k][s.Fleet[i].Model+s.Fleet[i].Profile]++
		}
	}
	if slices.Contains(hub, 0) {
		t.Errorf("engines of no hub: %v", hub)
	}
	for kind := range kinds[0] {
		counts := []int{kinds[0][kind], kinds[1][kind], kinds[2][kind]}
		if slices.Max(counts)-slices.Min(counts) > 1 {
			t.Errorf("of %s hubs have %v", kind, counts)
		}
	}
	used := map[int]bool{}
	for _, r := range all {
		if !r.Refused && hub[r.Engine] != h.At(r)+1 {
			t.Errorf("turn %d of play %d is with hub %d, which is of %d", r.Turn, r.Play, hub[r.Engine],
				h.At(r)+1)
		}
		used[h.At(r)] = true
	}
	if len(used) != 3 {
		t.Errorf("only hubs %v are asked", used)
	}
	_, err = NewHubs(9, NewMarketOptions(s))
	if err == nil || !strings.Contains(err.Error(), "9 hubs for 8") {
		t.Errorf("nine hubs of eight engines: %v", err)
	}
}

// What a hub computes delays what it says, by so long at least.
func TestWhatAHubComputesTakesTime(t *testing.T) {
	s := small(t, 1)
	s.Engines, s.Callers, s.Tasks = 1, 1, 20
	soon, _ := hubsOf(t, s, 1, nil)
	const takes = 5 * time.Millisecond
	late, _ := hubsOf(t, s, 1, func(o *MarketOptions) {
		o.Computes = func(tasks, agents int) time.Duration {
			if tasks > 1 || agents != 1 { // none: what the hub puts there itself
				t.Errorf("a round of %d tasks and %d agents", tasks, agents)
			}
			return takes
		}
	})
	for i, r := range late {
		more := (r.First - r.Arrived) - (soon[i].First - soon[i].Arrived)
		if more < takes-time.Millisecond || more > 2*takes {
			t.Errorf("request %d: first token %v later, a round takes %v", i, more, takes)
		}
	}
}

// Dialogues that are under way when a run begins stand somewhere in their middle, and do not begin at once.
func TestSomeAreUnderWayAlready(t *testing.T) {
	s := small(t, 1)
	s.Callers, s.Rate, s.Tasks, s.Length, s.Already = 0, 0.5, 0, 10*time.Second, 40
	all, _ := routed(t, s, "two-block")
	middle, last := 0, time.Duration(0)
	seen := map[int]bool{}
	for _, r := range all {
		if r.Play > s.Already || seen[r.Play] {
			continue
		}
		seen[r.Play], last = true, max(last, r.Arrived)
		if r.Turn > 0 {
			middle++
		}
	}
	if len(seen) < 10 || middle < len(seen)/3 || last < time.Second {
		t.Errorf("%d of %d begin in their middle, the last after %v", middle, len(seen), last)
	}
}
