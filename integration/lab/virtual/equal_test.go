package virtual

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"souk/hub/prewarm"
)

// Engines that are all alike end with like work: where slots are short and where they are not, none has
// fewer than half as many tasks as the mean. On rag chance alone leaves one .44 of it in one run of forty,
// where .60 to .89 are usual: the mean of four is judged.
func TestEqualEnginesHaveEqualWork(t *testing.T) {
	seed := rand.Uint64()
	for trace, plays := range map[string]uint64{"crowd": 1, "rag": 4} {
		sum := 0.0
		for n := range plays {
			s, err := Traces[slices.Index(TraceNames(), trace)].setting(8)
			if err != nil {
				t.Fatal(err)
			}
			s.Seed, s.Tasks = seed+n, 600
			all, engines, _, err := playMarket(s, NewMarketOptions(s))
			if err != nil {
				t.Fatalf("%s, seed %d: %v", trace, s.Seed, err)
			}
			fewest, _, _ := measured(all, len(engines))
			if sum += fewest; s.Measure(all).Refused > 0 {
				t.Errorf("%s, seed %d: some are refused", trace, s.Seed)
			}
		}
		if sum /= float64(plays); sum < 0.5 {
			t.Errorf("%s, seed %d: an engine has %.2f times the mean of tasks", trace, seed, sum)
		}
	}
}

// Of engines alike the one that runs fewest has a new dialogue, of which none holds anything: else some are
// full by chance, and those whose cached dialogues are there wait beside engines with room. Where many run
// beside few forecasts of first tokens may say that both are as good.
func TestANewDialogueGoesWhereFewestRun(t *testing.T) {
	trace, err := TraceNamed("mtrag")
	if err != nil {
		t.Fatal(err)
	}
	w := World{Trace: trace, Seed: rand.Uint64(), Rate: 10.7, Tasks: 700} // six tenths of what they can serve
	s, err := w.Setting()
	if err != nil {
		t.Fatal(err)
	}
	all, engines, _, err := playMarket(s, NewMarketOptions(s))
	if err != nil {
		t.Fatal(err)
	}
	first, elsewhere := 0, 0
	for _, q := range all[len(all)/5:] {
		if q.Turn > 0 {
			continue
		}
		running := make([]int, len(engines))
		for _, other := range all {
			if other != q && other.Arrived <= q.Arrived && other.Done > q.Arrived {
				running[other.Engine]++
			}
		}
		if first++; running[q.Engine] > slices.Min(running) {
			elsewhere++
		}
	}
	if first < 50 || elsewhere*8 > first {
		t.Errorf("seed %d: of %d dialogues %d went where more ran", w.Seed, first, elsewhere)
	}
}

// Where one dialogue after the other begins with the text of all others, whoever had the first would have
// nearly all: a hub has idle engines compute it, once each, and spends little on that. Then equal engines
// have like work, and callers wait less. In two minutes there are a hundred dialogues, of which chance
// alone leaves an engine less than half its part in every thirtieth run. So the mean of twelve is judged:
// of four it was .39 to .79 in twenty such. Without, callers wait ten times as long: two such runs show it.
func TestSeedsGiveIdleEnginesWork(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	const plays, bare = 12, 2
	seed := rand.Uint64()
	type figures struct{ work, fewest, mean float64 }
	play := func(seed uint64, every time.Duration, to *figures) *Market {
		s, err := Traces[slices.Index(TraceNames(), "begin")].setting(8)
		if err != nil {
			t.Fatal(err)
		}
		s.Seed, s.Length = seed, 2*time.Minute
		all, m, _ := sell(t, s, func(o *MarketOptions) { o.Hub.Prewarm.Every = every })
		fewest, mean, _ := measured(all, s.Engines)
		to.work, to.fewest, to.mean = to.work+s.Measure(all).Work, to.fewest+fewest, to.mean+mean
		return m
	}
	var with, without figures // sums
	for n := range uint64(plays) {
		m := play(seed+n, prewarm.Default().Every, &with)
		if m.Seeds == 0 || m.Seeds > 7 || m.SeedCost > Probes {
			t.Errorf("seed %d: %d seeds for %s", seed+n, m.Seeds, m.SeedCost)
		}
		if n >= bare {
			continue
		}
		if m := play(seed+n, 0, &without); m.Seeds != 0 {
			t.Errorf("seed %d: %d seeds where they are switched off", seed+n, m.Seeds)
		}
	}
	t.Logf("seed %d: work %.2f, fewest %.2f, mean TTFT %.1f ms; without %.2f, %.2f, %.1f", seed,
		with.work/plays, with.fewest/plays, with.mean/plays, without.work/bare, without.fewest/bare,
		without.mean/bare)
	if with.fewest < 0.5*plays || with.work/plays > without.work/bare || with.mean/plays > without.mean/bare {
		t.Errorf("seed %d: %+v, and without seeds %+v", seed, with, without)
	}
}

// An engine that is slower for half a minute has hardly any tasks then, and its part again soon after, though
// it was idle meanwhile and the others had room for all. Three times as slow it has .24 to .62 of the mean of
// tasks, by chance.
func TestASlowEngineIsAskedAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	for _, times := range []int64{3, 10} {
		s, err := Traces[slices.Index(TraceNames(), "rag")].setting(8)
		if err != nil {
			t.Fatal(err)
		}
		s.Seed, s.Callers, s.Length = rand.Uint64(), 16, 170*time.Second
		s.Slow = []Slowdown{{Engine: 0, From: 30 * time.Second, To: 60 * time.Second, Times: times}}
		all, _, _ := sell(t, s, nil)
		part := func(from, to time.Duration) float64 {
			own, every := 0, 0
			for _, r := range all {
				if r.Arrived >= from && r.Arrived < to {
					if every++; r.Engine == 0 {
						own++
					}
				}
			}
			return float64(own) * float64(s.Engines) / float64(every)
		}
		before, slow := part(0, 30*time.Second), part(35*time.Second, time.Minute)
		after := part(2*time.Minute, s.Length)
		t.Logf("seed %d: %d times as slow it has %.2f of the mean of tasks; %.2f before, %.2f after", s.Seed,
			times, slow, before, after)
		if before < 0.5 || slow > 0.75 || after < 0.5 {
			t.Errorf("seed %d: %d times as slow it has %.2f of the mean of tasks; %.2f before, %.2f after",
				s.Seed, times, slow, before, after)
		}
	}
}
