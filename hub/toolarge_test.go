package hub

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// A round sends away a task that is larger than any seat, while the waiting room is full and all who have
// most tasks in it are in the round. What it had reserved lets others of its client in, one too many: the
// last to come of whoever has most has to leave, as ever.
func TestATaskTooLargeForASeatLeavesAFullRoom(t *testing.T) {
	h := newHouse(t, func(c *Config) {
		c.Seats.Sessions, c.Seats.Spare = true, 0
		c.MaxWaiting, c.MaxWaitingPerClient, c.Deadline = 4, 4, 10*time.Minute
		c.Seed.Every = 0
	})
	reg := registration("a-1", "llama", 1, 0.9, card(1, 1, 4))
	reg.BlockSize, reg.KVTokens = 10, 850
	h.must(h.n.Join(h.now, reg))
	h.run()
	h.must(h.step(h.task("bob", "b0")))
	running := h.take("bob", "b0")
	h.accept(running)
	h.prepaid["ann"] = market.Credit / 20
	h.must(h.step(h.task("ann", "large", worth(market.Credit/20), func(m *bus.Task) {
		m.Prompt.Tokens, m.Prompt.Bytes = 3000, 12000
	})))
	h.silent = true // the treasury, of the money that ann's other tasks wait for
	for i := range 3 {
		h.must(h.step(h.task("ann", fmt.Sprint("a", i), worth(market.Credit/100))))
	}
	for i := range 3 {
		h.must(h.step(h.task("bob", fmt.Sprint("b", 1+i))))
	}
	if awaiting := len(h.n.accounts["ann"].awaiting); h.n.waiting != h.n.cfg.MaxWaiting || awaiting != 3 {
		t.Fatalf("%d wait and %d await funds: the room is not full", h.n.waiting, awaiting)
	}
	h.pass(time.Second)
	h.must(h.step(completion("a-1", running, market.Usage{Prompt: 100, Output: 10})))
	h.pass(20 * time.Millisecond)
	h.want("inbox.ann.large", string(bus.CodeNoRoom))
	if got := h.running(); !strings.HasPrefix(got, "bob/b") {
		t.Errorf("handed out: %q, want one of bob's", got)
	}
	if h.n.waiting != h.n.cfg.MaxWaiting || h.n.seats.waiting != 0 {
		t.Errorf("%d wait of at most %d, %d of them for a seat", h.n.waiting, h.n.cfg.MaxWaiting,
			h.n.seats.waiting)
	}
	for _, l := range h.messages {
		if a, ok := l.Body.(*bus.Answer); ok && a.Result != nil && l.Subject == "inbox.ann.large" &&
			!strings.Contains(a.Result.Message, "no agent has seats for more than 80") {
			t.Errorf("it is told %q", a.Result.Message)
		}
	}
	h.audited()
}
