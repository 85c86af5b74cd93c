package round

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"souk/hub/estimate"
	"souk/market"
)

// Of the client with most waiting the newest are left out, in turn: against the plain way to say it.
func TestFit(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		clients := make([]string, rng.IntN(40))
		for i := range clients {
			clients[i] = string(rune('a' + rng.IntN(1+rng.IntN(8))))
		}
		most := rng.IntN(45)
		all := make([]int, len(clients))
		for i := range all {
			all[i] = i
		}
		fit, out := Fit(all, func(i int) string { return clients[i] }, most)
		if len(fit)+len(out) != len(all) || !slices.IsSorted(fit) {
			t.Fatalf("%v of %d: %v and %v", clients, most, fit, out)
		}
		if len(out) == 0 {
			continue
		}
		in := make([]bool, len(all))
		for _, i := range fit {
			in[i] = true
		}
		counts := map[string]int{}
		taken, least, last := 0, 1<<30, map[string]bool{}
		for i, c := range clients {
			if in[i] {
				taken++
				counts[c]++
				if last[c] {
					t.Fatalf("%v: of %s a newer one is in before an older", clients, c)
				}
			} else {
				last[c] = true
			}
		}
		for c := range last { // of whom one was left out
			least = min(least, counts[c])
		}
		for c, n := range counts {
			if n > least+1 {
				t.Fatalf("%v, at most %d: %s has %d, and another, who wants more, %d", clients, most, c, n, least)
			}
		}
		if taken != most {
			t.Fatalf("%v: %d are in, want %d", clients, taken, most)
		}
	}
}

// Whatever agents claim, their seats are such as a round may have, no more than tasks may want, and none to
// come stands before a free one.
func FuzzSeat(f *testing.F) {
	f.Add(uint64(1), int64(0), int64(0), 8)
	f.Add(uint64(2), int64(365*24*time.Hour), int64(time.Hour), 2048)
	f.Add(uint64(3), int64(-1), int64(1<<62), 1)
	f.Fuzz(func(t *testing.T, seed uint64, service, prefill int64, tasks int) {
		if tasks < 0 || tasks > 1<<14 {
			t.Skip()
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		from := estimate.Snapshot{Agents: make([]estimate.Agent, 1+rng.IntN(40)), Classes: []estimate.Class{{
			Service: min(max(time.Millisecond, time.Duration(service)), market.MaxIn),
			Prefill: max(0, min(time.Duration(prefill), market.MaxIn))}}}
		agents := from.Agents
		for i := range agents {
			a := &agents[i]
			*a = estimate.Agent{Slots: rng.IntN(1 << rng.IntN(17))}
			a.Free = rng.IntN(a.Slots + 1)
			if a.Running = a.Slots - a.Free; a.Free == 0 {
				a.Free = rng.IntN(2) // in its engine's queue
			}
			a.Overdue = rng.IntN(a.Running + 1)
			a.Age = time.Duration(rng.Int64() >> rng.IntN(63))
			if a.Running > a.Overdue {
				a.Since = 1 + rng.Int64N(100)
			}
		}
		var all Seats
		all.set(&from, tasks)
		for i := range agents {
			seats := all.of(i)
			slots, err := market.ValidateSeats(seats)
			if err != nil || slots > tasks+mostLater {
				t.Fatalf("%d slots for %d tasks: %v", slots, tasks, err)
			}
			last := time.Duration(0)
			for _, s := range seats {
				if s.In < last {
					t.Fatalf("agent %d: %v", i, seats)
				}
				last = s.In
			}
		}
	})
}

// An agent whose only task hangs is expected to end it no sooner than it has run so far.
func TestWhatIsOverdueIsNotExpectedToEnd(t *testing.T) {
	const service = 3 * time.Second
	var seats Seats
	seats.set(&estimate.Snapshot{Classes: []estimate.Class{{Service: service}}, Agents: []estimate.Agent{
		{Slots: 1, Running: 1, Overdue: 1, Age: time.Hour}, {Slots: 1, Running: 1, Since: 1}}}, 4)
	if in := seats.of(0)[0].In; in < time.Hour {
		t.Errorf("a task that has run for an hour is to end in %v", in)
	}
	if in := seats.of(1)[0].In; in != service {
		t.Errorf("the other agent's is to end in %v, want %v", in, service)
	}
}

// A place in an engine's queue is had as the first task ends, and the first seat to come as the second does.
func TestAPlaceInTheQueueIsHadAsTheFirstTaskEnds(t *testing.T) {
	var seats Seats
	seats.set(&estimate.Snapshot{Classes: []estimate.Class{{Service: 4 * time.Second}},
		Agents: []estimate.Agent{{Slots: 2, Running: 2, Free: 1, Since: 1}}}, 2)
	want := []market.Seat{{Slots: 1, In: 2 * time.Second}, {Slots: 1, In: 4 * time.Second, Later: true}}
	if got := seats.of(0); !slices.Equal(got[:2], want) || free(got) != 1 {
		t.Errorf("%v, want %v", got, want)
	}
}

// Each seat to come counts once, by the part of it that is left; who is refused has nothing.
func TestKept(t *testing.T) {
	var k Kept
	if k.Share() != market.FullShare {
		t.Error("nothing was squeezed out yet")
	}
	k.End(0, 100, 50)
	k.End(0, 0, 7)   // it was to have nothing
	k.End(0, 100, 0) // refused
	if got := k.Share(); got != market.FullShare/4 {
		t.Errorf("a share of %d, want a quarter", got)
	}
	day := int64(24 * time.Hour)
	k.End(day, 1, market.MaxCredits)
	if got := k.Share(); got < market.FullShare*999/1000 || got > market.FullShare {
		t.Errorf("a day later one has all that it was to have, and the share is %d", got)
	}
	var again Kept
	again.Resume(day, market.FullShare/4)
	if got := again.Share(); got != market.FullShare*3/4 {
		t.Errorf("where a quarter was lost an earlier hub goes on with a share of %d", got)
	}
}

// Where prompts take all of an engine's time a task is charged for the time of its own prompt, and for
// nothing else: of two that keep a slot for as long, who has the longer prompt pays more. Who has next to
// none pays for a tenth of the usual, or what it would have gained by a slot would make a price of any size.
// What everybody would pay is of the same time.
func TestPromptsAreWhatIsShort(t *testing.T) {
	e := estimate.Estimate{Prefill: 2 * time.Second}
	tolls := Tolls{slots: []slot{{running: 4, second: 100, service: 20 * time.Second},
		{running: 4, second: 100, bound: true, service: time.Second}}}
	if got := tolls.stay(0, &e); got.Service != 20*time.Second || got.Prefill != e.Prefill {
		t.Errorf("where slots are short: %+v", got)
	}
	if got := tolls.stay(1, &e); got.Service != e.Prefill || got.Prefill != e.Prefill {
		t.Errorf("where prompts are: %+v", got)
	}
	cached := estimate.Estimate{}
	less, more := tolls.Of(1, tolls.stay(1, &cached)), tolls.Of(1, tolls.stay(1, &e))
	if less != 10 || more != 1000 {
		t.Errorf("%d for a prompt that is cached, %d for one of 2 s", less, more)
	}
	from := &estimate.Snapshot{Agents: []estimate.Agent{{ID: "a", Slots: 5, Running: 4, PrefillBound: true}},
		Classes: []estimate.Class{{Service: 30 * time.Second, Own: 20 * time.Second, Prefill: time.Second}}}
	rates := market.Rates{Agents: map[market.AgentID]market.Rate{"a": {Price: 100}}}
	if tolls.set(from, &rates, nil); tolls.common != 100 {
		t.Errorf("everybody would pay %d, want 100: a second of the usual prompt", tolls.common)
	}
}

// Where more run than an agent has seats, the first seat to come is there once these have ended.
func TestWhoRunsBeyondTheSeatsEndsFirst(t *testing.T) {
	from := &estimate.Snapshot{Agents: []estimate.Agent{{ID: "a", Slots: 5, Running: 5, Since: 1}},
		Classes: []estimate.Class{{Service: 10 * time.Second}}}
	var s Seats
	for _, running := range []int{5, 8, 16} {
		from.Agents[0].Running = running
		s.set(from, 2)
		want := time.Duration(running-5+1) * 2 * time.Second
		if got := s.of(0); len(got) == 0 || got[0].In != want {
			t.Errorf("%d run of 5: %v, want the first in %v", running, got, want)
		}
	}
}

// Refused tasks of two clients that might have gone to an agent have everybody pay there what everybody would
// pay, for ten seconds, but for a client without whose own there is one: what its bids do to others they do
// not do to it.
func TestRefusedTasksOfTwoClientsChargeOthersAll(t *testing.T) {
	var k Kept
	at := int64(0)
	for i, step := range []struct {
		after  time.Duration
		client string // who is refused then; nobody: nobody
		want   []string
	}{
		{0, "ann", nil}, {time.Second, "ann", nil}, {time.Second, "bob", []string{"bob", "ann"}},
		{time.Second, "bob", []string{"bob", "ann"}}, {time.Second, "cyd", []string{"cyd", "bob", "ann"}},
		{time.Second, "dan", []string{"dan", "cyd", "bob"}}, {8 * time.Second, "", []string{"dan", "cyd"}},
		{2 * time.Second, "", nil}, {time.Second, "bob", nil}, {0, "eve", []string{"eve", "bob"}},
	} {
		at += int64(step.after)
		if step.client != "" {
			k.Refuse(at, step.client, nil)
		}
		var got []string
		for _, x := range k.late(at) {
			got = append(got, x.client)
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("step %d: refused are %v, want %v", i, got, step.want)
		}
	}

	from := &estimate.Snapshot{Classes: []estimate.Class{{Own: time.Second}}, Agents: []estimate.Agent{
		{ID: "a", Slots: 4, Running: 2}, {ID: "b", Slots: 4, Running: 2}, {ID: "c", Slots: 4, Running: 2}}}
	rates := market.Rates{Agents: map[market.AgentID]market.Rate{"a": {Price: 100}, "b": {Price: 130},
		"c": {Price: 150}}}
	var waiters []estimate.Waiter
	for _, c := range []string{"ann", "bob", "cyd", "dan"} {
		waiters = append(waiters, estimate.Waiter{Client: c})
	}
	stay := market.Stay{Service: time.Second}
	refused := func(client string, there ...market.AgentID) refusal {
		return refusal{client: client, there: there}
	}
	for _, row := range []struct {
		refused []refusal
		agent   int32
		toll    market.Credits   // of who begins there
		charged []market.Credits // of that, each of the four
	}{
		{nil, 1, 30, []market.Credits{30, 30, 30, 30}},
		{[]refusal{refused("ann", "a", "b"), refused("bob", "b")}, 1, 130,
			[]market.Credits{30, 30, 130, 130}},
		{[]refusal{refused("ann", "a", "b"), refused("bob", "b")}, 2, 50, []market.Credits{50, 50, 50, 50}},
		{[]refusal{refused("ann", "a", "c"), refused("bob", "b")}, 1, 30, []market.Credits{30, 30, 30, 30}},
		{[]refusal{refused("ann", "b"), refused("bob", "b"), refused("cyd", "b", "c")}, 1, 130,
			[]market.Credits{130, 130, 130, 130}},
		{[]refusal{refused("ann", "b"), refused("bob", "b"), refused("cyd", "c")}, 1, 130,
			[]market.Credits{30, 30, 130, 130}},
	} {
		var tolls Tolls
		var others Others
		tolls.set(from, &rates, row.refused)
		others.set(&tolls, from, waiters, &rates)
		if got := tolls.Of(row.agent, stay); got != row.toll {
			t.Errorf("%v were refused: the toll at %d is %d, want %d", row.refused, row.agent, got, row.toll)
		}
		for i, w := range waiters {
			got := row.toll
			if x := others.Without(w.Client); x != nil {
				got = min(got, x.Of(row.agent, stay))
			}
			if got != row.charged[i] {
				t.Errorf("%v were refused: %s is charged %d at %d, want %d", row.refused, w.Client, got, row.agent,
					row.charged[i])
			}
		}
	}
}
