package hub

import (
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// A task that comes behind a long prompt is expected to wait for it, and the less the later it comes; one that
// comes behind a short prompt is not.
func TestATaskWaitsForThePromptsBeforeIt(t *testing.T) {
	h := newHouse(t, nil)
	for _, id := range []string{"a-1", "a-2"} {
		h.join(id, "llama", 4, 0.9, card(1, 1, 4))
	}
	tokens := func(k int) func(*bus.Task) {
		return func(m *bus.Task) {
			m.Prompt = bus.Prompt{Bytes: 4 * k, Messages: 1, Tokens: k, Text: 4 * k}
		}
	}
	h.must(h.step(h.task("ann", "long", tokens(8000), worth(market.Credit))))
	long := h.n.lookup(h.agentOf(h.take("ann", "long")))
	h.must(h.step(h.task("ann", "short", tokens(100), worth(market.Credit))))
	short := h.n.lookup(h.agentOf(h.take("ann", "short")))
	if short == long {
		t.Fatal("the short prompt went behind the long one, and an idle agent was there")
	}
	next := &task{msg: h.task("bob", "next"), deadline: h.now.Add(time.Minute),
		terms: market.Terms{Worth: market.Credit, Delta: 0.7, Patience: time.Second}}
	first := func(a *agent) time.Duration { return h.n.quoted(next, a, h.n.burden(a)).forecast.TTFT }
	takes := 8000 * h.n.cfg.Prior.PerToken
	behind, beside := first(long), first(short)
	if behind < takes || behind > takes*5/4 || beside > takes/8 {
		t.Errorf("first tokens in %v behind a prompt that takes %v, in %v behind a short one", behind, takes,
			beside)
	}
	h.pass(takes / 2)
	if got := first(long); got > behind-takes/3 {
		t.Errorf("half of that time later it is %v, and was %v", got, behind)
	}
	h.pass(takes)
	if got := first(long); got > takes/8 {
		t.Errorf("once it should be computed it is %v", got)
	}
}

// What agents have in hand is told apart by an eighth: so a task is quoted on a few groups of agents, and no
// quote says less than what is expected.
func TestBurdensAreFew(t *testing.T) {
	seen := map[time.Duration]bool{}
	for d := time.Duration(0); d < 10*time.Second; d += 100 * time.Microsecond {
		n := nearly(d)
		if n < d || n > d+d/8+time.Millisecond {
			t.Fatalf("%v is nearly %v", d, n)
		}
		if nearly(n) != n {
			t.Fatalf("%v is %v, and that is %v", d, n, nearly(n))
		}
		seen[n] = true
	}
	if len(seen) > 130 || !seen[0] {
		t.Errorf("ten seconds are %d", len(seen))
	}
}
