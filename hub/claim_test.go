package hub_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/ledger"
	"souk/market"
)

// What cannot be is settled at what can, and level 6 names agent and hold; the levels below have nothing to
// say.
func TestAnAccountThatCannotBeIsNamed(t *testing.T) {
	for name, lie := range map[string]func(*bus.Completion){
		"40 output tokens, counted from the 10 that it relayed": func(c *bus.Completion) {
			c.Usage.Output, c.Unmetered = 40, true
		},
		"101 output tokens, where the stream is cut at 100": func(c *bus.Completion) { c.Usage.Output = 101 },
		"8193 prompt tokens, where the hold covers " +
			"8192": func(c *bus.Completion) { c.Usage.Prompt = 8193 },
		"a cost of 0.00014001, where 0.00014 is due": func(c *bus.Completion) { c.Cost += 10 },
	} {
		h, d := oneRunning(t)
		h.accept(d)
		m := completion("a-1", d, market.Usage{Prompt: 100, Output: 10})
		lie(m)
		h.must(h.step(m))
		if found := h.findings(ledger.LevelAcross); len(found) > 0 || h.ack(d.Hold) != "ack " {
			t.Errorf("%s: %s, %v", name, h.ack(d.Hold), found)
		}
		found := h.findings(ledger.LevelMetering)
		if len(found) != 1 || !strings.Contains(found[0].Found, name) ||
			!strings.Contains(found[0].Expected, "agent a-1 on hold "+d.Hold) {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// What an engine's own usage says beside its token ids is on record, and level 6 alone names it; it is
// settled by the ids.
func TestAnEngineThatCountsOtherwiseIsNamed(t *testing.T) {
	h, d := oneRunning(t)
	h.accept(d)
	m := completion("a-1", d, market.Usage{Prompt: 100, Output: 10})
	m.Said = &market.Usage{Prompt: 500, Output: 50}
	h.must(h.step(m))
	if found := h.findings(ledger.LevelAcross); len(found) > 0 || h.ack(d.Hold) != "ack " {
		t.Errorf("%s, %v", h.ack(d.Hold), found)
	}
	found := h.findings(ledger.LevelMetering)
	if len(found) != 1 || !strings.Contains(found[0].Found, "500 and 50") ||
		!strings.Contains(found[0].Expected, "agent a-1's engine") ||
		!strings.Contains(found[0].Expected, "100 prompt tokens and 10 output") {
		t.Error(found)
	}
}

// A hub that starts again says the same to an agent whose account it could not take.
func TestARefusedAccountIsAnsweredAfterARestart(t *testing.T) {
	h, d := oneRunning(t)
	h.accept(d)
	m := completion("a-1", d, market.Usage{Prompt: 100, Cached: 101})
	h.step(m)
	h.restart()
	h.messages = nil
	h.must(h.n.Lead(h.now, 8))
	if h.step(m); h.ack(d.Hold) != "ack late" {
		t.Error(h.ack(d.Hold))
	}
	h.audited()
}

// Every hold's quote is its card on the tokens that it records: under each pricing rule, and for the rest of
// an answer that broke off.
func TestEveryQuoteIsItsCardOnItsTokens(t *testing.T) {
	for _, pricing := range []string{market.PricingVCG, market.PricingPosted, market.PricingTariff} {
		h := liars(t, pricing, market.SettleMetered, 0)
		for i := range 6 {
			h.must(h.step(h.task([]string{"ann", "bob"}[i%2], fmt.Sprint("s", i), worth(market.Credit),
				func(m *bus.Task) {
					m.Prompt = bus.Prompt{Bytes: 8800, Messages: 2, Tokens: 2200,
						Prefixes: []bus.PrefixHash{{Bytes: 8000, Hash: 77}, {Bytes: 8800, Hash: uint64(i)}}}
					m.Session = "again"
				})))
			h.pass(20 * time.Millisecond)
			for len(h.dispatched) > 0 {
				d := h.dispatched[0]
				h.dispatched = h.dispatched[1:]
				n := d.Task.Prompt.Tokens
				h.serve(d, market.Usage{Prompt: n, Cached: n / 3 * min(i, 2), Output: 10})
			}
		}
		m := h.task("ann", "rest", worth(market.Credit))
		h.must(h.step(m))
		d := h.take("ann", "rest")
		h.accept(d)
		failed := completion(h.agentOf(d), d, market.Usage{})
		failed.Outcome, failed.Code, failed.Relayed = bus.OutcomeFailed, bus.CodeEngineFailed, 40
		again := *h.task("ann", "rest", worth(market.Credit))
		again.Attempt, again.Resume = 1, &bus.Resume{Agent: failed.Agent, Seq: 40, Tokens: make([]uint32, 40),
			Text: "so far"}
		h.must(h.step(failed))
		if err := h.step(&again); err != nil {
			t.Fatal(err)
		}
		h.serve(h.take("ann", "rest"), market.Usage{Prompt: 140, Output: 5})
		cached, rest := 0, 0
		for _, f := range h.frames {
			for _, r := range f.Records {
				if r.Hold == nil {
					continue
				}
				cached += r.Hold.Cached
				rest += r.Hold.Attempt
				u := market.Usage{Prompt: r.Hold.Prompt, Cached: r.Hold.Cached, Output: r.Hold.Output}
				if want := r.Hold.Price.Cost(u) + r.Hold.Tariff; want != r.Hold.Quoted {
					t.Errorf("%s: %s is quoted %s, its card says %s", pricing, r.ID, r.Hold.Quoted, want)
				}
			}
		}
		if cached == 0 || rest != 1 {
			t.Errorf("%s: %d tokens predicted as cached, %d continuations: the test shows too little",
				pricing,
				cached, rest)
		}
		h.audited()
	}
}

// liars is a house with two agents, and four tasks that run on them.
func liars(t *testing.T, pricing, settle string, fee market.Credits) *house {
	h := newHouse(t, func(c *hub.Config) {
		c.Pricing, c.Settle, c.Fee = pricing, settle, fee
		if pricing == market.PricingPosted {
			c.Tariffs = map[string]market.Credits{"llama": 3000}
		}
		c.Ceiling = 100_000
	})
	h.join("a-1", "llama", 3, 0.9, card(1, 1, 4))
	h.join("a-2", "llama", 3, 0.5, card(2, 1, 4))
	for range 2 { // sealed, then open
		h.pass(200 * time.Millisecond)
		h.asks(nil)
	}
	for i, client := range []string{"ann", "bob", "ann", "bob"} {
		h.must(h.step(h.task(client, fmt.Sprint("t", i), worth(market.Credit))))
	}
	h.pass(20 * time.Millisecond)
	if len(h.dispatched) == 0 {
		t.Fatal("nothing was awarded")
	}
	return h
}

// asks answers the calls for asks that are in the messages, as an honest agent does; change makes it
// another.
func (h *house) asks(change func(*bus.Ask)) {
	var calls []*bus.Call
	h.messages = slices.DeleteFunc(h.messages, func(l hub.Message) bool {
		c, ok := l.Body.(*bus.Call)
		if ok {
			calls = append(calls, c)
		}
		return ok
	})
	for _, c := range calls {
		ask := market.Ask{Owner: c.Agent, Amount: market.Credits(c.Agent[2]) * 1000,
			Nonce: [16]byte{byte(c.Epoch)}}
		m := &bus.Ask{Agent: c.Agent, Class: c.Class, Epoch: c.Epoch, Amount: ask.Amount, Nonce: ask.Nonce[:]}
		if !c.Open {
			seal := ask.Seal(c.Class, c.Epoch)
			m.Amount, m.Nonce, m.Seal = 0, nil, seal[:]
		}
		if change != nil {
			change(m)
		}
		h.step(m)
	}
}

// draws makes an agent's messages from the fuzzer's bytes; behind their end everything is 0.
type draws []byte

func (s *draws) next() int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b)
}

// number draws a number near one at which something changes, or any.
func (s *draws) number(near ...int) int {
	near = append(near, 0, 1, 100, bus.MaxTokens)
	switch k := s.next(); {
	case k < 160:
		return near[k%len(near)] + k/len(near)%3 - 1
	default:
		return s.next()<<16 | s.next()<<8 | s.next()
	}
}

func (s *draws) word() string {
	return []string{"", "stop", "length", strings.Repeat("w", bus.MaxName), strings.Repeat("é", 80), "\x1e",
		"no word\n", string(bus.CodeNoSlot),
		string(bus.CodeBadRequest), string(bus.CodeDraining), string(bus.CodeEngineFailed),
		string(bus.CodeCancelled), string(bus.CodeUnavailable), strings.Repeat("c", bus.MaxID)}[s.next()%14]
}

// lies names whatever a reader of the rules finds impossible in an account that stands under a hold: it knows
// nothing of how the hub settles.
func lies(c *bus.Completion, h *ledger.Hold, most int) bool {
	u := c.Usage
	u.Output = min(u.Output, h.MaxTokens)
	if c.Unmetered {
		u.Output = min(u.Output, c.Relayed)
	}
	due := min(h.Price.Cost(u)+h.Tariff, h.Amount-h.Premium)
	if h.Settle == market.SettleQuoted {
		due = min(h.Quoted, h.Amount-h.Premium)
	}
	return u.Output != c.Usage.Output || c.Usage.Prompt > most || c.Cost != due
}

// Whatever an agent says, in whatever order, what the hub wrote audits clean up to level 5, level 6 names
// those whose account cannot be and nobody else, every account is acknowledged, and every slot comes free.
func FuzzWhatAnAgentSays(f *testing.F) {
	for seed := range byte(12) {
		var say []byte
		for i := range byte(90) {
			say = append(say, i*i*7+seed*29+i)
		}
		f.Add(seed, say)
	}
	f.Add(byte(0), []byte{0, 0, 0, 2, 0, 0, 3, 100, 3, 64, 3, 9, 3, 255})
	f.Fuzz(func(t *testing.T, rules byte, say []byte) {
		h := liars(t, []string{market.PricingVCG, market.PricingPosted, market.PricingTariff}[rules%3],
			[]string{market.SettleMetered, market.SettleQuoted}[rules/3%2], market.Credits(rules/6%2)*500)
		s := draws(say)
		want := map[string]bool{} // holds whose account cannot be
		for n := 0; len(s) > 0 && n < 64; n++ {
			d := h.dispatched[s.next()%len(h.dispatched)]
			agent := []string{"a-1", "a-2"}[s.next()%2]
			if rec, ok := h.replica.Hold(d.Hold); ok && s.next()%4 > 0 {
				agent = rec.Agent
			}
			switch s.next() % 6 {
			case 0:
				h.step(&bus.DispatchReply{Agent: agent, Boot: d.Boot, Hold: d.Hold, Code: bus.Code(s.word()),
					Message: s.word()})
			case 1:
				h.step(&bus.Summary{Agent: agent, Boot: 1, Seq: uint64(s.number()),
					State: []string{bus.StateReady,
						bus.StateDraining, bus.StateUnhealthy, "?"}[s.next()%4],
					Slots:    s.number(),
					InFlight: s.number(), Price: market.Price{Miss: market.Credits(s.number()) * 1000,
						Hit: market.Credits(s.number()), Out: market.Credits(s.number()) * 1000}})
			case 2:
				h.pass(time.Duration(s.next()) * 20 * time.Millisecond)
				h.asks(func(m *bus.Ask) {
					if k := s.next(); k%3 == 0 {
						m.Amount, m.Epoch = market.Credits(s.number()), uint64(s.number(int(m.Epoch)))
						m.Nonce, m.Seal = m.Nonce[:len(m.Nonce)*(k/3%2)], m.Seal[:len(m.Seal)*(k/6%2)]
					}
				})
			case 3:
				h.step(h.task("ann", fmt.Sprint("more", n), worth(market.Credit)))
				h.pass(20 * time.Millisecond)
			default:
				h.account(&s, agent, d, want)
			}
		}
		h.pass(25 * time.Hour)
		h.faults = nil
		if h.replica.OpenCount() != 0 {
			t.Errorf("%d holds are open after a day", h.replica.OpenCount())
		}
		if n := h.n.Stats().Holds; n > 0 {
			t.Errorf("%d slots are not free", n)
		}
		for level := range ledger.LevelMetering {
			for _, f := range h.findings(level) {
				t.Errorf("level %d finds %s", level, f)
			}
		}
		for _, f := range h.across() {
			t.Errorf("level 5 finds %s", f)
		}
		named := map[string]bool{}
		for _, f := range h.findings(ledger.LevelMetering) {
			hold := strings.TrimSuffix(f.Record, "/capture")
			if named[hold] = true; !want[hold] || !strings.Contains(f.Expected, " on hold "+hold) {
				t.Errorf("level 6 finds %s", f)
			}
		}
		for hold := range want {
			if !named[hold] {
				t.Errorf("level 6 does not name %s", hold)
			}
		}
	})
}

// account sends one completion, and judges what became of its hold.
func (h *house) account(s *draws, agent string, d bus.Dispatch, want map[string]bool) {
	rec, open := h.replica.Hold(d.Hold)
	most := 0
	if open {
		most = d.PromptMost
	}
	prompt := s.number(most, 100)
	c := completion(agent, d, market.Usage{Prompt: prompt, Cached: s.number(prompt),
		Output: s.number(d.MaxTokens)})
	c.Outcome = []string{bus.OutcomeDone, bus.OutcomeDone, bus.OutcomeCancelled, bus.OutcomeFailed,
		"other"}[s.next()%5]
	c.Finish, c.Code = s.word(), bus.Code(s.word())
	k := s.next()
	c.NoCacheReport, c.Unmetered, c.Unsaid = k&1 > 0, k&2 > 0, k&4 > 0
	if k&8 > 0 {
		c.Relayed = s.number(c.Usage.Output)
	}
	if k&16 > 0 {
		c.Cost = market.Credits(s.number(int(c.Cost)))
	}
	if k&96 == 96 {
		c.Boot, c.TTFTUS = int64(s.number()), int64(s.number())
	}
	h.messages = slices.DeleteFunc(h.messages, func(l hub.Message) bool {
		_,
			ack := l.Body.(*bus.CompletionAck)
		return ack
	})
	wrong := c.Validate()
	before := h.replica.Balance(ledger.Payable(agent))
	h.step(c)
	if open && (agent != rec.Agent || c.Boot != rec.Boot) {
		return // not its hold
	}
	if h.ack(d.Hold) == "none" {
		if _, still := h.replica.Hold(d.Hold); !still || wrong != nil {
			h.t.Errorf("%s is not acknowledged: %+v", d.Hold, c)
		}
	}
	switch kind := h.replica.Ended(d.Hold); {
	case !open:
	case wrong != nil && (kind != ledger.KindVoid || h.ack(d.Hold) != "ack late" ||
		h.replica.Balance(ledger.Payable(agent)) != before):
		h.t.Errorf("%v: %s, %s", wrong, kind, h.ack(d.Hold))
	case wrong == nil && kind == ledger.KindCapture && lies(c, &rec, most):
		want[d.Hold] = true
	}
}

// across compares the journal with one that the house's treasury would have written.
func (h *house) across() []ledger.Finding {
	tr, book := ledger.NewAudit("treasury", ledger.LevelAcross), ledger.NewBook()
	write := func(r ledger.Record) {
		seq, _, _ := book.Last()
		f := ledger.Frame{Version: ledger.FrameVersion, Epoch: 1, Seq: seq + 1, Time: 1,
			Records: []ledger.Record{r}}
		h.must(book.ApplyFrame(f))
		tr.Frame(f.Seq, f.Epoch, ledger.AppendFrame(nil, &f))
	}
	write(ledger.NewOpen("treasury", ledger.RoleTreasury, "", [16]byte{}))
	for _, client := range []string{"ann", "bob"} {
		write(ledger.NewDeposit("d-"+client, client, 1000*market.Credit, nil, [16]byte{}))
	}
	for _, g := range h.grants {
		write(ledger.NewGrant(g.Hub, g.Number, g.Client, g.Amount, fmt.Sprint("ask-", g.Number), [16]byte{}))
	}
	own := ledger.NewAudit("hub-math", ledger.LevelAcross)
	for i := range h.frames {
		own.Frame(h.frames[i].Seq, h.frames[i].Epoch, ledger.AppendFrame(nil, &h.frames[i]))
	}
	return append(ledger.Across(tr, []*ledger.Audit{own}), tr.Finish().Findings...)
}
