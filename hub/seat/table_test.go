package seat

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"
)

// on are parameters of a hub that does all that it can.
func on() Params {
	p := Default()
	p.Sessions, p.Depth = true, time.Second
	return p
}

// recount works out from the sessions alone what the table keeps sums of.
func recount(t *testing.T, x *Table) {
	t.Helper()
	used, seats, taken, count := map[uint16]int{}, 0, 0, 0
	type sums struct{ sessions, seats, blocks, idle int }
	clients := map[int32]sums{}
	for i := range x.all {
		s := &x.all[i]
		if !s.used {
			continue
		}
		count++
		c := clients[s.client]
		c.sessions++
		if s.open == 0 {
			c.idle++
		}
		if s.seat != 0 {
			if x.agents[s.seat-1] == nil {
				t.Fatalf("session %d has a seat on agent %d, which has left", s.key, s.seat)
			}
			used[s.seat] += int(s.blocks)
			seats, taken = seats+1, taken+int(s.blocks)
			c.seats, c.blocks = c.seats+1, c.blocks+int(s.blocks)
		} else if s.blocks != 0 {
			t.Fatalf("session %d has %d blocks and no seat", s.key, s.blocks)
		}
		clients[s.client] = c
		if x.find(s.key) != int32(i) {
			t.Fatalf("session %d is not found", s.key)
		}
	}
	total := 0
	for _, a := range x.agents {
		if a != nil {
			if total += a.room; a.used != used[a.number] {
				t.Fatalf("agent %d: %d blocks used, counted %d", a.number, a.used, used[a.number])
			}
		}
	}
	if seats != x.seats || taken != x.taken || total != x.total || count != x.Sessions() {
		t.Fatalf("%d seats, %d blocks of %d, %d sessions; counted %d, %d of %d, %d", x.seats, x.taken, x.total,
			x.Sessions(), seats, taken, total, count)
	}
	active, known := 0, 0
	for k := range x.clients {
		c := &x.clients[k]
		if c.sessions == 0 {
			continue
		}
		known++
		if c.seats > 0 {
			active++
		}
		got := sums{int(c.sessions), int(c.seats), c.blocks, int(c.idle)}
		if want := clients[int32(k)]; got != want {
			t.Fatalf("client %s: %+v, counted %+v", c.name, got, want)
		}
		n := 0
		for i := c.oldest; i != none; i = x.all[i].newer {
			n++
		}
		if n != int(c.idle) {
			t.Fatalf("client %s: %d in the list of %d idle ones", c.name, n, c.idle)
		}
	}
	if active != x.active || known != len(x.byName) {
		t.Fatalf("%d clients with seats of %d, counted %d of %d", x.active, len(x.byName), active, known)
	}
}

// Whatever happens in whatever order, the sums are those of the sessions; and whoever is let in by room finds
// room.
func TestSeatsAreExact(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for run := range 60 {
		random := rand.New(rand.NewPCG(seed, uint64(run)))
		p := on()
		p.Full = []float64{1, 0.7, 0}[random.IntN(3)]
		x := New(p, 40)
		now := time.Duration(random.Int64N(1e9)) * time.Second
		var agents []*Agent
		for range 3 {
			agents = append(agents, x.Enter(now, random.IntN(200)))
		}
		type turn struct {
			Turn
			waits bool
		}
		var turns []*turn
		for range 600 {
			now += time.Duration(random.ExpFloat64() * 2e9)
			pick := func(waits bool) *turn {
				var of []*turn
				for _, r := range turns {
					if r.waits == waits {
						of = append(of, r)
					}
				}
				if len(of) == 0 {
					return nil
				}
				return of[random.IntN(len(of))]
			}
			drop := func(r *turn) {
				for i := range turns {
					if turns[i] == r {
						turns = append(turns[:i], turns[i+1:]...)
						return
					}
				}
			}
			key := uint64(random.IntN(60))
			name := fmt.Sprintf("client-%d", key%7)
			switch random.IntN(10) {
			case 0, 1, 2:
				if len(turns) < 30 {
					turns = append(turns, &turn{x.Come(now, name, key), true})
				}
			case 3, 4, 5:
				var askers []Asker
				var whose []*turn
				for _, r := range turns {
					if !r.waits || x.Seated(&r.Turn) {
						continue
					}
					takes := make([]time.Duration, len(agents))
					for k := range takes {
						takes[k] = time.Duration(random.Int64N(100)) - 10
					}
					askers = append(askers, Asker{Turn: &r.Turn, Need: random.IntN(60), Takes: takes,
						Bits: make([]bool, len(agents))})
					whose = append(whose, r)
				}
				x.Admit(now, agents, askers)
				before := make([]int, len(agents))
				open := make([]bool, len(agents))
				for k, a := range agents {
					before[k], open[k] = a.used, x.Open(a, now)
				}
				for i, r := range whose {
					if k := random.IntN(len(agents)); askers[i].Bits[k] {
						if askers[i].Takes[k] < 0 {
							t.Fatal("a turn may go where it cannot")
						}
						x.Award(now, &r.Turn, agents[k], askers[i].Need, time.Duration(random.Int64N(3e9)))
						r.waits = false
					}
				}
				for k, a := range agents {
					if !open[k] && a.used > max(before[k], a.room) {
						t.Fatalf("agent %d is not open, had %d of %d blocks used and now %d", k, before[k],
							a.room, a.used)
					}
				}
			case 6:
				if r := pick(false); r != nil {
					x.Began(now, &r.Turn, now-time.Duration(random.Int64N(1e9)))
					x.Served(now, &r.Turn, random.IntN(60))
					x.Gone(now, &r.Turn)
					drop(r)
				}
			case 7:
				if r := pick(false); r != nil && random.IntN(2) == 0 {
					x.Back(now, &r.Turn) // it waits again
					r.waits = true
				} else if r != nil {
					x.Gone(now, &r.Turn)
					drop(r)
				}
				if r := pick(true); r != nil {
					x.Gone(now, &r.Turn)
					drop(r)
				}
			case 8:
				k := random.IntN(len(agents))
				switch random.IntN(3) {
				case 0:
					x.Leave(agents[k], now)
					agents[k] = x.Enter(now, random.IntN(200))
				case 1:
					x.Renew(agents[k], now)
				case 2:
					x.Resize(agents[k], random.IntN(200))
				}
			case 9:
				x.Sweep(now)
				if random.IntN(3) == 0 {
					x.End(now, key)
				}
			}
			recount(t, x)
		}
		for _, r := range turns {
			x.Gone(now, &r.Turn)
		}
		recount(t, x)
		for _, a := range agents {
			if a.running != 0 {
				t.Fatalf("nothing runs, and %d blocks are counted for it", a.running)
			}
		}
		if x.Sessions() > 40 {
			t.Fatalf("%d sessions are remembered, 40 were asked for", x.Sessions())
		}
	}
}

// full is a table of one agent of a hundred blocks (95 believed) that is never open.
func full(agents int) (*Table, []*Agent) {
	p := on()
	p.Spare = 0
	x := New(p, 1<<16)
	var all []*Agent
	for range agents {
		all = append(all, x.Enter(0, 100))
	}
	return x, all
}

// ask admits turns in one round.
func ask(x *Table, now time.Duration, agents []*Agent, need int, turns ...*Turn) (bits [][]bool) {
	var askers []Asker
	for _, r := range turns {
		askers = append(askers, Asker{Turn: r, Need: need, Takes: make([]time.Duration, len(agents)),
			Bits: make([]bool, len(agents))})
	}
	x.Admit(now, agents, askers)
	for i := range askers {
		bits = append(bits, askers[i].Bits)
	}
	return bits
}

// One free seat is not given to two, and goes to who came first; a session that has one goes on.
func TestOneSeatIsGivenOnce(t *testing.T) {
	x, agents := full(1)
	a, b := x.Come(0, "a", 1), x.Come(0, "b", 2)
	bits := ask(x, 0, agents, 60, &a, &b)
	if !bits[0][0] || bits[1][0] {
		t.Fatalf("95 blocks, two ask for 60: %v", bits)
	}
	x.Award(0, &a, agents[0], 60, time.Second)
	x.Served(1e9, &a, 70)
	x.Gone(1e9, &a)
	if a = x.Come(2e9, "a", 1); !x.Seated(&a) || x.Home(&a) != agents[0] {
		t.Error("a session that was served has no seat on its next turn")
	}
	if bits := ask(x, 2e9, agents, 25, &b); !bits[0][0] {
		t.Error("25 blocks are left, and who asks for 25 is not let in")
	}
	if bits := ask(x, 2e9, agents, 26, &b); bits[0][0] {
		t.Error("25 blocks are left, and who asks for 26 is let in")
	}
	x.End(3e9, 1)
	if used, _ := agents[0].Blocks(); used != 70 {
		t.Errorf("a session that ends while its turn runs has %d blocks, want 70 until that ends", used)
	}
	x.Gone(4e9, &a)
	if used, _ := agents[0].Blocks(); used != 0 || x.Freed(4e9) != 1 {
		t.Errorf("a session that has ended has %d blocks; %d seats came free, want 1", used, x.Freed(4e9))
	}
}

// Where an agent has less than a second to compute, whoever comes is let in, though its cache be full.
func TestOpenWhereThereIsTime(t *testing.T) {
	x := New(on(), 100)
	a := x.Enter(0, 100)
	one, other := x.Come(0, "a", 1), x.Come(0, "b", 2)
	x.Award(0, &one, a, 95, 100*time.Second)
	if bits := ask(x, time.Millisecond, []*Agent{a}, 50, &other); !bits[0][0] {
		t.Error("on the mean the agent has had nothing to do, and lets nobody in")
	}
	if bits := ask(x, 10*time.Second, []*Agent{a}, 50, &other); bits[0][0] {
		t.Error("the agent has had a minute to compute for ten seconds, and lets in whoever comes")
	}
	if _, mean := a.Load(10 * time.Second); mean < 30 || mean > 40 {
		t.Errorf("the mean of what was left is %v s, want some 37", mean)
	}
	if bits := ask(x, 200*time.Second, []*Agent{a}, 50, &other); !bits[0][0] {
		t.Error("long after it was done the agent lets nobody in")
	}
}

// An agent's load is the mean of what it has left to compute, weighted by how long ago, whatever the steps in
// which it is looked at.
func TestLoadDoesNotDependOnWhoLooks(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 3))
	x := New(on(), 100)
	often, once := x.Enter(0, 0), x.Enter(0, 0)
	now := time.Duration(0)
	for range 300 {
		takes := time.Duration(random.ExpFloat64() * 1e9)
		for _, a := range []*Agent{often, once} {
			r := x.Come(now, "a", 0)
			x.Award(now, &r, a, 1, takes)
		}
		for range random.IntN(5) {
			now += time.Duration(random.ExpFloat64() * 3e8)
			often.Load(now)
		}
	}
	_, m1 := often.Load(now)
	_, m2 := once.Load(now)
	if d := m1 - m2; d > 1e-6*(1+m1) || d < -1e-6*(1+m1) {
		t.Errorf("looked at often %v, seldom %v", m1, m2)
	}
}

// What an agent has left is corrected by when first tokens came.
func TestFirstTokensCorrect(t *testing.T) {
	x := New(on(), 100)
	a := x.Enter(0, 0)
	one, other := x.Come(0, "a", 0), x.Come(0, "a", 0)
	x.Award(0, &one, a, 1, 2*time.Second)
	x.Award(0, &other, a, 1, 2*time.Second)
	x.Began(3*time.Second, &one, 3*time.Second) // a second late
	if left, _ := a.Load(3 * time.Second); left != 2*time.Second {
		t.Errorf("%v are left, want 2s", left)
	}
	x.Began(4*time.Second, &other, 4*time.Second) // after all a second earlier than was thought then
	if left, _ := a.Load(4 * time.Second); left != 0 {
		t.Errorf("%v are left after the last first token, want 0s", left)
	}
	third := x.Come(4e9, "a", 0)
	x.Award(4e9, &third, a, 1, 3*time.Second)
	if left, _ := a.Load(5 * time.Second); left != 2*time.Second {
		t.Errorf("%v are left, want 2s", left)
	}
	fourth := x.Come(5e9, "a", 0)
	x.Award(5e9, &fourth, a, 1, time.Hour)
	x.Began(6*time.Second, &fourth, 6*time.Second) // much earlier than was thought
	if left, _ := a.Load(6 * time.Second); left != 0 {
		t.Errorf("the last first token has come, and %v are left", left)
	}
	x.Back(6*time.Second, &fourth)
	x.Back(6*time.Second, &third)
	if left, _ := a.Load(6 * time.Second); left != 0 {
		t.Errorf("what was taken back leaves %v to do", left)
	}
}

// A million sessions of one client: bounded memory, its own oldest are forgotten, and nobody else's seat is
// gone or harder to get.
func TestOneClientOpensAMillion(t *testing.T) {
	if size := unsafe.Sizeof(session{}); size > 60+4 {
		t.Errorf("a session takes %d bytes", size)
	}
	const limit = 1 << 12
	p := on()
	p.Spare = 0
	x := New(p, limit)
	a := x.Enter(0, 1000) // 950 for seats
	agents := []*Agent{a}
	serve := func(now time.Duration, name string, key uint64) bool {
		r := x.Come(now, name, key)
		ok := x.Seated(&r) || ask(x, now, agents, 10, &r)[0][0]
		if ok {
			x.Award(now, &r, a, 10, time.Microsecond)
			x.Served(now, &r, 10)
		}
		x.Gone(now, &r)
		return ok
	}
	for key := range uint64(20) {
		if !serve(0, "good", 1+key) {
			t.Fatalf("session %d finds no seat in an empty hub", key)
		}
	}
	for key := range uint64(1_000_000) {
		serve(time.Duration(key)*time.Microsecond, "flood", 1000+key)
	}
	recount(t, x)
	if x.Sessions() > limit || len(x.all) > limit+1 || len(x.buckets) > 2*limit {
		t.Errorf("%d sessions in %d places and %d buckets, want %d", x.Sessions(), len(x.all), len(x.buckets),
			limit)
	}
	good := &x.clients[x.byName["good"]]
	if good.sessions != 20 || good.seats != 20 {
		t.Errorf("of the other client's 20 sessions %d are remembered, and %d have their seats", good.sessions,
			good.seats)
	}
	// The other asks for more: what is beyond the flood's share is taken from it once somebody waits.
	now := time.Second
	for key := range uint64(27) {
		if !serve(now, "good", 2000000+key) {
			x.Sweep(now)
			if !serve(now, "good", 2000000+key) {
				t.Fatalf("the other client has %d seats of 10 blocks of 950 and gets no other", good.seats)
			}
		}
	}
	recount(t, x)
}

// A client that has its share waits behind everybody else, and then goes where there is time to spare, but
// takes no seat.
func TestSeatsOfOneClientAreBounded(t *testing.T) {
	x := New(on(), 1000)
	a := x.Enter(0, 100) // 95
	take := func(name string, key uint64, need int) (bool, Turn) {
		r := x.Come(0, name, key)
		ok := ask(x, 0, []*Agent{a}, need, &r)[0][0]
		if ok {
			x.Award(0, &r, a, need, 0)
		}
		return ok, r
	}
	for key := range uint64(4) {
		if ok, r := take("greedy", 1+key, 30); !ok || !x.Seated(&r) {
			t.Fatalf("seat %d is not given", key+1)
		}
	}
	if ok, r := take("modest", 10, 5); !ok || !x.Seated(&r) {
		t.Fatal("the first seat of another is not given")
	}
	ok, fifth := take("greedy", 5, 30)
	if !ok || x.Seated(&fifth) {
		t.Errorf("a fifth seat: let in %v, seated %v; want it served without", ok, x.Seated(&fifth))
	}
	greedy, other := x.Come(0, "greedy", 6), x.Come(0, "modest", 11)
	a.load = 2 // seconds: nobody is let in but by room
	bits := ask(x, 0, []*Agent{a}, 5, &greedy, &other)
	if bits[0][0] || bits[1][0] {
		t.Errorf("125 of 95 blocks are taken: %v", bits)
	}
	recount(t, x)
}

// An agent that leaves takes its seats with it; one that begins anew does not.
func TestAgentsLeaveAndBeginAnew(t *testing.T) {
	x, agents := full(2)
	r := x.Come(0, "a", 1)
	ask(x, 0, agents, 50, &r)
	x.Award(0, &r, agents[0], 50, time.Second)
	x.Renew(agents[0], 0)
	if !x.Seated(&r) {
		t.Error("a session has lost its seat because its agent began anew")
	}
	x.Leave(agents[0], 0)
	if x.Seated(&r) {
		t.Error("a session has a seat on an agent that has left")
	}
	x.Back(0, &r)
	agents[0] = x.Enter(0, 10)
	if bits := ask(x, 0, agents, 50, &r); bits[0][0] || !bits[0][1] {
		t.Errorf("it may go to %v, want the second agent alone", bits)
	}
	recount(t, x)
}

// A hub that starts again has no seats: who comes back finds time to spare, and is let in.
func TestNobodyHasASeatAtFirst(t *testing.T) {
	x := New(on(), 1000)
	agents := []*Agent{x.Enter(0, 10), x.Enter(0, 0)}
	for key := range uint64(200) {
		r := x.Come(0, fmt.Sprint(key%5), 1+key)
		if bits := ask(x, 0, agents, 50, &r); !bits[0][0] && !bits[0][1] {
			t.Fatalf("session %d of a hub that has just begun is kept waiting", key)
		}
		x.Award(0, &r, agents[key%2], 50, 0)
	}
}

// After nine seconds, or a tenth of a new one's worth, a session's seat is another's.
func TestSeatsOfThoseWhoStayAwayComeFree(t *testing.T) {
	x, agents := full(1)
	r := x.Come(0, "a", 1)
	ask(x, 0, agents, 50, &r)
	x.Award(0, &r, agents[0], 50, time.Second)
	x.Served(time.Second, &r, 50)
	x.Gone(time.Second, &r)
	if n := x.Sweep(9 * time.Second); n != 0 {
		t.Errorf("after 8s idle %d seats came free", n)
	}
	if n := x.Sweep(11 * time.Second); n != 1 {
		t.Errorf("after 10s idle %d seats came free, want 1", n)
	}
	back := x.Come(12*time.Second, "a", 1)
	if x.Seated(&back) {
		t.Error("a seat that came free is still there")
	}
}

// Where sessions wait for seats an agent is given as much as it takes to see that it has no time to spare.
func TestAheadIsNoLessThanSpare(t *testing.T) {
	for _, c := range []struct {
		p    Params
		want time.Duration
	}{
		{Params{Depth: 100 * time.Millisecond, Spare: time.Second}, 100 * time.Millisecond},
		{Params{Sessions: true, Depth: 100 * time.Millisecond, Spare: time.Second}, time.Second},
		{Params{Sessions: true, Depth: 2 * time.Second, Spare: time.Second}, 2 * time.Second},
		{Params{Sessions: true, Spare: time.Second}, 0},
	} {
		if got := c.p.Ahead(); got != c.want {
			t.Errorf("%+v: %v, want %v", c.p, got, c.want)
		}
	}
}
