package policy

import (
	"time"

	"souk/bus"
	"souk/bus/policy"
	"souk/market"
)

// session remembers one between its turns.
type session struct {
	role   policy.ID
	parent policy.ID
	turns  int32
}

// Turn is a turn of a session as its hub knows it.
type Turn struct {
	policy.Turn
	Parent, Next string        // names of the same client's sessions, as it said them
	Back         time.Duration // it said that it will be back after so long; 0: nothing
}

// Arrived says that a turn was admitted. Policies are asked for effects from then on.
func (r *Room) Arrived(now time.Time, t *Turn) {
	e := t.Event(now, policy.Arrived)
	if t.Session != 0 {
		s, _ := r.sessions.Add(e.Client, t.Session)
		if t.Role != 0 {
			s.role = t.Role
		}
		// A parent that is the session itself, or that has it for a parent, is none: nobody walks along them
		// further than to the next, so no ring of them does harm.
		if p := bus.SessionKey(t.Client, t.Parent); p != 0 && p != t.Session {
			if o := r.sessions.Peek(p); o == nil || o.parent != t.Session {
				s.parent = p
			}
		}
		e.Turn, e.Role, e.Parent = int(s.turns), s.role, s.parent
	}
	r.Observe(e)
	if !r.tick.IsSet() {
		r.turn.Set(&r.tick, now.Add(actEvery))
	}
}

// Placed says that it goes to an agent, with what is expected of it.
func (r *Room) Placed(now time.Time, t *Turn, u market.Usage) {
	e := t.Event(now, policy.Placed)
	e.Usage = u
	r.tell(e)
}

// Failed says that it has ended without payment, and Again that it waits for another agent after that.
func (r *Room) Failed(now time.Time, t *Turn) { r.tell(t.Event(now, policy.Failed)) }
func (r *Room) Again(now time.Time, t *Turn)  { r.tell(t.Event(now, policy.Again)) }

// tell tells of an event with what is remembered of its session.
func (r *Room) tell(e policy.Event) {
	r.known(&e)
	r.Observe(e)
}

// known adds to an event what is remembered of its session.
func (r *Room) known(e *policy.Event) *session {
	s := r.sessions.Get(e.Session)
	if s != nil {
		e.Turn, e.Role, e.Parent = int(s.turns), s.role, s.parent
	}
	return s
}

// Served says that it has ended, and how. What the client said of the next turn is told with it.
func (r *Room) Served(now time.Time, t *Turn, c *bus.Completion) {
	e := t.Ended(now, c)
	if s := r.known(&e); s != nil {
		s.turns++
		e.Claimed = t.Back
	}
	r.Observe(e)
	r.next(now, t)
}

// next passes on what a client says that comes next: one of its sessions, or else one of its roles.
func (r *Room) next(now time.Time, t *Turn) {
	if t.Next == "" || t.Session == 0 {
		return
	}
	e := t.Event(now, policy.Next)
	e.Parent = t.Session
	if key := bus.SessionKey(t.Client, t.Next); key != t.Session {
		if s := r.sessions.Peek(key); s != nil {
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
	r.sessions.Drop(key)
	r.Observe(e)
}
