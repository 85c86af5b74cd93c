package round

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"souk/hub/estimate"
	"souk/market"
)

// A client that keeps so many slots all along has that share, however short its tasks are; ten seconds after
// it has ended half of it is left, and after an hour next to nothing. To read it changes nothing.
func TestShares(t *testing.T) {
	for _, kept := range []time.Duration{10 * time.Millisecond, time.Second, time.Minute} {
		var s Shares
		now := int64(1)
		for range int(10 * time.Minute / kept) {
			now += int64(kept)
			for range 3 {
				s.Ended(now, "ann", kept)
			}
			s.Of(now+int64(time.Second), "ann")
		}
		got := s.Of(now, "ann")
		if most := 3.0; got > most+1e-9 || got < most*.8 {
			t.Errorf("tasks of %v: a share of %.2f slots, want 3", kept, got)
		}
		if half := s.Of(now+int64(lately), "ann"); half < got*.499 || half > got*.501 {
			t.Errorf("10 s later %.2f of %.2f is left", half, got)
		}
		if rest := s.Of(now+int64(time.Hour), "ann"); rest > 0.01*got || s.Of(now, "bob") != 0 {
			t.Errorf("an hour later %.2f is left, and of who never had a slot %.2f", rest, s.Of(now, "bob"))
		}
	}
}

// Of more clients than are remembered those are that had a slot last.
func TestSharesAreBounded(t *testing.T) {
	var s Shares
	for i := range int64(2 * mostShares) {
		s.Ended(i, fmt.Sprint("c", i), time.Second)
	}
	if got := s.ended.Len(); got > mostShares {
		t.Errorf("%d clients are remembered", got)
	}
	if first, last := s.Of(1, "c0"), s.Of(1, fmt.Sprint("c", 2*mostShares-1)); first > 0 || last == 0 {
		t.Errorf("the first has %.2f, the last %.2f", first, last)
	}
}

// Everybody has a turn, once. Of one client the earliest go first; so they do of clients that have up to half
// more than the mean; and before those of who has more.
func TestTurnsOfClients(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	overs := 0
	for range 2000 {
		var s Shares
		now := int64(time.Hour)
		name := func() string { return string(rune('a' + rng.IntN(5))) }
		for range rng.IntN(20) {
			s.Ended(now-rng.Int64N(int64(20*time.Second)), name(),
				time.Duration(rng.Int64N(int64(20*time.Second))))
		}
		var running []estimate.Run
		for first, n := name(), rng.IntN(4); len(running) < n; {
			running = append(running,
				estimate.Run{Client: first, For: time.Duration(rng.Int64N(int64(time.Minute)))})
		}
		running = append(running, estimate.Run{Client: name(), For: time.Duration(rng.Int64N(int64(lately)))})
		waiters := make([]estimate.Waiter, rng.IntN(30))
		share := map[string]float64{}
		for i := range waiters {
			client := name()
			waiters[i] = estimate.Waiter{Client: client,
				InLine: time.Duration(rng.Int64N(int64(time.Minute)))}
			share[client] = s.Of(now, client)
		}
		for _, x := range running {
			if _, waits := share[x.Client]; !waits {
				share[x.Client] = s.Of(now, x.Client)
			}
			share[x.Client] += partOf(x.For)
		}
		mean := 0.0
		for _, x := range share {
			mean += x / float64(len(share))
		}
		order := s.Turns(now, running, waiters)
		all := slices.Clone(order)
		slices.Sort(all)
		for i, x := range all {
			if x != i {
				t.Fatalf("turns %v of %d tasks", order, len(waiters))
			}
		}
		// what the client of a task has, with those of it before, where that is over the mean
		over := func(i int) (x float64) {
			x = share[waiters[i].Client]
			for j := range waiters {
				if waiters[j].Client == waiters[i].Client && (waiters[j].InLine > waiters[i].InLine ||
					waiters[j].InLine == waiters[i].InLine && j < i) {
					x += partOf(usualService)
				}
			}
			if x <= evenly*mean {
				return 0
			}
			overs++
			return x
		}
		const near = 1e-9 // sums in another order
		for k := 1; k < len(order); k++ {
			i, j := order[k-1], order[k]
			if x, y := over(i), over(j); x > y+near || x > y-near && waiters[i].InLine < waiters[j].InLine {
				t.Fatalf("%+v, which has %.3f, goes before %+v, which has %.3f", waiters[i], x, waiters[j], y)
			}
		}
	}
	if overs < 1000 {
		t.Errorf("%d were over the mean: the test sees little", overs)
	}
}

// A client's flood of tasks that all wait as long as the one task of another do not grow dearer with it: the
// longer their line and the more slots they had, the less. Alone, or beside clients like it, it all counts.
func TestAFloodGrowsSlower(t *testing.T) {
	var s Shares
	now := int64(time.Hour)
	var running []estimate.Run
	for range 8 {
		running = append(running, estimate.Run{Client: "flood", For: 10 * time.Second})
	}
	waiters := []estimate.Waiter{{Client: "calm", InLine: time.Second}}
	for range 40 {
		waiters = append(waiters, estimate.Waiter{Client: "flood", InLine: time.Second})
	}
	s.Turns(now, running, waiters)
	if s.Grows(0) != 1 {
		t.Errorf("of one task beside a flood %.2f counts", s.Grows(0))
	}
	for i := 1; i < len(waiters); i++ {
		if g := s.Grows(int32(i)); g >= 0.9 || i > 1 && g >= s.Grows(int32(i-1)) {
			t.Errorf("of task %d of a flood %.2f counts, of the one before it %.2f", i, g, s.Grows(int32(i-1)))
		}
	}
	for i := range waiters {
		waiters[i].Client = fmt.Sprint("c", i)
	}
	s.Turns(now, nil, waiters)
	for i := range waiters {
		if g := s.Grows(int32(i)); g != 1 {
			t.Errorf("of task %d, beside clients like its own, %.2f counts", i, g)
		}
	}
}

// What tasks bid moves neither whose turn it is nor how much of their waiting makes a second dearer: seconds
// and bounds of a round are scaled, dealt out otherwise and drawn anew.
func TestBidsMoveNoTurn(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 5))
	slower := 0
	for range 500 {
		var s Shares
		now := int64(time.Hour)
		client := func() string { return fmt.Sprint("c", rng.IntN(1+rng.IntN(6))) }
		for range rng.IntN(30) {
			s.Ended(now-rng.Int64N(int64(20*time.Second)), client(),
				time.Duration(rng.Int64N(int64(20*time.Second))))
		}
		running := make([]estimate.Run, rng.IntN(20))
		for i := range running {
			running[i] = estimate.Run{Client: client(), For: time.Duration(rng.Int64N(int64(time.Minute)))}
		}
		waiters := make([]estimate.Waiter, 2+rng.IntN(30))
		bid := func(w *estimate.Waiter) {
			w.First, w.Most = market.Credits(rng.Int64N(1e9)), market.Credits(rng.Int64N(1e12))
			w.Second = w.First * market.Credits(1+rng.IntN(8))
		}
		for i := range waiters {
			long := time.Duration(rng.Int64N(int64(time.Minute)))
			waiters[i] = estimate.Waiter{Client: client(), InLine: long}
			bid(&waiters[i])
		}
		grows := func() (all []float64) {
			for i := range waiters {
				all = append(all, s.Grows(int32(i)))
			}
			return all
		}
		order := slices.Clone(s.Turns(now, running, waiters))
		parts := grows()
		if slices.Min(parts) < 1 {
			slower++
		}
		for _, change := range []func(i, j int){
			func(i, _ int) {
				w := &waiters[i]
				w.First, w.Second, w.Most = 100*w.First, 100*w.Second, 100*w.Most
			},
			func(i, j int) {
				a, b := &waiters[i], &waiters[j]
				a.First, b.First, a.Second, b.Second = b.First, a.First, b.Second, a.Second
				a.Most, b.Most = b.Most, a.Most
			},
			func(i, _ int) { bid(&waiters[i]) },
		} {
			for i := range waiters {
				change(i, rng.IntN(len(waiters)))
			}
			got := s.Turns(now, running, waiters)
			if !slices.Equal(got, order) || !slices.Equal(grows(), parts) {
				t.Fatalf("with other bids the turns are %v for %v, and of a wait counts %v for %v", got, order,
					grows(), parts)
			}
		}
	}
	if slower < 50 {
		t.Errorf("in %d rounds a client was over its share: the test sees little", slower)
	}
}
