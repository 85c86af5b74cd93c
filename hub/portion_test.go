package hub

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"souk/bus"
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
	h.queue(many, of("llama"), worth(market.Credit/1000))
	h.pass(time.Second)
	return h
}

// queue has so many tasks of eight clients come.
func (h *house) queue(many int, change ...func(*bus.Task)) {
	for i := range many {
		client := fmt.Sprint("c", i%8)
		h.prepaid[client] = 1e6 * market.Credit
		h.must(h.n.Step(h.now, h.task(client, fmt.Sprint("t-", i), change...)))
		if i%50 == 0 {
			h.run()
		}
	}
	h.run()
}

// soon lets 20 ms pass, and has the hub do all that is due then.
func (h *house) soon() {
	h.now = h.now.Add(20 * time.Millisecond)
	h.n.Tick(h.now)
	h.run()
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

// Where many slots come free at once, more tasks can matter than a round may hold, and who came last would be
// left out. So the slots are sold in several rounds of the moment: a dear bid that came behind 2,000 others
// has one of them, and every slot is sold then.
func TestADearBidHasASlotHoweverManyComeFree(t *testing.T) {
	for _, c := range []struct {
		agents, slots int
		clarke        string
	}{{8, 8, market.ClarkeClient}, {8, 8, market.ClarkeTask}, {64, 8, market.ClarkeClient},
		{300, 1, market.ClarkeClient}, {2, 200, market.ClarkeClient}} {
		t.Run(fmt.Sprintf("%dx%d/%s", c.agents, c.slots, c.clarke), func(t *testing.T) {
			h := behindMany(t, 2000, func(cfg *Config) { cfg.Clarke = c.clarke })
			h.prepaid["bob"] = 1000 * market.Credit
			h.must(h.step(h.task("bob", "dear", of("llama"), worth(market.Credit))))
			h.pass(50 * time.Millisecond)
			for i := range c.agents {
				h.must(h.n.Join(h.now,
					registration(fmt.Sprint("n-", i), "llama", c.slots, 0.9, card(1, 1, 4))))
			}
			// of another model: nobody who waits may go there
			h.must(h.n.Join(h.now, registration("other", "mistral", 300, 0.9, card(1, 1, 4))))
			before, sold := h.lastRound().Round.Number, len(h.dispatched)
			h.soon()
			if sold = len(h.dispatched) - sold; sold != c.agents*c.slots {
				t.Errorf("%d of %d slots are sold", sold, c.agents*c.slots)
			}
			if got := h.n.known[taskKey{"bob", "dear"}].state; got != running {
				t.Errorf("the dear bid is left in state %d", got)
			}
			rounds := h.lastRound().Round.Number - before
			if p := h.lastRound().Round.Pruned; p.Beyond > 0 ||
				rounds < 2 && c.clarke == market.ClarkeClient {
				t.Errorf("%d rounds, of whose last %+v is left out", rounds, p)
			}
			h.audited()
		})
	}
}

// Where nobody wants the slots of the first agents, those of the others are looked at, and that ends.
func TestAllPortionsAreOffered(t *testing.T) {
	h := behindMany(t, 600, nil)
	before := len(h.dispatched)
	for i := range 30 {
		price := card(1, 1, 4)
		if i != 17 {
			price = unaffordable
		}
		h.must(h.n.Join(h.now, registration(fmt.Sprint("n-", i), "llama", 8, 0.9, price)))
	}
	h.soon()
	if got := len(h.dispatched) - before; got != 8 {
		t.Errorf("%d slots are sold, want those of the one agent that anybody can pay", got)
	}
	if n := h.n.batch.Len(); n != 0 {
		t.Errorf("%d tasks do not wait for news", n)
	}
	h.audited()
}

// Which agents are sold first follows from no bid.
func TestPortionsReadNoBid(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	sold := func(terms func(*bus.Task)) (agents []string) {
		h := behindMany(t, 0, nil)
		h.queue(900, terms)
		h.pass(time.Second)
		for i := range 30 {
			h.must(h.n.Join(h.now, registration(fmt.Sprint("n-", i), "llama", 1+i%9, 0.9, card(1, 1, 4))))
		}
		h.now = h.now.Add(20 * time.Millisecond)
		h.n.Tick(h.now)
		h.n.Ready()
		for _, a := range h.n.round.agents {
			agents = append(agents, a.id)
		}
		return agents
	}
	one := sold(worth(market.Credit))
	other := sold(func(m *bus.Task) { worth(1 + market.Credits(rng.Int64N(1e9)))(m) })
	if len(one) == 0 || len(one) == 30 || !slices.Equal(one, other) {
		t.Errorf("sold first are %v, and with other bids %v", one, other)
	}
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

// A task that comes between two portions is offered the slots of the first, too, which nobody else took.
func TestWhoComesBetweenPortionsIsOfferedAllSlots(t *testing.T) {
	last := map[string]bool{}
	// sold has the first portions sold of twelve agents, and leaves those that are last.
	sold := func() *house {
		h := behindMany(t, 600, nil)
		h.prepaid["bob"] = 1000 * market.Credit
		h.must(h.step(h.task("bob", "early", worth(200*market.Credit)))) // the hub has his money
		h.must(h.step(&bus.Cancel{Client: "bob", Task: "early"}))
		for i := range 12 {
			reg := registration(fmt.Sprint("n-", i), "llama", 8, 0.9, unaffordable)
			if last[reg.Agent] {
				reg.MaxModelLen = 150
			}
			h.must(h.n.Join(h.now, reg))
		}
		h.now = h.now.Add(20 * time.Millisecond)
		h.n.Tick(h.now)
		for range 2 {
			h.once()
		}
		if !h.n.round.portions.more {
			t.Fatal("all were sold: the test sees nothing")
		}
		return h
	}
	h := sold()
	first := map[string]bool{}
	for _, a := range h.n.round.agents {
		first[a.id] = true
	}
	for h.n.round.portions.more {
		h.once()
	}
	for _, a := range h.n.round.agents {
		last[a.id] = true
	}
	h = sold()
	before := len(h.dispatched)
	h.must(h.n.Step(h.now, h.task("bob", "dear", worth(100*market.Credit), func(m *bus.Task) {
		m.MaxTokens, m.Prompt.Tokens, m.Prompt.Bytes = 60, 200, 800
		m.Prompt.Marks[0].Bytes = 800
	})))
	h.run()
	h.pass(20 * time.Millisecond)
	if got := h.n.known[taskKey{"bob", "dear"}].state; got != running || len(h.dispatched) == before {
		t.Errorf("the task is in state %d, where a free slot of %v suits it, and none of %v", got, first, last)
	}
	if !h.wake.After(h.now) {
		t.Errorf("the hub wakes at %v for those that wait for news, at %v", h.wake, h.now)
	}
}

// Agents that are given less than they have slots for, as they then have enough to compute, take more once it
// is known how little that was: whichever agents are sold last, and where nobody wants these.
func TestAnAgentOfAnEarlierPortionTakesMore(t *testing.T) {
	for _, dear := range []int{0, 5, 15, 18} {
		h := crowdHouse(t, 2048, func(cfg *Config) {
			cfg.Crowd, cfg.Silence = Default().Crowd, time.Hour
			cfg.Seed.Every, cfg.Seats.Depth = 0, time.Hour
		})
		var all []bus.Dispatch
		for i := range 10 {
			all = append(all, h.busy(fmt.Sprint("n-", i), "llama", 8)...)
		}
		short := func(m *bus.Task) { m.Prompt.Tokens, m.Prompt.Bytes, m.Prompt.Marks[0].Bytes = 10, 40, 40 }
		h.queue(700, worth(market.Credit/100), short)
		h.pass(time.Second)
		for i := range dear {
			h.must(h.n.Join(h.now, registration(fmt.Sprint("dear-", i), "llama", 8, 0.9, unaffordable)))
		}
		h.n.cfg.Seats.Depth = 2 * h.n.lookup("n-0").seats.Usual()
		for _, d := range all {
			h.must(h.n.Step(h.now, completion(h.agentOf(d), d, market.Usage{Prompt: 100, Output: 10})))
		}
		h.soon()
		if h.n.lookup("n-0").free(h.n) == 0 {
			t.Fatalf("%d dear: it is given all: the test sees nothing", dear)
		}
		if h.n.batch.Len() == 0 {
			t.Errorf("%d dear: all wait for news, beside %d slots", dear, h.n.freeSlots(1000))
		}
	}
}

// Where an agent has more slots than a round may hold tasks for, it sells the others in the next, also if the
// agents after it are of another model.
func TestALargeAgentOfAnEarlierPortionSellsAllSlots(t *testing.T) {
	h := behindMany(t, 0, nil)
	h.busy("x-2", "mistral", 1)
	h.queue(1500, of("llama"), worth(market.Credit))
	for i := range 5 {
		h.must(h.n.Step(h.now, h.task("bob", fmt.Sprint("other-", i), of("mistral"))))
	}
	h.run()
	before := len(h.dispatched)
	h.must(h.n.Join(h.now, registration("large", "llama", 1000, 0.9, card(1, 1, 4))))
	for i := range 3 {
		h.must(h.n.Join(h.now, registration(fmt.Sprint("other-", i), "mistral", 300, 0.9, card(1, 1, 4))))
	}
	h.soon()
	h.pass(20 * time.Millisecond)
	if got := len(h.dispatched) - before; got != 1005 {
		t.Errorf("%d slots are sold, want those of the large agent, and 5", got)
	}
	h.audited()
}

// Where there are slots for all who come at once, each goes home, also if these are more than a round holds.
func TestWhoComesAtOnceGoesHome(t *testing.T) {
	h := crowdHouse(t, 2048, func(cfg *Config) {
		cfg.Crowd, cfg.Silence = Default().Crowd, time.Hour
		cfg.Batch.MaxBatch, cfg.Seed.Every = 64, 0
	})
	for i := range 64 {
		h.join(fmt.Sprint("n-", i), "llama", 16, 0.9, card(1, 0, 4))
	}
	home := map[string]string{}
	turn := func(number, from, to int) {
		for i := from; i < to; i++ {
			client := fmt.Sprint("c", i%8)
			h.prepaid[client] = 1e5 * market.Credit
			h.must(h.n.Step(h.now, h.task(client, fmt.Sprint("t-", number, "-", i), func(m *bus.Task) {
				m.Session = fmt.Sprint("s", i)
				m.Prompt.Tokens, m.Prompt.Bytes, m.Prompt.Marks[0].Bytes = 4000, 16000, 16000
			})))
		}
		h.run()
		h.pass(20 * time.Millisecond)
	}
	for from := 0; from < 600; from += 50 {
		turn(1, from, from+50)
		for _, d := range h.dispatched {
			home[d.Task.Session] = h.agentOf(d)
			h.accept(d)
			h.must(h.n.Step(h.now, completion(h.agentOf(d), d, market.Usage{Prompt: 4000, Output: 10})))
		}
		h.dispatched = nil
		h.run()
		h.pass(time.Second)
	}
	turn(2, 0, 600)
	same := 0
	for _, d := range h.dispatched {
		if home[d.Task.Session] == h.agentOf(d) {
			same++
		}
	}
	if len(home) != 600 || same < 590 {
		t.Errorf("of %d tasks %d are served, %d of them at home", len(home), len(h.dispatched), same)
	}
}
