package hub

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// seatedHouse makes a house with seats for so many sessions of some 200 tokens on each of its agents, which
// never let in more.
func seatedHouse(t *testing.T, agents, sessions int, change func(*Config)) *house {
	h := newHouse(t, func(c *Config) {
		c.Seats.Sessions, c.Seats.Spare = true, 0
		c.MaxWaiting, c.MaxWaitingPerClient, c.Deadline = 1000, 1000, 10*time.Minute
		c.Seed.Every = 0
		if change != nil {
			change(c)
		}
	})
	for i := range agents {
		h.joinSized(fmt.Sprint("a-", i), sessions)
	}
	return h
}

// joinSized has an agent join whose cache has seats for so many sessions of 200 tokens.
func (h *house) joinSized(id string, sessions int) {
	h.t.Helper()
	reg := registration(id, "llama", 8, 0.9, card(1, 1, 4))
	reg.BlockSize, reg.KVTokens = 10, 10*(21*sessions+1) // a twentieth is not believed
	h.must(h.n.Join(h.now, reg))
	h.run()
}

// turn sends the next turn of a session.
func (h *house) turn(client, id, session string) {
	h.t.Helper()
	h.must(h.step(h.task(client, id, func(m *bus.Task) { m.Session = session })))
}

// fixed is all that stands before bids are read: where each task of a round may go, as far as seats say, and
// what it is charged there.
func fixed(n *Node) (all []string) {
	s := &n.round
	for _, t := range s.tasks {
		all = append(all, fmt.Sprint(t.id, " may go to ", t.may))
	}
	for _, p := range s.pairs {
		all = append(all, fmt.Sprint(s.tasks[p.task].id, " on ", s.agents[p.agent].id, " pays ", p.toll,
			", of which its own tasks are to blame for ", p.own))
	}
	n.batch.Each(func(t *task, _ time.Time) {
		if !t.unseated.IsZero() {
			all = append(all, fmt.Sprint(t.id, " finds no seat"))
		}
	})
	slices.Sort(all)
	return all
}

// Who has a seat and what a task is charged for delaying others are the same whatever the tasks of a round
// bid: their terms are scaled and exchanged.
func TestSeatsReadNoBid(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	unseated, charged := 0, 0
	for run := range 40 {
		var want []string
		for variant := range 4 {
			random := rand.New(rand.NewPCG(seed, uint64(run)))
			h := seatedHouse(t, 3, 2+random.IntN(4), func(c *Config) {
				c.Seats.Spare = time.Duration(random.IntN(2)) * 20 * time.Millisecond
			})
			for i := range 3 {
				h.grants = append(h.grants, bus.Grant{Number: uint64(i + 1), Client: fmt.Sprint("c", i),
					Hub: "hub-math", Amount: 1000 * market.Credit})
			}
			h.n.requestMissed()
			h.run()
			for i := range 8 + random.IntN(8) { // some have seats
				id := fmt.Sprint("old", i)
				h.turn(fmt.Sprint("c", i%3), id, id)
			}
			for _, d := range slices.Clone(h.dispatched) {
				if h.accept(d); random.IntN(2) == 0 {
					h.ends(d)
				}
			}
			h.dispatched = nil
			for _, a := range h.n.roster { // each has something to compute
				r := h.n.seats.table.Come(h.n.clock(), "", 0)
				h.n.seats.table.Award(h.n.clock(), &r, a.seats, 1, time.Duration(random.IntN(9))*time.Second)
			}
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
					got = fixed(h.n)
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
					case strings.HasSuffix(s, "finds no seat"):
						unseated++
					case strings.Contains(s, "pays -"):
						charged++
					}
				}
			} else if !slices.Equal(got, want) {
				t.Fatalf("run %d: what is fixed before bids are read differs:\n%v\n%v", run, want, got)
			}
		}
	}
	if unseated == 0 || charged == 0 {
		t.Errorf("%d tasks found no seat, %d were charged: the test sees nothing", unseated, charged)
	}
}

// A session waits for a seat, not for a slot; it gets one when another's has ended.
func TestASessionWaitsForASeat(t *testing.T) {
	h := seatedHouse(t, 1, 2, nil)
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
	h.turn("ann", "t4", "one") // a session that has a seat goes on, before those that wait for one
	h.take("ann", "t4")
	if len(h.dispatched) > 0 {
		t.Fatalf("both seats are taken, and a third session is let in: %s", h.running())
	}
	h.n.SessionEnded(h.now, "ann", "two") // of that name ann has none: bob's goes on
	h.run()
	h.pass(20 * time.Millisecond)
	if len(h.dispatched) > 0 {
		t.Fatal("one client has ended another's session")
	}
	h.n.SessionEnded(h.now, "bob", "two")
	h.run()
	h.pass(20 * time.Millisecond)
	h.take("ann", "t3")
}

// A session that has ended, as told with its last turn or after it, gives up its seat, and no other: nobody
// ends the session of another client. Whoever goes on after that is a newcomer.
func TestASessionThatHasEnded(t *testing.T) {
	h := seatedHouse(t, 1, 2, nil)
	h.must(h.step(h.task("ann", "t1", func(m *bus.Task) { m.Session, m.SessionEnd = "one", true })))
	h.turn("bob", "t2", "two")
	h.turn("bob", "t3", "three")
	h.pass(time.Second)
	one, two := h.take("ann", "t1"), h.take("bob", "t2")
	if len(h.dispatched) > 0 {
		t.Fatalf("two sessions fit, and a third is let in: %s", h.running())
	}
	h.serve(one, market.Usage{Prompt: 100, Output: 100})
	h.pass(20 * time.Millisecond)
	three := h.take("bob", "t3") // the first one was over with its turn
	h.serve(two, market.Usage{Prompt: 100, Output: 100})
	h.serve(three, market.Usage{Prompt: 100, Output: 100})
	h.turn("ann", "t4", "one")
	h.pass(20 * time.Millisecond)
	if len(h.dispatched) > 0 {
		t.Fatalf("both seats are taken, and a session that had ended has one: %s", h.running())
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

// Who finds no seat is told before WAIT is over, and when to come back.
func TestWhoFindsNoSeatIsTold(t *testing.T) {
	h := seatedHouse(t, 1, 1, func(c *Config) { c.Seats.Wait = 10 * time.Second })
	h.turn("ann", "t1", "one")
	h.accept(h.take("ann", "t1"))
	asked := h.now
	h.turn("bob", "t2", "two")
	for h.answerTo("inbox.bob.t2") == "" && h.now.Sub(asked) < time.Minute {
		h.pass(100 * time.Millisecond)
	}
	h.want("inbox.bob.t2", "no_room")
	if waited := h.now.Sub(asked); waited > 10*time.Second || waited < 8*time.Second {
		t.Errorf("it was told after %v, want within 10s", waited)
	}
	for _, l := range h.messages {
		if a, ok := l.Body.(*bus.Answer); ok && a.Result != nil && a.Result.RetryMS < 300_000 {
			t.Errorf("no seat came free, and it is to come back in %d ms", a.Result.RetryMS)
		}
	}
}

// A task that is larger than any seat waits for none: it is told at once, and why. Where an agent has time to
// spare, or does not say how much it holds, it is served.
func TestATaskLargerThanAnySeat(t *testing.T) {
	large := func(m *bus.Task) { m.Prompt.Tokens, m.Prompt.Bytes = 3000, 12000 }
	for name, c := range map[string]struct {
		spare  time.Duration
		silent bool
		want   string
	}{
		"none has time":       {0, false, "no_room"},
		"one has":             {time.Hour, false, "accepted by a-0"},
		"one does not say it": {0, true, ""},
	} {
		h := seatedHouse(t, 2, 3, func(c1 *Config) { c1.Seats.Spare = c.spare })
		if c.silent {
			h.join("a-9", "llama", 8, 0.9, card(1, 1, 4))
			a := h.n.lookup("a-9")
			reg := a.reg
			reg.KVTokens = 0
			h.must(h.n.Join(h.now, reg))
		}
		h.must(h.step(h.task("ann", "t1", large)))
		h.pass(50 * time.Millisecond)
		for _, d := range slices.Clone(h.dispatched) {
			h.accept(d)
		}
		if got := h.answerTo("inbox.ann.t1"); got != c.want &&
			!strings.HasPrefix(c.want, got[:min(8, len(got))]) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		for _, l := range h.messages {
			if a, ok := l.Body.(*bus.Answer); ok && a.Result != nil && (a.Result.RetryMS == 0 ||
				!strings.Contains(a.Result.Message, "need 304 blocks")) {
				t.Errorf("%s: it is told %+v", name, a.Result)
			}
		}
		recountSeats(t, h)
		h.audited()
	}
}

// Nobody waits for a seat of an agent that has left, and its sessions find others.
func TestSeatsLeaveWithTheirAgent(t *testing.T) {
	h := seatedHouse(t, 2, 1, nil)
	h.turn("ann", "t1", "one")
	h.turn("bob", "t2", "two")
	d := h.take("ann", "t1")
	h.take("bob", "t2")
	left := h.agentOf(d)
	h.serve(d, market.Usage{Prompt: 100, Output: 100})
	h.n.Leave(h.now, left)
	h.run()
	h.turn("ann", "t3", "one")
	h.pass(20 * time.Millisecond)
	if len(h.dispatched) > 0 {
		t.Fatal("the other agent has no seat, and one that lost its own is let in")
	}
	h.joinSized("a-9", 1)
	h.pass(20 * time.Millisecond)
	if d := h.take("ann", "t3"); h.agentOf(d) != "a-9" {
		t.Errorf("it went to %s", h.agentOf(d))
	}
	recountSeats(t, h)
}

// recountSeats compares the blocks of agents' seats with those of all.
func recountSeats(t *testing.T, h *house) {
	t.Helper()
	_, taken, _ := h.n.seats.table.Seats()
	for _, a := range h.n.roster {
		if a.seats != nil {
			used, _ := a.seats.Blocks()
			taken -= used
		}
	}
	if taken != 0 {
		t.Errorf("%d blocks more are taken than agents have", taken)
	}
}

// A hub that starts again has no seats. All its sessions come back at once, and as nothing waits yet, none is
// sent away.
func TestAHubThatStartsAgainRefusesNobody(t *testing.T) {
	h := seatedHouse(t, 2, 2, func(c *Config) { c.Seats.Spare, c.Seats.Depth = time.Second, time.Second })
	turn := 0
	all := func(from, to int) {
		t.Helper()
		for i := range 12 {
			h.turn([]string{"ann", "bob"}[i%2], fmt.Sprint("t", turn), fmt.Sprint("s", i))
			turn++
		}
		for range 100 {
			for len(h.dispatched) > 0 {
				d := h.dispatched[0]
				h.dispatched = h.dispatched[1:]
				h.serve(d, market.Usage{Prompt: 100, Output: 20})
			}
			h.pass(50 * time.Millisecond)
		}
		for i := from; i < to; i++ {
			if got := h.answerTo(fmt.Sprint("inbox.", []string{"ann", "bob"}[i%2], ".t",
				i)); got[:8] != "accepted" {
				t.Errorf("task %d: %s", i, got)
			}
		}
	}
	all(0, 12)
	h.restart()
	h.must(h.n.Lead(h.now, 8))
	for i := range 2 {
		h.joinSized(fmt.Sprint("a-", i), 2)
	}
	if seats, _, _ := h.n.seats.table.Seats(); seats != 0 {
		t.Fatalf("a hub that has just begun has %d seats", seats)
	}
	all(12, 24)
	recountSeats(t, h)
}

// An agent that has a second of prompts to compute is given no more until it has less, and then at once.
func TestAnAgentIsNotGivenMoreThanItsDepth(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.Seats.Depth = time.Second; c.Seed.Every = 0 })
	h.join("a-1", "llama", 8, 0.9, card(1, 1, 4))
	long := func(m *bus.Task) { m.Prompt.Tokens, m.Prompt.Bytes = 6000, 24000 }
	takes := h.n.lookup("a-1").prefill(6000, 0)
	h.n.cfg.Seats.Depth = takes / 2
	h.must(h.step(h.task("ann", "t1", long)))
	h.must(h.step(h.task("ann", "t2", long)))
	h.take("ann", "t1")
	if h.pass(takes/2 - 10*time.Millisecond); len(h.dispatched) > 0 {
		t.Fatalf("with %v to compute it is given more: %s", takes, h.running())
	}
	if free := h.n.Status().Free; free != 0 {
		t.Errorf("it says that it has %d free slots", free)
	}
	h.pass(40 * time.Millisecond)
	h.take("ann", "t2")
}

// What an agent says moves that: once no prompt of its is left to compute it is given more, whatever was
// expected.
func TestAnAgentThatIsDoneIsGivenMore(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.Seats.Depth = 100 * time.Millisecond; c.Seed.Every = 0 })
	h.join("a-1", "llama", 8, 0.9, card(1, 1, 4))
	long := func(m *bus.Task) { m.Prompt.Tokens, m.Prompt.Bytes = 6000, 24000 }
	h.must(h.step(h.task("ann", "t1", long)))
	h.must(h.step(h.task("ann", "t2", long)))
	h.accept(h.take("ann", "t1"))
	h.pass(200 * time.Millisecond)
	says := func(seq uint64, prefills int) {
		h.must(h.summary("a-1", seq, func(s *bus.Summary) { s.Prefills, s.Ahead = prefills, 6000*prefills }))
		h.run()
	}
	if says(1, 1); len(h.dispatched) > 0 {
		t.Fatalf("it says that it computes a prompt, and is given more: %s", h.running())
	}
	says(2, 0)
	h.take("ann", "t2")
}

// A hub's status says how it is seated, and what of it waits or was sent away; one that admits everybody says
// nothing of seats.
func TestStatusSaysHowAHubIsSeated(t *testing.T) {
	h := seatedHouse(t, 1, 2, func(c *Config) { c.Seats.Wait = 5 * time.Second })
	for i := range 3 {
		h.turn("ann", fmt.Sprint("t", i), fmt.Sprint("s", i))
	}
	want := &bus.SeatStatus{Seats: 2, Blocks: 40, Waiting: 1}
	got := h.n.Status()
	if got.Seats == nil || got.Seats.Used < 20 || got.Seats.Used > 40 {
		t.Fatalf("%+v", got.Seats)
	}
	if want.Used = got.Seats.Used; *got.Seats != *want {
		t.Errorf("%+v, want %+v", got.Seats, want)
	}
	data, err := bus.Encode(got)
	h.must(err)
	read := new(bus.Status)
	if h.must(bus.Decode(data, read)); *read.Seats != *want {
		t.Errorf("%+v was said and %+v heard", got.Seats, read.Seats)
	}
	h.pass(6 * time.Second)
	if s := h.n.Status().Seats; s.Refused != 1 || s.Waiting != 0 {
		t.Errorf("one was sent away: %+v", s)
	}
	if s := newHouse(t, nil).n.Status(); s.Seats != nil {
		t.Errorf("a hub without seats says %+v", s.Seats)
	}
}
