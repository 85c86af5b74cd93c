package hub

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
	"unsafe"

	"souk/bus"
	"souk/hub/regime"
	"souk/ledger"
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

// Bytes are all that a Ready says.
func (r *Ready) Bytes() (b []byte) {
	add := func(m bus.Message) {
		data, err := bus.Encode(m)
		if err != nil {
			panic(err) // a Node says nothing that cannot be sent
		}
		b = append(b, data...)
	}
	for i := range r.Frames {
		b = ledger.AppendFrame(b, &r.Frames[i])
	}
	for i := range r.Dispatches {
		add(&r.Dispatches[i])
	}
	for _, l := range r.Messages {
		b = append(b, l.Subject...)
		add(l.Body)
	}
	for i := range r.Funds {
		b = append(b, r.Funds[i].Op...)
		add(&r.Funds[i].Request)
	}
	if r.Status != nil {
		add(r.Status)
	}
	return fmt.Appendln(b, r.Faults, r.Wake.UnixNano(), r.Probes, r.Placed, r.Rounds)
}

// print of all that can be reached from a value, addresses and what caches hold among it.
func printOf(v reflect.Value) uint64 {
	var h maphash.Hash
	h.SetSeed(printSeed)
	seen := map[unsafe.Pointer]reflect.Type{}
	number := func(n uint64) { maphash.WriteComparable(&h, n) }
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			p := v.UnsafePointer()
			if number(uint64(uintptr(p))); p != nil && seen[p] != v.Type() {
				seen[p] = v.Type()
				walk(v.Elem())
			}
		case reflect.Interface:
			if number(0); !v.IsNil() {
				walk(v.Elem())
			}
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i))
			}
		case reflect.Slice, reflect.Array:
			number(uint64(v.Len()))
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Map:
			keys := v.MapKeys()
			slices.SortFunc(keys, func(a, b reflect.Value) int {
				return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
			})
			for _, k := range keys {
				walk(k)
				walk(v.MapIndex(k))
			}
		case reflect.String:
			h.WriteString(v.String())
		case reflect.Bool:
			h.WriteString(fmt.Sprint(v.Bool()))
		case reflect.Float32, reflect.Float64:
			number(math.Float64bits(v.Float()))
		case reflect.Func:
			number(uint64(v.Pointer()))
		default:
			if v.CanInt() {
				number(uint64(v.Int()))
			} else {
				number(v.Uint())
			}
		}
	}
	walk(v)
	return h.Sum64()
}

var printSeed = maphash.MakeSeed()

// Print is a print of all that the Node has.
func (n *Node) Print() uint64 { return printOf(reflect.ValueOf(n)) }

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
			h.tell = func(r *Ready) { said = append(said, r.Bytes()...) }
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
		h := newHouse(t, func(c *Config) {
			c.Fee = market.Credits(r.IntN(3)) * 700
			c.Pricing = []string{market.PricingVCG, market.PricingPosted}[r.IntN(2)]
		})
		for i := range 1 + r.IntN(4) {
			reg := registration(fmt.Sprint("a-", i), "llama", 2+r.IntN(3), 0.6+r.Float64()/3,
				card(1<<r.IntN(4), 1, market.Credits(4+r.IntN(30))))
			h.must(h.n.Join(h.now, reg))
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
		if h.n.waiting > 0 || h.n.freeSlots(1) == 0 {
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
		computes := h.n.load(h.n.roster[0]).Left > 0
		h.must(h.step(m))
		in := h.n.known[taskKey{"bob", "t"}]
		waits := in != nil && in.state == waiting
		h.pass(20 * time.Millisecond)
		var d *bus.Dispatch
		for i := range h.dispatched {
			if h.dispatched[i].Task.ID == "t" {
				d = &h.dispatched[i]
			}
		}
		takes := d != nil
		if waits && !takes && (h.n.cfg.Pricing == market.PricingPosted || in.plannedFor == nil) {
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
		if d == nil || x.WaitMS > 0 || len(h.n.roster) > 1 || computes {
			// its own terms may have chosen another slot, or it came behind prompts that no quote tells of
			continue
		}
		exact++
		hold := h.n.holds[d.Hold]
		if d.Quoted != x.Cost || d.Premium != x.Premium || d.SlotPrice != x.SlotPrice ||
			math.Abs(float64(hold.ttft.Microseconds())/1000-x.TTFTMS) > 0.001 {
			t.Fatalf("seed %d: quoted %+v, given cost %s, premium %s, slot price %s, ttft %v", seed, x,
				d.Quoted,
				d.Premium, d.SlotPrice, hold.ttft)
		}
	}
	if served < 200 || refused < 200 || exact < 10 {
		t.Errorf("%d served, %d refused, %d as quoted: nothing is shown", served, refused, exact)
	}
}

// hearAll has every agent say that it is well.
func (h *house) hearAll() {
	for _, a := range h.n.roster {
		h.must(h.step(&bus.Summary{Agent: a.id, Boot: a.reg.Boot, Seq: a.seq + 1, State: bus.StateReady,
			Slots: a.slots, InFlight: len(a.holds), Price: a.price}))
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
			h.n.cfg.Regime = regime.Params{Temperature: 3 * r.Float64(), Overlap: r.Float64()}
		}
		session := sharedSession(r)
		var first *bus.HubQuote
		for i := range 8 {
			m := h.task("c1", "q", func(m *bus.Task) { m.Session, m.Prompt.Prefixes = "s", nil })
			session(m)
			m.Prompt.Prefixes = []bus.PrefixHash{{Bytes: 400, Hash: bus.SessionKey("c1", "s")}}
			if i > 0 {
				m.Terms = randomTerms(r)
			}
			q := h.quote(m)
			for k := range q.Models {
				if q.Models[k].WouldWin {
					moved++
				}
				q.Models[k].WouldWin, q.Models[k].Price.Max = false, 0
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
	class := h.n.roster[0].alike
	for range 100 {
		class.Ended(700 * time.Millisecond)
	}
	h.must(h.step(h.task("ann", "t1")))
	h.accept(h.take("ann", "t1"))
	first := h.quote(h.task("bob", "q")).Models[0]
	if want := millis(class.Service().Truncate(time.Microsecond)); first.WaitMS != want || want > 800 {
		t.Errorf("a wait of %v ms, want %v: until the slot is free", first.WaitMS, want)
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
	h.n.news()
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
		{"a prompt too long", agent, func(m *bus.Task) { m.Prompt.Tokens = 9000 }, bus.CodePromptTooLong,
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
	h := newHouse(t, func(c *Config) { c.MaxAgents = 200 })
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
