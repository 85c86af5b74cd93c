package virtual

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// billed compares the payments of a client without terms with the card.
type billed struct {
	tasks, refused    int
	bill, dearest     float64 // of all tasks together; of the one that was dearest beside its card
	uncached          float64 // of the one that was dearest beside the card with nothing cached
	p50, p99, longest float64 // of first tokens, ms
}

func bills(s *Setting, all []*Request) map[string]billed {
	by := map[string][]*Request{}
	for _, r := range all {
		if r.Arrived >= s.Warm {
			by[s.client(r.Caller)] = append(by[s.client(r.Caller)], r)
		}
	}
	out := map[string]billed{}
	for name, own := range by {
		g := s.had(name, own)
		b := billed{tasks: g.Tasks, refused: g.Refused, bill: g.Bill, p50: g.P50, p99: g.P99,
			longest: g.Longest}
		for _, r := range own {
			if !r.Refused {
				b.dearest = max(b.dearest, float64(r.Paid)/float64(s.offer(r.Engine).Card.Cost(usage(r))))
				b.uncached = max(b.uncached, float64(r.Paid)/float64(s.card(r.Prompt, r.Output)))
			}
		}
		out[name] = b
	}
	return out
}

// billSeed is the seed of a run, of 1 to 3, or SOUK_SEED if that is set.
func billSeed(t *testing.T) uint64 {
	seed := 1 + rand.Uint64N(3)
	if s := os.Getenv("SOUK_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d", seed)
	return seed
}

// Two clients without terms, with 40 callers and 2, share eight slots: what they did not agree to is near
// the card, and the small one waits no longer than the large one. The small one goes before the 34 that
// wait, and pays what that costs them, so its bill is 1 plus a second's part of the card for each second
// that they wait: on mtrag 1.34 to 1.36. On rag they wait 8.5 s, nothing of a prompt is cached, and it is
// 2.1 to 2.4. A premium follows what an answer turns out to cost, so no task is dearer beside its card than
// it was quoted: 1.57 to 1.61 times on mtrag, 3.2 to 3.7 on rag (seeds 1 to 3). While a premium was as
// quoted however short the answer was, tasks with 8 tokens of the 130 that were expected paid 3.4 to 3.6
// times their card on mtrag. Of seeds 1 to 42 one task, of seed 4, is above twice its card: 2.3 times.
func TestBillsOfTwoWithoutTerms(t *testing.T) {
	seed := billSeed(t)
	for trace, most := range map[string]billed{"mtrag": {bill: 1.5, dearest: 2},
		"rag": {bill: 2.7, dearest: 10}} {
		if testing.Short() && trace != "mtrag" {
			continue
		}
		s, err := Traces[slices.Index(TraceNames(), trace)].setting(1)
		if err != nil {
			t.Fatal(err)
		}
		s.Seed, s.Callers, s.Keys, s.Tasks, s.Warm = seed, 42, []int{40, 2}, 2500, 20*time.Second
		all, _, _ := sell(t, s, nil)
		had := bills(&s, all)
		large, small := had["key-0"], had["key-1"]
		if large.bill > 1.1 {
			t.Errorf("%s, seed %d: the large client pays %.3f times the card", trace, seed, large.bill)
		}
		t.Logf("%s, seed %d: large %+v", trace, seed, large)
		t.Logf("%s, seed %d: small %+v", trace, seed, small)
		for name, b := range map[string]billed{"large": large, "small": small} {
			if b.bill > most.bill || b.dearest > most.dearest || b.bill < 1 || b.refused > 0 {
				t.Errorf("%s, seed %d: the %s client %+v: want at most %v times the card, no task above %v, none "+
					"refused", trace, seed, name, b, most.bill, most.dearest)
			}
		}
		if small.p50 > 1.2*large.p50 {
			t.Errorf("%s, seed %d: half of the small client's tasks wait more than %.0f ms, and %.0f ms of the "+
				"large one's", trace, seed, small.p50, large.p50)
		}
	}
}

// A client that is alone pays the card, however many callers it has, on engines alike and on a mixed fleet.
func TestAloneOnePaysTheCard(t *testing.T) {
	seed := billSeed(t)
	mixed, err := FleetNamed("mixed")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []World{{Trace: traceOf(t, "mtrag"), Engines: 2},
		{Trace: traceOf(t, "mtrag"), Fleet: mixed}} {
		for _, callers := range []int{12, 1, 60, 128} {
			if testing.Short() && callers != 12 {
				break
			}
			w.Callers, w.Seed, w.Sessions, w.Tasks = OneKey, seed, callers, 800
			m, err := Play(w, MarketName)
			if err != nil {
				t.Fatal(err)
			}
			if m.Bill > 1.02 || m.Bill < 0.999 {
				t.Errorf("fleet %q, %d callers, seed %d: one client alone pays %.3f times the card", w.Fleet.Name,
					callers, seed, m.Bill)
			}
			t.Logf("fleet %q, %d callers, seed %d: %.4f times the card, p50 %.0f ms, p99 %.0f ms", w.Fleet.Name, callers,
				seed, m.Bill, m.P50, m.P99)
		}
	}
}
