package bus

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestLater(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, c := range []struct {
		name string
		last uint64
		at   time.Time
		n    uint64
		want bool
	}{
		{"the first, whatever it is", 0, time.Time{}, 0, true},
		{"the first of one who has spoken elsewhere", 0, time.Time{}, 1 << 50, true},
		{"the next", 7, ago(time.Second), 8, true},
		{"the same again", 7, ago(time.Second), 7, false},
		{"overtaken", 7, ago(time.Second), 6, false},
		{"some were lost", 7, ago(time.Second), 1007, true},
		{"more than can have been said", 7, ago(time.Second), 1072, false},
		{"a clock that was set back", 7, now.Add(time.Hour), 8, true},
		{"forged", 7, ago(time.Second), 1 << 50, false},
		{"after a forged one was believed", 1 << 50, ago(time.Second), 8, false},
		{"and when that has been the last for a while", 1 << 50, ago(2*time.Second + 1), 8, true},
	} {
		if got := Later(c.last, c.at, c.n, now); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Whatever one forged number is, and whenever it comes, its speaker is believed again within seconds.
func TestOneForgedNumber(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	for range 2000 {
		now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		var at time.Time
		var last uint64
		say := func(n uint64) bool {
			ok := Later(last, at, n, now)
			if ok {
				last, at = n, now
			}
			return ok
		}
		n := rng.Uint64N(1 << 40)
		for range rng.IntN(5) {
			n += 1 + rng.Uint64N(10)
			if !say(n) {
				t.Fatal("an honest number is not believed")
			}
			now = now.Add(time.Duration(10+rng.IntN(990)) * time.Millisecond)
		}
		say([]uint64{0, n, n + 1, n + 64, 1 << 50, 1<<63 - 1, 1<<64 - 1, rng.Uint64()}[rng.IntN(8)])
		for forged, ok := now, false; !ok; {
			now = now.Add(time.Duration(100+rng.IntN(900)) * time.Millisecond)
			n++
			if ok = say(n); !ok && now.Sub(forged) > 3*time.Second {
				t.Fatalf("not believed for %v", now.Sub(forged))
			}
		}
	}
}
