package virtual

import (
	"testing"
	"time"
)

// A flood of one client makes the others' first tokens no more than a fifth later where the hub keeps slots
// fairly, at the 99th percentile; without that it does, and they do not wait in one line with it: 2 s at
// most. Nobody is refused but the flood. The others have some 50 to 100 tasks in a run, so a percentile is
// one of them: of those who wait the mean of three runs counts.
func TestAFloodLeavesTheOthersAlone(t *testing.T) {
	p99 := func(rule string, flood bool, runs int) (mean time.Duration) {
		for seed := range runs {
			s, err := flooded(2, 1.7, 5)
			if err != nil {
				t.Fatal(err)
			}
			s.Seed, s.Length = uint64(seed+1), 30*time.Second
			s.Flood.From, s.Flood.To = 8*time.Second, 22*time.Second
			if !flood {
				s.Flood.Rate = 0
			}
			f, err := playFlood(s, rule)
			if err != nil {
				t.Fatal(err)
			}
			if f.Refused > 0 || f.Tasks < 50 {
				t.Errorf("%s: %d tasks of others, %d refused", rule, f.Tasks, f.Refused)
			}
			mean += time.Duration(f.P99*1e6) / time.Duration(runs)
		}
		return mean
	}
	const off, on = MarketName, MarketName + ":policies.place=fair"
	calm, without, with := p99(off, false, 1), p99(off, true, 3), p99(on, true, 1)
	t.Logf("without a flood %v, with one %v, kept fairly %v", calm, without, with)
	if with > calm*6/5 || without < calm*2 || without > 2*time.Second {
		t.Errorf("p99 of the others: without a flood %v, with one %v, kept fairly %v", calm, without, with)
	}
	if again := p99(on, false, 1); again > calm*11/10 || again < calm*9/10 {
		t.Errorf("without a flood: %v with the policy, %v without", again, calm)
	}
}
