package hub_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/openai"
	"souk/hub"
	"souk/ledger"
	"souk/market"
)

// measured is an agent that has measured its engine's template.
func (h *house) measured(id string, slots int, p market.Price) bus.Template {
	h.t.Helper()
	r := registration(id, "llama", slots, 0.9, p)
	r.Template = &bus.Template{Fixed: 20, Each: 8, Tools: 100, Wide: 3}
	h.must(h.register(r))
	h.run()
	return *r.Template
}

// written is a task as a door reads it.
func (h *house) written(client, id, body string, change ...func(*bus.Task)) *bus.Task {
	h.t.Helper()
	m, _, err := openai.DecodeRequest([]byte(body), nil, client, []byte("key"))
	if err != nil {
		h.t.Fatal(err)
	}
	m.ID, m.Stream, m.Inbox = id, true, "inbox."+client+"."+id
	m.Session = "s-" + id
	for _, c := range change {
		c(m)
	}
	return m
}

func chat(text string, more ...string) string {
	return fmt.Sprintf(`{"messages":[{"role":"user","content":%q}],"max_tokens":100%s}`, text,
		strings.Join(more, ""))
}

// However many tokens an engine makes of a prompt, its agent is paid the card for all of them: the hold
// has room.
func TestAHoldCoversThePromptHoweverLongItTurnsOutToBe(t *testing.T) {
	for _, c := range []struct {
		name, body string
		tokens     int // that the engine makes of it
	}{
		{"punctuation, a token a byte", chat(strings.Repeat("!?", 1000)), 2011},
		{"a completion", `{"prompt":"` + strings.Repeat("!?", 1000) + `","max_tokens":100}`, 2001},
		{"text that a normal form makes three times as long", chat(strings.Repeat("\U0001D160", 150)), 1811},
		{"a thousand messages", `{"max_tokens":100,"messages":[` +
			strings.Repeat(`{"role":"user","content":"."},`, 299) + `{"role":"user","content":"."}]}`,
			20 + 300*8},
		{"tools", chat("x", `,"tools":[`+
			strings.Repeat(`{"type":"function","function":{"name":"f","parameters":{"a":[1e15,1e15]}}},`, 9)+
			`{"type":"function","function":{"name":"g"}}]`), 1600},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t, nil)
			h.measured("a-1", 1, card(10, 1, 10))
			h.must(h.step(h.written("ann", "t0", c.body))) // with the default worth
			h.serve(h.take("ann", "t0"), market.Usage{Prompt: 1, Output: 1})
			h.must(h.step(h.written("ann", "t1", c.body, worth(market.Credit))))
			d := h.take("ann", "t1")
			used := market.Usage{Prompt: c.tokens, Output: 100}
			before := h.replica.Balance("agent:a-1:payable")
			h.serve(d, used)
			if got, want := -before+h.replica.Balance("agent:a-1:payable"), d.Price.Cost(used); got != want {
				t.Errorf("the agent is due %v, its card says %v: the hold had room for %v", got, want,
					d.CostCap)
			}
			if d.PromptMost < c.tokens || d.PromptMost >= 8192 {
				t.Errorf("%d tokens are covered, the prompt has %d", d.PromptMost, c.tokens)
			}
		})
	}
}

// Where bytes do not say how long a prompt is, its context does, as far as the client's money goes.
func TestAHoldIsTheContextWhereBytesDoNotSay(t *testing.T) {
	bare := registration("a-1", "llama", 1, 0.9, card(10, 1, 10))
	known := bare
	known.Template = &bus.Template{Fixed: 20, Each: 8, Tools: -1, Wide: 1}
	for _, c := range []struct {
		name string
		reg  bus.Registration
		body string
		most int // prompt tokens that are covered with money enough
	}{
		{"text", known, chat("hi"), 0},
		{"an agent that has measured nothing", bare, chat("hi"), 8192},
		{"arguments of the template", known, chat("hi", `,"chat_template_kwargs":{"bos_token":"xxx"}`), 8192},
		{"thinking off", known, chat("hi", `,"chat_template_kwargs":{"enable_thinking":false}`), 0},
		{"tools, which its template writes twice", known,
			chat("hi", `,"tools":[{"type":"function","function":{"name":"f"}}]`), 8192},
		{"a picture", known, `{"max_tokens":100,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x/y"}}]}]}`, 8192},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t, nil)
			h.must(h.register(c.reg))
			h.must(h.step(h.written("ann", "t1", c.body, worth(market.Credit))))
			d := h.take("ann", "t1")
			if c.most == 0 && (d.PromptMost == 0 || d.PromptMost > 200) || c.most > 0 &&
				d.PromptMost != c.most {
				t.Errorf("%d tokens are covered, want %d", d.PromptMost, c.most)
			}
			if need := market.WorstCase(d.Price, d.PromptMost, 1); d.CostCap < need {
				t.Errorf("%v is held for what may cost %v", d.CostCap, need)
			}
		})
	}
	h := newHouse(t, nil)
	h.must(h.register(known))
	h.must(h.step(h.written("ann", "picture",
		`{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x/y"}}]}]}`, worth(market.Credit/100))))
	h.want("inbox.ann.picture", "not_worth_it") // it may be as long as the context, which would cost 0.08
}

// A max_price below what the prompt alone may cost buys nothing, and the client hears how much would.
func TestAMaxPriceBelowThePrompt(t *testing.T) {
	h := newHouse(t, nil)
	template := h.measured("a-1", 1, card(10, 1, 10))
	text := strings.Repeat("!?", 1000)
	m := h.written("ann", "t1", chat(text), worth(market.Credit))
	bound, ok := template.Bound(&m.Prompt)
	if !ok || bound < 2011 {
		t.Fatalf("bound %d, %v", bound, ok)
	}
	need := market.WorstCase(card(10, 1, 10), bound, 1) + h.n.Config().Fee
	limit := need - 1
	m.Terms.MaxPrice = &limit
	h.must(h.step(m))
	h.want("inbox.ann.t1", "not_worth_it")
	said := h.messages[len(h.messages)-1].Body.(*bus.Answer).Result.Message
	if !strings.Contains(said, need.String()) {
		t.Errorf("it says %q, want the %s that would do", said, need)
	}
	m = h.written("ann", "t2", chat(text), worth(market.Credit))
	m.Terms.MaxPrice = &need
	h.must(h.step(m))
	d := h.take("ann", "t2")
	if d.PromptMost < bound || d.CostCap+d.Premium > need {
		t.Errorf("%d of %d tokens are covered by %v and a premium of %v", d.PromptMost, bound, d.CostCap,
			d.Premium)
	}
}

// Whatever is offered for scarce slots, no premium takes from a hold what the prompt may cost.
func TestNoPremiumEatsThePrompt(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 6))
	for range 40 {
		h := newHouse(t, func(c *hub.Config) {
			c.Batch.Eager, c.Fee = false, market.Credits(r.IntN(2)*1000)
			c.Clarke = []string{market.ClarkeClient, market.ClarkeTask}[r.IntN(2)]
		})
		templates := map[string]bus.Template{"a-1": h.measured("a-1", 1, card(10, 1, 10)),
			"a-2": h.measured("a-2", 2, card(3, 1, 30))}
		for i := range 12 {
			text := strings.Repeat([]string{"!?", "word ", "é"}[r.IntN(3)], 1+r.IntN(800))
			m := h.written([]string{"ann", "bob"}[r.IntN(2)], fmt.Sprint("t", i), chat(text),
				worth(market.Credit/10+market.Credits(r.Int64N(int64(market.Credit)))))
			if r.IntN(2) == 0 {
				limit := market.Credits(1 + r.Int64N(int64(market.Credit/20)))
				m.Terms.MaxPrice = &limit
			}
			h.must(h.step(m))
		}
		for range 12 {
			h.pass(20 * time.Millisecond)
			for len(h.dispatched) > 0 {
				d := h.dispatched[0]
				h.dispatched = h.dispatched[1:]
				template := templates[h.agentOf(d)]
				bound, _ := template.Bound(&d.Task.Prompt)
				if d.PromptMost < bound || d.CostCap < market.WorstCase(d.Price, bound, 1) {
					t.Fatalf("task %s pays a premium of %v, and %v is left for %d tokens: %d are covered",
						d.Task.ID, d.Premium, d.CostCap, bound, d.PromptMost)
				}
				used := market.Usage{Prompt: bound, Output: 1}
				before := h.replica.Balance("agent:" + h.agentOf(d) + ":payable")
				agent := h.agentOf(d)
				h.serve(d, used)
				if got := h.replica.Balance("agent:"+agent+":payable") - before; got != d.Price.Cost(used) {
					t.Fatalf("task %s: paid %v, the card says %v", d.Task.ID, got, d.Price.Cost(used))
				}
			}
		}
	}
}

// An agent is told what of this text it is believed to hold, and until when the first token was quoted.
func TestADispatchSaysWhatWasBelieved(t *testing.T) {
	h := newHouse(t, nil)
	h.measured("a-1", 1, card(1, 1, 4))
	same := func(m *bus.Task) { m.Session = "s" }
	long := strings.Repeat("the quick brown fox ", 200)
	h.must(h.step(h.written("ann", "t1", chat(long), same)))
	d := h.take("ann", "t1")
	if d.Cached != 0 || d.FirstMS < 2000 || d.FirstMS > d.TimeoutMS {
		t.Errorf("%d tokens believed, the first token within %d ms of %d", d.Cached, d.FirstMS, d.TimeoutMS)
	}
	h.serve(d, market.Usage{Prompt: 1000, Output: 10})
	h.must(h.step(h.written("ann", "t2", chat(long), same)))
	d = h.take("ann", "t2")
	if d.Cached != 992 {
		t.Errorf("%d tokens of the same text believed, want its whole blocks", d.Cached)
	}
	h.serve(d, market.Usage{Prompt: 1000, Cached: 992, Output: 10})
	longer := `{"messages":[{"role":"user","content":"` + long +
		`"},{"role":"assistant","content":"a"},{"role":"user","content":"b"}],"max_tokens":100}`
	h.must(h.step(h.written("ann", "t4", longer, same)))
	if d = h.take("ann", "t4"); d.Cached != 976 {
		t.Errorf("%d tokens believed of a text that goes on", d.Cached)
	}
	h.serve(d, market.Usage{Prompt: 1020, Cached: 992, Output: 3000}) // a long answer
	h.must(h.step(h.written("ann", "t5",
		strings.Replace(longer, `"b"}]`, `"b"},{"role":"user","content":"`+strings.Repeat("!?", 1000)+`"}]`,
			1), same)))
	if d = h.take("ann", "t5"); d.Cached > 1020 {
		t.Errorf("%d tokens believed: the answer is no part of this text", d.Cached)
	}
	h.serve(d, market.Usage{Prompt: 3030, Cached: 1008, Output: 1})
	h.must(h.step(h.written("ann", "t6", longer, same)))
	if d = h.take("ann", "t6"); d.Cached != 0 {
		t.Errorf("%d tokens believed of the beginning of a text, which may have as few as one", d.Cached)
	}
	h.serve(d, market.Usage{Prompt: 1020, Cached: 1008, Output: 1})
	h.must(h.step(h.written("ann", "t3", chat(strings.Repeat("another text ", 300)), same)))
	if d = h.take("ann", "t3"); d.Cached != 0 {
		t.Errorf("%d tokens of another text believed: the session's name is no text", d.Cached)
	}
}

// A cancelled task of which the engine said nothing costs nothing, whatever the rule.
func TestACancelThatUsedNothing(t *testing.T) {
	for _, settle := range []string{market.SettleMetered, market.SettleQuoted} {
		t.Run(settle, func(t *testing.T) {
			h := newHouse(t, func(c *hub.Config) {
				c.Settle, c.Fee = settle, 5000
				c.Pricing, c.Tariffs = market.PricingPosted, map[string]market.Credits{"llama": 3000}
			})
			h.measured("a-1", 1, card(1, 1, 4))
			h.must(h.step(h.written("ann", "t1", chat("hello"))))
			d := h.take("ann", "t1")
			h.accept(d)
			h.must(h.step(&bus.Cancel{Client: "ann", Sender: "ann", Task: "t1"}))
			c := completion("a-1", d, market.Usage{})
			c.Outcome, c.Code, c.Finish, c.Relayed, c.Cost, c.TTFTUS, c.ITLUS = bus.OutcomeCancelled,
				bus.CodeCancelled, "", 0, 0, 0, 0
			h.must(h.step(c))
			if got := h.replica.Ended(d.Hold); got != ledger.KindVoid ||
				h.replica.Balance("agent:a-1:payable") != 0 || h.replica.Held("ann") != 0 {
				t.Errorf("ended as %v, the agent is due %v", got, h.replica.Balance("agent:a-1:payable"))
			}
			if got := h.ack(d.Hold); got != "ack " {
				t.Errorf("%s", got)
			}
			h.must(h.step(h.written("ann", "t1", chat("hello"), func(m *bus.Task) { m.Inbox = "again" })))
			h.want("again", "cancelled")
			if len(h.faults) > 0 {
				t.Error(h.faults)
			}
			// and one of which it said how long the prompt is costs that
			h.must(h.step(h.written("ann", "t2", chat("hello"))))
			d = h.take("ann", "t2")
			h.accept(d)
			c = completion("a-1", d, market.Usage{Prompt: 30})
			c.Outcome, c.Code, c.Finish = bus.OutcomeCancelled, bus.CodeCancelled, ""
			h.must(h.step(c))
			if got := h.replica.Balance("agent:a-1:payable"); h.replica.Ended(d.Hold) != ledger.KindCapture ||
				got != c.Cost || got == 0 {
				t.Errorf("the agent is due %v, want %v", got, c.Cost)
			}
		})
	}
}
