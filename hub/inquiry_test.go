package hub_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/hub/regime"
	"souk/market"
)

// quote asks and wants an answer that may be said.
func (h *house) quote(m *bus.Task) *bus.HubQuote {
	h.t.Helper()
	q := h.n.Quote(h.now, m)
	if err := q.Validate(); err != nil {
		h.t.Fatalf("quote %+v: %v", q, err)
	}
	return q
}

// Quotes change no round either where agents are full, slots have prices and many wait (D9).
func TestQuotesChangeNoContendedRound(t *testing.T) {
	for range 40 {
		seed := rand.Uint64()
		play := func(quotes int) []byte {
			h := crowdedHouse(t, seed)
			before := h.n.Print()
			session := sharedSession(rand.New(rand.NewPCG(seed, 5)))
			for i := range quotes {
				h.n.Quote(h.now, h.task("c0", fmt.Sprint("q", i), session))
			}
			if h.n.Print() != before {
				t.Fatalf("seed %d: quotes change what the hub remembers", seed)
			}
			var said []byte
			h.tell = func(r *hub.Ready) { said = append(said, hub.BytesOf(r)...) }
			h.pass(20 * time.Millisecond)
			return said
		}
		if string(play(0)) != string(play(5)) {
			t.Fatalf("seed %d: quotes change the round after them", seed)
		}
	}
}

// Where nobody else wants a slot a quote says what then happens: whether the task is served, at which agent's
// cost and time, and what it owes beside the cost.
func TestAQuoteIsWhatALoneTaskIsGiven(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	served, refused, exact := 0, 0, 0
	for range 1200 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 3))
		h := newHouse(t, func(c *hub.Config) {
			c.Fee = market.Credits(r.IntN(3)) * 700
			c.Pricing = []string{market.PricingVCG, market.PricingPosted}[r.IntN(2)]
		})
		for i := range 1 + r.IntN(4) {
			reg := registration(fmt.Sprint("a-", i), "llama", 2+r.IntN(3), 0.6+r.Float64()/3,
				card(1<<r.IntN(4), 1, market.Credits(4+r.IntN(30))))
			h.must(h.register(reg))
		}
		dear := worth(10 * market.Credit)
		for i := range r.IntN(6) {
			h.must(h.step(h.task("ann", fmt.Sprint("warm-", i), dear,
				func(m *bus.Task) { m.Session = fmt.Sprint("s-", i%3) })))
			h.pass(20 * time.Millisecond)
			if len(h.dispatched) > 0 && r.IntN(2) == 0 {
				d := h.dispatched[0]
				h.serve(h.take("ann", d.Task.ID), market.Usage{Prompt: 100, Output: 40})
			}
		}
		h.pass(time.Duration(r.IntN(3000)) * time.Millisecond)
		h.hearAll()
		if h.n.Stats().Waiting > 0 || h.n.FreeSlots() == 0 {
			continue
		}
		m := h.task("bob", "t", func(m *bus.Task) {
			m.Session, m.Terms = fmt.Sprint("s-", r.IntN(4)), randomTerms(r)
			*m.Terms.Worth /= 512
			m.Model = []string{"", "auto", "llama"}[r.IntN(3)]
		})
		q := h.quote(m)
		if len(q.Models) != 1 {
			t.Fatalf("seed %d: quote is %+v", seed, q)
		}
		x := q.Models[0]
		computes := h.n.Busy("a-0")
		h.must(h.step(m))
		waits, planned := h.n.Planned("bob", "t")
		h.pass(20 * time.Millisecond)
		var d *bus.Dispatch
		for i := range h.dispatched {
			if h.dispatched[i].Task.ID == "t" {
				d = &h.dispatched[i]
			}
		}
		takes := d != nil
		if waits && !takes && (h.n.Config().Pricing == market.PricingPosted || !planned) {
			continue // who has no slot waits while he is worth his cost, which a quote does not say
		}
		takes = takes || waits // for a slot that is to come
		if takes != x.WouldWin {
			t.Fatalf("seed %d: quoted %+v, and served is %v: %s", seed, x, takes, h.answerTo(m.Inbox))
		}
		if !takes {
			refused++
			continue
		}
		served++
		if d == nil || x.WaitMS > 0 || len(h.n.Known()) > 1 || computes {
			// its own terms may have chosen another slot, or it came behind prompts that no quote tells of
			continue
		}
		exact++
		_, ttft, _ := h.n.Held(d.Hold)
		ms := hub.Millis(ttft) // which a quote rounds up, by an eighth at most
		if d.Quoted != x.Cost || d.Premium != x.Premium || d.SlotPrice != x.SlotPrice ||
			x.TTFTMS < ms-0.001 || x.TTFTMS > ms*9/8+0.6 {
			t.Fatalf("seed %d: quoted %+v, given cost %s, premium %s, slot price %s, ttft %v", seed, x, d.Quoted,
				d.Premium, d.SlotPrice, ttft)
		}
	}
	if served < 200 || refused < 200 || exact < 10 {
		t.Errorf("%d served, %d refused, %d as quoted: nothing is shown", served, refused, exact)
	}
}

// hearAll has every agent say that it is well.
func (h *house) hearAll() {
	for _, id := range h.n.Known() {
		h.must(h.summary(id, nil))
	}
}

// What is bid decides whether the terms would win, and nothing else of a quote.
func TestBidsMoveNoQuote(t *testing.T) {
	moved := 0
	for range 200 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 11))
		h := crowdedHouse(t, seed)
		if r.IntN(2) == 0 {
			h.n.SetRegime(regime.Params{Temperature: 3 * r.Float64(), Overlap: r.Float64()})
		}
		session := sharedSession(r)
		var first *bus.HubQuote
		for i := range 8 {
			m := h.task("c1", "q", func(m *bus.Task) { m.Session, m.Prompt.Prefixes = "s", nil })
			session(m)
			m.Prompt.Prefixes = []bus.PrefixHash{{Bytes: 400, Hash: bus.SessionKey("c1", "s")}}
			m.Terms = bus.Terms{MaxPrice: new(market.MaxWorth)} // bounds nothing
			if i > 0 {
				m.Terms = randomTerms(r)
			}
			q := h.quote(m)
			for k := range q.Models {
				x := &q.Models[k]
				if x.WouldWin {
					moved++
				}
				if p := &x.Price; first != nil && k < len(first.Models) && x.WouldWin && p.Expected == p.Max {
					// it wins at another agent of the model, and pays no more than it says it does
					if p.Expected > first.Models[k].Price.Expected {
						t.Fatalf("seed %d: expects %+v on its terms, and %+v on the usual", seed, p, first.Models[k])
					}
					p.Expected, p.Min = first.Models[k].Price.Expected, first.Models[k].Price.Min
				}
				x.WouldWin, x.Price.Max = false, 0
			}
			if first == nil {
				first = q
			} else if !reflect.DeepEqual(first, q) {
				t.Fatalf("seed %d: quoted %+v, and on other terms %+v", seed, first, q)
			}
		}
	}
	if moved == 0 {
		t.Error("no terms would ever win")
	}
}

// Who finds every agent full is told how long it would wait for the next slot, as far as is known of how long
// tasks keep one, and what it would owe to those before it.
func TestAQuoteOfAFullHubSaysHowLongToWait(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	var service time.Duration
	for range 100 {
		service = h.n.Ended("a-1", 700*time.Millisecond)
	}
	h.must(h.step(h.task("ann", "t1")))
	h.accept(h.take("ann", "t1"))
	first := h.quote(h.task("bob", "q")).Models[0]
	want := hub.Millis(service.Truncate(time.Microsecond))
	if first.WaitMS < want || first.WaitMS > want*9/8 {
		t.Errorf("a wait of %v ms, want %v and at most an eighth more: until the slot is free", first.WaitMS, want)
	}
	if p := first.Price; p.Min <= 0 || p.Min > p.Expected || p.Expected > p.Max ||
		p.Expected != first.Cost+first.Premium {
		t.Errorf("%+v: want min, expected and max in this order, and cost and premium as expected", first)
	}
	if first.TTFTMS <= first.WaitMS || first.CachedShare != 0 || !first.WouldWin || first.SlotPrice != 0 {
		t.Errorf("quote is %+v: of a time to the first token that the wait is part of", first)
	}
	soon := h.now.Add(time.Duration(first.WaitMS/2) * time.Millisecond).UnixMilli()
	if q := h.quote(h.task("bob", "q", func(m *bus.Task) { m.DeadlineMS = soon })); q.Models[0].WouldWin {
		t.Errorf("a task that no slot comes free for in time would win: %+v", q)
	}
	for i := range 3 { // they stand before whoever comes now
		h.must(h.step(h.task("ann", fmt.Sprint("w", i), worth(market.Credit))))
	}
	h.n.Wake()
	h.pass(time.Millisecond)
	behind := h.quote(h.task("bob", "q")).Models[0]
	if behind.WaitMS < first.WaitMS {
		t.Errorf("behind three others a wait of %v ms, and alone %v", behind.WaitMS, first.WaitMS)
	}
}

// A quote says why there is none in the words in which the task would be refused; but not of money, which it
// does not need, nor of a client's own limits.
func TestAQuoteIsRefusedAsTheTaskWouldBe(t *testing.T) {
	agent := func(h *house) { h.join("a-1", "llama", 1, 0.9, card(1, 1, 4)) }
	for _, c := range []struct {
		name   string
		before func(*house)
		change func(*bus.Task)
		want   bus.Code
		retry  bool
	}{
		{"a client without money", agent, func(m *bus.Task) { m.Client = "nobody" }, "", false},
		{"no agent", func(*house) {}, nil, bus.CodeNoRoom, true},
		{"no engine of the model", agent, func(m *bus.Task) { m.Model = "gpt" }, bus.CodeUnknownModel, false},
		{"a prompt too long", agent, func(m *bus.Task) { m.Prompt.AtLeast = 9000 }, bus.CodePromptTooLong,
			false},
		{"no prompt", agent, func(m *bus.Task) { m.Prompt.Tokens = 0 }, bus.CodeEmptyPrompt, false},
		{"terms", agent, func(m *bus.Task) { m.Terms.Delta = new(float64) }, bus.CodeBadTerms, false},
		{"out of bounds", agent, func(m *bus.Task) { m.Turn = -1 }, bus.CodeBadRequest, false},
		{"prefixes that go back", agent, func(m *bus.Task) {
			m.Prompt.Prefixes = []bus.PrefixHash{{Bytes: 300, Hash: 1}, {Bytes: 200, Hash: 2}}
		}, bus.CodeBadRequest, false},
		{"no client", agent, func(m *bus.Task) { m.Client = "" }, bus.CodeBadRequest, false},
		{"the rest of an answer", agent, func(m *bus.Task) { m.Resume = &bus.Resume{Agent: "a-1"} },
			bus.CodeBadRequest, false},
		{"too late", agent, func(m *bus.Task) { m.DeadlineMS = 1 }, bus.CodePastDeadline, false},
		{"an agent that is silent", func(h *house) { agent(h); h.now = h.now.Add(time.Minute) }, nil,
			bus.CodeNoRoom, true},
		{"the hub stops", func(h *house) { agent(h); h.n.Drain(h.now) }, nil, bus.CodeDraining, true},
		{"the disk is full", func(h *house) { agent(h); h.n.Room(false) }, nil, bus.CodeUnavailable, true},
		{"another leads", func(h *house) { agent(h); h.n.Depose(h.now) }, nil, bus.CodeUnavailable, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t, nil)
			c.before(h)
			m := h.task("bob", "")
			if c.change != nil {
				c.change(m)
			}
			q := h.quote(m)
			if q.Code != c.want || (q.Message == "") != (c.want == "") || (q.RetryMS > 0) != c.retry ||
				(len(q.Models) > 0) != (c.want == "") {
				t.Errorf("quote is %+v, want code %q", q, c.want)
			}
		})
	}
}

// What an agent holds makes its quote cheaper, sooner and warmer; each model has one, the best first.
func TestAQuoteOfEachModel(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 2, 0.9, card(10, 1, 4))
	h.join("b-1", "qwen", 2, 0.3, card(10, 1, 4))
	h.join("b-2", "qwen", 2, 0.3, card(10, 1, 4))
	shared := func(m *bus.Task) {
		m.Prompt = bus.Prompt{Bytes: 8000, Messages: 2, Tokens: 2000,
			Prefixes: []bus.PrefixHash{{Bytes: 7900, Hash: 5}, {Bytes: 8000, Hash: uint64(len(m.ID))}}}
	}
	cold := h.quote(h.task("bob", "q", shared))
	if len(cold.Models) != 2 || cold.Models[0].Model != "llama" || cold.Models[1].Model != "qwen" {
		t.Fatalf("quote is %+v, want llama before qwen", cold)
	}
	h.must(h.step(h.task("ann", "t1", shared, func(m *bus.Task) { m.Model = "llama" })))
	h.serve(h.take("ann", "t1"), market.Usage{Prompt: 2000, Output: 40})
	warm := h.quote(h.task("bob", "q", shared))
	was, is := cold.Models[0], warm.Models[0]
	if is.CachedShare < 0.9 || is.Cost >= was.Cost || was.CachedShare != 0 {
		t.Errorf("llama cold %+v, warm %+v", was, is)
	}
	if warm.Round != cold.Round+1 || warm.Models[1] != (bus.ModelQuote{}) && warm.Models[1].CachedShare != 0 {
		t.Errorf("quote is %+v: of a round more, and of a cold qwen", warm)
	}
}

// Many models are told of up to a bound, and the best of them.
func TestAQuoteIsBounded(t *testing.T) {
	h := newHouse(t, func(c *hub.Config) { c.MaxAgents = 200 })
	for i := range 2 * bus.MaxQuoteModels {
		h.join(fmt.Sprint("a-", i), fmt.Sprint("m-", i), 1, 0.2+float64(i)/1000, card(1, 1, 4))
	}
	q := h.quote(h.task("bob", "q"))
	if len(q.Models) != bus.MaxQuoteModels || q.Models[0].Model != fmt.Sprint("m-", 2*bus.MaxQuoteModels-1) {
		t.Errorf("%d models, first %s", len(q.Models), q.Models[0].Model)
	}
	if !slices.IsSortedFunc(q.Models, func(a, b bus.ModelQuote) int {
		return int(math.Copysign(1, b.Quality-a.Quality))
	}) {
		t.Error("the best is not the first")
	}
}

// Whatever a door sends, a quote is in bounds, and nothing comes of it.
func FuzzQuote(f *testing.F) {
	h := &house{}
	for _, m := range []*bus.Task{h.task("ann", "t1"), h.task("nobody", ""),
		h.task("ann", "t2", func(m *bus.Task) { m.Prompt.Tokens, m.MaxTokens = 1<<23, 1<<24 }),
		h.task("ann", "t3", worth(market.MaxWorth), func(m *bus.Task) { m.Prompt.Loose = bus.LooseMedia })} {
		data, err := bus.Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h := newHouse(t, nil)
		h.join("a-1", "llama", 2, 0.9, card(1, 1, 4))
		h.join("a-2", "qwen", 1, 0.9, card(1, 1, 4))
		h.must(h.step(h.task("ann", "t1", func(m *bus.Task) { m.Model = "qwen" })))
		m := new(bus.Task)
		bus.DecodeForm(data, m) // what the codec refuses a careless caller may still ask
		said := len(h.messages) + len(h.frames) + len(h.dispatched)
		h.quote(m)
		if r := h.n.Ready(); !r.Empty() || said != len(h.messages)+len(h.frames)+len(h.dispatched) {
			t.Errorf("a quote makes the hub say %+v", r)
		}
	})
}
