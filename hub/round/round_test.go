package round

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"souk/market"
)

// Of the client with most waiting the newest are left out, in turn: against the plain way to say it.
func TestFit(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		clients := make([]string, rng.IntN(40))
		for i := range clients {
			clients[i] = string(rune('a' + rng.IntN(1+rng.IntN(8))))
		}
		most := rng.IntN(45)
		in := Fit(clients, most)
		if (in == nil) != (len(clients) <= most) {
			t.Fatalf("%v of %d: %v", clients, most, in)
		}
		if in == nil {
			continue
		}
		counts := map[string]int{}
		taken, least, last := 0, 1<<30, map[string]bool{}
		for i, c := range clients {
			if in[i] {
				taken++
				counts[c]++
				if last[c] {
					t.Fatalf("%v: of %s a newer one is in before an older", clients, c)
				}
			} else {
				last[c] = true
			}
		}
		for c := range last { // of whom one was left out
			least = min(least, counts[c])
		}
		for c, n := range counts {
			if n > least+1 {
				t.Fatalf("%v, at most %d: %s has %d, and another, who wants more, %d", clients, most, c, n, least)
			}
		}
		if taken != most {
			t.Fatalf("%v: %d are in, want %d", clients, taken, most)
		}
	}
}

// Whatever agents claim, their seats are such as a round may have, no more than tasks may want, and none to
// come stands before a free one.
func FuzzSeat(f *testing.F) {
	f.Add(uint64(1), int64(0), int64(0), 8)
	f.Add(uint64(2), int64(365*24*time.Hour), int64(time.Hour), 2048)
	f.Add(uint64(3), int64(-1), int64(1<<62), 1)
	f.Fuzz(func(t *testing.T, seed uint64, service, prefill int64, tasks int) {
		if tasks < 0 || tasks > 1<<14 {
			t.Skip()
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		class := &Class{}
		class.Ended(time.Duration(service))
		class.prefill = moved(0, time.Duration(prefill))
		agents := make([]Agent, 1+rng.IntN(40))
		for i := range agents {
			a := &agents[i]
			*a = Agent{Class: class, Slots: rng.IntN(1 << rng.IntN(17)),
				Ahead: time.Duration(rng.Int64() >> rng.IntN(63))}
			a.Free = rng.IntN(a.Slots + 1)
			a.Running = a.Slots - a.Free
			a.Overdue = rng.IntN(a.Running + 1)
			a.Age = time.Duration(rng.Int64() >> rng.IntN(63))
			if a.Running > a.Overdue {
				a.Since = 1 + rng.Int64N(100)
			}
		}
		Seat(agents, tasks)
		for i := range agents {
			slots, err := market.ValidateSeats(agents[i].Seats)
			if err != nil || slots > tasks+mostLater {
				t.Fatalf("%d slots for %d tasks: %v", slots, tasks, err)
			}
			last := time.Duration(0)
			for _, s := range agents[i].Seats {
				if s.In < last {
					t.Fatalf("agent %d: %v", i, agents[i].Seats)
				}
				last = s.In
			}
		}
	})
}

// An agent whose only task hangs is expected to end it no sooner than it has run so far.
func TestWhatIsOverdueIsNotExpectedToEnd(t *testing.T) {
	class := &Class{}
	agents := []Agent{{Class: class, Slots: 1, Running: 1, Overdue: 1, Age: time.Hour},
		{Class: class, Slots: 1, Running: 1, Since: 1}}
	Seat(agents, 4)
	if in := agents[0].Seats[0].In; in < time.Hour {
		t.Errorf("a task that has run for an hour is to end in %v", in)
	}
	if in := agents[1].Seats[0].In; in != usualService {
		t.Errorf("the other agent's is to end in %v, want %v", in, usualService)
	}
}

// Prices and tolls hold at every edge: none is negative, none passes its bound, and they wane by themselves.
func FuzzRate(f *testing.F) {
	f.Add(int64(1), int64(time.Second), int64(1<<62), int64(1<<61), int64(time.Second))
	f.Add(int64(24*time.Hour), int64(0), int64(market.MaxCredits), int64(0), int64(1<<62))
	f.Fuzz(func(t *testing.T, dt, service, more, others, prefill int64) {
		var r Rate
		class := &Class{}
		now := int64(1)
		for range 4 {
			others := max(0, min(more, others))
			r.Learn(now, time.Duration(service), "c", market.Credits(max(0, more)), market.Credits(others))
			r.Begun(now, class, market.Credits(more), time.Duration(prefill))
			p, w := r.Price(now), r.Without(now, "c")
			if p < 0 || p > market.MaxWorth || w < 0 || w > p {
				t.Fatalf("a price of %s, without its client %s", p, w)
			}
			tolls := NewTolls(now, []Agent{{Class: class, Rate: &r, Slots: 2, Running: 1}})
			if x := tolls.Of(0, time.Duration(max(0, service)), class.prefill); x < 0 || x > market.MaxWorth {
				t.Fatalf("a toll of %s", x)
			}
			now += max(0, min(dt, int64(365*24*time.Hour)))
			if later := r.Price(now); later > p {
				t.Fatalf("%s, and later %s", p, later)
			}
		}
	})
}

// Each seat to come counts once, by the part of it that is left; who is refused has nothing.
func TestKept(t *testing.T) {
	var k Kept
	if k.Share() != market.FullShare {
		t.Error("nothing was squeezed out yet")
	}
	k.End(0, 100, 50)
	k.End(0, 0, 7)   // it was to have nothing
	k.End(0, 100, 0) // refused
	if got := k.Share(); got != market.FullShare/4 {
		t.Errorf("a share of %d, want a quarter", got)
	}
	day := int64(24 * time.Hour)
	k.End(day, 1, market.MaxCredits)
	if got := k.Share(); got < market.FullShare*999/1000 || got > market.FullShare {
		t.Errorf("a day later one has all that it was to have, and the share is %d", got)
	}
}

// What was wanted long ago costs nothing any more: no nano-credit stays, of a price or of what a client adds
// to it, and of more clients than are remembered those who add most are.
func TestPricesEnd(t *testing.T) {
	var r Rate
	now := int64(1)
	for i := range 2 * mostExcess {
		now += int64(learns)
		r.Learn(now, time.Second, fmt.Sprint("c", i), market.Credits(1000+1000*i), 0)
	}
	if last := fmt.Sprint("c", 2*mostExcess-1); !r.Owes(last) || len(r.excess) > mostExcess {
		t.Errorf("%d clients are remembered, and the last is not", len(r.excess))
	}
	for range 200 {
		now += int64(learns)
		r.Learn(now, time.Second, "", 0, 0)
	}
	if p := r.Price(now); p != 0 || len(r.excess) > 0 {
		t.Errorf("after minutes without a wish a second costs %s, and %d clients are to blame", p, len(r.excess))
	}
}
