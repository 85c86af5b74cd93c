package hub_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// sessionHouse makes a house with room for so many sessions of some 200 tokens at each of its agents.
func sessionHouse(t *testing.T, agents, sessions int, change func(*hub.Config)) *house {
	h := newHouse(t, func(c *hub.Config) {
		c.Sessions.Admit = true
		c.MaxWaiting, c.MaxWaitingPerClient, c.Deadline = 1000, 1000, 10*time.Minute
		c.Prewarm.Every = 0
		if change != nil {
			change(c)
		}
	})
	for i := range agents {
		h.joinSized(fmt.Sprint("a-", i), sessions)
	}
	return h
}

// joinSized has an agent join whose cache has room for so many sessions of 200 tokens.
func (h *house) joinSized(id string, sessions int) {
	h.t.Helper()
	reg := registration(id, "llama", 8, 0.9, card(1, 1, 4))
	reg.BlockSize, reg.KVTokens = 10, 10*(21*sessions+1) // a twentieth is not believed
	h.must(h.register(reg))
	h.run()
}

// turn sends the next turn of a session.
func (h *house) turn(client, id, session string) {
	h.t.Helper()
	h.must(h.step(h.task(client, id, func(m *bus.Task) { m.Session = session })))
}

// Who has a place and what a task is charged for delaying others are the same whatever the tasks of a round
// bid: their terms are scaled and exchanged.
func TestPlacesReadNoBid(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	outside, charged := 0, 0
	for run := range 40 {
		var want []string
		for variant := range 4 {
			random := rand.New(rand.NewPCG(seed, uint64(run)))
			h := sessionHouse(t, 3, 2+random.IntN(4), nil)
			for i := range 3 {
				h.grants = append(h.grants, bus.Grant{Number: uint64(i + 1), Client: fmt.Sprint("c", i),
					Hub: "hub-math", Amount: 1000 * market.Credit})
			}
			h.askGrants()
			for i := range 8 + random.IntN(8) { // some have places, and these more tasks than there are slots
				for turn := range 3 {
					h.turn(fmt.Sprint("c", i%3), fmt.Sprint("old", i, "-", turn), fmt.Sprint("old", i))
				}
			}
			for len(h.dispatched) > 8 {
				d := h.dispatched[0]
				h.dispatched = h.dispatched[1:]
				h.accept(d)
				h.pass(100 * time.Millisecond)
				h.ends(d)
			}
			h.dispatched = nil
			h.pass(time.Duration(random.IntN(3000)) * time.Millisecond)
			n := 6 + random.IntN(10)
			terms := make([]market.Terms, n)
			for i := range terms {
				terms[i] = market.Terms{Worth: market.Credit/100 + market.Credits(random.Int64N(1e8)),
					Delta:    0.1 + 0.8*random.Float64(),
					Patience: time.Duration(1+random.IntN(20)) * time.Second}
			}
			sessions := random.Perm(30)
			switch variant {
			case 1:
				slices.Reverse(terms)
			case 2:
				for i := range terms {
					terms[i].Worth *= 7
				}
			case 3:
				for i := range terms {
					terms[i].Delta, terms[i].Patience = 0.5, terms[i].Patience*3
				}
			}
			var got []string
			h.n.Limit = func() func() bool {
				if got == nil {
					got = h.n.Fixed()
				}
				return nil
			}
			for i := range n {
				m := h.task(fmt.Sprint("c", i%3), fmt.Sprint("new", i), func(m *bus.Task) {
					m.Session = fmt.Sprint("old", sessions[i])
					ms := terms[i].Patience.Milliseconds()
					m.Terms = bus.Terms{Worth: &terms[i].Worth, Delta: &terms[i].Delta, PatienceMS: &ms}
				})
				h.must(h.n.Step(h.now, m))
			}
			h.run()
			h.pass(20 * time.Millisecond)
			if variant == 0 {
				want = got
				for _, s := range got {
					switch {
					case strings.HasSuffix(s, "finds no place"):
						outside++
					case strings.Contains(s, "pays -"):
						charged++
					}
				}
			} else if !slices.Equal(got, want) {
				t.Fatalf("run %d: what is fixed before bids are read differs:\n%v\n%v", run, want, got)
			}
		}
	}
	if outside == 0 || charged == 0 {
		t.Errorf("%d tasks found no place, %d were charged: the test sees nothing", outside, charged)
	}
}

// A session waits for a place, not for a slot; it gets one when another's has ended.
func TestASessionWaitsForAPlace(t *testing.T) {
	h := sessionHouse(t, 1, 2, nil)
	h.turn("ann", "t1", "one")
	h.turn("bob", "t2", "two")
	h.turn("ann", "t3", "three")
	h.pass(time.Second)
	one, two := h.take("ann", "t1"), h.take("bob", "t2")
	if len(h.dispatched) > 0 {
		t.Fatalf("two sessions fit, and a third is let in: %s", h.running())
	}
	h.serve(one, market.Usage{Prompt: 100, Output: 100})
	h.serve(two, market.Usage{Prompt: 100, Output: 100})
	h.turn("ann", "t4", "one") // a session that has a place goes on, before those that wait for one
	h.take("ann", "t4")
	if len(h.dispatched) > 0 {
		t.Fatalf("both places are taken, and a third session is let in: %s", h.running())
	}
	h.must(h.step(&bus.SessionEnd{Client: "ann", Session: "two"})) // of that name ann has none: bob's goes on
	h.run()
	h.pass(20 * time.Millisecond)
	if len(h.dispatched) > 0 {
		t.Fatal("one client has ended another's session")
	}
	h.must(h.step(&bus.SessionEnd{Client: "bob", Session: "two"}))
	h.run()
	h.pass(20 * time.Millisecond)
	h.take("ann", "t3")
}

// A session that has ended, as told with its last turn or after it, gives up its place, and no other: nobody
// ends the session of another client. Whoever goes on after that is a newcomer.
func TestASessionThatHasEnded(t *testing.T) {
	h := sessionHouse(t, 1, 2, nil)
	h.prepaid["cid"] = market.Credit
	h.must(h.step(h.task("ann", "t1", func(m *bus.Task) { m.Session, m.SessionEnd = "one", true })))
	h.turn("bob", "t2", "two")
	h.turn("cid", "t3", "three")
	h.pass(time.Second)
	one, two := h.take("ann", "t1"), h.take("bob", "t2")
	if len(h.dispatched) > 0 {
		t.Fatalf("two sessions fit, and a third is let in: %s", h.running())
	}
	h.serve(one, market.Usage{Prompt: 100, Output: 100})
	h.pass(20 * time.Millisecond)
	three := h.take("cid", "t3") // the first one was over with its turn
	h.serve(two, market.Usage{Prompt: 100, Output: 100})
	h.serve(three, market.Usage{Prompt: 100, Output: 100})
	h.turn("ann", "t4", "one")
	h.pass(20 * time.Millisecond)
	if len(h.dispatched) > 0 {
		t.Fatalf("both places are taken, and a session that had ended has one: %s", h.running())
	}
	for range 2 { // twice is once
		h.must(h.step(&bus.SessionEnd{Client: "ann", Session: "two"}))
		h.must(h.step(&bus.SessionEnd{Client: "nobody", Session: "none"}))
	}
	h.pass(20 * time.Millisecond)
	if len(h.dispatched) > 0 {
		t.Fatal("one client has ended another's session")
	}
	h.must(h.step(&bus.SessionEnd{Client: "bob", Session: "two"}))
	h.pass(20 * time.Millisecond)
	h.take("ann", "t4")
	if h.step(&bus.SessionEnd{Client: "bob"}) == nil {
		t.Error("the end of no session was taken")
	}
}

// Nobody waits for a place at an agent that has left, and its sessions find others.
func TestPlacesLeaveWithTheirAgent(t *testing.T) {
	h := sessionHouse(t, 2, 1, nil)
	h.turn("ann", "t1", "one")
	h.turn("bob", "t2", "two")
	d := h.take("ann", "t1")
	h.take("bob", "t2")
	left := h.agentOf(d)
	h.serve(d, market.Usage{Prompt: 100, Output: 100})
	h.leave(left)
	h.run()
	h.turn("ann", "t3", "one")
	h.pass(20 * time.Millisecond)
	if len(h.dispatched) > 0 {
		t.Fatal("the other agent has no room, and one that lost its own is let in")
	}
	h.joinSized("a-9", 1)
	h.pass(20 * time.Millisecond)
	if d := h.take("ann", "t3"); h.agentOf(d) != "a-9" {
		t.Errorf("it went to %s", h.agentOf(d))
	}
}

// A session keeps its place while it is silent, for Idle and no longer. Whoever finds none until its deadline
// is told why, and to come back when silent sessions will have given theirs up.
func TestASilentSessionGivesItsPlaceUp(t *testing.T) {
	h := sessionHouse(t, 1, 1, func(c *hub.Config) { c.Silence = time.Hour })
	begin := h.now
	h.turn("ann", "t1", "one")
	h.serve(h.take("ann", "t1"), market.Usage{Prompt: 100, Output: 100})
	h.must(h.step(h.task("bob", "hurried", func(m *bus.Task) {
		m.Session, m.DeadlineMS = "two", h.now.Add(5*time.Second).UnixMilli()
	})))
	h.turn("bob", "t2", "two")
	for h.pass(6 * time.Second); h.now.Sub(begin) < 25*time.Second; h.pass(time.Second) {
		if len(h.dispatched) > 0 {
			t.Fatalf("ann's session was silent for %v, and %s is let in", h.now.Sub(begin), h.running())
		}
	}
	h.want("inbox.bob.hurried", "no_room")
	for _, l := range h.messages {
		if a, ok := l.Body.(*bus.Answer); ok && a.Result != nil && (a.Result.RetryMS < 20_000 ||
			a.Result.RetryMS > 40_000 || !strings.Contains(a.Result.Message, "none had room for this one")) {
			t.Errorf("it is told %+v", a.Result)
		}
	}
	h.pass(10 * time.Second)
	h.take("bob", "t2")
}

// What is larger than any cache is served where nobody else is, and an agent that does not say how much it
// holds takes whoever comes.
func TestASessionLargerThanAnyCache(t *testing.T) {
	large := func(m *bus.Task) { m.Prompt.Tokens, m.Prompt.Bytes, m.Session = 3000, 12000, m.ID }
	h := sessionHouse(t, 1, 3, nil)
	h.must(h.step(h.task("ann", "t1", large)))
	first := h.take("ann", "t1")
	h.must(h.step(h.task("ann", "t2", large)))
	if h.pass(50 * time.Millisecond); len(h.dispatched) > 0 {
		t.Fatalf("two are let in: %s", h.running())
	}
	reg := registration("a-9", "llama", 8, 0.9, card(1, 1, 4))
	h.must(h.register(reg)) // of which nobody knows how much it holds
	h.run()
	h.pass(50 * time.Millisecond)
	if d := h.take("ann", "t2"); h.agentOf(d) != "a-9" {
		t.Errorf("it went to %s", h.agentOf(d))
	}
	h.serve(first, market.Usage{Prompt: 3000, Output: 10})
	h.audited()
}

// A hub that starts again knows no sessions, and whoever comes back finds a place as the first did.
func TestAHubThatStartsAgainAdmitsWhoComes(t *testing.T) {
	h := sessionHouse(t, 2, 2, nil)
	for i := range 4 {
		h.turn("ann", fmt.Sprint("t", i), fmt.Sprint("s", i))
	}
	h.pass(time.Second)
	for _, d := range slices.Clone(h.dispatched) {
		h.serve(d, market.Usage{Prompt: 100, Output: 20})
	}
	h.dispatched = nil
	h.restart()
	h.must(h.n.Lead(h.now, 8))
	for i := range 2 {
		h.joinSized(fmt.Sprint("a-", i), 2)
	}
	if places := h.n.Status().Sessions.Places; places != 0 {
		t.Fatalf("a hub that has just begun has %d places", places)
	}
	for i := range 4 {
		h.turn("ann", fmt.Sprint("u", i), fmt.Sprint("s", i))
	}
	h.pass(time.Second)
	if places := h.n.Status().Sessions.Places; places != 4 || len(h.dispatched) != 4 {
		t.Errorf("%d places, and %d are let in", places, len(h.dispatched))
	}
}

// A hub's status says which sessions it has admitted; one that admits everybody says nothing of them.
func TestStatusSaysWhoIsAdmitted(t *testing.T) {
	h := sessionHouse(t, 1, 2, nil)
	for i := range 3 {
		h.turn("ann", fmt.Sprint("t", i), fmt.Sprint("s", i))
	}
	h.pass(50 * time.Millisecond)
	got := h.n.Status()
	if s := got.Sessions; s == nil || s.Places != 2 || s.Waiting != 1 || s.Used < 20 || s.Used > s.Blocks ||
		s.Blocks != 40 {
		t.Fatalf("%+v", s)
	}
	data, err := bus.Encode(got)
	h.must(err)
	read := new(bus.Status)
	if h.must(bus.Decode(data, read)); *read.Sessions != *got.Sessions {
		t.Errorf("%+v was said and %+v heard", got.Sessions, read.Sessions)
	}
	if s := newHouse(t, nil).n.Status(); s.Sessions != nil {
		t.Errorf("a hub that admits everybody says %+v", s.Sessions)
	}
}
