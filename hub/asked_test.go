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

// asking is a house with the policy kvcache, and an agent that holds two sessions of ann's, of which she says
// with the turn of the second that the first comes next. What is touched is listed in the second result.
func asking(t *testing.T, change func(*Config)) (*house, *[]Touch) {
	t.Helper()
	h := newHouse(t, func(c *Config) {
		c.Policies.Keep, c.Seats.Sessions, c.Seats.Touches, c.Seed.Every = "kvcache", true, true, 0
		if change != nil {
			change(c)
		}
	})
	var all []Touch
	h.tell = func(r *Ready) { all = append(all, r.Touches...) }
	h.joinTouching("a-1", 1)
	h.says("boss", "")
	return h, &all
}

// says serves a turn of a session of ann's, who says what comes next.
func (h *house) says(session, next string) {
	h.t.Helper()
	id := fmt.Sprint("t", h.n.stats.Arrived)
	h.must(h.step(h.task("ann", id, func(m *bus.Task) { m.Session, m.Next = session, next })))
	h.serve(h.take("ann", id), market.Usage{Prompt: 100, Output: 3})
}

// money is all of a client's.
func (h *house) money(client string) market.Credits {
	return h.prepaid[client] + h.n.book.Avail(client) + h.n.book.Held(client)
}

// Who says that a session comes next pays for having it used again, and nobody else does: by a hold of its
// own in a round of its own, the agent's card for what the agent says that it computed, at most for all of
// it, and neither a premium nor a fee. The journal is sound.
func TestWhoAsksForATouchPaysForIt(t *testing.T) {
	for _, c := range []struct {
		name string
		used market.Usage
		paid market.Usage
	}{
		{"all is there", market.Usage{Prompt: 101, Cached: 100, Output: 1},
			market.Usage{Prompt: 101, Cached: 100, Output: 1}},
		{"half is computed anew", market.Usage{Prompt: 101, Cached: 50, Output: 1},
			market.Usage{Prompt: 101, Cached: 50, Output: 1}},
		{"an agent that says too much", market.Usage{Prompt: 1e6, Output: 500},
			market.Usage{Prompt: 101, Output: 1}},
	} {
		h, all := asking(t, func(c *Config) { c.Fee = 500 })
		h.says("child", "boss")
		before, rounds := h.money("ann"), h.n.stats.Rounds
		h.pass(actEvery + time.Millisecond)
		if len(*all) != 1 {
			t.Fatalf("%s: touched %+v, stats %+v", c.name, *all, h.n.stats.Asked)
		}
		d := (*all)[0].Dispatch
		rec, ok := h.replica.Hold(d.Hold)
		if !ok || rec.Client != "ann" || rec.Kind != bus.DispatchPrefetch || rec.Premium+rec.Fee != 0 ||
			rec.Amount != market.WorstCase(rec.Price, 101, 1) || d.Session != bus.SessionKey("ann", "boss") ||
			d.Tokens != 100 || d.Task.Client != "ann" {
			t.Fatalf("%s: the hold %+v, %v; the dispatch %+v", c.name, rec, ok, d)
		}
		a := touchedBy((*all)[0], 0, 0)
		a.Usage = c.used
		h.must(h.step(a))
		want := rec.Price.Cost(c.paid)
		if got := before - h.money("ann"); got != want || h.n.stats.Asked.Cost != want ||
			h.n.stats.Touched.Cost != 0 || h.money("probe-math") != 0 || h.n.stats.Rounds != rounds {
			t.Errorf("%s: ann paid %s, want %s; %+v", c.name, got, want, h.n.stats.Asked)
		}
		if _, open := h.replica.Hold(d.Hold); open || h.n.heldHere() != 0 || len(h.faults) > 0 {
			t.Errorf("%s: the hold is open: %v; faults %v", c.name, open, h.faults)
		}
		if h.pass(time.Minute); len(*all) != 1 {
			t.Errorf("%s: what she said once is done %d times", c.name, len(*all))
		}
		h.audited()
	}
}

// An agent that gave it up, as a task came, or that says nothing, is paid nothing, and the client has its
// money back. So it is after an end of the hub.
func TestATouchThatWasBrokenOffCostsNothing(t *testing.T) {
	for name, end := range map[string]func(*house, Touch){
		"a task came": func(h *house, x Touch) {
			c := touchedBy(x, 0, 0)
			c.Outcome, c.Code, c.Usage = bus.OutcomeFailed, bus.CodeNoSlot, market.Usage{}
			h.must(h.step(c))
		},
		"no answer": func(h *house, _ Touch) { h.pass(tabGrace + time.Millisecond) },
		"the hub began again": func(h *house, _ Touch) {
			h.restart()
			h.must(h.n.Lead(h.now, 8))
			h.run()
		},
	} {
		h, all := asking(t, nil)
		h.says("child", "boss")
		before := h.money("ann")
		if h.pass(actEvery + time.Millisecond); len(*all) != 1 {
			t.Fatalf("%s: touched %+v", name, *all)
		}
		end(h, (*all)[0])
		if got := h.money("ann"); got != before || h.n.heldHere() != 0 || h.n.book.Held("ann") != 0 {
			t.Errorf("%s: ann has %s, and had %s; %d holds are open", name, got, before, h.n.heldHere())
		}
		if cost, captures, voids := h.paidFor(); cost != 0 || captures != 0 || voids != 1 {
			t.Errorf("%s: %s are paid by %d captures, %d are void", name, cost, captures, voids)
		}
		h.audited()
	}
}

// Nothing is touched for who has no money for it, nor at an agent that asks far more than others; and nobody
// has another client's session touched.
func TestWhatIsAskedForInVain(t *testing.T) {
	h, all := asking(t, nil)
	h.says("child", "boss")
	purse := h.n.purse("ann")
	purse.reserved += h.n.book.Avail("ann") // for tasks that wait
	h.pass(actEvery + time.Millisecond)
	if s := h.n.stats.Asked; len(*all) != 0 || s.Unfunded != 1 || s.Sent != 0 {
		t.Errorf("without money: touched %+v, %+v", *all, s)
	}
	purse.reserved = 0
	if h.pass(time.Minute); len(*all) != 0 {
		t.Errorf("much later: touched %+v", *all)
	}

	h, all = asking(t, nil)
	h.must(h.step(h.task("bob", "b1", func(m *bus.Task) { m.Session, m.Next = "spy", "boss" })))
	h.serve(h.take("bob", "b1"), market.Usage{Prompt: 100, Output: 3})
	if h.pass(time.Minute); len(*all) != 0 {
		t.Errorf("bob has ann's session touched: %+v", *all)
	}

	h, all = asking(t, func(c *Config) { c.Seed.Dearest = 2 })
	h.says("child", "boss")
	for i := range 3 {
		reg := registration(fmt.Sprint("b-", i), "llama", 1, 0.9, card(1, 1, 1))
		reg.Owner = fmt.Sprint("owner-", i)
		h.must(h.n.Join(h.now, reg))
	}
	h.pass(actEvery + time.Millisecond)
	if s := h.n.stats.Asked; len(*all) != 0 || s.TooDear != 1 {
		t.Errorf("of an agent that asks ten times as much as others: touched %+v, %+v", *all, s)
	}
}

// An agent that says that a prompt had more tokens than its hold covers is not paid for these once its client
// says that the session comes next.
func TestAPromptThatCannotBeIsNotPaidForAgain(t *testing.T) {
	h, all := asking(t, nil)
	id := fmt.Sprint("t", h.n.stats.Arrived)
	h.must(h.step(h.task("ann", id, func(m *bus.Task) { m.Session = "boss" })))
	d := h.take("ann", id)
	h.serve(d, market.Usage{Prompt: 30_000, Output: 3})
	h.says("child", "boss")
	before := h.money("ann")
	if h.pass(actEvery + time.Millisecond); len(*all) != 1 {
		t.Fatalf("touched %+v, stats %+v", *all, h.n.stats.Asked)
	}
	h.must(h.step(touchedBy((*all)[0], 30_001, 0)))
	most := market.WorstCase((*all)[0].Dispatch.Price, d.PromptMost+4, 1)
	if got := before - h.money("ann"); d.PromptMost == 0 || got > most {
		t.Errorf("ann paid %s for a prompt of at most %d tokens, which come to %s", got, d.PromptMost, most)
	}
}

// A session whose text other tasks have pushed out may be said to come next, and is computed anew. The agent
// is not blamed for that: what others' touches keep there is kept all the same. One that was believed to hold
// it is.
func TestWhatIsGoneIsNotHeldAgainstItsAgent(t *testing.T) {
	for _, c := range []struct {
		others int
		blamed bool
	}{{0, true}, {90, false}} {
		h, all := asking(t, nil)
		for i := range c.others {
			id := fmt.Sprint("other", i)
			h.must(h.step(h.task("bob", id, func(m *bus.Task) { m.Session = id })))
			h.serve(h.take("bob", id), market.Usage{Prompt: 200, Output: 3})
		}
		h.says("child", "boss")
		if h.pass(actEvery + time.Millisecond); len(*all) != 1 {
			t.Fatalf("touched %+v, stats %+v", *all, h.n.stats.Asked)
		}
		h.must(h.step(touchedBy((*all)[0], 101, 0)))
		a := h.n.roster[0]
		if may := h.n.seats.table.MayTouch(h.n.clock(), a.seats); may == c.blamed ||
			h.n.stats.Touched.Missed != 1 {
			t.Errorf("after %d others the agent may be told to touch: %v; %+v", c.others, may,
				h.n.stats.Touched)
		}
	}
}

// What is used again because clients said so is the same whatever their tasks bid: terms are scaled and dealt
// out otherwise, where all can be served.
func TestNoBidDecidesWhatIsTouched(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	play := func(terms []bus.Terms) (out []string) {
		r := rand.New(rand.NewPCG(seed, 1))
		h, all := asking(t, nil)
		for i, x := range terms {
			id := fmt.Sprint("x", i)
			client := []string{"ann", "bob"}[r.IntN(2)]
			h.must(h.step(h.task(client, id, func(m *bus.Task) {
				m.Session, m.Next, m.Terms = fmt.Sprint("s-", r.IntN(6)), fmt.Sprint("s-", r.IntN(6)), x
			})))
			h.serve(h.take(client, id), market.Usage{Prompt: 100, Output: 1 + r.IntN(40)})
			h.pass(time.Duration(500+r.IntN(2000)) * time.Millisecond)
			h.must(h.summary("a-1", uint64(i+1), nil))
			for _, touch := range *all {
				d := touch.Dispatch
				out = append(out, fmt.Sprint(h.now, touch.Agent, d.Session, d.Tokens, d.Task.Client,
					d.CostCap, d.Quoted))
				c := touchedBy(touch, d.Tokens+1, d.Tokens)
				if r.IntN(4) == 0 {
					c.Outcome, c.Code = bus.OutcomeFailed, bus.CodeNoSlot
				}
				h.must(h.step(c))
			}
			*all = nil
		}
		if len(h.faults) > 0 {
			t.Error(h.faults)
		}
		return out
	}
	r := rand.New(rand.NewPCG(seed, 2))
	var terms []bus.Terms
	for range 80 {
		x, delta := market.Credits(40_000_000)<<r.IntN(4), 0.1
		terms = append(terms, bus.Terms{Worth: &x, Delta: &delta})
	}
	first := play(terms)
	if len(first) < 10 {
		t.Fatalf("only %d touches", len(first))
	}
	r.Shuffle(len(terms), func(i, j int) { terms[i], terms[j] = terms[j], terms[i] })
	for i := range terms {
		x := *terms[i].Worth * 3
		terms[i].Worth = &x
	}
	if second := play(terms); !slices.Equal(first, second) {
		t.Errorf("with other bids other sessions are touched:\n%q\n%q", first, second)
	}
}
