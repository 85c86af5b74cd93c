package virtual

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"souk/market"
)

func fmtFloat(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func traceOf(t testing.TB, name string) Trace {
	t.Helper()
	of, _, err := traceNamed(name)
	if err != nil {
		t.Fatal(err)
	}
	return of
}

// playedBy are the tasks of a setting under a rule or in a market.
func playedBy(t testing.TB, s Setting, rule string) (all []*Request) {
	t.Helper()
	if rule != MarketName {
		all, _ = routed(t, s, rule)
		return all
	}
	all, _, _, err := playMarket(s, NewMarketOptions(s))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What callers say and whose they are is what the world says, and a market bills it so.
func TestTermsAndCallers(t *testing.T) {
	mixed, err := FleetNamed("mixed")
	if err != nil {
		t.Fatal(err)
	}
	w := World{Trace: traceOf(t, "mtrag"), Fleet: mixed, Rate: 8, Tasks: 120, Seed: 2}
	for _, w.Terms = range append([]Terms{""}, AllTerms...) {
		for _, w.Callers = range AllCallers {
			m, err := Play(w, MarketName)
			if err != nil {
				t.Fatalf("%s, %s: %v", w.Terms, w.Callers, err)
			}
			if tempers := w.Terms == Tempers; tempers != (len(m.Tempers) == 4) {
				t.Errorf("terms %q: %d tempers", w.Terms, len(m.Tempers))
			}
			if one := w.Callers == OneKey; one != (len(m.Clients) == 1) || one && m.Clients[0].Tasks != 120 {
				t.Errorf("callers %s: clients %+v", w.Callers, m.Clients)
			}
			// who is alone behind a market pays the card, and a little for full slots
			if w.Callers == OneKey && m.Bill > 1.1 {
				t.Errorf("terms %q: one client alone pays %.3f times the card", w.Terms, m.Bill)
			}
			if m.Bill < 0.999 || m.Dearest < m.Bill || len(m.Clients) > MostClients {
				t.Errorf("%s, %s: bill %v, dearest %v, %d clients", w.Terms, w.Callers, m.Bill, m.Dearest,
					len(m.Clients))
			}
		}
	}
}

// A world that cannot be played is an error that says why.
func TestBadWorlds(t *testing.T) {
	mtrag := traceOf(t, "mtrag")
	for says, w := range map[string]World{
		`terms "loud" are none of`:     {Trace: mtrag, Tasks: 10, Terms: "loud"},
		`callers "all" are none of`:    {Trace: mtrag, Tasks: 10, Callers: "all"},
		"none may be below 0":          {Trace: mtrag, Tasks: 10, Rate: math.NaN()},
		"a rate is at most":            {Trace: mtrag, Tasks: 10, Rate: 1e9},
		"a run needs an end":           {Trace: mtrag},
		"fleet none: engines[0].name:": {Trace: mtrag, Tasks: 10, Fleet: Fleet{"none", "", make([]FleetEngine, 2)}},
	} {
		if _, err := Play(w, "random"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	if _, err := Play(World{Trace: mtrag, Tasks: 10}, "tea-leaves"); err == nil ||
		!strings.Contains(err.Error(), `rule "tea-leaves" is none of`) {
		t.Error(err)
	}
}

// A fleet serves what its capacity says: well below it hardly anybody waits, above it ever more do.
func TestCapacity(t *testing.T) {
	w := World{Trace: traceOf(t, "mtrag"), Engines: 2, Tasks: 1500, Seed: 1}
	all, err := w.At([]float64{0, 0.7, 1.3})
	if err != nil || len(all) != 3 || all[0].Rate != 0 || all[2].Load != 1.3 ||
		math.Abs(all[2].Rate/all[1].Rate-13./7) > 1e-9 {
		t.Fatalf("%+v, %v", all, err)
	}
	below, err := Play(all[1], "least-loaded")
	if err != nil {
		t.Fatal(err)
	}
	above, err := Play(all[2], "least-loaded")
	if err != nil {
		t.Fatal(err)
	}
	if below.P99 > 1000 || above.P99 < 4*below.P99 {
		t.Errorf("p99 %.0f ms at 0.7 of what is served, %.0f at 1.3", below.P99, above.P99)
	}
}

// served is a task that one engine served.
func served(caller, engine int, arrived, first, done time.Duration) *Request {
	r := &Request{Caller: caller, Engine: engine, Arrived: arrived, First: first, Done: done,
		Job: Job{Prompt: 100, Output: 100, Began: first}, script: &Script{}}
	r.Terms.Terms = market.Terms{Worth: market.Credit / 1000, Delta: 0.5, Patience: 10 * time.Second}
	r.Paid = 2 * Card.Cost(usage(r))
	return r
}

// Of ten tasks, one a second from 0 on, each of which has its first token half a second later, those from the
// first to the ninth second count in measures a second.
func TestMeasures(t *testing.T) {
	s := Setting{Engines: 2, Rate: 1, Engine: EngineConfig{Slots: 1, Blocks: 100, BlockSize: 16}}
	var all []*Request
	for i := range 10 {
		at := time.Duration(i) * time.Second
		all = append(all, served(i%2, i%2, at, at+time.Second/2, at+time.Second))
	}
	// one waits nine seconds and is refused; it adds nothing
	all[5].Refused, all[5].Engine, all[5].First, all[5].Done = true, Wait, 14*time.Second, 14*time.Second
	all[3].Paid *= 4
	all[0].Temper, all[1].Temper = "calm", "hasty"
	m := s.Measure(all)
	// half of the time a slot stands idle beside one who waits, and for four seconds one more beside the
	// refused
	each := 0.5*Score - 0.5*0.05 - float64(Card.Cost(usage(all[0])))/float64(market.Credit)*1000
	for what, x := range map[string][2]float64{"welfare": {m.Welfare, each * 7 / 8},
		"tasks": {m.Throughput, 7. / 8},
		"p50":   {m.P50, 500}, "p99": {m.P99, 500}, "longest": {m.Longest, 9000}, "refused": {m.Refused, 0.1},
		"bill": {m.Bill, 2 * 12. / 9}, "dearest": {m.Dearest, 2 * 7. / 4}, "quality": {m.Quality, Score},
		"work": {m.Work, 5 / 4.5}, "idle": {m.Idle, 7.5 / 8}} {
		if math.Abs(x[0]-x[1]) > 1e-4 {
			t.Errorf("%s: %v, want %v", what, x[0], x[1])
		}
	}
	if m.Uncounted || len(m.Tempers) != 3 || m.Tempers[1].Name != "calm" || m.Tempers[1].Tasks != 1 {
		t.Errorf("%+v", m)
	}
	if m.Clients[0].Name != "caller-1" || m.Clients[0].Refused != 1 || m.Clients[0].Longest != 9000 {
		t.Errorf("%+v", m.Clients)
	}
	s.Rate, s.Callers = 0, 2
	if !s.Measure(all).Uncounted {
		t.Error("two callers for two slots tell who asked")
	}
	if s.Callers = 3; s.Measure(all).Uncounted {
		t.Error("three callers for two slots count")
	}
	if m := s.Measure(nil); m.Welfare != 0 {
		t.Errorf("of nothing: %+v", m)
	}
}

// The quality of an answer counts where it was recorded by question and model, and so is its length; a cut
// answer has none.
func TestRecordedQuality(t *testing.T) {
	mixed, err := FleetNamed("mixed")
	if err != nil {
		t.Fatal(err)
	}
	w := World{Trace: traceOf(t, "routed"), Fleet: mixed, Rate: 10, Tasks: 200, Seed: 3, Terms: Tempers}
	s, err := w.Setting()
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range []string{"least-loaded", MarketName} {
		scores := map[float64]bool{}
		for _, r := range playedBy(t, s, rule) {
			if r.Refused {
				continue
			}
			a, ok := r.script.recorded[s.Fleet[r.Engine].Recorded]
			if !ok || r.Output != a.output && !r.Cut || !r.Cut && s.quality(r, r.Engine) != a.score {
				t.Fatalf("%s: %d tokens of quality %v, recorded %+v", rule, r.Output, s.quality(r, r.Engine), a)
			}
			if r.Cut && s.quality(r, r.Engine) != 0 {
				t.Errorf("%s: a cut answer is as good as a whole one", rule)
			}
			scores[a.score] = true
		}
		if len(scores) < 2 {
			t.Errorf("%s: all answers are as good: %v", rule, scores)
		}
	}
}

// A frontier has a row for each value of each rule's knob at each load, and says which none is better than.
func TestFrontier(t *testing.T) {
	o := CrowdOptions{World: World{Engines: 2, Tasks: 150, Terms: Tempers}, Traces: []string{"mtrag"},
		Rules: []string{"random", "posted", "greedy-first:3", MarketName}, Loads: []float64{0.5, 1.1},
		Seeds: []uint64{1}, Progress: func(int, int) {}}
	rows, err := Frontier(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	of, _, _ := turned("posted")
	each := 3 + len(of.Values)
	if len(rows) != 2*each || rows[0].Load != 0.5 || rows[each].Load != 1.1 ||
		rows[1].Label() != "posted:1" ||
		rows[1].Rule != "posted" || rows[each-2].Knob != "greedy-first:3" {
		t.Fatalf("%d rows: %+v", len(rows), rows)
	}
	best := Undominated(rows[:each])
	if !slices.Contains(best, true) || !slices.Contains(best, false) {
		t.Errorf("%v", best)
	}
	for i := range best {
		for k := range best {
			a, b := rows[i].All, rows[k].All
			better := a["welfare"].Mean > b["welfare"].Mean && a["p99"].Mean < b["p99"].Mean
			if better && best[k] {
				t.Errorf("%s is better than %s in both", rows[i].Label(), rows[k].Label())
			}
		}
	}
	table, err := Crowd(t.Context(), o)
	if err != nil || len(table) != 8 || table[0].Rate != rows[0].Rate {
		t.Fatalf("%d rows, %v", len(table), err)
	}
	for i, row := range rows[1 : 1+len(of.Values)] {
		if row.All["welfare"].Mean > table[1].All["welfare"].Mean {
			t.Errorf("%s is better than the best, %s, %d", row.Label(), table[1].Label(), i)
		}
	}
}

// Play plays a world once under a rule, or in a market, whose name begins with MarketName.
func Play(w World, rule string) (Measures, error) {
	s, err := w.Setting()
	if err != nil {
		return Measures{}, err
	}
	return play(s, rule, w.Named)
}
