package hub

import (
	"slices"
	"time"

	"souk/bus"
	"souk/hub/session"
)

// Where sessions need more than the caches hold, a hub admits sessions rather than tasks: see package
// session. Who has a place is known before any bid of a round is read.

// sessions holds the places of the sessions that have turns here.
type sessions struct {
	table  *session.Table
	sweep  timer // looks after who is silent
	askers []session.Asker
	who    []*task          // of these
	agents []*session.Agent // of the round
	bits   []bool

	waiting int   // tasks that found no place, in the last round
	least   int   // blocks that one of them needs
	woke    int64 // by Node.nano: when they were last woken for there may be room
}

// sweepsEvery is how often places of silent sessions are looked for.
const sweepsEvery = time.Second

func (n *Node) clock() time.Duration { return time.Duration(n.nano) }

// blocks is how many blocks of an agent's cache so many tokens take.
func (a *agent) blocks(tokens int) int {
	size := max(1, a.reg.BlockSize)
	return (tokens + size - 1) / size
}

// come says that a task was admitted: its session's turn has come.
func (n *Node) come(t *task) {
	if !n.cfg.Sessions.Admit {
		return
	}
	t.turn = n.sessions.table.Come(t.session)
	if s := &n.sessions.sweep; s.place == 0 {
		n.timers.set(s, n.now.Add(sweepsEvery))
	}
}

// admitted finds out which of the tasks of a round may go to which agents, as far as their sessions' places
// say: see task.may. Those that may go nowhere leave the round, and wait.
func (n *Node) admitted() {
	s := &n.sessions
	if !n.cfg.Sessions.Admit {
		return
	}
	s.askers, s.who, s.agents = s.askers[:0], s.who[:0], s.agents[:0]
	for _, a := range n.round.agents {
		s.agents = append(s.agents, &a.sessions)
	}
	width := len(s.agents)
	s.bits = resized(s.bits, width*len(n.round.tasks))
	for _, t := range n.round.tasks {
		// what has begun goes on: the rest of an answer waits for no place
		if t.may = nil; t.only != nil || t.continued {
			t.outside = time.Time{}
			continue
		}
		i := len(s.who)
		x := session.Asker{Place: t.turn, May: s.bits[width*i : width*(i+1)]}
		if n.reaches(t, &x); !slices.Contains(x.May, true) {
			t.outside = time.Time{} // no open agent serves it: it waits for one that does, and for no place
			continue
		}
		t.needs = x.Need
		s.who, s.askers = append(s.who, t), append(s.askers, x)
	}
	session.Admit(s.agents, s.askers)
	for i, t := range s.who {
		switch may := s.askers[i].May; {
		case slices.Contains(may, true):
			t.may, t.outside = may, time.Time{}
		case t.outside.IsZero():
			t.outside = n.now
		}
	}
	n.round.tasks = slices.DeleteFunc(n.round.tasks, func(t *task) bool {
		if !t.outside.IsZero() {
			n.batch.Leave(t, t.arrived)
		}
		return !t.outside.IsZero()
	})
	n.countOutside()
}

// reaches says which open agents serve a task, and how many blocks it needs.
func (n *Node) reaches(t *task, x *session.Asker) {
	for k, a := range n.round.agents {
		h := n.heldBy(t, a)
		if !a.suits(t) || !a.takes(h.tokens+t.carried()) {
			continue
		}
		if x.May[k] = true; x.Need == 0 {
			q := n.noted(t, a, h)
			x.Need = max(1, a.blocks(q.prompt+q.output))
		}
	}
}

// countOutside counts the tasks that wait for a place, and what the least of them needs.
func (n *Node) countOutside() {
	s := &n.sessions
	s.waiting = 0
	n.batch.Each(func(t *task, _ time.Time) {
		if t.outside.IsZero() {
			return
		}
		if s.waiting++; s.waiting == 1 || t.needs < s.least {
			s.least = t.needs
		}
	})
}

// lets reports whether a task may go to an agent, as far as places say.
func (t *task) lets(agent int) bool { return t.may == nil || t.may[agent] }

// letsIn wakes those who wait for a place if there may be one, so that nobody who comes later takes it. Once
// is enough of a moment: several rounds may be held in it.
func (n *Node) letsIn() {
	if s := &n.sessions; s.woke != n.nano && n.roomy() {
		s.woke = n.nano
		n.batch.Wake()
	}
}

// roomy reports whether one of those who wait for a place may find one.
func (n *Node) roomy() bool {
	return n.sessions.waiting > 0 && slices.ContainsFunc(n.roster, func(a *agent) bool {
		return a.open(n) && a.sessions.Fits(0, n.sessions.least)
	})
}

// settlesIn says that a task goes to an agent: its session's place is there now.
func (n *Node) settlesIn(t *task, h *hold) {
	if n.cfg.Sessions.Admit && h.agent.joined {
		need := h.agent.blocks(h.rec.Prompt + h.rec.Output)
		t.turn = n.sessions.table.Award(t.turn, t.session, &h.agent.sessions, need)
	}
}

// due implements timed: once a second, while tasks wait or sessions have places.
func (s *sessions) due(n *Node) {
	if s.table.Sweep(n.clock()) {
		n.placeFreed(true)
	}
	if s.table.Places()+n.open > 0 {
		n.timers.set(&s.sweep, n.now.Add(sweepsEvery))
	}
}

// notAdmitted is the answer to a task whose session found no place before its deadline.
func (n *Node) notAdmitted(t *task) *bus.Result {
	idle := n.cfg.Sessions.Idle // by then a silent session's place is free
	retry := idle*3/4 + time.Duration(n.salts.Uint64()%uint64(idle/2+1))
	return n.refusal(t.msg, bus.CodeNoRoom, retry,
		"the caches of the agents are full with sessions that are in use, and for %v none had room for this one; "+
			"tasks that wait for room: %d", n.now.Sub(t.outside).Round(time.Second), n.sessions.waiting)
}

// SessionEnded says that a client's session has ended: it gives up its place once its last turn is over. A
// later turn of it is a new session's. What is not known is no fault, and nobody ends another's session, as
// the client is part of its key.
func (n *Node) SessionEnded(now time.Time, client, session string) {
	n.advance(now)
	n.endSession(bus.SessionKey(client, session))
}

func (n *Node) endSession(key uint64) {
	n.placeFreed(n.sessions.table.End(key))
	n.runtime.host.Ended(n.now, key)
}

// placeFreed wakes those who wait for a place, where one came free.
func (n *Node) placeFreed(freed bool) {
	if freed && n.leading && n.sessions.waiting > 0 {
		n.news()
	}
}
