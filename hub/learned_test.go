package hub_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/learned"
	"souk/hub"
	"souk/market"
)

// A hub that was started anew quotes as the one before would, to the last bit, once it has read what that had
// learned; but agents that have another model by then, which it knows nothing of.
func TestAHubGoesOnWithWhatItLearned(t *testing.T) {
	h := newHouse(t, nil)
	agents := []string{"a-1", "a-2", "a-3"}
	for _, id := range agents {
		h.join(id, "llama", 2, 0.9, card(1, 1, 4))
	}
	for i := range 60 {
		for _, client := range []string{"ann", "bob"} {
			h.must(h.step(h.task(client, fmt.Sprint("t", i), worth(market.Credit))))
			d := h.take(client, fmt.Sprint("t", i))
			h.accept(d)
			c := completion(h.agentOf(d), d, market.Usage{Prompt: 110, Output: 5 + i%7})
			c.TTFTUS, c.ITLUS = int64(20_000+700*i), 9_000
			h.pass(100 * time.Millisecond)
			h.must(h.step(c))
			for _, id := range agents {
				h.must(h.summary(id, nil))
			}
		}
	}
	data, err := h.n.Forecasts.Learned(nil)
	h.must(err)
	data, err = learned.Sealed(data)
	h.must(err)
	quoted := func(h *house, id string) hub.Estimate {
		return h.n.Estimate(id, h.task("bob", "next", func(m *bus.Task) {
			worth, delta, ms := market.Credit, 0.7, int64(1000)
			m.Terms = bus.Terms{Worth: &worth, Delta: &delta, PatienceMS: &ms}
		}))
	}
	again := newHouse(t, nil)
	again.now = h.now
	cold := newHouse(t, nil)
	again.must(again.n.Forecasts.Relearn(data))
	for _, x := range []*house{again, cold} {
		for _, id := range agents[:2] {
			x.join(id, "llama", 2, 0.9, card(1, 1, 4))
		}
	}
	for _, id := range agents[:2] {
		if was, is := quoted(h, id), quoted(again, id); was != is {
			t.Errorf("%s: quoted %+v, and before %+v", id, is, was)
		}
		if first := quoted(cold, id); first.Forecast == quoted(h, id).Forecast {
			t.Fatalf("%s: %+v with and without what was learned, which shows nothing", id, first.Forecast)
		}
	}
	for _, x := range []*house{again, cold} {
		x.join("a-3", "qwen", 2, 0.9, card(1, 1, 4))
	}
	is, assumed := quoted(again, "a-3").Forecast, quoted(cold, "a-3").Forecast
	if is.TTFT != assumed.TTFT {
		t.Errorf("of another model %v is expected, want %v as of any", is.TTFT, assumed.TTFT)
	}
	err = again.n.Forecasts.Relearn(data)
	if err == nil || !strings.Contains(err.Error(), "joined already") {
		t.Errorf("read again beside agents: %v", err)
	}
	before := quoted(cold, "a-1")
	if err := cold.n.Forecasts.Relearn(data[:len(data)-1]); err == nil || quoted(cold, "a-1") != before {
		t.Errorf("a file that is cut: %v", err)
	}
}
