package hub_test

import (
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// A task that has had a slot since it was found to be outpriced, and comes back as its agent refuses it, is
// not told at once that others would have had more of a slot for two seconds.
func TestWhoHadASlotIsNotOutpricedSinceBefore(t *testing.T) {
	e := newEngines(t, nil)
	e.join("a-1", "llama", 1, 0.9, card(0, 0, 0))
	e.join("a-2", "llama", 1, 0.9, card(0, 0, 0))
	ask := func(client string, worth market.Credits, patience int64) string {
		return e.ask(client, func(m *bus.Task) {
			m.Terms = bus.Terms{Worth: &worth, Delta: new(0.5), PatienceMS: &patience, MaxPrice: &worth}
		})
	}
	ann := func() { ask("ann", market.Credit/10, 30_000) }
	for range 16 {
		ann()
		e.lets(50 * time.Millisecond)
	}
	e.lets(5 * time.Second)
	bob := "inbox.bob." + ask("bob", market.Credit/700, 600_000)
	e.lets(2900 * time.Millisecond)
	for i := 0; len(e.dispatched) == 0 && i < 100; i++ { // until the price has fallen
		e.pass(10 * time.Millisecond)
	}
	d := e.take("bob", bob[len("inbox.bob."):])
	for range 20 { // others want what it has
		ann()
		e.lets(100 * time.Millisecond)
	}
	e.must(e.step(&bus.DispatchReply{Agent: e.agentOf(d), Boot: d.Boot, Hold: d.Hold, Code: bus.CodeNoRoom}))
	e.begin()
	for range 19 {
		if ann(); e.answerTo(bob) != "" {
			t.Fatalf("it is told %q before two seconds have passed since it came back", e.answerTo(bob))
		}
		e.lets(100 * time.Millisecond)
	}
}

// A task that waits alone is not told that others would have had more of a slot: it is served as the price
// falls.
func TestWhoWaitsAloneIsNotOutpriced(t *testing.T) {
	e := newEngines(t, nil)
	e.join("a-1", "llama", 1, 0.9, card(0, 0, 0))
	ask := func(client string, worth market.Credits, patience int64) string {
		return e.ask(client, func(m *bus.Task) {
			m.Terms = bus.Terms{Worth: &worth, Delta: new(0.5), PatienceMS: &patience, MaxPrice: &worth}
		})
	}
	for range 8 {
		ask("ann", market.Credit/10, 30_000)
		e.lets(50 * time.Millisecond)
	}
	e.lets(7500 * time.Millisecond)
	bob := ask("bob", market.Credit/1000, 600_000)
	for range 200 {
		e.lets(100 * time.Millisecond)
	}
	e.want("inbox.bob."+bob, "accepted by a-1")
}
