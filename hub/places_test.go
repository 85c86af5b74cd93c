package hub_test

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// Where sessions are admitted, a client that opens as many as caches hold, and asks each just often enough
// to keep its place, has a share and no more: a client that comes with small sessions waits for none of them.
// Where nobody else waits for a place it has them all.
func TestManySessionsOfOneClientKeepNobodyOut(t *testing.T) {
	for _, others := range []bool{false, true} {
		e := newEngines(t, func(c *hub.Config) { c.Sessions.Admit = true })
		e.join("a-1", "llama", 8, 0.9, card(1, 1, 4))
		e.took = func(d *bus.Dispatch) (time.Duration, market.Usage) {
			usage := market.Usage{Prompt: d.Task.Prompt.Tokens, Output: min(50, d.MaxTokens)}
			return 500 * time.Millisecond, usage
		}
		began, worst := map[string]int{}, time.Duration(0)
		e.began = func(d *bus.Dispatch) {
			began[d.Task.Client]++
			if d.Task.Client == "ann" {
				worst = max(worst, e.waited(d))
			}
		}
		places := 0
		for s := range 180 {
			for k := range 15 {
				if s%28 == 0 {
					e.ask("mallory", func(m *bus.Task) {
						m.Session = fmt.Sprint("s", k)
						m.Prompt.Tokens, m.Prompt.Bytes, m.Prompt.Prefixes[0].Bytes = 6000, 24_000, 24_000
						m.MaxTokens = 2
					})
				}
			}
			if others && s > 5 {
				e.ask("ann", func(m *bus.Task) { m.Session = fmt.Sprint("v", s) })
			}
			e.lets(time.Second)
			places = max(places, e.n.Status().Sessions.Places)
		}
		if !others {
			if began["mallory"] != 7*15 || places != 15 {
				t.Errorf("alone %d of its tasks begin, at %d places", began["mallory"], places)
			}
			continue
		}
		if began["ann"] != 174 || worst > time.Second {
			t.Errorf("%d of 174 tasks begin, after %v at most", began["ann"], worst)
		}
		if began["mallory"] < 50 {
			t.Errorf("%d of the large client's tasks begin: it has no share", began["mallory"])
		}
		e.audited()
	}
}
