package hub

import (
	"fmt"
	"math/rand/v2"
	"reflect"
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

// Which agents are sold together, and in which order, follows from no bid.
func TestPortionsReadNoBid(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	sold := func(terms func(*bus.Task)) (portions [][]string) {
		h := behindMany(t, 0, nil)
		h.queue(900, terms)
		h.pass(time.Second)
		for i := range 30 {
			h.must(h.n.Join(h.now, registration(fmt.Sprint("n-", i), "llama", 1+i%9, 0.9, card(1, 1, 4))))
		}
		h.now = h.now.Add(20 * time.Millisecond)
		h.n.Tick(h.now)
		h.n.collect()
		h.n.meetAll()
		s := &h.n.round
		for s.end = 0; s.end < len(s.agents); {
			h.n.portion()
			var ids []string
			for _, a := range s.sells() {
				ids = append(ids, a.id)
			}
			portions = append(portions, ids)
		}
		return portions
	}
	one := sold(worth(market.Credit))
	other := sold(func(m *bus.Task) { worth(1 + market.Credits(rng.Int64N(1e9)))(m) })
	if len(one) < 2 || !reflect.DeepEqual(one, other) {
		t.Errorf("sold are %v, and with other bids %v", one, other)
	}
}

// All that is free is sold in one turn of the hub: no message comes between, nor news.
func TestPortionsAreOfOneMoment(t *testing.T) {
	h := behindMany(t, 600, nil)
	for i := range 30 {
		h.must(h.n.Join(h.now, registration(fmt.Sprint("n-", i), "llama", 8, 0.9, card(1, 1, 4))))
	}
	h.now = h.now.Add(20 * time.Millisecond)
	h.n.Tick(h.now)
	r := h.n.Ready()
	if rounds := len(r.Frames); len(r.Dispatches) != 240 || rounds < 3 || rounds != r.Rounds {
		t.Errorf("in one turn of %d rounds (%d frames) %d slots are sold, want 240", r.Rounds, rounds,
			len(r.Dispatches))
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
		short := func(m *bus.Task) {
			m.Prompt.Tokens, m.Prompt.Bytes, m.Prompt.Prefixes[0].Bytes = 10, 40,
				40
		}
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
				m.Prompt.Tokens, m.Prompt.Bytes, m.Prompt.Prefixes[0].Bytes = 4000, 16000, 16000
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

// Where news come all the while and nobody can pay what is free, all of it is looked at no more often than
// rounds are held else.
func TestPortionsAmongNewsAreApart(t *testing.T) {
	h := behindMany(t, 600, nil)
	for i := range 30 {
		h.must(h.n.Join(h.now, registration(fmt.Sprint("n-", i), "llama", 8, 0.9, unaffordable)))
	}
	h.soon()
	before := h.n.round.made
	for range 200 {
		h.now = h.now.Add(time.Millisecond)
		h.n.news()
		h.n.Tick(h.now)
		h.n.Ready()
	}
	if made := h.n.round.made - before; made < 19 || made > 21 {
		t.Errorf("in 200 ms all is looked at %d times, want once each %v", made, h.n.cfg.Batch.MaxWait)
	}
}
