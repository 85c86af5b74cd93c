package virtual

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// sell plays a setting in a market, whose journal must audit clean.
func sell(t testing.TB, s Setting, change func(*MarketOptions)) ([]*Request, *Market, ledger.Report) {
	t.Helper()
	o := NewMarketOptions(s)
	if change != nil {
		change(&o)
	}
	m, err := NewMarket(o)
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := Run(s, m)
	if err != nil {
		t.Fatal(err)
	}
	report, err := m.Close()
	if err != nil {
		t.Fatal(err)
	}
	return all, m, report
}

// A market serves all who ask, and its journal says so: as many captures as answers, paid by what engines
// counted.
func TestMarketServesAll(t *testing.T) {
	for _, other := range []bool{false, true} {
		s := small(t, 1)
		if other { // two dialogues, and nothing after their last answers
			s.Say, s.Callers, s.Arrive = Spread, 0, []time.Duration{time.Second, 2 * time.Second}
		}
		all, m, report := sell(t, s, func(o *MarketOptions) { o.Named = other })
		due := market.Credits(0)
		for _, r := range all {
			if r.Refused || r.Engine == Wait || r.First < r.Arrived+3*s.Hop+m.Sync || r.Done < r.First {
				t.Fatalf("request %+v", *r)
			}
			due += Card.Cost(usage(r))
		}
		if len(all) < 3 || s.Arrive == nil && len(all) != s.Tasks || report.Earned != due ||
			report.Rounds == 0 || report.Count > 0 {
			t.Errorf("%d tasks came to %s, agents were paid %s in %d rounds; %d findings", len(all), due,
				report.Earned, report.Rounds, report.Count)
		}
	}
}

// One seed gives one market, down to the bytes of its journal, whatever else the machine does.
func TestSameSeedSameMarket(t *testing.T) {
	play := func(seed uint64, processors int) (string, string) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		journal := sha256.New()
		all, m, _ := sell(t, small(t, seed), func(o *MarketOptions) {
			o.Journal = func(frame []byte) { journal.Write(frame) }
		})
		return digest(t, all), fmt.Sprintf("%d bytes, %x", m.Bytes, journal.Sum(nil))
	}
	all, journal := play(1, 1)
	if again, same := play(1, 4); again != all || same != journal {
		t.Errorf("the same seed gave another market: %s, and then %s", journal, same)
	}
	if other, _ := play(2, 4); other == all {
		t.Error("another seed gave the same market")
	}
}

// On empty engines a market adds what it says, once a caller has its money: a hop and a sync, and where
// another sync is under way what is left of that.
func TestMarketAddsHopAndSync(t *testing.T) {
	s := small(t, 1)
	s.Engines, s.Callers, s.Tasks = 1, 1, 60
	sold, m, _ := sell(t, s, nil)
	sent, _ := routed(t, s, "two-block")
	exact, want := 0, s.Hop+m.Sync
	for i, r := range sold {
		added := (r.First - r.Arrived) - (sent[i].First - sent[i].Arrived)
		if i > 0 && (added < want || added > want+m.Sync) {
			t.Errorf("request %d: %v added, want %v", i, added, want)
		}
		if added == want {
			exact++
		}
	}
	if exact < 50 {
		t.Errorf("%d of %d requests were %v later", exact, len(sold), want)
	}
}

// Whom the hub has no room for is refused, and goes away.
func TestMarketRefuses(t *testing.T) {
	s := small(t, 1)
	all, _, _ := sell(t, s, func(o *MarketOptions) { o.Hub.MaxWaiting = 1 })
	refused := 0
	for _, r := range all {
		if r.Refused {
			refused++
			if r.Engine != Wait || r.Done != r.First {
				t.Errorf("request %+v", *r)
			}
		}
	}
	if refused == 0 || refused == len(all) {
		t.Errorf("%d of %d are refused", refused, len(all))
	}
	if m := s.Measure(all); m.Refused != float64(refused)/float64(len(all)) {
		t.Errorf("%v are counted", m.Refused)
	}
}

// What is wrong with a market is an error at its end.
func TestMarketTellsFaults(t *testing.T) {
	s := small(t, 1)
	s.Tasks = 20
	for name, spoil := range map[string]func(m *Market){
		"a message that means nothing": func(m *Market) {
			m.step(&bus.DispatchReply{Agent: "nobody", Hold: "none"})
		},
		"a frame that is missing": func(m *Market) { m.audit.Frame(1<<40, 1, []byte{1}) },
		"a task without an end":   func(m *Market) { m.requests["t-1"] = &Request{} },
	} {
		m, err := NewMarket(NewMarketOptions(s))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := Run(s, m); err != nil {
			t.Fatal(err)
		}
		spoil(m)
		if _, err := m.Close(); err == nil {
			t.Errorf("%s: no error", name)
		} else if lines := strings.Count(err.Error(), "\n"); lines > 5 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The interval of a mean is Student's.
func TestEstimate(t *testing.T) {
	e := NewEstimate([]float64{1, 2, 3, 4, 10})
	// deviation 3.5355, t(0.975; 4) = 2.7764
	if e.Median != 3 || e.Mean != 4 || e.Within < 4.38 || e.Within > 4.40 {
		t.Errorf("%+v", e)
	}
	if e := NewEstimate([]float64{7}); e != (Estimate{Median: 7, Mean: 7}) {
		t.Errorf("of one: %+v", e)
	}
}

func crowded(b *testing.B) Setting {
	s, err := load{callers: 128}.setting(8)
	if err != nil {
		b.Fatal(err)
	}
	s.Tasks, s.Seed = max(1, b.N), 1
	b.ResetTimer()
	return s
}

func BenchmarkCrowdMarket(b *testing.B) {
	all, m, _ := sell(b, crowded(b), nil)
	b.ReportMetric(float64(m.Bytes)/float64(len(all)), "journal-B/task")
}

func BenchmarkCrowdTwoBlock(b *testing.B) { routed(b, crowded(b), "two-block") }
