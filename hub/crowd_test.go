package hub

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"souk/bus"
	"souk/hub/line"
	"souk/market"
)

// on has tasks begin with a text that an agent got before.
func on(text uint64) func(*bus.Task) {
	return func(m *bus.Task) {
		m.Session, m.Prompt.Tokens, m.Prompt.Bytes = fmt.Sprint("s-", text), 400, 1600
		m.Prompt.Prefixes = []bus.PrefixHash{{Bytes: 1600, Hash: text}}
	}
}

// Whoever waits for news stands in its line all the same: one who comes between two rounds of all finds out
// how many were before.
func TestANewcomerSeesThoseWhoWaitForNews(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	h.join("a-2", "llama", 1, 0.5, card(1, 1, 4))
	h.must(h.step(h.task("ann", "warm", on(7))))
	h.serve(h.take("ann", "warm"), market.Usage{Prompt: 400, Output: 10})
	h.must(h.step(h.task("ann", "busy", on(7), func(m *bus.Task) { m.MaxTokens = 4000 })))
	h.accept(h.take("ann", "busy"))
	for i := range 4 {
		client := fmt.Sprint("c-", i)
		h.prepaid[client] = 10 * market.Credit
		h.must(h.step(h.task(client, "t", on(7), inNoHurry)))
		x := h.n.known[taskKey{client, "t"}]
		if x.state != waiting || x.home == nil || x.home.id != "a-1" {
			t.Fatalf("%s does not wait for a-1, which has its prompt", x.id)
		}
		if x.place != i {
			t.Errorf("%s came after %d others and is told that %d stand before it", x.id, i, x.place)
		}
		h.pass(100 * time.Millisecond)
	}
}

// Whoever has waited for no longer than it was told still believes what it is told. Only what is overdue is
// doubted, the more the longer it is; and a new home makes a new forecast.
func TestAForecastIsDoubtedOnceItIsOverdue(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.Silence = time.Hour })
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	h.must(h.step(h.task("ann", "warm", on(7))))
	h.serve(h.take("ann", "warm"), market.Usage{Prompt: 400, Output: 10})
	h.must(h.step(h.task("ann", "busy", on(7), func(m *bus.Task) { m.MaxTokens = 4000 })))
	h.accept(h.take("ann", "busy"))
	h.must(h.step(h.task("bob", "t", on(7), inNoHurry, func(m *bus.Task) { m.Model = "llama" })))
	x := h.n.known[taskKey{"bob", "t"}]
	news := 0
	look := func(after time.Duration) time.Duration {
		h.pass(after)
		news++
		h.join(fmt.Sprint("q-", news), "qwen", 1, 0.9, card(1, 1, 4))
		return x.over
	}
	look(time.Millisecond)
	told := x.expected
	if x.state != waiting || x.home == nil || x.home.id != "a-1" || told < time.Second {
		t.Fatalf("it is to wait for a-1, and is told that it does for %v", told)
	}
	if over := look(told / 2); over != 0 {
		t.Errorf("half the time that it was told of has passed, and %v is too much", over)
	}
	if over := look(told); over != x.waited-told || over < told/3 {
		t.Errorf("it was told of %v, has waited for %v, and %v is too much", told, x.waited, over)
	}
	h.join("b-1", "llama", 1, 0.9, card(1, 1, 4))
	if h.running() != "bob/t>b-1" {
		h.n.Leave(h.now, "a-1")
		h.run()
		if look(time.Millisecond); x.state == waiting && x.over >= told/3 {
			t.Errorf("its new home is doubted by %v for what the former one said", x.over)
		}
	}
}

// A task that is worth hardly more than it costs does not take a free slot where somebody runs who is dear to
// disturb. It takes nothing from those who come later and do, so they are not charged for going first.
func TestWhoCannotTakeASlotKeepsNobodyFromIt(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.Crowd.Beside = 1500 * time.Microsecond })
	h.prepaid["cat"] = 1000 * market.Credit
	h.join("a-1", "llama", 2, 0.9, card(1, 1, 4))
	dear := func(m *bus.Task) {
		w, ms := 100*market.Credit, int64(1000)
		m.MaxTokens, m.Terms.Worth, m.Terms.PatienceMS = 4000, &w, &ms
	}
	h.must(h.step(h.task("cat", "first", dear))) // whose money is here from now on
	h.serve(h.take("cat", "first"), market.Usage{Prompt: 100, Output: 10})
	h.must(h.step(h.task("ann", "dear", dear)))
	h.accept(h.take("ann", "dear"))
	patient := func(w market.Credits) func(*bus.Task) {
		return func(m *bus.Task) {
			ms := int64(600_000)
			m.Model, m.Terms.Worth, m.Terms.PatienceMS = "llama", &w, &ms
		}
	}
	h.must(h.step(h.task("bob", "poor", patient(market.Credit/100))))
	h.pass(time.Second)
	if x := h.n.known[taskKey{"bob", "poor"}]; x == nil || x.state != waiting {
		t.Fatal("bob's task does not wait: the test sees nothing")
	}
	h.must(h.n.Step(h.now, h.task("cat", "rich", patient(2*market.Credit))))
	h.join("b-1", "qwen", 1, 0.9, card(1, 1, 4)) // which is news: both are in the round
	if h.pass(20 * time.Millisecond); h.running() != "cat/rich>a-1" {
		t.Errorf("dispatched: %q; cat's task waits beside a free slot that nobody else can pay", h.running())
	}
}

// Nor does one that rather waits for a better agent than take the slot at its home.
func TestWhoWaitsElsewhereKeepsNobodyFromItsHome(t *testing.T) {
	h := newHouse(t, nil)
	h.join("b-1", "llama", 1, 0.5, card(1, 1, 4))
	for _, client := range []string{"ann", "bob"} {
		h.must(h.step(h.task(client, "first", on(7), worth(10*market.Credit)))) // b-1 has the text
		h.serve(h.take(client, "first"), market.Usage{Prompt: 400, Output: 10})
	}
	h.join("a-1", "llama", 1, 0.8, card(1, 1, 4))
	h.must(h.step(h.task("ann", "busy", func(m *bus.Task) { m.MaxTokens = 4000 })))
	h.accept(h.take("ann", "busy"))
	h.must(h.step(h.task("ann", "patient", on(7), inNoHurry)))
	h.pass(time.Second)
	if x := h.n.known[taskKey{"ann", "patient"}]; x.state != waiting || h.running() != "" {
		t.Fatalf("dispatched: %q; ann's task is to wait for a-1", h.running())
	}
	h.must(h.n.Step(h.now, h.task("bob", "now", on(7), func(m *bus.Task) {
		w, ms := market.Credit, int64(200)
		m.Terms.Worth, m.Terms.PatienceMS = &w, &ms
	})))
	h.join("c-1", "qwen", 1, 0.1, card(1, 1, 4)) // which is news: both are in the round
	if d := h.take("bob", "now"); h.agentOf(d) != "b-1" || d.Crowd != nil {
		t.Errorf("bob's task goes to %s and is charged %+v", h.agentOf(d), d.Crowd)
	}
}

// Tasks that are at home elsewhere wait behind each other too: of many who would rather have the one better
// agent, only those wait for it who have it soon.
func TestNotEverybodyWaitsForTheBetterAgent(t *testing.T) {
	const worse, tasks = 30, 25
	h := crowdHouse(t, 100, func(c *Config) { c.Silence = time.Hour })
	h.join("a-0", "llama", 1, 0.9, card(1, 1, 4))
	h.must(h.step(h.task("ann", "busy")))
	h.accept(h.take("ann", "busy"))
	for i := range worse {
		h.join(fmt.Sprintf("b-%02d", i), "llama", 1, 0.5, card(1, 1, 4))
	}
	h.dispatched = nil
	for i := range tasks {
		h.must(h.n.Step(h.now, h.task([]string{"ann", "bob"}[i%2], fmt.Sprint("t", i))))
	}
	h.run()
	h.pass(20 * time.Millisecond)
	if begun := len(h.dispatched); begun < tasks/2 || begun == tasks {
		t.Errorf("%d of %d tasks begin at %d free agents; want most, and some to wait for the better one", begun,
			tasks, worse)
	}
}

// A client whose tasks are in nobody's way but each other's is charged for none of it.
func TestAClientAloneIsInNobodysWay(t *testing.T) {
	for _, clients := range []int{1, 2} {
		h := crowdHouse(t, 100, func(c *Config) { c.Crowd = line.Default() })
		for i := range 2 {
			h.join(fmt.Sprint("a-", i), "llama", 2, 0.9, card(1, 1, 4))
		}
		tolls, served := 0, 0
		for i := range 40 {
			client := []string{"ann", "bob"}[i%clients]
			h.must(h.step(h.task(client, fmt.Sprint("t", i), on(uint64(i%3)), worth(market.Credit))))
			h.pass(30 * time.Millisecond)
			if i%3 > 0 {
				continue
			}
			for _, d := range slices.Clone(h.dispatched) {
				if d.Crowd != nil {
					tolls++
				}
				served++
				h.serve(h.take(d.Task.Client, d.Task.ID), market.Usage{Prompt: 400, Output: 20})
			}
		}
		if served < 30 || clients == 1 && tolls > 0 || clients > 1 && tolls == 0 {
			t.Errorf("%d clients: %d of %d tasks were charged for the crowd", clients, tolls, served)
		}
	}
}

// What a task does in one round by its terms, as if it did not want the slot at its home, takes tolls off
// others in the next, never off the task itself. So no client does better over both rounds by other terms
// than the true ones, but by chance and little: another's task that pays less there may leave it a slot
// elsewhere.
func TestNoLieAboutTermsPaysOverTwoRounds(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	tried, yields, eased, gains := 0, 0, 0, 0
	all, more := 0.0, 0.0
	for n := range uint64(300) {
		h := crowdedHouse(t, seed+n)
		rng := rand.New(rand.NewPCG(seed, n))
		var each []*task // one of each client
		for _, x := range h.waiting() {
			if !slices.ContainsFunc(each, func(o *task) bool { return o.key.client == x.key.client }) {
				each = append(each, x)
			}
		}
		weigh := func(x *task) (market.Outcome, map[*task][]market.Credits) {
			_, o := h.weigh(func(x *task) bool { return slices.Contains(each, x) })
			tolls := map[*task][]market.Credits{}
			for _, p := range h.n.round.pairs {
				of := h.n.round.tasks[p.task]
				tolls[of] = append(tolls[of], p.toll)
			}
			return o, tolls
		}
		// twice weighs two rounds of terms that x tells, whose first gave nobody a slot.
		twice := func(x *task, told market.Terms, truth map[string]market.Credits) market.Credits {
			honest := x.terms
			x.terms = told
			_, before := weigh(x)
			x.yields = h.n.round.yields[slices.Index(h.n.round.tasks, x)]
			o, after := weigh(x)
			if x.yields {
				yields++
			}
			for of, tolls := range after {
				for i, toll := range tolls {
					if toll < before[of][i] || of == x && toll != before[of][i] {
						t.Fatalf("house %d: a toll of %s is %s once %s yields, and was %s", n, of.id, toll, x.id,
							before[of][i])
					}
					if toll > before[of][i] {
						eased++
					}
				}
			}
			x.yields, x.terms = false, honest
			return gain(&o, x.key.client, truth)
		}
		for _, x := range each {
			weigh(x)
			truth := h.truth(x.key.client)
			had := twice(x, x.terms, truth)
			for range 10 {
				got := twice(x, lie(rng, x.terms), truth)
				tried++
				all += float64(had)
				if more += float64(got - had); got > had {
					gains++
				}
			}
		}
	}
	t.Logf("%d lies: %d gained, all together %+.3f %%; %d times a task yielded, which took %d tolls off", tried,
		gains, 100*more/all, yields, eased)
	if gains > tried/50 || more > 0 {
		t.Errorf("%d of %d lies gained, all together %+.3f %%", gains, tried, 100*more/all)
	}
	if yields == 0 || eased == 0 {
		t.Errorf("%d yielded, %d tolls were lower: the test sees little", yields, eased)
	}
}
