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

// spy is a policy that does what a test says and keeps what it hears.
type spy struct {
	runtimepolicy.Silent
	events []runtimepolicy.Event
	score  func(runtimepolicy.Item) float64
}

func (s *spy) Observe(e runtimepolicy.Event) { s.events = append(s.events, e) }
func (s *spy) Score(_ time.Time, i runtimepolicy.Item) float64 {
	if s.score == nil {
		return 0
	}
	return s.score(i)
}
func (s *spy) heard() string {
	var all []string
	for _, e := range s.events {
		all = append(all, e.Kind.String())
	}
	return strings.Join(all, " ")
}

// What becomes of a client's turns comes to the policy, with the role that the client says.
func TestAPolicyHearsOfTurns(t *testing.T) {
	h := newHouse(t, nil)
	s := &spy{}
	h.n.SetPolicy("spy", s)
	h.join("a-1", "llama", 2, 0.9, card(1, 1, 4))
	h.must(h.step(h.task("ann", "t1",
		func(m *bus.Task) { m.Session, m.Role, m.Declared = "s", "writer", true })))
	d := h.take("ann", "t1")
	c := completion("a-1", d, market.Usage{Prompt: 100, Output: 30})
	c.Finish, c.Tool = "tool_calls", bus.ToolKey("search")
	h.accept(d)
	h.must(h.step(c))
	if got, want := s.heard(), "arrived placed served"; got != want {
		t.Fatalf("heard %s, want %s", got, want)
	}
	for _, e := range s.events {
		if e.Role != bus.RoleKey("ann", "writer", &bus.Prompt{}) || e.Session != bus.SessionKey("ann", "s") ||
			e.Client != runtimepolicy.IDOf("ann") || e.At.IsZero() {
			t.Errorf("%s: %+v", e.Kind, e)
		}
	}
	if e := s.events[1]; e.Usage.Prompt == 0 || e.Agent != runtimepolicy.IDOf("a-1") {
		t.Errorf("placed: %+v", e)
	}
	if e := s.events[2]; e.Tool != bus.ToolKey("search") || e.Stop != runtimepolicy.StopTool ||
		e.Agent != runtimepolicy.IDOf("a-1") || e.Usage != c.Usage {
		t.Errorf("served: %+v", e)
	}
}

// Of a turn that ends before any agent has it policies hear the end as well: else its session is one whose
// turn runs, for ever.
func TestPoliciesHearTheEndOfWhatNobodyServed(t *testing.T) {
	h := newHouse(t, nil)
	s := &spy{}
	h.n.SetPolicy("spy", s)
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
	s := &spy{score: func(runtimepolicy.Item) float64 { panic("no") }}
	h.n.SetPolicy("spy", s)
	h.join("a-1", "llama", 2, 0.9, card(1, 1, 4))
	h.must(h.step(h.task("ann", "t1")))
	if len(h.faults) != 1 || !strings.HasPrefix(h.faults[0].Error(), "place: policy spy is off until 2027-") {
		t.Errorf("faults %v", h.faults)
	}
	h.pass(time.Second)
	p := h.status.Policies
	if len(p) != 1 || p[0].Hook != "place" || p[0].Policy != "spy" || p[0].OffMS != 59_000 ||
		!strings.Contains(p[0].Why, "panicked") {
		t.Errorf("status %+v", p)
	}
	if st := h.n.Stats().Policies; len(st) != 1 || st[0].Panics != 1 || st[0].Off.IsZero() {
		t.Errorf("counts %+v", st)
	}
	s.score = nil
	h.serve(h.take("ann", "t1"), market.Usage{Prompt: 100, Output: 3})
	h.pass(runtimepolicy.OffFor)
	if p := h.status.Policies; len(h.faults) != 1 || len(p) != 1 || p[0].OffMS != 0 || p[0].Why != "" {
		t.Errorf("after a minute: %v, %+v", h.faults, p)
	}
}

// byName is a policy that decides by the name of agent and session alone.
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
	h.n.SetPolicy("spy", &spy{score: func(i runtimepolicy.Item) float64 {
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
			h.n.SetPolicy("spy", s)
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

// What a hub asks for itself is no session's, and no policy hears of it.
func TestPoliciesHearNothingOfTheHubsOwnTasks(t *testing.T) {
	h, ds := prewarming(t, false, nil)
	if len(ds) != 2 || ds[1].Task.Client != "probe-math" {
		t.Fatalf("dispatched: %+v", ds)
	}
	s := &spy{}
	h.n.SetPolicy("spy", s)
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
	cfg.Policies.Place = "magic"
	if err := cfg.Validate(); err == nil ||
		!strings.Contains(err.Error(), `policies: place: there is no policy "magic"`) {
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
		s := &spy{score: func(runtimepolicy.Item) float64 { return 1 }}
		if policies {
			h.n.SetPolicy("constant", s)
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
