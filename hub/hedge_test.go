package hub_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/hub/predict"
	"souk/market"
)

// taught is a house of agents whose first tokens have come within some 50 ms for long.
func taught(t *testing.T, agents, slots int, change func(*hub.Config)) *house {
	h := newHouse(t, change)
	for i := range agents {
		h.join(fmt.Sprintf("a-%d", i+1), "llama", slots, 0.9, card(1, 1, 4))
	}
	h.teach(50 * time.Millisecond)
	return h
}

func (h *house) teach(ttft time.Duration) {
	f := predict.Features{Prompt: 100, Counted: 100, MaxTokens: 100}
	for i := range 1000 {
		x := time.Duration(100+i*7%21-10) * ttft / 100
		for _, id := range h.n.Known() {
			h.n.Teach(id, f, predict.Observation{Prompt: 100, Output: 40, TTFT: x,
				ITL: 10 * time.Millisecond})
		}
	}
}

// late has an agent say which of its holds are.
func (h *house) late(agent string, holds ...string) {
	h.t.Helper()
	h.must(h.summary(agent, func(s *bus.Summary) { s.Late = holds }))
}

// lookupFor are the holds that agents were asked to give up, taken from the messages.
func (h *house) askedFor() (holds []string) {
	h.messages = slices.DeleteFunc(h.messages, func(l hub.Message) bool {
		c, ok := l.Body.(*bus.HoldControl)
		if ok && c.Late {
			holds = append(holds, c.Hold)
		}
		return ok && c.Late
	})
	return holds
}

// give has an agent give a hold up.
func (h *house) give(d bus.Dispatch, agent string) {
	h.t.Helper()
	h.must(h.step(&bus.Completion{Agent: agent, Boot: 1, Hold: d.Hold, Client: d.Task.Client, Task: d.Task.ID,
		Outcome: bus.OutcomeFailed, Code: bus.CodeEngineFailed, Unsaid: true, Inbox: "ack." + d.Hold}))
}

// An agent that falls silent with its slots full loses all of its tasks, half a second after they came.
func TestATaskLeavesASilentEngine(t *testing.T) {
	h := taught(t, 4, 8, nil)
	for i := range 16 {
		h.must(h.step(h.task("ann", fmt.Sprint("t", i))))
	}
	var mine []bus.Dispatch
	for _, d := range slices.Clone(h.dispatched) {
		if d.WatchMS != 500 {
			t.Fatalf("%s is watched from %d ms on, want 500", d.Task.ID, d.WatchMS)
		}
		h.accept(d)
		if h.agentOf(d) == "a-1" {
			mine = append(mine, d)
		}
	}
	if len(mine) == 0 {
		t.Fatal("a-1 has no task")
	}
	h.dispatched = nil
	h.pass(510 * time.Millisecond)
	var holds []string
	for _, d := range mine {
		holds = append(holds, d.Hold)
	}
	h.late("a-1", holds...)
	if got := h.askedFor(); !slices.Equal(got, holds) {
		t.Fatalf("a-1 is asked to give up %v, of %v", got, holds)
	}
	for _, d := range mine {
		h.give(d, "a-1")
	}
	for _, d := range mine {
		again := h.take("ann", d.Task.ID)
		if h.agentOf(again) == "a-1" || again.Task.Attempt != 1 || again.Earlier[0] != d.Hold {
			t.Errorf("%s went from a-1 to %s, attempt %d", d.Task.ID, h.agentOf(again), again.Task.Attempt)
		}
		h.serve(again, market.Usage{Prompt: 100, Output: 40})
	}
	n := int64(len(mine))
	if s := h.n.Stats(); s.Hedged != n || s.Moved != n ||
		s.Voids[bus.CodeLateFirst] != n {
		t.Errorf("%d moved for that, %d in all; void %v", s.Hedged, s.Moved, s.Voids)
	}
}

// Engines turn ten times as slow, all at once, and every first token is later than was forecast: as many
// tasks move as one agent has slots, and then one in a hundred. None moves twice for that.
func TestAWrongForecastIsNoStorm(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	h := taught(t, 4, 8, nil)
	const tasks, share, slots = 3000, 0.01, 8
	given, times := 0, map[string]int{}
	for i := range tasks {
		id := fmt.Sprint("t", i)
		h.must(h.step(h.task("ann", id)))
		for on := 0; ; on++ {
			d := h.take("ann", id)
			h.accept(d)
			h.pass(time.Duration(520+rng.IntN(200)) * time.Millisecond)
			agent := h.agentOf(d)
			h.late(agent, d.Hold)
			asked := h.askedFor()
			given += len(asked)
			times[id] += len(asked)
			if len(asked) == 0 {
				c := completion(agent, d, market.Usage{Prompt: 100, Output: 1})
				c.TTFTUS = 0 // else the next forecasts would be right
				h.must(h.step(c))
				break
			}
			h.give(d, agent)
		}
		for _, id := range h.n.Known() {
			h.late(id)
		}
	}
	if most := slots + int(share*tasks) + 2; given > most || given < slots {
		t.Errorf("of %d tasks %d were moved, want %d at most", tasks, given, most)
	}
	for id, n := range times {
		if n > 1 {
			t.Errorf("%s was moved %d times", id, n)
		}
	}
}

// What is held against an agent's first tokens lasts until its engine is started again.
func TestLateTokensAreForgotten(t *testing.T) {
	h := taught(t, 2, 8, nil)
	h.must(h.step(h.task("ann", "t1")))
	d := h.take("ann", "t1")
	h.accept(d)
	agent := h.agentOf(d)
	h.late(agent, d.Hold)
	h.must(h.register(registration(agent, "llama", 8, 0.9, card(1, 1, 4)))) // nothing new
	if h.n.Late(agent) != 1 {
		t.Error("a registration that is repeated forgets how late an agent is")
	}
	again := registration(agent, "llama", 8, 0.9, card(1, 1, 4))
	again.Boot = 2
	h.must(h.register(again))
	if h.n.Late(agent) != 0 {
		t.Error("an engine that was started again is as late as before")
	}
}

// What tasks are worth to their clients decides of none of them whether it moves, nor when.
func TestNoBidMovesATask(t *testing.T) {
	play := func(scale market.Credits) string {
		h := newHouse(t, nil)
		models := []string{"llama", "qwen", "glm"} // each task has an agent that is better, whatever it bids
		for i, model := range models {
			h.join(fmt.Sprint("a-", i+1), model, 4, 0.9, card(1, 1, 4))
			h.join(fmt.Sprint("b-", i+1), model, 4, 0.4, card(1, 1, 4))
		}
		h.teach(50 * time.Millisecond)
		var said strings.Builder
		for i := range 9 {
			w := market.Credits(1+i*5%9) * scale
			h.must(h.step(h.task("ann", fmt.Sprint("t", i), worth(w), of(models[i%3]))))
			d := h.take("ann", fmt.Sprint("t", i))
			h.accept(d)
			fmt.Fprintf(&said, "%s %d\n", d.Task.ID, d.WatchMS)
		}
		h.pass(time.Second)
		for _, id := range h.n.Known()[:2] {
			holds := h.n.HoldsAt(id)
			h.late(id, holds...)
			fmt.Fprintln(&said, id, len(holds), h.askedFor())
		}
		return said.String()
	}
	one, other := play(market.Credit/100), play(market.Credit)
	if one != other {
		t.Errorf("%s\n\nand a hundred times as dear:\n\n%s", one, other)
	}
	if !strings.Contains(one, "[hub-math/") {
		t.Errorf("nobody is asked for a task:\n%s", one)
	}
}
