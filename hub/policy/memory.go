package policy

import (
	"time"

	"souk/bus"
	"souk/bus/bounded"
	"souk/bus/policy"
	"souk/market"
)

// memory remembers sessions between their turns, and how true clients' announcements were.
type memory struct {
	sessions *bounded.Cache[policy.ID, policy.ID, session]
	words    *bounded.Cache[policy.ID, [2]policy.ID, word] // by client and tool, which agents name
}

// session is one remembered session.
type session struct {
	ended   time.Duration // of its last turn, since 1970
	claimed time.Duration // the pause that its client said there would be; 0: nothing
	role    policy.ID
	parent  policy.ID
	tool    policy.ID // that its last answer called
	turns   int32
	idle    bool // its last turn has ended
}

// mostWords bounds the pairs of a client and a tool whose announced and actual pauses are remembered.
const mostWords = 4096

// Turn is a turn of a session as its hub knows it.
type Turn struct {
	Client       string
	Key          uint64 // of the session, as bus.SessionKey has it; 0: it is of none
	Parent, Next string // names of the same client's, as it said them
	Role         policy.ID
	Back         time.Duration // it said that it will be back after so long; 0: nothing
	Agent        string
}

func (r *Room) event(now time.Time, kind policy.EventKind, t *Turn) policy.Event {
	return policy.Event{Kind: kind, At: now, Agent: policy.IDOf(t.Agent),
		Client: policy.IDOf(t.Client), Session: t.Key,
		Role: t.Role}
}

// Arrived says that a turn was admitted. Policies are asked for effects from then on.
func (r *Room) Arrived(now time.Time, t *Turn) {
	e := r.event(now, policy.Arrived, t)
	if t.Key != 0 {
		s, _ := r.memory.sessions.Add(e.Client, t.Key)
		if t.Role != 0 {
			s.role = t.Role
		}
		// A parent that is the session itself, or that has it for a parent, is none: nobody walks along them
		// further than to the next, so no ring of them does harm.
		if p := bus.SessionKey(t.Client, t.Parent); p != 0 && p != t.Key {
			if o := r.memory.sessions.Peek(p); o == nil || o.parent != t.Key {
				s.parent = p
			}
		}
		e.Turn, e.Role, e.Parent = int(s.turns), s.role, s.parent
		if s.idle {
			e.Back = max(0, time.Duration(now.UnixNano())-s.ended)
			e.Claimed = r.memory.heard(e.Client, s.tool, s.claimed)
			if s.claimed > 0 {
				r.memory.learn(e.Client, s.tool, s.claimed, e.Back)
			}
			s.idle, s.claimed = false, 0
		}
	}
	r.Observe(e)
	if !r.tick.IsSet() {
		r.turn.Set(&r.tick, now.Add(actEvery))
	}
}

// Placed says that it goes to an agent, with what is expected of it.
func (r *Room) Placed(now time.Time, t *Turn, u market.Usage) {
	e := r.event(now, policy.Placed, t)
	e.Usage = u
	r.tell(e)
}

// Failed says that it has ended without payment, and Again that it waits for another agent after that.
func (r *Room) Failed(now time.Time, t *Turn) { r.tell(r.event(now, policy.Failed, t)) }
func (r *Room) Again(now time.Time, t *Turn)  { r.tell(r.event(now, policy.Again, t)) }

// tell tells of an event with what is remembered of its session.
func (r *Room) tell(e policy.Event) {
	r.known(&e)
	r.Observe(e)
}

// known adds to an event what is remembered of its session.
func (r *Room) known(e *policy.Event) *session {
	s := r.memory.sessions.Get(e.Session)
	if s != nil {
		e.Turn, e.Role, e.Parent = int(s.turns), s.role, s.parent
	}
	return s
}

// Served says that it has ended, and how. What the client said of the next turn is told with it.
func (r *Room) Served(now time.Time, t *Turn, c *bus.Completion) {
	e := r.event(now, policy.Served, t)
	e.Usage, e.Stop, e.Tool, e.Thought = c.Usage, policy.StopOf(c.Finish), c.Tool, c.Thought
	e.TTFT, e.ITL = time.Duration(c.TTFTUS)*time.Microsecond, time.Duration(c.ITLUS)*time.Microsecond
	if c.Outcome == bus.OutcomeCancelled {
		e.Stop = policy.StopCut
	}
	if s := r.known(&e); s != nil {
		s.turns++
		s.ended, s.idle, s.tool, s.claimed = time.Duration(now.UnixNano()), true, c.Tool, t.Back
		e.Claimed = r.memory.heard(e.Client, c.Tool, t.Back)
	}
	r.Observe(e)
	r.next(now, t)
}

// next passes on what a client says that comes next: one of its sessions, or else one of its roles.
func (r *Room) next(now time.Time, t *Turn) {
	if t.Next == "" || t.Key == 0 {
		return
	}
	e := r.event(now, policy.Next, t)
	e.Parent = t.Key
	if key := bus.SessionKey(t.Client, t.Next); key != t.Key {
		if s := r.memory.sessions.Peek(key); s != nil {
			e.Session, e.Role = key, s.role
			r.Observe(e)
			return
		}
	}
	e.Role = bus.RoleKey(t.Client, t.Next, &bus.Prompt{})
	r.Observe(e)
}

// Ended says that a session has had its last turn.
func (r *Room) Ended(now time.Time, key uint64) {
	e := policy.Event{Kind: policy.Ended, At: now, Session: key}
	if r.known(&e) == nil {
		return // nothing of it is remembered
	}
	r.memory.sessions.Drop(key)
	r.Observe(e)
}

// word compares a client's announced pauses with the actual ones for one tool: sums that fade.
type word struct {
	said, came float32 // seconds
	deaf       uint8   // it is not heard for so many returns
}

// holds reports whether what came is near enough to what was said.
func (w *word) holds() bool { return w.came >= leastTrue*w.said && w.came <= mostTrue*w.said }

const (
	// what is said is not heard any more where the truth is not within these of it
	leastTrue, mostTrue = 0.5, 2
	deafFor             = 20 // returns
	wordFade            = 0.9
)

// heard is a pause as a client says it, scaled by how long its pauses with that tool were that it said
// before; 0 where it is not believed.
func (m *memory) heard(client, tool policy.ID, said time.Duration) time.Duration {
	if said <= 0 {
		return 0
	}
	w := m.words.Peek([2]policy.ID{client, tool})
	switch {
	case w == nil:
		return said
	case w.deaf > 0 || !w.holds():
		return 0
	}
	return min(time.Duration(float64(said)*float64(w.came/w.said)), bus.MaxBackMS*time.Millisecond)
}

// learn compares what a client said with what came.
func (m *memory) learn(client, tool policy.ID, said, came time.Duration) {
	w, _ := m.words.Add(client, [2]policy.ID{client, tool})
	w.said = float32(w.said*wordFade) + float32(said.Seconds())
	w.came = float32(w.came*wordFade) + float32(came.Seconds())
	if w.deaf > 1 {
		w.deaf--
		return
	}
	w.deaf = 0
	if !w.holds() { // it is not heard for a while, and judged by what it says then
		*w = word{deaf: deafFor}
	}
}
