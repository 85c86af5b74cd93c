package fleet

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"souk/bus"
	"souk/hub/turn"
	"souk/market"
)

// yard is a room with its hub: what the room asks of that is counted.
type yard struct {
	*Room[*Agent]
	t     *testing.T
	turn  *turn.Turn
	news  int
	card  market.Price
	begun time.Time
}

func newYard(t *testing.T) *yard {
	at := turn.New("j", "math", nil, [32]byte{})
	y := &yard{t: t, turn: &at, card: market.Price{Miss: 2, Hit: 1, Out: 3}, begun: time.Unix(1000, 0)}
	at.Advance(y.begun)
	at.Leading = true
	y.Room = New(&at, Limits{MaxAgents: 3, Suspect: time.Second, Silence: 5 * time.Second},
		func(string) *Agent { return new(Agent) }, func(gone *Agent) {
			if len(gone.Runs) > 0 || gone.Joined() {
				t.Fatalf("%s is forgotten, and is of use", gone.ID())
			}
		}, func() { y.news++ })
	y.Lead()
	return y
}

func (y *yard) registration(id string, boot int64) bus.Registration {
	return bus.Registration{Agent: id, Boot: boot, Model: "llama", Slots: 2, State: bus.StateReady,
		Price: y.card}
}

func (y *yard) join(id string) *Agent {
	a := y.Enrol(id)
	y.Claim(a)
	y.Register(a, y.registration(id, 1))
	return a
}

func (y *yard) pass(d time.Duration) {
	y.turn.Advance(y.turn.Now().Add(d))
	y.turn.Ring()
}

func (y *yard) says(a *Agent, seq uint64, running int) {
	y.t.Helper()
	if err := y.Summary(a, &bus.Summary{Agent: a.ID(), Boot: 1, Seq: seq, State: bus.StateReady, Slots: 2,
		InFlight: running, Price: y.card}); err != nil {
		y.t.Fatal(err)
	}
}

// An agent takes tasks while it is sold, ready and heard, and is not left alone; what runs on it takes slots.
func TestWhoTakesTasks(t *testing.T) {
	y := newYard(t)
	a := y.join("a")
	if a.Open(y.turn.Nano()) {
		t.Error("an agent takes tasks whose owner does not sell")
	}
	a.Sell(0, true)
	free := func(want int, why string) {
		t.Helper()
		if got := a.Free(y.turn.Nano()); got != want {
			t.Errorf("%s: %d slots are free, want %d", why, got, want)
		}
	}
	free(2, "it has joined")
	a.Begin("ann", "t1", y.turn.Now(), time.Minute)
	free(1, "one runs")
	a.End("bob", "t1")
	free(1, "another has ended, of which it knew nothing")
	a.End("ann", "t1")
	free(2, "it has ended")
	a.Unready()
	free(0, "it said that it takes none")
	y.says(a, 1, 0)
	free(2, "it takes some again")
	y.Avoid(a)
	y.Avoid(a) // at once: it was dispatched before
	free(0, "it refused")
	news := y.news
	y.pass(50 * time.Millisecond)
	free(2, "it was left alone")
	if y.news == news {
		t.Error("nobody was told that it is left alone no more")
	}
	y.Avoid(a)
	y.pass(99 * time.Millisecond)
	free(0, "it refused again: twice as long")
	y.pass(time.Millisecond)
	free(2, "and no longer")
	y.pass(6 * time.Second)
	free(0, "it is silent")
	if y.Silent(a) {
		t.Error("a hub that has just come hears agents late")
	}
	y.pass(6 * time.Second)
	if !y.Silent(a) {
		t.Error("it has said nothing for twelve seconds")
	}
	y.says(a, 2, 0)
	free(2, "it speaks")
	reg := y.registration("a", 1)
	reg.State = bus.StateDraining
	y.Register(a, reg)
	free(0, "it drains")
	if returns, _ := a.Returns(y.turn.Nano()); returns {
		t.Error("it will not take tasks again")
	}
	y.Leave(a)
	if a.Joined() || y.Slots() != 0 {
		t.Errorf("it has left, and %d slots are sold", y.Slots())
	}
}

// What an agent counts more than the hub is believed at once when it joins, and else once that has lasted;
// the slots of these are not free, and nobody knows when they end.
func TestWhatAnAgentCountsMore(t *testing.T) {
	y := newYard(t)
	a := y.join("a")
	y.says(a, 1, 1)
	if a.stuck != 1 {
		t.Errorf("its first summary counts one more, and %d are believed", a.stuck)
	}
	y.says(a, 2, 0)
	y.says(a, 3, 2)
	if a.stuck != 0 {
		t.Errorf("a summary is a little old, and %d more are believed", a.stuck)
	}
	y.pass(2 * time.Second)
	y.says(a, 4, 1)
	if a.stuck != 1 {
		t.Errorf("one more was counted all the time, and %d are believed", a.stuck)
	}
	since, late, age := a.ends(y.turn.Now(), 3*time.Second)
	if since != 0 || late != 1 || age != 2*time.Second {
		t.Errorf("it is to end %v %v %v", since, late, age)
	}
	if y.Summary(a, &bus.Summary{Agent: "a", Boot: 1, Seq: 4}) == nil || y.Summary(a, &bus.Summary{Agent: "a",
		Boot: 2, Seq: 9}) == nil {
		t.Error("a word that is old, or of another process, counts")
	}
}

// What has run three times as long as is usual is not expected to end.
func TestWhatIsExpectedToEnd(t *testing.T) {
	y := newYard(t)
	a := y.join("a")
	for i, at := range []time.Duration{0, 4 * time.Second, 8 * time.Second} {
		a.Begin("ann", fmt.Sprint(i), y.begun.Add(at), time.Minute)
	}
	since, late, age := a.ends(y.begun.Add(10*time.Second), 2*time.Second)
	if want := y.begun.Add(4 * time.Second).UnixNano(); since != want || late != 1 || age != 6*time.Second {
		t.Errorf("of tasks that have run for 10, 6 and 2 s, where 2 are usual: %v, %d late, %v", since, late,
			age)
	}
}

// A silent agent is probed; nobody hears twice, long enough apart, and it is dead until it speaks. It is
// looked after again, later each time.
func TestAnAgentThatNobodyHears(t *testing.T) {
	y := newYard(t)
	a := y.join("a")
	a.Sell(0, true)
	probes := func() int { p := len(y.turn.Out.Probes); y.turn.Out.Probes = nil; return p }
	y.pass(900 * time.Millisecond)
	y.Alive(a)
	y.pass(900 * time.Millisecond)
	if probes() != 0 || y.Absent(a) != 0 {
		t.Error("it has just spoken, and is suspect")
	}
	y.pass(100 * time.Millisecond)
	if probes() != 1 || y.Absent(a) != 0 {
		t.Error("it has said nothing for a second: it is probed, and not yet dead")
	}
	y.pass(500 * time.Millisecond)
	if y.Absent(a) != 1 || !a.Dead() || a.Open(y.turn.Nano()) {
		t.Error("nobody heard for half a second, and it is not dead")
	}
	probes()
	y.pass(999 * time.Millisecond)
	if probes() != 0 {
		t.Error("it is dead, and probed as before")
	}
	y.pass(time.Millisecond)
	y.Absent(a)
	y.pass(500 * time.Millisecond)
	if y.Absent(a) != 2 {
		t.Error("it stays away, and that is not said again")
	}
	if y.Alive(a); a.Dead() {
		t.Error("it speaks, and is dead")
	}
	y.pass(2 * time.Second)
	y.turn.Back = y.turn.Now().Add(time.Second)
	if y.Absent(a) != 0 {
		t.Error("the bus has just come back, and it is judged")
	}
}

// An agent that says what it holds before the hub knows of its own claim is asked to say it again, once.
func TestWhoSpeaksTooSoon(t *testing.T) {
	y := newYard(t)
	y.TooSoon("a")
	a := y.join("a")
	y.AskAll(a)
	if len(y.turn.Out.Messages) != 1 || len(y.early) != 0 {
		t.Errorf("it is asked %d times", len(y.turn.Out.Messages))
	}
	for i := range 10 {
		y.TooSoon(fmt.Sprint(i))
	}
	if len(y.early) > 3 {
		t.Errorf("%d are remembered that are not sold", len(y.early))
	}
}

// Whatever comes, agents are no more than twice as many as may be sold; the slots are those
// of the agents that are sold; nothing is less than nothing, and an agent with tasks is not forgotten.
func TestAnyFleet(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 5))
	y := newYard(t)
	for step := range 20_000 {
		id := fmt.Sprint("a", rng.IntN(12))
		a := y.Find(id)
		if a == nil {
			a = y.Enrol(id)
		}
		switch rng.IntN(9) {
		case 0, 1:
			if !a.Joined() && y.Full() {
				break
			}
			reg := y.registration(id, int64(1+rng.IntN(2)))
			reg.Slots = 1 + rng.IntN(9)
			y.Claim(a)
			y.Register(a, reg)
			a.Sell(0, rng.IntN(4) > 0)
		case 2:
			y.Leave(a)
		case 3:
			a.Begin("ann", fmt.Sprint(step), y.turn.Now(), time.Minute)
		case 4:
			if runs := a.Runs; len(runs) > 0 {
				y.End(a, "ann", runs[rng.IntN(len(runs))].Task)
			}
		case 5:
			if a.Joined() {
				_ = y.Summary(a, &bus.Summary{Agent: id, Boot: int64(1 + rng.IntN(2)), Seq: uint64(step),
					State: bus.StateReady, Slots: rng.IntN(9), InFlight: rng.IntN(20) - 2, Price: y.card})
			}
		case 6:
			y.Avoid(a)
		case 7:
			y.Absent(a)
		case 8:
			y.pass(time.Duration(rng.IntN(int(time.Second))))
		}
		if y.Find(id) == a {
			y.forget(a)
		}
		slots, busy := 0, 0
		for _, b := range y.All() {
			vacant := b.Vacant(y.turn.Nano())
			if b.stuck < 0 || b.excess < 0 || vacant < 0 || vacant > b.sold {
				t.Fatalf("step %d: %+v", step, b)
			}
			if b.joined {
				slots += b.reg.Slots
			}
			if len(b.Runs) > 0 || b.joined {
				busy++
			}
		}
		if known := len(y.All()); slots != y.Slots() || known > 2*y.limits.MaxAgents+busy {
			t.Fatalf("step %d: %d slots, counted as %d; %d agents, %d of use", step, slots, y.Slots(), known,
				busy)
		}
	}
}
