package hub

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/bus"
	runtimepolicy "souk/bus/policy"
	"souk/hub/policy"
	"souk/ledger"
	"souk/market"
)

// spy is a policy that does what a test says and keeps what it hears.
type spy struct {
	events []runtimepolicy.Event
	score  func(runtimepolicy.Item) float64
	act    func(runtimepolicy.Room, []runtimepolicy.Effect) []runtimepolicy.Effect
}

func (s *spy) Observe(e runtimepolicy.Event) { s.events = append(s.events, e) }
func (s *spy) Score(_ time.Time, i runtimepolicy.Item) float64 {
	if s.score == nil {
		return 0
	}
	return s.score(i)
}
func (s *spy) Predict(_ time.Time, _ time.Duration, to []runtimepolicy.Forecast) []runtimepolicy.Forecast {
	return to
}
func (s *spy) Act(_ time.Time, r runtimepolicy.Room, to []runtimepolicy.Effect) []runtimepolicy.Effect {
	if s.act == nil {
		return to
	}
	return s.act(r, to)
}

func (s *spy) heard() string {
	var all []string
	for _, e := range s.events {
		all = append(all, e.Kind.String())
	}
	return strings.Join(all, " ")
}

// What a client says of its session comes to policies with what becomes of its turns.
func TestHintsReachPolicies(t *testing.T) {
	h := newHouse(t, nil)
	s := &spy{}
	h.n.runtime.host.Set(policy.Keep, "spy", s)
	h.join("a-1", "llama", 2, 0.9, card(1, 1, 4))
	ask := func(id string, change func(*bus.Task)) bus.Dispatch {
		h.must(h.step(h.task("ann", id, func(m *bus.Task) { m.Session = "s" }, change)))
		return h.take("ann", id)
	}
	d := ask("t1", func(m *bus.Task) {
		m.BackMS, m.Parent, m.Next, m.Role, m.Declared = 2500, "boss", "critic", "writer", true
	})
	c := completion("a-1", d, market.Usage{Prompt: 100, Output: 30})
	c.Finish, c.Tool = "tool_calls", bus.ToolKey("search")
	h.accept(d)
	h.must(h.step(c))
	h.pass(2 * time.Second)
	d = ask("t2", func(m *bus.Task) { m.SessionEnd, m.Role = true, "derived" })
	if got, want := s.heard(), "arrived placed served next arrived placed"; got != want {
		t.Fatalf("heard %s, want %s", got, want)
	}
	writer := bus.RoleKey("ann", "writer", &bus.Prompt{})
	key := bus.SessionKey("ann", "s")
	first, served, next, again := s.events[0], s.events[2], s.events[3], s.events[4]
	if first.Role != writer || first.Session != key || first.Parent != bus.SessionKey("ann", "boss") ||
		first.Client != runtimepolicy.IDOf("ann") {
		t.Errorf("arrived: %+v", first)
	}
	if served.Claimed != 2500*time.Millisecond || served.Tool != bus.ToolKey("search") ||
		served.Stop != runtimepolicy.StopTool || served.Agent != runtimepolicy.IDOf("a-1") {
		t.Errorf("served: %+v", served)
	}
	if next.Role != bus.RoleKey("ann", "critic", &bus.Prompt{}) {
		t.Errorf("next: %+v", next)
	}
	if again.Role != writer || again.Back != 2*time.Second || again.Claimed != 2500*time.Millisecond ||
		again.Turn != 1 {
		t.Errorf("arrived again: %+v", again)
	}
	s.events = nil
	h.serve(d, market.Usage{Prompt: 100, Output: 3})
	if got, want := s.heard(), "served ended"; got != want {
		t.Errorf("heard %s, want %s", got, want)
	}
}

// Of a turn that ends before any agent has it policies hear the end as well: else its session is one whose
// turn runs, for ever.
func TestPoliciesHearTheEndOfWhatNobodyServed(t *testing.T) {
	h := newHouse(t, nil)
	s := &spy{}
	h.n.runtime.host.Set(policy.Keep, "spy", s)
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	h.must(h.step(h.task("ann", "t1")))
	h.take("ann", "t1")
	h.must(h.step(h.task("ann", "t2")))
	h.must(h.step(&bus.Cancel{Client: "ann", Task: "t2"}))
	if got, want := s.heard(), "arrived placed arrived failed"; got != want {
		t.Errorf("heard %s, want %s", got, want)
	}
}

// What has less than a block is in no cache: nobody is asked to use it again, and no hold is made for that.
func TestNoTouchOfNoBlocks(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.Seats.Sessions, c.Seats.Touches = true, true })
	s := &spy{act: func(_ runtimepolicy.Room, to []runtimepolicy.Effect) []runtimepolicy.Effect {
		return append(to, runtimepolicy.Effect{Kind: runtimepolicy.Touch, Agent: runtimepolicy.IDOf("a-1"),
			Session: bus.SessionKey("ann", "s-t1"), Tokens: 5})
	}}
	h.n.runtime.host.Set(policy.Keep, "spy", s)
	reg := registration("a-1", "llama", 4, 0.9, card(1, 1, 4))
	reg.BlockSize, reg.KVTokens, reg.Features = 16, 16_000, append(reg.Features, bus.Touches)
	h.must(h.n.Join(h.now, reg))
	h.run()
	h.prepaid[h.n.cfg.Prober()] = 1000 * market.Credit
	h.must(h.step(h.task("ann", "t1")))
	h.serve(h.take("ann", "t1"), market.Usage{Prompt: 100, Output: 3})
	for range 20 {
		h.pass(time.Second)
	}
	if st := h.n.Stats(); st.Touches != 0 || st.Touched.Unfunded != 0 || st.Undone < 10 {
		t.Errorf("%d touches, %d without money, %d not done", st.Touches, st.Touched.Unfunded, st.Undone)
	}
}

// A policy that panics is off for a minute: the log, the status and the counts say which, and the hub goes
// on.
func TestAPolicyThatPanicsIsNamed(t *testing.T) {
	h := newHouse(t, nil)
	s := &spy{act: func(runtimepolicy.Room, []runtimepolicy.Effect) []runtimepolicy.Effect { panic("no") }}
	h.n.runtime.host.Set(policy.Keep, "spy", s)
	h.join("a-1", "llama", 2, 0.9, card(1, 1, 4))
	h.must(h.step(h.task("ann", "t1")))
	h.pass(actEvery)
	if len(h.faults) != 1 || !strings.HasPrefix(h.faults[0].Error(), "keep: policy spy is off until 2027-") {
		t.Errorf("faults %v", h.faults)
	}
	h.pass(time.Second)
	p := h.status.Policies
	if len(p) != 1 || p[0].Hook != "keep" || p[0].Policy != "spy" || p[0].OffMS != 59_000 ||
		!strings.Contains(p[0].Why, "panicked") {
		t.Errorf("status %+v", p)
	}
	if st := h.n.Stats().Policies; len(st) != 1 || st[0].Panics != 1 || st[0].Off.IsZero() {
		t.Errorf("counts %+v", st)
	}
	s.act = nil
	h.serve(h.take("ann", "t1"), market.Usage{Prompt: 100, Output: 3})
	h.pass(runtimepolicy.OffFor)
	if p := h.status.Policies; len(h.faults) != 1 || len(p) != 1 || p[0].OffMS != 0 || p[0].Why != "" {
		t.Errorf("after a minute: %v, %+v", h.faults, p)
	}
}

// byName is a policy of the hook place that decides by the name of agent and session alone.
func byName(toll float64) *spy {
	return &spy{score: func(i runtimepolicy.Item) float64 {
		switch x := runtimepolicy.Mixed(i.Agent^i.Session) % 5; x {
		case 0:
			return runtimepolicy.Never
		default:
			return float64(x) * toll
		}
	}}
}

// The record of a round says which policy set what, an audit takes it, and a task goes where it may at what
// it is charged.
func TestAPolicySetsTollsAndBits(t *testing.T) {
	h := newHouse(t, nil)
	a1, a2 := runtimepolicy.IDOf("a-1"), runtimepolicy.IDOf("a-2")
	h.n.runtime.host.Set(policy.Place, "spy", &spy{score: func(i runtimepolicy.Item) float64 {
		return map[uint64]float64{a1: 0, a2: 0.001, runtimepolicy.IDOf("a-3"): runtimepolicy.Never}[i.Agent]
	}})
	for _, id := range []string{"a-1", "a-2", "a-3"} {
		h.join(id, "llama", 1, 0.9, card(1, 1, 4))
	}
	for i := range 3 {
		h.must(h.step(h.task("ann", fmt.Sprint("t", i))))
	}
	if got := h.running(); got != "ann/t0>a-2 ann/t1>a-1" {
		t.Errorf("running %s: want the first where nothing is lost, and nobody on a-3", got)
	}
	var set []ledger.Set
	for _, f := range h.frames {
		for i := range f.Records {
			if r := f.Records[i].Round; r != nil {
				set = append(set, r.Set...)
				x, err := r.Explain()
				h.must(err)
				if !strings.Contains(x.String(), "policy spy: not on a-3") {
					t.Errorf("who asks why is not told of the policy:\n%s", x.String())
				}
			}
		}
	}
	toll := policy.Toll(0.001, h.n.lookup("a-1").second())
	if toll >= 0 || !slices.Contains(set,
		ledger.Set{Policy: "spy", Task: "ann/t1", Agent: "a-1", Toll: toll}) {
		t.Errorf("toll %s, set %v", toll, set)
	}
	if found := h.findings(ledger.LevelAcross); len(found) > 0 {
		t.Errorf("the audit finds %v", found)
	}
}

// Whatever is bid, a policy sets the same bits and tolls for the same tasks and agents, and is told the same
// of everything that does not follow from awards.
func TestBidsMoveNoPolicy(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	for range 20 {
		spread := rng.Uint64()
		sets := func(terms []bus.Terms) (all []ledger.Set, items []runtimepolicy.Item) {
			h := newHouse(t, func(c *Config) { c.Batch.Eager = false })
			s := byName(0.0001)
			score := s.score
			s.score = func(i runtimepolicy.Item) float64 { items = append(items, i); return score(i) }
			h.n.runtime.host.Set(policy.Place, "spy", s)
			for i := range 5 {
				h.join(fmt.Sprint("a-", i), "llama", 2, 0.9, card(1, 1, 4))
			}
			for i := range terms {
				h.must(h.step(h.task("ann", fmt.Sprint("t", i), func(m *bus.Task) {
					m.Session, m.Terms = fmt.Sprint("s-", runtimepolicy.Mixed(spread+uint64(i))%9), terms[i]
				})))
			}
			h.now = h.now.Add(20 * time.Millisecond)
			h.n.Tick(h.now)
			h.n.collect()
			h.n.lineUp()
			h.n.meet()
			h.n.judgePairs()
			return slices.Clone(h.n.runtime.sets), items
		}
		terms := make([]bus.Terms, 8)
		for i := range terms {
			terms[i] = randomTerms(rng)
			terms[i].MaxPrice = nil
			high := *terms[i].Worth + market.Credit
			terms[i].Worth = &high // none is refused at the door
		}
		one, saw := sets(terms)
		rng.Shuffle(len(terms), func(i, j int) { terms[i], terms[j] = terms[j], terms[i] })
		for i := range terms {
			times := *terms[i].Worth * market.Credits(1+rng.IntN(9))
			terms[i].Worth = &times
		}
		two, sawToo := sets(terms)
		if len(one) == 0 || !reflect.DeepEqual(one, two) || !reflect.DeepEqual(saw, sawToo) {
			t.Fatalf("other bids, other bits or tolls:\n%v\n%v", one, two)
		}
	}
}

// What a policy wants done is done where nothing better is: not while somebody waits, not on an agent that is
// full, gone or unknown, not too late; and it is counted either way.
func TestEffectsAreBounded(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.Seats.Sessions, c.Seats.Touches = true, true })
	h.prepaid["probe-math"] = 1000 * market.Credit
	var want []runtimepolicy.Effect
	h.n.runtime.host.Set(policy.Keep, "spy", &spy{act: func(_ runtimepolicy.Room,
		to []runtimepolicy.Effect) []runtimepolicy.Effect {
		to = append(to, want...)
		want = nil
		return to
	}})
	var touched []Touch
	h.tell = func(r *Ready) { touched = append(touched, r.Touches...) }
	for i, slots := range []int{2, 1} {
		reg := registration(fmt.Sprint("a-", i+1), "llama", slots, 0.9-0.7*float64(i), card(1, 1, 4))
		reg.BlockSize, reg.KVTokens, reg.Features = 16, 8000, []string{bus.Touches}
		h.must(h.n.Join(h.now, reg))
	}
	h.run()
	h.must(h.step(h.task("ann", "t1")))
	h.serve(h.take("ann", "t1"), market.Usage{Prompt: 100, Output: 3})
	e := runtimepolicy.Effect{Kind: runtimepolicy.Touch, Agent: runtimepolicy.IDOf("a-1"), Session: 5,
		Tokens: 64}
	late, full, nobody, none := e, e, e, e
	late.Until = h.now
	full.Agent, nobody.Agent, none.Session = runtimepolicy.IDOf("a-2"), 77, 0
	load := e // which agents do for themselves
	load.Kind = runtimepolicy.Load
	warm := e
	warm.Kind, warm.Until = runtimepolicy.Warm, h.now.Add(time.Hour)
	want = []runtimepolicy.Effect{e}
	h.pass(actEvery + time.Millisecond) // the hub asks for money to pay touches with
	want = []runtimepolicy.Effect{late, e, full, nobody, none, load, warm}
	h.pass(actEvery + time.Millisecond)
	if len(touched) != 2 {
		t.Errorf("touched %+v", touched)
	}
	for _, x := range touched {
		if d := &x.Dispatch; x.Agent != "a-1" || d.Session != 5 || d.Tokens != 64 ||
			d.Kind != bus.DispatchPrefetch {
			t.Errorf("touched %+v", x)
		}
	}
	if st := h.n.Stats(); st.Touches != 2 || st.Warmed != 1 || st.Undone != 6 || st.Policies[0].Wanted != 8 {
		t.Errorf("counted %d, %d, %d of %+v", st.Touches, st.Warmed, st.Undone, st.Policies)
	}
	// what was to be computed ahead is not missed where it is not there; what was held is
	for i, missed := range []int64{0, 1} {
		h.must(h.step(touchedBy(touched[1-i], 65, 0)))
		if s := h.n.Stats().Touched; s.Missed != missed || s.Found != 0 {
			t.Errorf("%d missed, %d found after %d answers, want %d missed", s.Missed, s.Found, i+1, missed)
		}
	}
	if len(h.faults) > 0 {
		t.Errorf("faults %v", h.faults)
	}
}

// What a hub asks for itself is no session's, and no policy hears of it.
func TestPoliciesHearNothingOfTheHubsOwnTasks(t *testing.T) {
	h, ds := seeding(t, false, nil)
	if len(ds) != 2 || ds[1].Task.Client != "probe-math" {
		t.Fatalf("dispatched: %+v", ds)
	}
	s := &spy{}
	h.n.runtime.host.Set(policy.Keep, "spy", s)
	h.serve(ds[1], market.Usage{Prompt: 1600, Output: 1})
	if got := s.heard(); got != "" {
		t.Errorf("of the hub's own task is heard: %s", got)
	}
	h.serve(ds[0], market.Usage{Prompt: 1600, Cached: 1504, Output: 20})
	if got := s.heard(); got != "served" {
		t.Errorf("of a client's is heard: %q", got)
	}
}

// A name in the configuration that no hook knows is an error that says where.
func TestAnUnknownPolicyIsRefused(t *testing.T) {
	cfg := testConfig()
	cfg.Policies.Keep = "magic"
	if err := cfg.Validate(); err == nil ||
		!strings.Contains(err.Error(), `policies: keep: there is no policy "magic"`) {
		t.Errorf("%v", err)
	}
}

// A hub whose policies say nothing, or the same of all, records what one without any does, byte for byte.
func TestSilentPoliciesChangeNoRecord(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	life := func(policies bool) (all []byte, events int) {
		rng := rand.New(rand.NewPCG(seed, 4))
		h := newHouse(t, nil)
		s := &spy{}
		if policies {
			h.n.runtime.host.Set(policy.Keep, "spy", s)
			h.n.runtime.host.Set(policy.Place, "constant",
				&spy{score: func(runtimepolicy.Item) float64 { return 1 }})
		}
		for i := range 3 {
			h.join(fmt.Sprint("a-", i), "llama", 2, 0.9, card(1, 1, market.Credits(4+i)))
		}
		for i := range 200 {
			h.must(h.step(h.task([]string{"ann", "bob"}[rng.IntN(2)], fmt.Sprint("t", i), func(m *bus.Task) {
				m.Session, m.SessionEnd = fmt.Sprint("s-", rng.IntN(9)), rng.IntN(9) == 0
				m.BackMS, m.Next, m.Parent = rng.Int64N(9000), fmt.Sprint("s-", rng.IntN(9)), "s-0"
			})))
			for len(h.dispatched) > 3 || len(h.dispatched) > 0 && rng.IntN(3) == 0 {
				d := h.dispatched[0]
				if h.dispatched = h.dispatched[1:]; rng.IntN(8) == 0 {
					h.refuse(d, bus.CodeNoSlot)
				} else {
					h.serve(d, market.Usage{Prompt: 90 + rng.IntN(30), Output: 1 + rng.IntN(60)})
				}
			}
			h.pass(time.Duration(rng.IntN(300)) * time.Millisecond)
		}
		for i := range h.frames {
			all = ledger.AppendFrame(all, &h.frames[i])
		}
		return all, len(s.events)
	}
	without, _ := life(false)
	with, events := life(true)
	if len(without) < 10_000 || events < 100 || !slices.Equal(with, without) {
		t.Errorf("%d bytes with policies that heard %d events, %d without", len(with), events, len(without))
	}
}

// The policy kvcache, named in the configuration, hears of turns, and has what comes next used again.
func TestKVCacheInAHub(t *testing.T) {
	h := newHouse(t, func(c *Config) {
		c.Policies.Keep, c.Seats.Sessions, c.Seats.Touches = "kvcache", true, true
	})
	var touched []Touch
	h.tell = func(r *Ready) { touched = append(touched, r.Touches...) }
	h.prepaid["probe-math"] = 1000 * market.Credit
	reg := registration("a-1", "llama", 4, 0.9, card(1, 1, 4))
	reg.BlockSize, reg.KVTokens, reg.Features = 1, 8000, []string{bus.Touches}
	h.must(h.n.Join(h.now, reg))
	h.run()
	for i, s := range []string{"boss", "child"} {
		h.must(h.step(h.task("ann", fmt.Sprint("t", i), func(m *bus.Task) { m.Session, m.Next = s, "boss" })))
		h.serve(h.take("ann", fmt.Sprint("t", i)), market.Usage{Prompt: 100, Output: 3})
	}
	h.n.fundTouches("probe-math", market.Credit, 1)
	h.run()
	h.pass(actEvery + time.Millisecond)
	if len(touched) != 1 || touched[0].Dispatch.Session != bus.SessionKey("ann", "boss") ||
		touched[0].Dispatch.Tokens != 103 {
		t.Errorf("touched %+v", touched)
	}
	if p := h.n.Stats().Policies; len(p) != 1 || p[0].Policy != "kvcache" || p[0].Observed < 6 ||
		len(h.faults) > 0 {
		t.Errorf("%+v, %v", p, h.faults)
	}
}

// What an agent is not given now, as it has enough to compute, is no slot that is short: fair holds nobody
// for a client that is away where most slots are free.
func TestFairCountsSlotsThatAreFree(t *testing.T) {
	h := newHouse(t, func(c *Config) {
		c.Policies.Place, c.Seats.Depth, c.Seed.Every = "fair", 100*time.Millisecond, 0
	})
	h.join("a-1", "llama", 8, 0.9, card(1, 1, 4))
	long := func(m *bus.Task) { m.Prompt.Tokens, m.Prompt.Bytes = 6000, 24000 }
	h.must(h.step(h.task("bob", "b1")))
	h.serve(h.take("bob", "b1"), market.Usage{Prompt: 100, Output: 5})
	h.must(h.step(h.task("ann", "t1", long)))
	h.must(h.step(h.task("ann", "t2", long)))
	h.accept(h.take("ann", "t1"))
	h.pass(2 * time.Second) // its prompt is computed, and its answer is not at its end
	h.take("ann", "t2")
}

// A task that its agent refuses or gives up waits again, and policies hear so: who counts what waits and what
// runs counts right.
func TestPoliciesHearThatATaskWaitsAgain(t *testing.T) {
	h := taught(t, 2, 8, nil)
	s := &spy{}
	h.n.runtime.host.Set(policy.Keep, "spy", s)
	h.must(h.step(h.task("ann", "t1")))
	first := h.take("ann", "t1")
	h.refuse(first, bus.CodeNoSlot)
	h.pass(time.Second)
	if got, want := s.heard(), "arrived placed failed again placed"; got != want {
		t.Fatalf("refused: heard %s, want %s", got, want)
	}
	d := h.take("ann", "t1")
	h.accept(d)
	h.give(d, h.agentOf(d))
	h.pass(time.Second)
	if got, want := s.heard(), "arrived placed failed again placed failed again placed"; got != want {
		t.Errorf("given up: heard %s, want %s", got, want)
	}
}

// Whoever waits although it has less than its share is named with what it is owed.
func TestDeficitsAreShown(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.Policies.Place = "fair" })
	h.join("a-1", "llama", 2, 0.9, card(1, 1, 4))
	for _, x := range [][2]string{{"ann", "t1"}, {"ann", "t2"}, {"bob", "t3"}} {
		h.must(h.step(h.task(x[0], x[1])))
	}
	h.accept(h.take("ann", "t1"))
	h.accept(h.take("ann", "t2"))
	if all := h.n.Stats().Owed; len(all) > 0 {
		t.Errorf("at once: %+v", all)
	}
	h.must(h.step(h.task("bob", "t4")))
	h.pass(2 * time.Second)
	h.must(h.step(h.task("bob", "t5")))
	all := h.n.Stats().Owed
	if len(all) != 1 || all[0].Client != "bob" || all[0].Seconds < 1 || all[0].Seconds > 2.1 {
		t.Errorf("bob waits for one of two slots for two seconds, and is owed %+v", all)
	}
}

// Of a thousand clients the policy is asked about those that wait.
func TestWhoDoesNotWaitIsOwedNothing(t *testing.T) {
	asked := map[runtimepolicy.ID]int{}
	h := newHouse(t, nil)
	h.n.runtime.host.Set(policy.Place, "spy", &spy{score: func(i runtimepolicy.Item) float64 {
		if i.Kind != runtimepolicy.Share {
			return 0
		}
		asked[i.Client]++
		return 1
	}})
	h.join("a-1", "llama", 2, 0.9, card(1, 1, 4))
	for i := range 1000 {
		client := fmt.Sprint("c-", i)
		h.prepaid[client] = market.Credit
		h.must(h.step(h.task(client, "t")))
		h.serve(h.take(client, "t"), market.Usage{Prompt: 100, Output: 9})
	}
	for i := range 6 {
		h.must(h.step(h.task("ann", fmt.Sprint("t", i))))
	}
	all := h.n.Stats().Owed
	if len(asked) != 1 || asked[runtimepolicy.IDOf("ann")] != 1 || len(all) != 1 || all[0].Client != "ann" {
		t.Errorf("asked about %d clients, %d times about ann, who waits; owed: %+v", len(asked),
			asked[runtimepolicy.IDOf("ann")], all)
	}
}

// However many clients wait, who is owed something is found in memory that is there.
func TestDeficitsAreAskedForInTheSameMemory(t *testing.T) {
	h := newHouse(t, nil)
	h.n.runtime.host.Set(policy.Place, "spy", &spy{score: func(runtimepolicy.Item) float64 { return 0 }})
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	for i := range 200 {
		client := fmt.Sprint("c-", i)
		h.prepaid[client] = market.Credit
		h.must(h.step(h.task(client, "t")))
	}
	if n := h.n.batch.All(); n < 150 {
		t.Fatalf("%d tasks wait", n)
	}
	if n := testing.AllocsPerRun(10, func() { h.n.owed() }); n > 4 {
		t.Errorf("%v allocations", n)
	}
}

// What a policy says of a task may be something else a moment later, by what it has heard of others. Who was
// kept from a free slot is asked about again each second, though nothing happens that has a round held.
func TestWhoAPolicyKeptOutIsAskedAboutAgain(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.Silence, c.Suspect, c.Seed.Every = time.Hour, time.Hour, 0 })
	says := runtimepolicy.Hold
	h.n.runtime.host.Set(policy.Place, "spy",
		&spy{score: func(runtimepolicy.Item) float64 { return says }})
	h.join("a-1", "llama", 2, 0.9, card(1, 1, 4))
	h.must(h.step(h.task("ann", "t1")))
	h.pass(1500 * time.Millisecond)
	if h.n.waiting != 1 {
		t.Fatalf("%d wait: the policy keeps nobody out", h.n.waiting)
	}
	says = 0
	at := h.now
	for h.n.waiting > 0 && h.wake.Sub(at) < 30*time.Second {
		h.pass(max(0, h.wake.Sub(h.now)))
	}
	if waited := h.now.Sub(at); h.running() != "ann/t1>a-1" || waited > actEvery+lookAgain {
		t.Errorf("%v later it is handed %q", waited, h.running())
	}
	h.audited()
}
