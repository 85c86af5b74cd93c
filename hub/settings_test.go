package hub

import (
	"testing"
	"time"

	"souk/bus"
)

// An operator's settings hold for every later round, and the file's own come back when they are taken away.
func TestSettings(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 8, 0.8, card(1, 1, 4))
	no, wait := false, int64(30)
	h.must(h.n.Configure(h.now,
		&bus.MarketConfig{Domain: "math", MaxBatch: 2, MaxWaitMS: &wait, Eager: &no, Settle: "quoted"}))

	h.must(h.step(h.task("ann", "t1")))
	if len(h.dispatched) != 0 {
		t.Fatal("a fixed window clears at once")
	}
	h.pass(30 * time.Millisecond)
	d := h.take("ann", "t1")
	if d.Settle != "quoted" || h.n.cfg.market().Settle != "quoted" {
		t.Errorf("settled by %s", d.Settle)
	}
	h.must(h.step(h.task("ann", "t2")))
	h.must(h.step(h.task("ann", "t3")))
	h.take("ann", "t2") // two are a full batch
	h.take("ann", "t3")

	for _, bad := range []*bus.MarketConfig{
		{Domain: "law"}, {Domain: "math", MaxBatch: -1}, {Domain: "math", Pricing: "highest"},
		{Domain: "math", Settle: "later"},
	} {
		if h.n.Configure(h.now, bad) == nil || h.n.cfg.Batch.MaxBatch != 2 {
			t.Errorf("%+v is applied", bad)
		}
	}
	h.must(h.n.Configure(h.now, nil))
	h.must(h.step(h.task("ann", "t4")))
	if d := h.take("ann", "t4"); d.Settle != "metered" {
		t.Errorf("settled by %s", d.Settle)
	}
}
