package session

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"souk/hub/turn"
	"souk/ledger"
)

// house is a room whose hub leads, and the agents of its rounds.
type house struct {
	*Room
	turn   *turn.Turn
	agents []*Agent
	freed  int
}

func newHouse(p Params, agents ...*Agent) *house {
	x := turn.New("hub-math", "math", ledger.NewBook(), [32]byte{1})
	x.Leading = true
	x.Advance(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	h := &house{turn: &x, agents: agents}
	h.Room = New(&x, p, func() { h.freed++ })
	return h
}

func (h *house) pass(d time.Duration) {
	for end := h.turn.Now().Add(d); h.turn.Now().Before(end); h.turn.Ring() {
		h.turn.Advance(h.turn.Now().Add(time.Second))
	}
}

// round has tasks that every agent serves ask for a place, each for so many tokens.
func (h *house) round(tokens int, tasks ...*Task) {
	h.Admit(h.agents, tasks, func(i int, may []bool) int {
		for k := range may {
			may[k] = true
		}
		return h.agents[0].Need(tokens)
	})
}

func agent(tokens int) *Agent {
	a := new(Agent)
	a.Resize(tokens, 10)
	return a
}

// Who finds no place waits for one, is told so, and is let in when a session ends; where a place comes free
// the hub hears of it as long as somebody waits, and where nobody does it does not.
func TestATaskWaitsForAPlace(t *testing.T) {
	h := newHouse(Params{Admit: true, Idle: 30 * time.Second}, agent(1000))
	var one, two, again Task
	h.Come(&one, "ann", 1)
	h.round(600, &one)
	if one.Outside() || !one.May(0) {
		t.Fatal("an empty agent lets nobody in")
	}
	h.Award(&one, h.agents[0], 600)
	h.Come(&two, "bob", 2)
	h.pass(3 * time.Second)
	h.round(600, &two)
	h.pass(4 * time.Second)
	h.round(600, &two)
	if !two.Outside() || h.Waiting() != 1 || h.Places() != 1 {
		t.Fatalf("%d wait, %d have places", h.Waiting(), h.Places())
	}
	retry, why := h.Refusal(&two)
	if !strings.Contains(why, "for 4s") || !strings.HasSuffix(why, "wait for room: 1") ||
		retry < 22*time.Second || retry > 38*time.Second {
		t.Errorf("come again after %v: %s", retry, why)
	}
	h.Gone(&one) // and its session keeps its place
	if h.freed != 0 || h.Places() != 1 {
		t.Fatalf("a place came free %d times", h.freed)
	}
	h.Come(&again, "ann", 1)
	h.Gone(&again)
	h.End(1)
	h.End(1)
	if h.freed != 1 || h.Places() != 0 {
		t.Fatalf("a place came free %d times, %d are left", h.freed, h.Places())
	}
	h.round(600, &two)
	if two.Outside() || h.Waiting() != 0 {
		t.Error("the place is free, and it waits")
	}
	h.Award(&two, h.agents[0], 600)
	h.Gone(&two)
	h.pass(40 * time.Second)
	if h.Places() != 0 || h.freed != 1 {
		t.Errorf("%d places, the hub heard of %d: nobody waits", h.Places(), h.freed)
	}
	if h.turn.Next() != (time.Time{}) {
		t.Error("nobody has a place, and a timer goes on")
	}
}

// What needs no place waits for none, and whoever has waited for one waits no more.
func TestWhatNeedsNoPlace(t *testing.T) {
	h := newHouse(Params{Admit: true, Idle: time.Minute}, agent(100))
	var first, second Task
	h.Come(&first, "ann", 1)
	h.Award(&first, h.agents[0], 100)
	h.Come(&second, "bob", 2)
	h.round(100, &second)
	if h.Waiting() != 1 {
		t.Fatal("two fit")
	}
	h.Admit(h.agents, []*Task{&second}, func(int, []bool) int { return 0 })
	if second.Outside() || h.Waiting() != 0 || !second.May(0) {
		t.Error("it waits for a place that it does not need")
	}
}

// A hub that admits everybody remembers nobody.
func TestWithoutPlaces(t *testing.T) {
	h := newHouse(Default(), agent(100))
	for key := range uint64(10) {
		var x Task
		h.Come(&x, "ann", key)
		h.Award(&x, h.agents[0], 1000)
		if used, _ := h.agents[0].Blocks(); used != 0 || h.Places() != 0 || x.Outside() || h.Admits() {
			t.Fatalf("%d blocks used, %d places", used, h.Places())
		}
		h.Gone(&x)
	}
}

// As many tasks are said to wait as do, after any order of what may happen, and none once all have gone.
func TestAsManyWaitAsDo(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	most := 0
	for range 100 {
		h := newHouse(Params{Admit: true, Idle: 5 * time.Second}, agent(300), agent(500))
		var open []*Task
		for range 200 {
			switch k := r.IntN(6); {
			case k < 2:
				x := new(Task)
				h.Come(x, string(rune('a'+r.IntN(3))), uint64(1+r.IntN(8)))
				open = append(open, x)
			case k == 2 && len(open) > 0:
				i := r.IntN(len(open))
				h.Gone(open[i])
				open = append(open[:i], open[i+1:]...)
			case k == 3:
				h.End(uint64(1 + r.IntN(8)))
			case k == 4:
				h.pass(time.Duration(r.IntN(4)) * time.Second)
			default:
				h.round(50+r.IntN(300), open...)
				for _, x := range open {
					for i, a := range h.agents {
						if !x.Outside() && x.May(i) && r.IntN(4) == 0 {
							h.Award(x, a, 50+r.IntN(300))
							break
						}
					}
				}
			}
			waiting := 0
			for _, x := range open {
				if x.Outside() {
					waiting++
				}
			}
			if most = max(most, waiting); h.Waiting() != waiting {
				t.Fatalf("%d wait, and %d are said to", waiting, h.Waiting())
			}
		}
		for _, x := range open {
			h.Gone(x)
		}
		if h.Waiting() != 0 {
			t.Fatalf("all have gone, and %d wait", h.Waiting())
		}
	}
	if most < 3 {
		t.Errorf("at most %d waited: the test sees little", most)
	}
}
