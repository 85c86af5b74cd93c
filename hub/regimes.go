package hub

import (
	"time"

	"souk/bus"
	"souk/hub/forecast"
	"souk/hub/policy"
	"souk/hub/regime"
)

// domain is the hub as its regime sees it: see [regime.Domain].
type domain struct{ *Node }

func (n domain) Slots() (all int) {
	for _, a := range n.fleet.All() {
		if a.Open(n.turn.Nano()) {
			all += a.Reg().Slots
		}
	}
	return all
}

// Waiting tells of the tasks for which no slot is free, and of those that run and are believed to have no
// first token yet: on each agent those that came last.
func (n domain) Waiting(w *regime.Watch) {
	every, i := 1+n.queue.Waiting()/regime.MostWaiting, 0
	for t := range n.queue.All {
		if i++; i%every == 0 {
			if idle, kept := t.kept(n.Node); kept {
				w.Waits(n.turn.Now().Sub(t.Arrived()), 0, idle, every)
			}
		}
	}
	for _, a := range n.fleet.All() {
		if len(a.Runs()) == 0 {
			continue
		}
		k := min(a.Load(n.turn.Nano()).Waiting, len(a.Runs()))
		for _, x := range a.Runs()[len(a.Runs())-k:] {
			if h := n.admission.Find(x.Client, x.Task).hold; h.estimate.First > 0 && h.task.only == nil {
				w.Waits(h.Sent.Sub(h.task.Arrived()), n.turn.Now().Sub(h.Sent), h.estimate.First, 1)
			}
		}
	}
}

// kept reports whether a task that waits is kept waiting by others: one that could have a slot, and finds
// that dear, is not, whatever it offers. idle is how long its first token would take on an idle agent: where
// it is planned for, or on the first that serves it; 0 where none does.
func (t *task) kept(n *Node) (idle time.Duration, kept bool) {
	var at *agent
	for _, a := range n.fleet.All() {
		free := a.Idle() > 0 && !t.place.Outside()
		if at != nil && a.ID() != t.Planned && !free || !a.Open(n.turn.Nano()) || !n.goes(t, a) {
			continue
		}
		if free {
			return 0, false
		}
		if at == nil || a.ID() == t.Planned {
			at = a
		}
	}
	if at != nil {
		idle = n.estimate(t, at, n.heldBy(t, at)).First
	}
	return idle, true
}

// noteServed takes in how long a task took, and its first token, that was served.
func (h *hold) noteServed(n *Node, c *bus.Completion) {
	t := h.task
	if t.only != nil || t.Msg == nil || t.Msg.Carried() > 0 {
		return
	}
	n.regimes.Served(max(0, h.Sent.Sub(t.Arrived())),
		forecast.Believed(max(0, c.TTFTUS), n.turn.Now().Sub(h.Sent)), h.estimate.First)
}

// noteUnserved takes in a task that waited until its deadline, or until it was worth no more than it costs,
// for a slot that others had. Those whose worth was too small to win one are among them: who of those that
// wait has the slots follows bids, how many wait for how long does not, and where overload shows in nothing
// else it shows in them.
func (t *task) noteUnserved(n *Node, code bus.Code) {
	if t.only != nil || code != bus.CodeNoRoom && code != bus.CodeNotWorthIt {
		return
	}
	if every := n.regimes.Unserved(); every > 0 {
		if idle, kept := t.kept(n); kept {
			n.regimes.Missed(n.turn.Now().Sub(t.Arrived()), idle, every)
		}
	}
}

// Tokens counts those of tasks that run and wait, and those that caches have room for.
func (n domain) Tokens() (tasks, caches int) {
	for _, a := range n.fleet.All() {
		if a.Joined() {
			caches += a.Reg().KVTokens
		}
		for _, h := range a.holds(n.admission) {
			tasks += h.Rec.Prompt + h.Rec.Output
		}
	}
	for t := range n.queue.All {
		tasks += t.Msg.Prompt.Tokens + t.Msg.Carried()
	}
	return tasks, caches
}

// Watch has a shell hear the name of each policy that is called, and "" when it is back: who does not come
// back holds up the hub.
func (n *Node) Watch(enters func(policy string)) { n.policies.Enters(enters) }

// hear has policies hear of a task, and of the agent that has it, if any has; not of what the hub sends
// itself.
func (t *task) hear(n *Node, a *agent, tell func(now time.Time, x *policy.Turn)) {
	if t.only != nil || !n.policies.Any() {
		return
	}
	x := policy.Turn{Client: t.Client(), Key: t.asks.Source.Session, Role: t.Msg.RoleKey()}
	if a != nil {
		x.Agent = a.ID()
	}
	if m := t.Msg; m != nil {
		x.Session, x.Parent, x.Next = m.Session, m.Parent, m.Next
		x.Back = time.Duration(m.BackMS) * time.Millisecond
	}
	tell(n.turn.Now(), &x)
}
