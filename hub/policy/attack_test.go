package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/policy"
	"souk/market"
)

// sceptic judges every event that a policy hears.
type sceptic struct {
	t       *testing.T
	events  []policy.Event
	clients map[policy.ID]policy.ID // of sessions
}

func (s *sceptic) Observe(e policy.Event) {
	s.events = append(s.events, e)
	owner, other := s.clients[e.Session], s.clients[e.Parent]
	switch {
	case e.Kind < policy.Arrived || e.Kind > policy.Again:
		s.t.Errorf("an event of kind %d", e.Kind)
	case e.Claimed < 0 || e.Claimed > bus.MaxBackMS*time.Millisecond || e.Turn < 0:
		s.t.Errorf("said %v, turn %d", e.Claimed, e.Turn)
	case e.Parent != 0 && e.Parent == e.Session && e.Kind != policy.Next:
		s.t.Error("a session is its own parent")
	case e.Session != 0 && e.Client != 0 && owner != e.Client:
		s.t.Error("an event of one client's session that another one's turn made")
	case e.Parent != 0 && e.Client != 0 && other != 0 && other != e.Client:
		s.t.Error("a parent of another client's")
	}
}
func (*sceptic) Score(time.Time, policy.Item) float64                        { return math.NaN() }
func (*sceptic) Act(time.Time, policy.Room, []policy.Effect) []policy.Effect { return nil }

// Clients say what they like, in any order and twice: sessions that begin one another, or come next of one
// another, of names that others have; pauses of all lengths, ends before beginnings; and clocks jump. What a
// policy hears of it makes sense, is each client's own, and the same each time.
func TestWhateverClientsSay(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	play := func() []policy.Event {
		rng := rand.New(rand.NewPCG(seed, 16))
		s := &sceptic{t: t, clients: map[policy.ID]policy.ID{}}
		h := remembers(Params{Keep: "sceptic"},
			&Known{Keep: {"sceptic": func() policy.Policy { return s }}}, 64)
		session := func(client string) (name string, key policy.ID) {
			if rng.IntN(9) == 0 {
				return "", 0
			}
			name = fmt.Sprint("s-", rng.IntN(40))
			key = bus.SessionKey(client, name)
			s.clients[key] = policy.IDOf(client)
			return name, key
		}
		pauses := []time.Duration{0, 1, time.Millisecond, time.Hour, bus.MaxBackMS * time.Millisecond}
		at := time.Unix(1_800_000_000, 0)
		for range 20_000 {
			client := fmt.Sprint("c-", rng.IntN(3))
			x := Turn{Back: pauses[rng.IntN(len(pauses))]}
			x.Client, x.Agent = client, fmt.Sprint("a-", rng.IntN(3))
			_, x.Session = session(client)
			x.Parent, _ = session(client)
			x.Next, _ = session(client)
			if x.Role = rng.Uint64N(5); rng.IntN(50) == 0 {
				x.Next = "critic"
			}
			c := bus.Completion{Finish: "tool_calls", Tool: rng.Uint64N(3), TTFTUS: rng.Int64N(1e6)}
			if rng.IntN(20) == 0 {
				at = at.Add(time.Duration(rng.Int64N(int64(48*time.Hour))) - 24*time.Hour)
			}
			at = at.Add(time.Duration(rng.Int64N(int64(time.Second))))
			for range 1 + rng.IntN(2) {
				switch rng.IntN(8) {
				case 0, 1, 2:
					h.Arrived(at, &x)
				case 3:
					h.Placed(at, &x, market.Usage{Prompt: 9})
				case 4, 5:
					h.Served(at, &x, &c)
				case 6:
					h.Failed(at, &x)
				case 7:
					h.Ended(at, x.Session)
				}
			}
			if s := h.sessions.Len(); s > 64 {
				t.Fatalf("%d sessions", s)
			}
		}
		return s.events
	}
	one := play()
	if two := play(); len(one) < 20_000 || !reflect.DeepEqual(one, two) {
		t.Errorf("%d events, then %d others", len(one), len(two))
	}
}
