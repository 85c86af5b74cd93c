package hub

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

func deadline(h *house, in time.Duration) func(*bus.Task) {
	return func(m *bus.Task) { m.DeadlineMS = h.now.Add(in).UnixMilli() }
}

// Each line is a task that cannot be served, and the one truthful reason (I19).
func TestRefusals(t *testing.T) {
	fraction := 1.5
	for _, c := range []struct {
		name   string
		agents int
		change func(*house, *bus.Task)
		code   bus.Code
		says   string
	}{
		{"nobody is there", 0, func(*house, *bus.Task) {}, bus.CodeNoRoom, "no agent is with hub math"},
		{"a model nobody serves", 1, func(_ *house, m *bus.Task) { m.Model = "gpt-9" }, bus.CodeUnknownModel,
			`"gpt-9"`},
		{"a prompt beyond every context", 1, func(_ *house, m *bus.Task) { m.Prompt.Tokens = 9000 },
			bus.CodePromptTooLong, "8192"},
		{"no prompt", 1, func(_ *house, m *bus.Task) { m.Prompt = bus.Prompt{} }, bus.CodeEmptyPrompt,
			"empty"},
		{"the deadline has passed", 1, func(h *house, m *bus.Task) { deadline(h, -time.Second)(m) },
			bus.CodePastDeadline, "1s ago"},
		{"the deadline is a day away", 1, func(h *house, m *bus.Task) { deadline(h, 24*time.Hour)(m) },
			bus.CodeBadTerms, "1h0m0s"},
		{"the deadline is nearer than any answer", 1,
			func(h *house, m *bus.Task) { deadline(h, 10*time.Millisecond)(m) }, bus.CodeNotWorthIt,
			"deadline"},
		{"worth less than it costs", 1, func(_ *house, m *bus.Task) { worth(1000)(m) }, bus.CodeNotWorthIt,
			"offer more"},
		{"delta beyond 1", 1, func(_ *house, m *bus.Task) { m.Terms.Delta = &fraction }, bus.CodeBadTerms,
			"1.5"},
		{"negative worth", 1, func(_ *house, m *bus.Task) { worth(-1)(m) }, bus.CodeBadTerms, "worth"},
		{"no client", 1, func(_ *house, m *bus.Task) { m.Client = "" }, bus.CodeBadRequest, "ids"},
		{"a client the treasury does not know", 1, func(_ *house, m *bus.Task) { m.Client = "zoe" },
			bus.CodeUnknownClient, "deposit"},
		{"a client without enough money", 1, func(h *house, m *bus.Task) { h.prepaid["ann"] = 5 },
			bus.CodeInsufficientFunds, "deposit more"},
		{"a treasury that is silent", 1, func(h *house, m *bus.Task) { h.silent = true },
			bus.CodeAllotmentPending, "try again"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t, nil)
			for i := range c.agents {
				h.join(fmt.Sprintf("a-%d", i), "llama", 1, 0.8, card(1, 1, 4))
			}
			m := h.task("ann", "t1")
			c.change(h, m)
			h.step(m)
			h.pass(4 * time.Second)
			var r *bus.Result
			for _, l := range h.letters {
				if a, ok := l.Message.(*bus.Answer); ok && l.Subject == "inbox.ann.t1" {
					r = a.Result
				}
			}
			if r == nil || r.Code != c.code || !strings.Contains(r.Message, c.says) {
				t.Errorf("answer %+v, want %s with %q", r, c.code, c.says)
			}
			if len(h.n.known) != 0 || h.n.open != 0 || h.replica.OpenCount() != 0 {
				t.Error("a refused task left something behind")
			}
			for _, p := range h.n.purses {
				if p.reserved != 0 || p.open != 0 || len(p.parked) != 0 {
					t.Errorf("the purse of %s holds %+v", p.client, p)
				}
			}
		})
	}
}

func TestLimits(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.MaxPerClient, c.MaxWaiting, c.MaxWaitingPerClient = 3, 4, 4 })
	h.join("a-1", "llama", 1, 0.8, card(1, 1, 4))
	for i := range 4 {
		h.must(h.step(h.task("ann", fmt.Sprint("t", i))))
	}
	h.want("inbox.ann.t3", "too_many_tasks")
	for i := range 3 {
		h.must(h.step(h.task("bob", fmt.Sprint("t", i))))
	}
	h.want("inbox.bob.t2", "no_room")
	h.pass(50 * time.Millisecond)
	if h.status.Room != 0 || h.status.Waiting != 4 {
		t.Errorf("status says room for %d, %d wait", h.status.Room, h.status.Waiting)
	}

	// What is refused for lack of room may be sent again with the same id once there is some.
	d := h.take("ann", "t0")
	h.serve(d, market.Usage{Prompt: 100, Output: 1})
	h.pass(20 * time.Millisecond)
	h.must(h.step(h.task("ann", "t3", func(m *bus.Task) { m.Inbox = "again" })))
	h.want("again", "")
	if h.n.known[taskKey{"ann", "t3"}] == nil {
		t.Error("t3 is not taken although there is room")
	}
}

// One client keeps to its quarter of the waiting room, by default and whatever the room is set to, and is
// told which bound it met; the others are served as before. What comes to free slots does not wait, and is
// taken however many come at once.
func TestOneClientDoesNotFillTheRoom(t *testing.T) {
	for name, c := range map[string]struct {
		change        func(*Config)
		open, waiting int // the most of one client
	}{
		"by default":              {nil, 2048, 512},
		"a smaller room":          {func(c *Config) { c.MaxWaiting = 100 }, 2048, 25},
		"a room for three":        {func(c *Config) { c.MaxWaiting = 3 }, 2048, 1},
		"as it is set":            {func(c *Config) { c.MaxWaitingPerClient = 60 }, 2048, 60},
		"few open tasks":          {func(c *Config) { c.MaxOpen = 160 }, 40, 512},
		"open tasks as set":       {func(c *Config) { c.MaxPerClient = 30 }, 30, 512},
		"a file of hubs of old":   {func(c *Config) { c.MaxPerClient = 4096 }, 4096, 512},
		"the money is on its way": {func(c *Config) { c.MaxWaiting = 80 }, 2048, 20},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, c.change)
			h.join("a-1", "llama", 4, 0.8, card(1, 1, 4))
			h.join("b-1", "qwen", 1000, 0.8, card(1, 1, 4)) // for another model: its free slots are no use
			h.silent = name == "the money is on its way"
			free := 4
			if h.silent {
				free = 0
			}
			llama := func(m *bus.Task) { m.Model = "llama" }
			said := "max_waiting_per_client"
			if c.open < c.waiting+free {
				said = "max_per_client"
			}
			most := min(c.open, c.waiting+free)
			for i := range most {
				h.must(h.step(h.task("ann", fmt.Sprint("t", i), llama)))
			}
			if h.n.open != most {
				t.Fatalf("%d of %d tasks are taken", h.n.open, most)
			}
			h.must(h.step(h.task("ann", "more", llama)))
			h.want("inbox.ann.more", "too_many_tasks")
			last := h.letters[len(h.letters)-1].Message.(*bus.Answer).Result
			if !strings.Contains(last.Message, "("+said+")") {
				t.Errorf("it is told %q, want %s", last.Message, said)
			}
			h.must(h.step(h.task("bob", "t", llama)))
			h.want("inbox.bob.t", "")
			if most < 100 { // what waits no more makes room
				h.must(h.step(&bus.Cancel{Client: "ann", Task: fmt.Sprint("t", most-1)}))
				h.must(h.step(h.task("ann", "again", llama)))
				h.want("inbox.ann.again", "")
			}
		})
	}
}

// A thousand tasks of one client that come at once to a thousand free slots are all served.
func TestABurstToFreeSlotsIsTaken(t *testing.T) {
	h := newHouse(t, nil)
	for i := range 4 {
		h.join(fmt.Sprint("a-", i), "llama", 250, 0.8, card(1, 1, 4))
	}
	for i := range 1000 {
		h.must(h.n.Step(h.now, h.task("ann", fmt.Sprint("t", i), worth(market.Credit/100))))
	}
	h.run()
	h.pass(20 * time.Millisecond)
	if len(h.dispatched) != 1000 {
		t.Errorf("%d are served", len(h.dispatched))
	}
	h.must(h.step(h.task("ann", "one-more")))
	h.want("inbox.ann.one-more", "")
	for i := range 600 {
		h.must(h.step(h.task("ann", fmt.Sprint("u", i))))
	}
	if h.n.waiting != 512 {
		t.Errorf("%d wait", h.n.waiting)
	}
}

func TestModelsAreNotMixedUp(t *testing.T) {
	h := newHouse(t, nil)
	h.join("cheap", "small", 1, 0.9, card(1, 1, 1))
	h.join("dear", "large", 1, 0.5, card(5, 5, 20))
	h.must(h.step(h.task("ann", "any")))
	h.must(h.step(h.task("ann", "named", func(m *bus.Task) { m.Model = "large" })))
	h.must(h.step(h.task("ann", "auto", func(m *bus.Task) { m.Model = "auto" })))
	if got := h.running(); got != "ann/any>cheap ann/named>dear" {
		t.Errorf("running %s", got)
	}
	d := h.take("ann", "named")
	if d.Model != "large" || d.Price != card(5, 5, 20) {
		t.Errorf("dispatch %+v", d)
	}
	h.serve(h.take("ann", "any"), market.Usage{Prompt: 100, Output: 1})
	if got := h.running(); got != "ann/auto>cheap" {
		t.Errorf("running %s", got)
	}
}

// Without a free slot until its deadline, a task hears no_room; it never lost a round.
func TestNoRoomAndOutbidAreTold(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 0.8, card(1, 1, 4))
	h.must(h.step(h.task("ann", "long")))
	h.accept(h.take("ann", "long"))
	h.must(h.step(h.task("bob", "late", deadline(h, 15*time.Second))))
	h.pass(10 * time.Second)
	h.want("inbox.bob.late", "")
	h.pass(6 * time.Second)
	h.want("inbox.bob.late", "no_room")
}

// The default worth grows with the task and never cuts an ordinary answer.
func TestDefaultTerms(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 4, 0.8, card(3, 1, 15))
	for _, size := range []int{10, 1000, 6000} {
		id := fmt.Sprint("t", size)
		h.must(h.step(h.task("ann", id, func(m *bus.Task) { m.Prompt.Tokens = size; m.MaxTokens = 0 })))
		d := h.take("ann", id)
		if d.MaxTokens != 1024 && size < 6000 {
			t.Errorf("%d tokens: max_tokens %d, want the default", size, d.MaxTokens)
		}
		if worst := d.Price.Cost(market.Usage{Prompt: size, Output: d.MaxTokens}); d.CostCap < worst {
			t.Errorf("%d tokens: an answer is cut at %v, a whole one costs up to %v", size, d.CostCap, worst)
		}
		if size+d.MaxTokens > 8192 {
			t.Errorf("%d tokens: %d more do not fit the context", size, d.MaxTokens)
		}
	}
	whole := map[string]bus.Dispatch{} // no more is held than the context allows
	for id, tokens := range map[string]int{"context": 8192, "absurd": 1 << 24} {
		h.must(h.step(h.task("bob", id, func(m *bus.Task) { m.MaxTokens = tokens })))
		whole[id] = h.take("bob", id)
		h.serve(whole[id], market.Usage{Prompt: 100, Output: 1})
		h.pass(20 * time.Millisecond)
	}
	if a, b := h.n.known[taskKey{"bob", "context"}],
		h.n.known[taskKey{"bob", "absurd"}]; a.terms.Worth != b.terms.Worth ||
		whole["context"].MaxTokens != whole["absurd"].MaxTokens {
		t.Errorf("8192 tokens are worth %v, %d are %v", a.terms.Worth, 1<<24, b.terms.Worth)
	}
}

// max_price bounds what is held, whatever the worst case.
func TestMaxPriceIsNeverPassed(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 1, card(1, 1, 10))
	limit := market.Credits(500_000) // worst case: 100 x 1 + 100 x 10 and more
	h.must(h.step(h.task("ann", "t1", worth(market.Credit), func(m *bus.Task) { m.Terms.MaxPrice = &limit })))
	d := h.take("ann", "t1")
	if d.Premium+d.CostCap > limit {
		t.Errorf("premium %v and cost up to %v pass %v", d.Premium, d.CostCap, limit)
	}
	h.serve(d, market.Usage{Prompt: 100, Output: 100})
	if got := h.replica.Balance("agent:a-1:payable"); got != d.CostCap {
		t.Errorf("the agent is due %v, want the cap %v", got, d.CostCap)
	}
}

func TestFundsAreFetchedAndGivenBack(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 2, 0.8, card(1, 1, 4))
	h.silent = true
	h.must(h.step(h.task("ann", "t1")))
	if len(h.n.batch.Take(nil)) != 0 || h.running() != "" {
		t.Fatal("a task without money is in the batch")
	}
	// The answer comes, and was lost once: the grant is found by asking what was given.
	ask := h.asked[len(h.asked)-1]
	if ask.Op != bus.OpAllot || ask.Request.Amount < 4*ask.Request.Least {
		t.Errorf("asked for %+v: not a chunk", ask)
	}
	granted := h.treasury(ask)
	h.silent = false
	h.must(h.step(&bus.FundsReply{ID: ask.Request.ID, Code: bus.CodeUnavailable}))
	if got := h.running(); got != "ann/t1>a-1" {
		t.Fatalf("after the lost grant was found: running %q", got)
	}
	if err := h.step(granted); err == nil {
		t.Error("a reply to a request that has ended is taken")
	}
	if got, want := h.replica.LastGrant("hub-math"), uint64(len(h.grants)); got != want {
		t.Errorf("%d grants accepted, %d given (I11)", got, want)
	}
	h.serve(h.take("ann", "t1"), market.Usage{Prompt: 100, Output: 50})
	h.n.Drain(h.now)
	h.run()
	h.must(h.step(h.task("ann", "t2")))
	h.want("inbox.ann.t2", "draining")
	h.n.Retire(h.now)
	h.run()
	if got, want := h.prepaid["ann"], 1000*market.Credit-300_000; got != want ||
		h.replica.Avail("ann") != 0 ||
		!h.n.Quiet() {
		t.Errorf("after the return ann has %v, want %v", got, want)
	}
}

// Grants whose replies overtake each other are accepted in order.
func TestGrantsOutOfOrder(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 4, 0.8, card(1, 1, 4))
	h.silent = true
	h.must(h.step(h.task("ann", "t1")))
	h.must(h.step(h.task("bob", "t1")))
	n := len(h.asked)
	ann, bob := h.treasury(h.asked[n-2]), h.treasury(h.asked[n-1])
	h.must(h.step(bob))
	if h.replica.LastGrant("hub-math") != 0 {
		t.Fatal("grant 2 was accepted before grant 1")
	}
	h.must(h.step(ann))
	if got := h.running(); got != "ann/t1>a-1 bob/t1>a-1" || h.replica.LastGrant("hub-math") != 2 {
		t.Errorf("running %s after both grants", got)
	}
}

// What was reserved on arrival bounds what is offered, although a better agent has joined since: nobody is
// bid up beyond the money set aside.
func TestABetterAgentJoinsLater(t *testing.T) {
	h := newHouse(t, nil)
	h.join("poor", "llama", 1, 0.4, card(1, 1, 1))
	h.must(h.step(h.task("ann", "busy", worth(market.Credit))))
	h.accept(h.take("ann", "busy"))
	for _, client := range []string{"ann", "bob"} {
		h.must(h.step(h.task(client, "t1", worth(market.Credit))))
	}
	reserved := h.n.known[taskKey{"ann", "t1"}].reserved
	h.join("good", "llama", 1, 1, card(1, 1, 1))
	h.pass(20 * time.Millisecond)
	if len(h.dispatched) != 1 || len(h.faults) != 0 {
		t.Fatalf("running %q, faults %v", h.running(), h.faults)
	}
	d := h.dispatched[0]
	if d.SlotPrice == 0 || d.CostCap < d.Quoted || d.Premium+d.CostCap > reserved {
		t.Errorf("premium %v and cost %v of at most %v, reserved %v", d.Premium, d.Quoted, d.CostCap,
			reserved)
	}
}

// Money that one task leaves serves the next, without the treasury.
func TestMoneyThatComesBack(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 2, 0.9, card(10, 10, 10))
	h.prepaid["ann"] = 4_000_000 // worst case of one: 189 + 100 tokens at 10
	w := market.Credits(3_500_000)
	h.must(h.step(h.task("ann", "t1", worth(w))))
	d := h.take("ann", "t1")
	h.accept(d)
	h.silent = true
	h.must(h.step(h.task("ann", "t2", worth(w-100_000))))
	if h.running() != "" || h.n.known[taskKey{"ann", "t2"}].state != parked {
		t.Fatal("t2 is not parked: the test's money is wrong")
	}
	h.must(h.step(completion("a-1", d, market.Usage{Prompt: 1, Output: 1})))
	h.pass(20 * time.Millisecond)
	if got := h.running(); got != "ann/t2>a-1" {
		t.Errorf("running %q", got)
	}
}
