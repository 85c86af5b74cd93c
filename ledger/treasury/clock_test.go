package treasury

import (
	"math/rand/v2"
	"testing"
	"time"

	"souk/bus"
	"souk/ledger"
)

// speaks has a hub ask what was allotted to it, by a clock that is so much behind the treasury's.
func (b *bank) speaks(hub string, behind time.Duration) {
	b.put(bus.OpAllotted, bus.FundsRequest{ID: "at", Hub: hub, Domain: "of-" + hub,
		After: b.tr.Book.LastGrant(hub), AtMS: b.now.Add(-behind).UnixMilli()})
}

// goesOn lets time pass, in which hubs speak as they do.
func (b *bank) goesOn(d time.Duration, hubs map[string]time.Duration) {
	for end := b.now.Add(d); b.now.Before(end); b.pass(bus.FundsEvery) {
		for _, hub := range []string{"h", "i", "j"} {
			if behind, ok := hubs[hub]; ok {
				b.speaks(hub, behind)
				b.replies(hub, 0, 0)
			}
		}
	}
}

const days = 24 * time.Hour

// A treasury whose clock is ahead, from when it began or from a moment on, fills budgets by the clocks of
// most hubs; and once it is set right, or where it was right, nobody waits.
func TestAClockThatIsAhead(t *testing.T) {
	all := func(d time.Duration) map[string]time.Duration {
		return map[string]time.Duration{"h": d, "i": d + time.Second, "j": d - time.Second}
	}
	for name, restart := range map[string]bool{"it leaps": false, "it starts so": true} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t)
			b.aBudget()
			for _, hub := range []string{"h", "i", "j"} { // it deals with each
				b.speaks(hub, 0)
				b.put(bus.OpAllot, bus.FundsRequest{ID: "a" + hub, Client: "ann", Hub: hub,
					Domain: "of-" + hub, Amount: 1, Least: 1})
			}
			b.put(bus.OpPayout, bus.FundsRequest{ID: "p", Client: "ann-k", Amount: 60})
			b.goesOn(time.Minute, all(0))
			b.now = b.now.Add(5 * days) // nobody has said anything yet
			if restart {
				b.again()
			}
			b.pass(time.Second)
			b.has(map[string]int{"ann-k": 40})
			b.goesOn(time.Hour+time.Minute, all(5*days))
			b.has(map[string]int{"ann-k": 40})
			b.allowance("ann", "ann-l", ledger.EveryDay, 10) // begins as of the true day
			b.at("2027-02-06T23:59:30Z")
			b.goesOn(20*time.Second, all(5*days))
			b.has(map[string]int{"ann-k": 40})
			b.goesOn(time.Minute, all(5*days))
			b.has(map[string]int{"ann-k": 100, "ann-l": 10})
			b.put(bus.OpPayout, bus.FundsRequest{ID: "q", Client: "ann-k", Amount: 70})
			b.put(bus.OpPayout, bus.FundsRequest{ID: "r", Client: "ann-l", Amount: 10})
			b.now = b.now.Add(-5 * days) // set right
			b.goesOn(time.Minute, all(0))
			b.has(map[string]int{"ann-k": 30, "ann-l": 0})
			b.at("2027-02-02T23:59:50Z")
			b.goesOn(5*time.Second, all(0))
			b.has(map[string]int{"ann-k": 30, "ann-l": 0})
			b.goesOn(time.Minute, all(0))
			b.has(map[string]int{"ann-k": 100, "ann-l": 10})
			b.audited()
		})
	}
}

// Hubs whose clocks are wrong change nothing unless they are more than half of those that are there; and no
// hub moves a date forward.
func TestHubsWithWrongClocks(t *testing.T) {
	b := newBank(t)
	b.aBudget()
	b.goesOn(time.Minute, map[string]time.Duration{"h": 3 * days, "i": 0, "j": -9 * days})
	b.put(bus.OpPayout, bus.FundsRequest{ID: "p", Client: "ann-k", Amount: 60})
	b.goesOn(time.Hour, map[string]time.Duration{"h": 3 * days, "i": -9 * days, "j": -9 * days})
	b.has(map[string]int{"ann-k": 40})
	b.at("2027-02-02T00:00:00Z")
	b.goesOn(time.Minute, map[string]time.Duration{"h": 3 * days, "i": 0})
	b.has(map[string]int{"ann-k": 100})
	b.audited()
}

// Whatever clocks say, of a budget no more is given in a period than its amount, and the audit finds nothing.
func TestClocksGiveNobodyMore(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	for range 20 {
		b := newBank(t)
		b.aBudget()
		for i := range 40 {
			if random.IntN(4) == 0 {
				b.now = b.now.Add(time.Duration(random.Int64N(int64(6*days))) - 2*days)
			}
			if random.IntN(5) == 0 {
				b.again()
			}
			off := func() time.Duration { return time.Duration(random.Int64N(int64(8*days))) - 2*days }
			b.goesOn(time.Duration(random.Int64N(int64(time.Minute))), map[string]time.Duration{"h": off(),
				"i": off(), "j": off()})
			if got, _ := b.tr.Book.Prepaid("ann-k"); got > credits(100) || got < 0 {
				t.Fatalf("seed %d: step %d: ann-k has %s", seed, i, got)
			}
		}
		b.audited()
	}
}
