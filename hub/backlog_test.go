package hub_test

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// A task that comes behind a long prompt is expected to wait for it, and the less the later it comes; one
// that comes behind a short prompt is not.
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
	long := h.agentOf(h.take("ann", "long"))
	h.must(h.step(h.task("ann", "short", tokens(100), worth(market.Credit))))
	short := h.agentOf(h.take("ann", "short"))
	if short == long {
		t.Fatal("the short prompt went behind the long one, and an idle agent was there")
	}
	first := func(agent string) time.Duration {
		return h.n.Estimate(agent, h.task("bob", "next")).Forecast.TTFT
	}
	takes := 8000 * 120 * time.Microsecond
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
func TestBacklogsAreFew(t *testing.T) {
	seen := map[time.Duration]bool{}
	for d := time.Duration(0); d < 10*time.Second; d += 100 * time.Microsecond {
		n := hub.Nearly(d)
		if n < d || n > d+d/8+time.Millisecond {
			t.Fatalf("%v is nearly %v", d, n)
		}
		if hub.Nearly(n) != n {
			t.Fatalf("%v is %v, and that is %v", d, n, hub.Nearly(n))
		}
		seen[n] = true
	}
	if len(seen) > 130 || !seen[0] {
		t.Errorf("ten seconds are %d", len(seen))
	}
}

// A client whose answers are short is quoted short answers, and another is not, whatever one agent says of
// the answers that it gives.
func TestAnswersAreExpectedByWhoseTheyAre(t *testing.T) {
	h := newHouse(t, nil)
	for _, id := range []string{"a-1", "a-2", "a-3", "liar"} {
		h.join(id, "llama", 1, 0.9, card(1, 1, 4))
	}
	expected := func(client string) int {
		return h.n.IdleEstimate("a-1", h.task(client, "next")).Forecast.Output
	}
	tokens := map[string]int{"ann": 5, "bob": 60}
	for i := range 40 {
		for _, client := range []string{"ann", "bob"} {
			for j := range 4 { // all agents serve
				h.must(h.step(h.task(client, fmt.Sprint("t", i, "-", j), worth(market.Credit))))
			}
			for _, d := range h.dispatched {
				u := market.Usage{Prompt: 100, Output: tokens[client]}
				if h.agentOf(d) == "liar" {
					u.Output = 100
				}
				h.serve(d, u)
			}
			h.dispatched = nil
		}
	}
	if got := expected("ann"); got < 4 || got > 9 {
		t.Errorf("of ann's answers %d tokens are expected, and they have 5", got)
	}
	if got := expected("bob"); got < 55 || got > 66 {
		t.Errorf("of bob's answers %d tokens are expected, and they have 60", got)
	}
}

// What an agent says of the prompts that it has yet to compute moves what is expected of it, and of no other.
func TestWhatAnAgentHasYetToCompute(t *testing.T) {
	h := newHouse(t, nil)
	for _, id := range []string{"a-1", "a-2"} {
		h.join(id, "llama", 4, 0.9, card(1, 1, 4))
	}
	for i := range 4 {
		h.must(h.step(h.task("ann", fmt.Sprint("t", i), worth(market.Credit), func(m *bus.Task) {
			m.Prompt = bus.Prompt{Bytes: 32_000, Messages: 1, Tokens: 8000, Text: 32_000}
		})))
	}
	if one, other := h.runningAt("a-1"), h.runningAt("a-2"); one != 2 || other != 2 {
		t.Fatalf("%d and %d tasks run", one, other)
	}
	h.pass(200 * time.Millisecond)
	says := func(prefills int) (own, others time.Duration) {
		h.must(h.summary("a-1", func(s *bus.Summary) { s.InFlight, s.Slots, s.Prefills = 2, 4, prefills }))
		return h.n.QueueAt("a-1"), h.n.QueueAt("a-2")
	}
	both, before := says(2)
	one, after := says(1)
	if one >= both || before != after {
		t.Errorf("one of two has begun: %v, and before %v; of another %v and %v", one, both, after, before)
	}
	if none, after := says(0); none != 0 || before != after {
		t.Errorf("both have: %v; of another %v and %v", none, after, before)
	}
}
