package policy

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/policy"
	"souk/hub/turn"
	"souk/ledger"
	"souk/market"
)

var start = time.Unix(1_800_000_000, 0)

// listener keeps what it hears, and says of pairs what a test wants.
type listener struct {
	events []policy.Event
	score  func(policy.Item) float64
}

func (l *listener) Observe(e policy.Event) { l.events = append(l.events, e) }
func (l *listener) Score(_ time.Time, i policy.Item) float64 {
	if l.score == nil {
		return 0
	}
	return l.score(i)
}
func (l *listener) Act(_ time.Time, _ policy.Room, to []policy.Effect) []policy.Effect { return to }

func (l *listener) last(kind policy.EventKind) *policy.Event {
	for i := len(l.events) - 1; i >= 0; i-- {
		if l.events[i].Kind == kind {
			return &l.events[i]
		}
	}
	return &policy.Event{}
}

// remembers returns the room of a hub with policies by name, which remembers so many sessions.
func remembers(p Params, known *Known, sessions int) *Room {
	t := turn.New("hub-math", "math", ledger.NewBook(), [32]byte{1})
	t.Advance(start)
	return NewRoom(&t, p, known, sessions, nil)
}

func listening() (*Room, *listener) {
	l := &listener{}
	return remembers(Params{Keep: "listener"},
		&Known{Keep: {"listener": func() policy.Policy { return l }}}, 1<<16), l
}

// turn is a turn of a session, which its client ends after a pause that it says.
func turnOf(client, session string, back time.Duration) *Turn {
	return &Turn{Turn: policy.Turn{Client: client, Session: bus.SessionKey(client, session), Role: 7,
		Agent: "a-1"}, Back: back}
}

func served(finish string, tool string) *bus.Completion {
	return &bus.Completion{Outcome: bus.OutcomeDone, Finish: finish, Tool: bus.ToolKey(tool),
		Usage: market.Usage{Prompt: 100, Cached: 64, Output: 5}, TTFTUS: 2000, ITLUS: 300}
}

// A name that no hook knows is an error that lists those that it knows.
func TestUnknownPolicies(t *testing.T) {
	known := Known{Keep: {"one": func() policy.Policy { return &listener{} },
		"two": func() policy.Policy { return &listener{} }}}
	if err := (Params{Keep: "two"}).Validate(&known); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		p    Params
		want string
	}{
		{Params{Keep: "three"},
			`keep: there is no policy "three" here, only "one", "two", "", which is none`},
		{Params{Place: "one"}, `place: there is no policy "one" here, only "", which is none`},
	} {
		if err := c.p.Validate(&known); err == nil || err.Error() != c.want {
			t.Errorf("%+v: %v, want %s", c.p, err, c.want)
		}
	}
	if h := remembers(Params{Keep: "one"}, &known, 10); !h.Any() || h.Of(Keep).Name() != "one" ||
		h.Of(Place).On(start) {
		t.Errorf("%+v", h.States(start))
	}
	if h := remembers(Params{}, &known, 10); h.Any() || len(h.States(start)) > 0 {
		t.Errorf("without policies: %+v", h.States(start))
	}
}

// An event says of a session what is remembered of it: turns, role, parent; and of its next turn what its
// client says.
func TestEventsKnowTheSession(t *testing.T) {
	h, l := listening()
	x := turnOf("ann", "s", 3*time.Second)
	x.Parent = "boss"
	h.Arrived(start, x)
	h.Placed(start, x, market.Usage{Prompt: 9})
	h.Served(start.Add(time.Second), x, served("tool_calls", "search"))
	again := turnOf("ann", "s", 0)
	again.Role = 0 // it says nothing now
	h.Arrived(start.Add(5*time.Second), again)
	e := l.last(policy.Served)
	if e.Stop != policy.StopTool || e.Tool != bus.ToolKey("search") || e.TTFT != 2*time.Millisecond ||
		e.ITL != 300*time.Microsecond || e.Claimed != 3*time.Second || e.Usage.Cached != 64 || e.Turn != 0 {
		t.Errorf("served: %+v", e)
	}
	e = l.last(policy.Arrived)
	if e.Turn != 1 || e.Role != 7 || e.Parent != bus.SessionKey("ann", "boss") || e.Claimed != 0 ||
		e.Client != policy.IDOf("ann") {
		t.Errorf("arrived: %+v", e)
	}
	cut := served("", "")
	cut.Outcome = bus.OutcomeCancelled
	if h.Served(start, again, cut); l.last(policy.Served).Stop != policy.StopCut {
		t.Errorf("cancelled: %+v", l.last(policy.Served))
	}
	h.Ended(start, x.Session)
	h.Ended(start, x.Session)
	h.Ended(start, 99)
	ends := 0
	for _, e := range l.events {
		if e.Kind == policy.Ended {
			ends++
		}
	}
	if ends != 1 {
		t.Errorf("%d ends are heard, want 1: the others are of nobody", ends)
	}
}

// Hints that make no sense do no harm: a session that began itself, two that began each other, what comes
// next in a session of somebody else's.
func TestSenselessHints(t *testing.T) {
	h, l := listening()
	a, b := turnOf("ann", "a", 0), turnOf("ann", "b", 0)
	a.Parent, b.Parent = "b", "a"
	h.Arrived(start, a)
	h.Arrived(start, b)
	if e := l.last(policy.Arrived); e.Parent != 0 {
		t.Errorf("two sessions that began each other: %+v", e)
	}
	self := turnOf("ann", "c", 0)
	self.Parent = "c"
	if h.Arrived(start, self); l.last(policy.Arrived).Parent != 0 {
		t.Error("a session began itself")
	}
	theirs := turnOf("bob", "victim", 0)
	h.Arrived(start, theirs)
	a.Next = "victim"
	h.Served(start, a, served("stop", ""))
	if e := l.last(policy.Next); e.Session == theirs.Session || e.Session != a.Session ||
		e.Role == theirs.Role || e.Role != bus.RoleKey("ann", "victim", &bus.Prompt{}) {
		t.Errorf("bob's session is next of ann's: %+v", e)
	}
	a.Next = "b"
	h.Arrived(start, a)
	h.Served(start, a, served("stop", ""))
	if e := l.last(policy.Next); e.Session != b.Session || e.Role != 7 || e.Parent != a.Session {
		t.Errorf("of her own: %+v", e)
	}
	if bus.RoleKey("ann", "critic", &bus.Prompt{}) == bus.RoleKey("bob", "critic", &bus.Prompt{}) {
		t.Error("two clients share the role that each declares")
	}
	p := bus.Prompt{Bytes: 900, SystemBoundary: 512, Prefixes: []bus.PrefixHash{{Bytes: 512, Hash: 9},
		{Bytes: 900, Hash: 10}}}
	if bus.RoleKey("ann", "", &p) != 9 || bus.RoleKey("bob", "", &p) != 9 ||
		bus.RoleKey("bob", "", &bus.Prompt{}) != 0 {
		t.Error("who declares none has the role that the prompt begins with")
	}
}

// A client with two hundred thousand sessions, tools and roles makes nobody else be forgotten, and what a
// host remembers stays bounded, whatever is told twice, out of order or from the future.
func TestAFloodOfSessions(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	known := Known{Keep: {"listener": func() policy.Policy { return &deaf{} }}}
	h := remembers(Params{Keep: "listener"}, &known, 2000)
	for i := range 500 {
		x := turnOf("ann", fmt.Sprint(i), time.Second)
		h.Arrived(start, x)
		h.Served(start, x, served("stop", "t"))
	}
	for i := range 200_000 {
		x := turnOf("eve", fmt.Sprint(i), time.Duration(rng.Int64N(int64(24*time.Hour))))
		x.Role, x.Parent, x.Next = rng.Uint64(), fmt.Sprint(rng.IntN(i+1)), fmt.Sprint(rng.IntN(i+1))
		at := start.Add(time.Duration(rng.Int64N(int64(time.Hour))) - 30*time.Minute)
		switch rng.IntN(4) {
		case 0:
			h.Served(at, x, served("tool_calls", fmt.Sprint(i)))
		case 1:
			h.Failed(at, x)
		}
		h.Arrived(at, x)
		h.Served(at, x, served("tool_calls", fmt.Sprint(i)))
	}
	if n := h.sessions.Len(); n > 2000 {
		t.Errorf("%d sessions are remembered", n)
	}
	// and with a million wishes nobody else's, whether they are asked for or not
	a := turnOf("ann", "0", 0)
	a.Next = "1"
	h.Served(start, a, served("stop", ""))
	for i := range 1_000_000 {
		x := turnOf("eve", fmt.Sprint(199_999-i%500), 0)
		x.Next = fmt.Sprint(199_999 - rng.IntN(1000))
		if i%2 == 0 {
			x.Next = "1" // ann's
		}
		h.Served(start, x, served("stop", ""))
	}
	for i := range 500 {
		if h.sessions.Peek(bus.SessionKey("ann", fmt.Sprint(i))) == nil {
			t.Fatalf("ann's session %d is forgotten", i)
		}
	}
}

type deaf struct{ listener }

func (*deaf) Observe(policy.Event) {}
