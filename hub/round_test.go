package hub_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/ledger"
	"souk/market"
)

// crowdHouse is a house with room for so many tasks, of which one client may have all.
func crowdHouse(t *testing.T, waiting int, change func(*hub.Config)) *house {
	return newHouse(t, func(c *hub.Config) {
		c.MaxWaiting, c.MaxWaitingPerClient = waiting, waiting
		if change != nil {
			change(c)
		}
	})
}

// busy gives an agent's slots to ann, and returns their dispatches.
func (h *house) busy(id, model string, slots int) (running []bus.Dispatch) {
	h.t.Helper()
	h.join(id, model, slots, 0.9, card(1, 1, 4))
	for i := range slots {
		id := fmt.Sprintf("%s-%d", id, i)
		h.must(h.step(h.task("ann", id, func(m *bus.Task) { m.Model = model })))
		d := h.take("ann", id)
		h.accept(d)
		running = append(running, d)
	}
	return running
}

// ends completes a dispatch that was accepted.
func (h *house) ends(d bus.Dispatch) {
	h.t.Helper()
	h.must(h.step(completion(h.agentOf(d), d, market.Usage{Prompt: 100, Output: 10})))
}

// A bid worth a thousand times more than 2,000 that came before it is served with the next free slot that
// suits it, as the hub is delivered: however long they have waited, and whether those served lately were like
// them or paid what is usual, as those do that another model serves all the while.
func TestADearBidIsServedNext(t *testing.T) {
	for _, c := range []struct {
		waited   time.Duration
		patience int64 // ms
		lately   int   // cheap tasks served before
		beside   bool  // another model serves usual ones
	}{{time.Second, 10_000, 0, false}, {time.Second, 10_000, 70, false}, {time.Second, 10_000, 0, true},
		{20 * time.Second, 60_000, 70, false}, {55 * time.Second, 120_000, 70, false},
		{55 * time.Second, 600_000, 70, false}, {20 * time.Second, 60_000, 0, true},
		{55 * time.Second, 120_000, 0, true}} {
		h := crowdHouse(t, 2048, func(c *hub.Config) { c.Silence = time.Hour })
		cheap := func(m *bus.Task) {
			w, p := market.Credit/1000, c.patience
			m.Terms.Worth, m.Terms.PatienceMS = &w, &p
			if m.Model == "" {
				m.Model = "llama"
			}
		}
		h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
		for i := range c.lately {
			h.must(h.step(h.task("ann", fmt.Sprint("lately-", i), cheap)))
			h.ends(h.take("ann", fmt.Sprint("lately-", i)))
		}
		ask := func(id string, more ...func(*bus.Task)) bus.Dispatch {
			if c.lately > 0 {
				more = append(more, cheap)
			}
			h.must(h.step(h.task("ann", id, more...)))
			return h.take("ann", id)
		}
		first := ask("first")
		h.join("a-2", "qwen", 1, 0.9, card(1, 1, 4))
		other := ask("other", func(m *bus.Task) { m.Model = "qwen" })
		h.accept(first)
		h.accept(other)
		h.dispatched = nil
		for i := range 2000 {
			client := fmt.Sprint("c", i%8)
			h.prepaid[client] = 1000 * market.Credit
			h.must(h.n.Step(h.now, h.task(client, fmt.Sprint("cheap-", i), cheap)))
			if i%50 == 0 {
				h.run()
			}
		}
		h.run()
		if c.beside {
			h.join("b-1", "glm", 1, 0.9, card(1, 1, 4))
			for i := range int(c.waited / time.Second) {
				id := fmt.Sprint("usual-", i)
				h.must(h.step(h.task("ann", id, func(m *bus.Task) { m.Model = "glm" })))
				h.pass(h.n.Config().Batch.MaxWait)
				h.serve(h.take("ann", id), market.Usage{Prompt: 100, Output: 10})
				h.pass(time.Second)
			}
		} else {
			h.pass(c.waited)
		}
		h.must(h.step(h.task("bob", "dear", worth(market.Credit), func(m *bus.Task) { m.Model = "llama" })))
		h.pass(time.Second)
		if h.n.Stats().Waiting != 2001 || len(h.dispatched) > 0 {
			t.Fatalf("%+v: %d wait, dispatched are %s", c, h.n.Stats().Waiting, h.running())
		}
		h.ends(other)
		for _, d := range h.dispatched {
			if d.Task.Client == "bob" {
				t.Fatalf("%+v: a slot of another model went to %s", c, h.running())
			}
		}
		h.dispatched = nil
		h.ends(first)
		h.pass(h.n.Config().Batch.MaxWait)
		if h.running() != "bob/dear>a-1" {
			t.Errorf("%+v: the slot went to %s", c, h.running())
			continue
		}
		rec := h.lastRound()
		if p := rec.Round.Pruned; len(rec.Round.Tasks) > 20 || p.Beyond != 0 {
			t.Errorf("%+v: %d tasks are in the record, pruned are %+v", c, len(rec.Round.Tasks), p)
		}
		h.audited()
	}
}

// So is each of many, though what was served lately was as dear: no slot goes to one of 2,000 cheap tasks
// that have waited for long while a dear one waits, be the dear ones of one client or of many.
func TestDearBidsAreServedNextOneAfterAnother(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	for _, c := range []struct {
		clients, each, cheap int // of the dear, what each has, and clients of the cheap
		patience             int64
	}{{1, 70, 8, 10_000}, {4, 20, 8, 10_000}, {70, 1, 2000, 10_000}, {20, 5, 20, 10_000},
		{20, 5, 20, 1_000}} {
		h := crowdHouse(t, 2048, func(c *hub.Config) { c.Silence = time.Hour })
		at := func(w market.Credits) func(*bus.Task) {
			return func(m *bus.Task) { m.Terms.Worth, m.Terms.PatienceMS = &w, &c.patience }
		}
		h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
		h.must(h.step(h.task("ann", "first", at(market.Credit/1000))))
		runs := h.take("ann", "first")
		h.accept(runs)
		for i := range 2000 {
			client := fmt.Sprint("c", i%c.cheap)
			h.prepaid[client] = 1000 * market.Credit
			h.must(h.n.Step(h.now, h.task(client, fmt.Sprint("cheap-", i), at(market.Credit/1000))))
			if i%50 == 0 {
				h.run()
			}
		}
		h.run()
		h.pass(20 * time.Second)
		for i := range c.clients * c.each {
			client := fmt.Sprint("dear-", i%c.clients)
			h.prepaid[client] = 1000 * market.Credit
			h.must(h.step(h.task(client, fmt.Sprint("t", i), at(market.Credit))))
			h.pass(20 * time.Millisecond)
			h.ends(runs)
			if want := fmt.Sprintf("%s/t%d>a-1", client, i); h.running() != want {
				t.Errorf("%+v: the slot went to %s, want %s", c, h.running(), want)
				break
			}
			runs = h.take(client, fmt.Sprint("t", i))
			h.accept(runs)
			h.pass(100 * time.Millisecond)
		}
		h.audited()
	}
}

// A round at posted prices that is at its limit leaves out who came last, says so, and is followed by another
// at once.
func TestARoundAtItsLimitSaysSo(t *testing.T) {
	h := newHouse(t, func(c *hub.Config) { c.Batch.MaxBatch, c.Pricing = 4, market.PricingPosted })
	h.join("a-1", "llama", 20, 0.9, card(1, 1, 4))
	h.join("a-2", "llama", 20, 0.8, card(1, 1, 4))
	h.grants = append(h.grants,
		bus.Grant{Number: 1, Client: "ann", Hub: "hub-math", Amount: 100 * market.Credit})
	h.askGrants()
	for i := range 10 {
		h.now = h.now.Add(time.Microsecond)
		h.must(h.n.Step(h.now, h.task("ann", fmt.Sprintf("t%d", 9-i), worth(market.Credit<<(i%3)))))
	}
	h.run()
	var story []string
	for _, f := range h.frames {
		for _, r := range f.Records {
			if r.Kind != ledger.KindRound {
				continue
			}
			line := fmt.Sprint(r.Round.Round.Pruned.Beyond, " beyond:")
			for _, x := range r.Round.Round.Tasks {
				line += " " + string(x.ID)
			}
			story = append(story, line)
		}
	}
	if want := []string{"6 beyond: ann/t6 ann/t7 ann/t8 ann/t9", "2 beyond: ann/t2 ann/t3 ann/t4 ann/t5",
		"0 beyond: ann/t0 ann/t1"}; !slices.Equal(story, want) {
		t.Errorf("%q, want %q", story, want)
	}
	h.audited()
}

// Hundreds that wait for a slot cost nothing while there is no news: no round is made for them by time, nor
// because slots are free that do not suit them.
func TestWhoWaitsIsWokenByNewsAlone(t *testing.T) {
	h := crowdHouse(t, 2048, func(c *hub.Config) { c.Batch.Apart = 0 })
	running := h.busy("a-1", "qwen", 1)[0]
	for i := range 300 {
		h.must(h.n.Step(h.now, h.task("bob", fmt.Sprint("w", i), func(m *bus.Task) { m.Model = "qwen" })))
	}
	h.run()
	made := 0
	h.n.Limit = func() func() bool { made++; return nil }
	check := func(what string, want int, line int, f func()) {
		t.Helper()
		made = 0
		f()
		if got := made; got != want || want > 0 && h.n.LastRound() != line {
			t.Errorf("%s: %d rounds were made, the last of %d, want %d of %d", what, got,
				h.n.LastRound(), want, line)
		}
		if h.wake.IsZero() || !h.wake.After(h.now) {
			t.Errorf("%s: the hub wants to be woken at once, for nothing", what)
		}
	}
	check("an agent of another model comes", 1, 300, func() { h.join("a-2", "llama", 20, 0.9, card(1, 1, 4)) })
	check("time passes", 0, 0, func() {
		for range 1000 {
			h.pass(time.Millisecond)
		}
	})
	say := func(slots int, price market.Price) {
		h.must(h.summary("a-2", func(s *bus.Summary) { s.Slots, s.Price, s.InFlight = slots, price, 0 }))
	}
	check("the agent says what it said", 0, 0, func() { say(20, card(1, 1, 4)) })
	check("others come and go, one by one", 10, 301, func() {
		for i := range 10 {
			h.must(h.step(h.task("ann", fmt.Sprint("other-", i), func(m *bus.Task) { m.Model = "llama" })))
			h.dispatched = nil
		}
	})
	check("the agent's card changes", 1, 300, func() { say(20, card(1, 1, 2)) })
	check("it has fewer slots", 0, 0, func() { say(10, card(1, 1, 2)) })
	check("the card changes where no slot is free", 0, 0, func() { say(10, card(1, 1, 1)) })
	check("it has more slots", 1, 300, func() { say(12, card(1, 1, 1)) })
	check("the slot comes free", 1, 300, func() { h.ends(running) })
	h.audited()
}

// What a burst writes down of a task does not grow with the fleet either, be the agents idle and equal or
// each with a part of what comes: where there is a place for each task, each is left with one edge, or few.
func TestABurstsRecordDoesNotGrowWithTheFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("a second of computing")
	}
	const burst = 256
	size := map[int]int{}
	for _, fleet := range []int{64, 300, 1000} {
		h := newHouse(t, nil)
		for i := range fleet {
			h.must(h.register(registration(fmt.Sprintf("a-%04d", i), "llama", 4, 0.9, card(1, 1, 4))))
		}
		h.run()
		before := len(h.frames)
		for turn := range 4 {
			h.now = h.now.Add(time.Second)
			for i := range burst {
				h.must(h.n.Step(h.now, h.task("ann", fmt.Sprintf("t%d-%d", turn, i),
					func(m *bus.Task) { m.Session = fmt.Sprint("s", i*7%burst) })))
			}
			h.run()
			if len(h.dispatched) != burst {
				t.Fatalf("%d agents: %d of %d tasks were placed", fleet, len(h.dispatched), burst)
			}
			for _, d := range h.dispatched {
				h.serve(d, market.Usage{Prompt: 100, Output: 10})
			}
			h.dispatched = nil
		}
		for i := range h.frames[before:] {
			size[fleet] += len(ledger.AppendFrame(nil, &h.frames[before+i]))
		}
		size[fleet] /= 4 * burst
		edges := 0
		for _, f := range h.frames[before:] {
			for _, r := range f.Records {
				if r.Round != nil {
					edges += len(r.Round.Round.Edges)
				}
			}
		}
		t.Logf("%d agents: %d bytes a task, %d edges of %d tasks", fleet, size[fleet], edges, 4*burst)
		if edges > 4*burst*5/4 {
			t.Errorf("%d agents: %d edges of %d tasks, each of which has a place", fleet, edges, 4*burst)
		}
		h.audited()
	}
	if size[300] > size[64]*6/5 || size[1000] > size[64]*6/5 {
		t.Errorf("%d bytes a task of 64 agents, %d of 300, %d of 1,000", size[64], size[300], size[1000])
	}
}

// What a round of one task, served, writes down does not grow with the fleet, be its agents alike or each
// with a card of its own, and be the session known or new.
func TestARecordDoesNotGrowWithTheFleet(t *testing.T) {
	for _, own := range []bool{false, true} {
		size := map[int]int{}
		for _, fleet := range []int{16, 1000} {
			h := newHouse(t, nil)
			for i := range fleet {
				price := card(1, 1, 4)
				if own {
					price.Out += market.Credits(i)
				}
				h.must(h.register(registration(fmt.Sprintf("a-%04d", i), "llama", 4, 0.9, price)))
			}
			h.run()
			served := map[string]bool{}
			before := len(h.frames)
			for i := range 64 {
				h.now = h.now.Add(time.Millisecond)
				h.must(h.step(h.task("ann", fmt.Sprint("t", i),
					func(m *bus.Task) { m.Session = fmt.Sprint("s", i%16) })))
				d := h.dispatched[0]
				h.dispatched = nil
				served[h.agentOf(d)] = true
				h.serve(d, market.Usage{Prompt: 100, Output: 10})
			}
			for i := range h.frames[before:] {
				size[fleet] += len(ledger.AppendFrame(nil, &h.frames[before+i]))
			}
			if !own && len(served) < 8 {
				t.Errorf("%d equal agents: %d of them served 16 sessions", fleet, len(served))
			}
			h.audited()
		}
		t.Logf("cards of their own: %v; %d bytes a task of 16 agents, %d of 1,000", own, size[16]/64,
			size[1000]/64)
		if size[1000] > size[16]*6/5 {
			t.Errorf("cards of their own: %v: %d bytes of 16 agents, %d of 1,000", own, size[16], size[1000])
		}
	}
}

// What ends within a moment of a crowd is one round: its slots are given away together, no later than
// max_wait after the first.
func TestEndsOfAMomentAreOneRound(t *testing.T) {
	h := crowdHouse(t, 2048, nil)
	running := h.busy("a-1", "llama", 4)
	for i := range 300 {
		h.must(h.n.Step(h.now, h.task("bob", fmt.Sprint("w", i))))
	}
	h.run()
	h.ends(running[0])
	h.pass(time.Second)
	h.pass(time.Second)
	rounds, served := h.n.Stats().Rounds, len(h.dispatched)
	for _, d := range running[1:] {
		h.ends(d)
		h.pass(3 * time.Millisecond)
	}
	if got := h.n.Stats().Rounds - rounds; got != 1 || len(h.dispatched) != served+1 {
		t.Errorf("%d rounds gave %d slots away before the crowd was to be looked at again, want one of one", got,
			len(h.dispatched)-served)
	}
	if d := h.wake.Sub(h.now); d != time.Millisecond {
		t.Errorf("the hub wants to be woken in %v, want 1 ms: 10 after the last round", d)
	}
	h.pass(time.Millisecond)
	if got := h.n.Stats().Rounds - rounds; got != 2 || len(h.dispatched) != served+3 {
		t.Errorf("%d rounds gave %d slots away, want two of three", got, len(h.dispatched)-served)
	}
	h.audited()
}
