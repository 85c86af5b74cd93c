package seat

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A turn of a client that has a hundred thousand sessions, all others having few, takes hardly longer than
// one of a client with a hundred: what is remembered of it is no work for everybody's tasks.
func TestManySessionsCostNoTime(t *testing.T) {
	turns := func(sessions int) time.Duration {
		x := New(on(), 1<<17)
		a := x.Enter(0, 1000)
		key := uint64(0)
		turn := func(name string) {
			key++
			r := x.Come(0, name, key)
			x.Award(0, &r, a, 10, 0)
			x.Served(0, &r, 10)
			x.Gone(0, &r)
		}
		turn("other")
		for range sessions {
			turn("flood")
		}
		least := time.Hour
		for range 20 {
			began := time.Now()
			for range 100 {
				turn("flood")
			}
			least = min(least, time.Since(began))
		}
		recount(t, x)
		return least
	}
	few, many := turns(100), turns(100_000)
	t.Logf("a hundred turns: %v with a hundred sessions, %v with a hundred thousand", few, many)
	if many > 8*few {
		t.Errorf("a hundred turns take %v, where they took %v", many, few)
	}
}

// Whoever comes and goes, it is known at once who has most idle sessions.
func TestWhoHasMostIdleSessions(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 5))
	x := New(on(), 300)
	a := x.Enter(0, 1000)
	var open []Turn
	for range 20_000 {
		if len(open) > 0 && (len(open) > 40 || r.IntN(2) == 0) {
			i := r.IntN(len(open))
			if r.IntN(3) > 0 {
				x.Award(0, &open[i], a, 1, 0)
				x.Served(0, &open[i], 1)
			}
			x.Gone(0, &open[i])
			open = append(open[:i], open[i+1:]...)
		} else {
			k := r.IntN(12)
			open = append(open, x.Come(0, string(rune('a'+k)), uint64(1+k*100+r.IntN(1+8*k))))
		}
		if r.IntN(20) == 0 {
			x.End(0, uint64(1+r.IntN(1200)))
		}
		most := 0
		for _, k := range x.byName {
			most = max(most, int(x.clients[k].idle))
		}
		if x.mostIdle != most {
			t.Fatalf("most idle sessions: %d, counted %d", x.mostIdle, most)
		}
	}
}
