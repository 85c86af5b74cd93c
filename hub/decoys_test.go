package hub_test

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// Tasks that name a worth beyond all others', and are cancelled after 5 ms, make what others pay dearer by a
// third, and not more, whatever they are worth: one plan moves a price only so far.
func TestDecoysThatAreCancelled(t *testing.T) {
	if testing.Short() {
		t.Skip("a second of computing")
	}
	const lives = 5 * time.Millisecond
	base := 0.0
	for _, w := range []market.Credits{0, market.Credit / 50, 10 * market.Credit} {
		e := newEngines(t, nil)
		e.join("a-1", "m1", 4, 0.9, card(1, 1, 4))
		e.join("a-2", "m2", 4, 0.9, card(1, 1, 4))
		var paid, quoted, evil market.Credits
		began, evils, waits := 0, 0, time.Duration(0)
		e.began = func(d *bus.Dispatch) {
			if d.Task.Client == "mallory" {
				evil += d.Premium + d.Quoted
				evils++
				return
			}
			began++
			waits += e.waited(d)
			paid += d.Premium + d.Quoted
			quoted += d.Quoted
		}
		for s := range 200 {
			for c := range 4 {
				e.ask(fmt.Sprint("c", c), func(m *bus.Task) { m.Model = []string{"m1", "m2"}[c%2] })
				e.lets(62 * time.Millisecond)
			}
			if w > 0 && s%2 == 0 {
				var ids []string
				for range 6 {
					ids = append(ids, e.ask("mallory", func(m *bus.Task) {
						m.Model, m.Terms.Worth = "m1", &w
					}))
				}
				e.lets(lives)
				for _, id := range ids {
					e.must(e.step(&bus.Cancel{Client: "mallory", Task: id, Sender: "mallory"}))
				}
			}
			e.lets(100 * time.Millisecond)
		}
		e.lets(10 * time.Second)
		x := float64(paid) / float64(max(1, quoted))
		if w == 0 {
			base = x
		}
		t.Logf("decoys worth %s: %d began, for %s; of others %d, at %.2f times the card, after %v", w, evils,
			evil, began, x, waits/time.Duration(max(1, began)))
		if began < 500 || x > 1.4*base {
			t.Errorf("decoys worth %s: %d others began, at %.2f times the card, without decoys %.2f", w, began,
				x, base)
		}
		e.audited()
	}
}
