package hub

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// An agent that has prompts to compute is given few tasks at a time, however many slots it has. What a task
// is charged for congestion there goes by the slots that are taken, not by those that it is not given yet.
func TestWhatAnAgentIsNotGivenNowIsNotTaken(t *testing.T) {
	h := newHouse(t, func(c *Config) {
		c.Seats, c.Silence, c.Seed.Every = Default().Seats, time.Hour, 0
		c.Deadline = 10 * time.Minute
	})
	reg := registration("a-1", "llama", 8, 0.9, card(1, 1, 4))
	reg.Tiers = []market.Tier{{Slots: 2}, {Slots: 3, Toll: -1000}, {Slots: 3, Toll: -100_000}}
	h.must(h.n.Join(h.now, reg))
	h.run()
	long := func(m *bus.Task) { m.Prompt.Tokens, m.Prompt.Bytes = 2000, 8000 }
	for _, id := range []string{"first", "second"} { // alone, before and after it is known what prompts take
		quoted := h.n.Quote(h.now, h.task("ann", id, long))
		h.must(h.step(h.task("ann", id, long)))
		d := h.take("ann", id)
		if d.Congestion != 0 || quoted.Models[0].Premium != d.Premium {
			t.Errorf("the %s task of an idle agent is charged %s for congestion, and pays %s where %s was quoted",
				id, d.Congestion, d.Premium, quoted.Models[0].Premium)
		}
		h.serve(d, market.Usage{Prompt: 2000, Output: 10})
		h.pass(time.Second)
	}
	var charged []market.Credits
	for i := range 8 {
		a := h.n.lookup("a-1")
		if most := a.seats.Most(h.n.cfg.Seats.Ahead()); most >= a.slots-i && i < 6 {
			t.Fatalf("it is given %d tasks at a time: the test sees nothing", most)
		}
		id := fmt.Sprint("t", i)
		quoted := h.n.Quote(h.now, h.task("bob", id, long))
		h.must(h.step(h.task("bob", id, long)))
		d := h.take("bob", id)
		if charged = append(charged, d.Congestion); quoted.Models[0].Premium != d.Premium {
			t.Errorf("with %d running a task pays %s, and %s was quoted", i, d.Premium,
				quoted.Models[0].Premium)
		}
		h.accept(d)
		h.pass(2 * time.Second) // its prompt is computed by then
	}
	want := "[0 0 -0.000001 -0.000001 -0.000001 -0.0001 -0.0001 -0.0001]"
	if got := fmt.Sprint(charged); got != want {
		t.Errorf("eight tasks, one after another, are charged %s for congestion, want %s", got, want)
	}
	h.audited()
}

// Slot by slot: the free ones come after those that are taken, and as many are offered as are given.
func TestTiersThatAreOffered(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		a, charges := new(agent), []market.Credits(nil)
		for k := range 1 + rng.IntN(4) {
			tier := market.Tier{Slots: 1 + rng.IntN(3), Toll: -market.Credits(10 * k)}
			a.tiers = append(a.tiers, tier)
			for range tier.Slots {
				charges = append(charges, tier.Toll)
			}
		}
		a.slots = len(charges)
		a.holds, a.stuck = make([]*hold, rng.IntN(a.slots)), rng.IntN(2)
		free := charges[min(a.slots, len(a.holds)+a.stuck):]
		if len(free) == 0 {
			continue
		}
		given, tasks := 1+rng.IntN(len(free)), 1+rng.IntN(6)
		var got []market.Credits
		for _, tier := range a.offer(nil, given, tasks, 10) {
			for range tier.Slots {
				got = append(got, tier.Toll)
			}
		}
		want := free[:given]
		if len(got) < min(given, tasks) || len(got) > given || !slices.Equal(got, want[:len(got)]) {
			t.Fatalf("tiers %v with %d taken offer %v, given %d for %d tasks: want %v", a.tiers,
				a.slots-len(free), got, given, tasks, want)
		}
	}
}
