package adapter

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"souk/bus/policy"
)

var start = time.Unix(1_800_000_000, 0)

// crew is sessions whose turns go from agent to agent.
type crew struct {
	*Adapter
	now time.Time
}

func (c *crew) say(kind policy.EventKind, session, agent policy.ID) {
	c.Observe(policy.Event{Kind: kind, At: c.now, Client: 1, Session: session, Agent: agent, Role: agent})
	c.now = c.now.Add(100 * time.Millisecond)
}

func (c *crew) turn(session, agent policy.ID) {
	c.say(policy.Arrived, session, agent)
	c.say(policy.Served, session, agent)
}

// wants is which agent's adapter is to be ready next; 0: none.
func (c *crew) wants() policy.ID {
	all := c.Act(c.now, policy.Room{Effects: 16, Tokens: 1 << 16, Work: policy.NewWork(1 << 12)}, nil)
	if len(all) == 0 {
		return 0
	}
	return all[0].Agent
}

// taught is a crew whose sessions have gone from 1 to 2 to 3 and back to 1, on an engine that keeps so many
// adapters ready.
func taught(ready int) *crew {
	c := &crew{New(ready), start}
	for s := range policy.ID(20) {
		for i := range policy.ID(6) {
			c.turn(100+s, 1+i%3)
		}
		c.say(policy.Ended, 100+s, 3)
	}
	return c
}

// The adapter that a session's next turn needs is loaded in place of one that nobody needs, once; where all
// are ready, or something runs, or nobody is there, nothing is.
func TestTheNextOneIsReady(t *testing.T) {
	c := taught(2)
	c.turn(1, 1) // ready are 3 and 1; 2 comes next, and then 3
	if got := c.wants(); got != 3 {
		t.Errorf("%d is asked for, want 3, which is about to go before 1", got)
	}
	c.say(policy.Loaded, 0, 3)
	if got := c.wants(); got != 2 {
		t.Errorf("%d is asked for, want 2 in place of 1", got)
	}
	c.say(policy.Loaded, 0, 2)
	if got := c.wants(); got != 0 {
		t.Errorf("%d is asked for, and what comes next is ready", got)
	}
	c.say(policy.Ended, 1, 1)
	if got := c.wants(); got != 0 {
		t.Errorf("%d is asked for by nobody", got)
	}
	c.turn(2, 3)
	c.say(policy.Arrived, 3, 3)
	if got := c.wants(); got == 1 {
		t.Error("an adapter is loaded while something runs, and that stands still for it")
	}
	if all := taught(3); all.wants() != 0 {
		t.Error("all are ready")
	}
}

// A session that is away for much longer than its like is not waited for.
func TestWhoIsAwayIsNotWaitedFor(t *testing.T) {
	c := taught(2)
	c.turn(1, 1)
	c.now = c.now.Add(leastWait / 2)
	if got := c.wants(); got == 0 {
		t.Error("nothing is asked for, and it may be back")
	}
	c.now = c.now.Add(leastWait)
	if got := c.wants(); got != 0 {
		t.Errorf("%d is asked for", got)
	}
}

// An end of which nobody hears stops nothing for ever.
func TestALostEndIsForgotten(t *testing.T) {
	c := taught(2)
	c.say(policy.Arrived, 0, 3)
	c.now = c.now.Add(longestRun)
	c.turn(1, 1)
	c.turn(1, 2)
	c.turn(1, 3)
	c.turn(1, 1)
	if got := c.wants(); got == 0 {
		t.Error("nothing is asked for")
	}
}

// A session whose turn's end was lost is not waited for without end: what it would need next is not loaded,
// as nobody comes for it.
func TestASessionWhoseEndWasLostIsForgotten(t *testing.T) {
	c := taught(2)
	c.say(policy.Arrived, 1, 1) // its next turns are at 2 and 3
	c.say(policy.Served, 0, 1)  // the agent's books are right, the session's are not
	if got := c.wants(); got == 0 {
		t.Error("nothing is asked for, and the session goes on")
	}
	c.now = c.now.Add(longestRun)
	if got := c.wants(); got != 0 {
		t.Errorf("%d is asked for, for a session of which nothing was heard for %v", got, longestRun)
	}
}

// Many adapters may be ready, and more be sold.
func TestManyAreReady(t *testing.T) {
	const ready, sold = 100, 200
	c, wanted := &crew{New(ready), start}, 0
	for i := range policy.ID(4000) {
		c.turn(1, 1+i%sold)
		if c.wants() != 0 {
			wanted++
		}
	}
	if wanted < 1000 {
		t.Errorf("%d of 4,000 times an adapter is asked for", wanted)
	}
}

// What no agent did moves nothing, and a client without sessions takes no place of one that has some.
func TestNobodysTurn(t *testing.T) {
	c := &crew{New(1), start}
	c.say(policy.Arrived, 1, 0)
	c.say(policy.Served, 1, 0)
	c.say(policy.Arrived, 0, 1)
	if n := c.sessions.Len(); len(c.all) != 1 || n != 0 {
		t.Errorf("%d adapters, %d sessions", len(c.all), n)
	}
}

// With two that may come next it is the one before that tells which.
func TestTheTurnBeforeTells(t *testing.T) {
	c := &crew{New(1), start}
	for s := range policy.ID(30) {
		for range 6 {
			for _, a := range []policy.ID{2, 1, 3, 1} {
				c.turn(100+s, a)
			}
		}
		c.say(policy.Ended, 100+s, 1)
	}
	c.turn(1, 2)
	c.turn(1, 1)
	if got := c.wants(); got != 3 {
		t.Errorf("after 2 and 1 %d is asked for, want 3", got)
	}
	c.turn(1, 3)
	c.turn(1, 1)
	if got := c.wants(); got != 2 {
		t.Errorf("after 3 and 1 %d is asked for, want 2", got)
	}
}

// The same events have the same effects; nonsense, a million sessions and agents leave it bounded, never off,
// and make nobody else's sessions be forgotten.
func TestNonsense(t *testing.T) {
	if size := unsafe.Sizeof(pair{}); size != 16 {
		t.Errorf("%d bytes a pair", size)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	play := func() (*Adapter, []policy.Effect) {
		rng := rand.New(rand.NewPCG(seed, 1))
		a := New(2)
		g := policy.NewGuard("next", a)
		g.Observe(policy.Event{Kind: policy.Arrived, At: start, Client: 9, Session: 9, Agent: 1, Role: 1})
		var all []policy.Effect
		for range 100_000 {
			at := start.Add(time.Duration(rng.Int64N(int64(time.Hour))))
			g.Observe(policy.Event{Kind: policy.EventKind(rng.IntN(12)), At: at, Client: 2,
				Session: rng.Uint64N(1 << rng.IntN(40)), Agent: rng.Uint64N(1 << rng.IntN(20)),
				Role: rng.Uint64N(9)})
			if rng.IntN(100) == 0 {
				room := policy.Room{Effects: 16, Tokens: 1, Work: policy.NewWork(1 << 12)}
				all = append(all, g.Act(at, room)...)
			}
		}
		if until, why := g.Off(start.Add(time.Hour)); why != nil {
			t.Errorf("off until %v: %v", until, why)
		}
		return a, all
	}
	a, effects := play()
	if a.sessions.Len() > mostSessions || a.states.Len() > mostStates || len(a.all) > mostAdapters {
		t.Errorf("%d sessions, %d states, %d adapters", a.sessions.Len(), a.states.Len(), len(a.all))
	}
	if a.sessions.Peek(owned{9, 9}) == nil {
		t.Error("another client's session is forgotten")
	}
	if _, again := play(); !reflect.DeepEqual(again, effects) {
		t.Error("the same events have other effects")
	}
}

func BenchmarkAct(b *testing.B) {
	c := &crew{New(4), start}
	for i := range policy.ID(2000) {
		c.turn(i%mostSessions, 1+i%12)
	}
	b.ReportAllocs()
	for b.Loop() {
		c.wants()
	}
}

func BenchmarkObserve(b *testing.B) {
	c := &crew{New(4), start}
	b.ReportAllocs()
	for i := policy.ID(0); b.Loop(); i++ {
		c.turn(i%200, 1+i%12)
	}
}
