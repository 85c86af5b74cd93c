package hub_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/hub/regime"
	"souk/market"
)

// crowded plays tasks that come at a steady rate for some time, and which agents of eight slots together
// serve in 400 ms each, a few of which end at a time: twenty a second at most. Task i is worth what worths
// says. It returns the regime and what it goes by every second.
func crowded(t *testing.T, rate float64, length time.Duration, worths func(i int) market.Credits,
	change func(*hub.Config)) (*house, []string) {
	h := newHouse(t, change)
	for _, id := range []string{"a-1", "a-2"} {
		h.join(id, "llama", 4, 0.9, card(1, 1, 4))
	}
	type running struct {
		d  bus.Dispatch
		at time.Time
	}
	var runs []running
	var read []string
	for i, end, next := 0, h.now.Add(length), h.now; h.now.Before(end); {
		for ; !next.After(h.now); i++ {
			client := fmt.Sprint("c-", i%40)
			h.prepaid[client] = 1000 * market.Credit
			h.must(h.step(h.task(client, fmt.Sprint("t-", i), inNoHurry, worth(worths(i)))))
			next = next.Add(time.Duration(float64(time.Second) / rate))
		}
		h.pass(20 * time.Millisecond)
		for _, d := range h.dispatched {
			h.accept(d)
			runs = append(runs, running{d, h.now.Add(400 * time.Millisecond)})
		}
		h.dispatched = nil
		for h.now.Sub(start)%(100*time.Millisecond) == 0 && len(runs) > 0 && !runs[0].at.After(h.now) {
			d := runs[0].d
			runs = runs[1:]
			h.must(h.n.Step(h.now, completion(h.agentOf(d), d, market.Usage{Prompt: 100, Output: 20})))
		}
		h.run() // several slots may be free at once
		if h.now.Sub(start)%time.Second == 0 {
			for _, a := range []string{"a-1", "a-2"} {
				h.must(h.summary(a, nil))
			}
			read = append(read, fmt.Sprintf("%s %.6g", h.n.Regime(), h.n.Slowdown()))
		}
	}
	return h, read
}

func alike(int) market.Credits { return market.Credit }

// Twice what the agents can serve is seen within 15 s, said in the status, and half of it never.
func TestARegimeIsSeenAndSaid(t *testing.T) {
	h, _ := crowded(t, 10, 20*time.Second, alike, nil)
	if h.n.Regime() != regime.Below || h.status.Regime != "below" {
		t.Errorf("%s at half of what there is; the status says %q", h.n.Regime(), h.status.Regime)
	}
	h, read := crowded(t, 40, 16*time.Second, alike, nil)
	if h.n.Regime() == regime.Below || h.status.Regime != h.n.Regime().String() {
		t.Errorf("%s at twice of what there is; the status says %q: %s", h.n.Regime(), h.status.Regime,
			read[len(read)-1])
	}
	if s := h.n.Stats().Regime; s.State != h.n.Regime().String() || s.Rho <= 0 {
		t.Errorf("stats %+v", s)
	}
}

// Whose tasks are worth how much moves no regime: terms are dealt out otherwise, and scaled. Tasks are alike
// in all else, else others would wait.
func TestNoBidMovesARegime(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	worths := make([]market.Credits, 700)
	for i := range worths {
		worths[i] = market.Credit/2 + market.Credits(rng.Int64N(int64(market.Credit)))
	}
	of := func(i int) market.Credits { return worths[i] }
	_, want := crowded(t, 24, 25*time.Second, of, nil)
	if strings.HasPrefix(want[len(want)-1], regime.Below.String()) {
		t.Fatalf("nobody waits: the test sees nothing: %s", want[len(want)-1])
	}
	_, scaled := crowded(t, 24, 25*time.Second, func(i int) market.Credits { return 7 * worths[i] }, nil)
	rng.Shuffle(len(worths), func(i, j int) { worths[i], worths[j] = worths[j], worths[i] })
	_, dealt := crowded(t, 24, 25*time.Second, of, nil)
	for i := range want {
		// who waits is another, and how many do, and for how long at most is nearly not
		state, _, _ := strings.Cut(want[i], " ")
		if !strings.HasPrefix(dealt[i], state) || !strings.HasPrefix(scaled[i], state) {
			t.Errorf("after %d s: %s; worths dealt out otherwise: %s; scaled: %s", i, want[i], dealt[i],
				scaled[i])
		}
	}
}
