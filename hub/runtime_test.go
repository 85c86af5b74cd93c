package hub_test

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
	"souk/hub"
	"souk/hub/policy"
	"souk/ledger"
	"souk/market"
)

// actEvery is how often policies are asked what is to be done.
const actEvery = time.Second

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
	h.n.SetPolicy(policy.Keep, "spy", s)
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
	if again.Role != writer || again.Turn != 1 {
		t.Errorf("arrived again: %+v", again)
	}
	s.events = nil
	h.serve(d, market.Usage{Prompt: 100, Output: 3})
	if got, want := s.heard(), "served ended"; got != want {
		t.Errorf("heard %s, want %s", got, want)
	}
}

// A last turn that is refused, and is to be sent again, ends no session.
func TestARefusedLastTurnEndsNoSession(t *testing.T) {
	h := newHouse(t, nil)
	s := &spy{}
	h.n.SetPolicy(policy.Keep, "spy", s)
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	h.must(h.step(h.task("ann", "t1", func(m *bus.Task) { m.Session, m.SessionEnd = "one", true })))
	h.refuse(h.take("ann", "t1"), bus.CodeNoSlot)
	h.n.Drain(h.now) // it is told to try again
	h.run()
	h.want("inbox.ann.t1", "draining")
	if got := s.heard(); !strings.HasSuffix(got, "failed") {
		t.Errorf("heard %s", got)
	}
}

// Of a turn that ends before any agent has it policies hear the end as well: else its session is one whose
// turn runs, for ever.
func TestPoliciesHearTheEndOfWhatNobodyServed(t *testing.T) {
	h := newHouse(t, nil)
	s := &spy{}
	h.n.SetPolicy(policy.Keep, "spy", s)
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	h.must(h.step(h.task("ann", "t1")))
	h.take("ann", "t1")
	h.must(h.step(h.task("ann", "t2")))
	h.must(h.step(&bus.Cancel{Client: "ann", Task: "t2"}))
	if got, want := s.heard(), "arrived placed arrived failed"; got != want {
		t.Errorf("heard %s, want %s", got, want)
	}
}

// A policy that panics is off for a minute: the log, the status and the counts say which, and the hub goes
// on.
func TestAPolicyThatPanicsIsNamed(t *testing.T) {
	h := newHouse(t, nil)
	s := &spy{act: func(runtimepolicy.Room, []runtimepolicy.Effect) []runtimepolicy.Effect { panic("no") }}
	h.n.SetPolicy(policy.Keep, "spy", s)
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
	h.n.SetPolicy(policy.Place, "spy", &spy{score: func(i runtimepolicy.Item) float64 {
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
	toll := policy.Toll(0.001, h.n.Second("a-1"))
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
			h := newHouse(t, func(c *hub.Config) { c.Batch.Eager = false })
			s := byName(0.0001)
			score := s.score
			s.score = func(i runtimepolicy.Item) float64 { items = append(items, i); return score(i) }
			h.n.SetPolicy(policy.Place, "spy", s)
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
			sets := h.n.Sets()
			return sets, items
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

// What a policy wants done is passed on where it may be of use: not while somebody waits, not too late, and
// not of no session.
func TestWishesArePassedOn(t *testing.T) {
	h := newHouse(t, nil)
	var want []runtimepolicy.Effect
	h.n.SetPolicy(policy.Keep, "spy", &spy{act: func(_ runtimepolicy.Room,
		to []runtimepolicy.Effect) []runtimepolicy.Effect {
		to = append(to, want...)
		want = nil
		return to
	}})
	var passed []runtimepolicy.Effect
	h.tell = func(r *hub.Ready) { passed = append(passed, r.Wishes...) }
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	h.must(h.step(h.task("ann", "t1")))
	h.serve(h.take("ann", "t1"), market.Usage{Prompt: 100, Output: 3})
	e := runtimepolicy.Effect{Kind: runtimepolicy.KeepAlive, Agent: runtimepolicy.IDOf("a-1"), Session: 5,
		Tokens: 64}
	late, nobody, none, empty := e, e, e, e
	late.Until, nobody.Agent, none.Session, empty.Tokens = h.now, 0, 0, 0
	warm := e
	warm.Kind, warm.Until = runtimepolicy.Warm, h.now.Add(time.Hour)
	want = []runtimepolicy.Effect{late, e, nobody, none, empty, warm}
	h.pass(actEvery + time.Millisecond)
	if !slices.Equal(passed, []runtimepolicy.Effect{e, warm}) {
		t.Errorf("passed on: %+v", passed)
	}
	h.must(h.step(h.task("ann", "runs")))
	h.accept(h.take("ann", "runs"))
	h.must(h.step(h.task("ann", "waits")))
	passed, want = nil, []runtimepolicy.Effect{warm}
	h.pass(actEvery + time.Millisecond)
	if len(passed) > 0 || h.n.Stats().Waiting != 1 {
		t.Errorf("%d wait, and passed on is %+v", h.n.Stats().Waiting, passed)
	}
	if p := h.n.Stats().Policies; p[0].Wanted != 7 || len(h.faults) > 0 {
		t.Errorf("counted %+v; %v", p, h.faults)
	}
}

// What a hub asks for itself is no session's, and no policy hears of it.
func TestPoliciesHearNothingOfTheHubsOwnTasks(t *testing.T) {
	h, ds := prewarming(t, "", nil)
	if len(ds) != 2 || ds[1].Task.Client != "probe-math" {
		t.Fatalf("dispatched: %+v", ds)
	}
	s := &spy{}
	h.n.SetPolicy(policy.Keep, "spy", s)
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
			h.n.SetPolicy(policy.Keep, "spy", s)
			h.n.SetPolicy(policy.Place, "constant",
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

// The policy kvcache, named in the configuration, hears of turns, and wants what comes next used again.
func TestKVCacheInAHub(t *testing.T) {
	h := newHouse(t, func(c *hub.Config) { c.Policies.Keep = "kvcache" })
	var wishes []runtimepolicy.Effect
	h.tell = func(r *hub.Ready) { wishes = append(wishes, r.Wishes...) }
	h.join("a-1", "llama", 4, 0.9, card(1, 1, 4))
	for i, s := range []string{"boss", "child"} {
		h.must(h.step(h.task("ann", fmt.Sprint("t", i), func(m *bus.Task) { m.Session, m.Next = s, "boss" })))
		h.serve(h.take("ann", fmt.Sprint("t", i)), market.Usage{Prompt: 100, Output: 3})
	}
	h.pass(actEvery + time.Millisecond)
	if len(wishes) != 1 || wishes[0].Session != bus.SessionKey("ann", "boss") || wishes[0].Tokens != 103 {
		t.Errorf("wishes: %+v", wishes)
	}
	if p := h.n.Stats().Policies; len(p) != 1 || p[0].Policy != "kvcache" || p[0].Observed < 6 ||
		len(h.faults) > 0 {
		t.Errorf("%+v, %v", p, h.faults)
	}
}
