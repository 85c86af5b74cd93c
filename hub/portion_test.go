package hub

import (
	"fmt"
	"testing"
	"time"

	"souk/market"
)

// unaffordable is what nobody pays who bids little.
var unaffordable = card(1000, 1000, 4000)

// behindMany is a house where so many cheap tasks wait, and no slot is free.
func behindMany(t *testing.T, many int, change func(*Config)) *house {
	h := crowdHouse(t, 2048, func(cfg *Config) {
		cfg.Crowd, cfg.Silence = Default().Crowd, time.Hour
		if change != nil {
			change(cfg)
		}
	})
	h.busy("x-1", "llama", 1)
	for i := range many {
		client := fmt.Sprint("c", i%8)
		h.prepaid[client] = 1000 * market.Credit
		h.must(h.n.Step(h.now, h.task(client, fmt.Sprint("cheap-", i), worth(market.Credit/1000))))
		if i%50 == 0 {
			h.run()
		}
	}
	h.run()
	h.pass(time.Second)
	return h
}

// once is one turn of the hub, as its shell takes it between two portions.
func (h *house) once() Ready {
	r := h.n.Ready()
	for _, f := range r.Frames {
		h.must(h.replica.ApplyFrame(f))
		h.frames = append(h.frames, f)
	}
	h.dispatched = append(h.dispatched, r.Dispatches...)
	h.wake = r.Wake
	return r
}

// Where news come faster than portions, as in a crowd, all agents are looked at all the same.
func TestNewsBetweenPortionsKeepNoAgentFromItsTurn(t *testing.T) {
	h := behindMany(t, 600, nil)
	before := len(h.dispatched)
	for i := range 30 {
		price := card(1, 1, 4)
		if i != 17 {
			price = unaffordable
		}
		h.must(h.n.Join(h.now, registration(fmt.Sprint("n-", i), "llama", 8, 0.9, price)))
	}
	h.now = h.now.Add(20 * time.Millisecond)
	for range 60 {
		h.n.Tick(h.now)
		h.once()
		if len(h.dispatched)-before == 8 {
			return
		}
		h.now = h.now.Add(12 * time.Millisecond)
		h.n.news()
	}
	t.Errorf("after 60 turns %d of the 8 slots that all want are sold", len(h.dispatched)-before)
}
