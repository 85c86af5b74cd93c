package hub

import (
	"time"

	"souk/bus"
	"souk/hub/account"
	"souk/hub/policy"
	"souk/hub/regime"
)

// Refuses is why the hub takes no task ("": it does), and when it may be worth asking again.
func (n *Node) Refuses() (why string, again time.Duration) {
	_, waits := n.money.Doubt()
	return n.status.Closed(waits)
}

// Status returns the hub's public word about itself.
func (n *Node) Status() *bus.Status {
	s := &bus.Status{
		Domain: n.cfg.Domain, Labels: n.cfg.Labels, General: n.cfg.General, Epoch: n.turn.Epoch,
		Seq: n.status.Last().Seq, Waiting: n.Queue.Waiting(), Regime: n.regimes.State().String(),
	}
	closed, again := n.Refuses()
	s.Closed, s.ClosedMS = closed, again.Milliseconds()
	if n.turn.Leading && closed == "" {
		s.Room = max(0, n.Queue.Spare(n.fleet.Slots(), n.admission.Open()))
		if s.Room == 0 && n.Queue.Squeezes(0) {
			s.Room = 1
		}
	}
	for _, p := range n.Policies.States(n.turn.Now()) {
		s.Policies = append(s.Policies, bus.PolicyStatus{Hook: p.Hook, Policy: p.Policy,
			OffMS: max(0, p.Off.Sub(n.turn.Now()).Milliseconds()), Why: bus.Clip(p.Why, bus.MaxText)})
	}
	n.meeting.Tell(s)
	return s
}

// Stats is a copy of the counts.
func (n *Node) Stats() Stats {
	s := n.meeting.Counted(&n.stats)
	s.Faults = n.turn.Faults
	s.Tally, s.Counts = n.admission.Tally(), n.settle.Counts()
	s.Open, s.Waiting = n.admission.Open(), n.Queue.Waiting()
	s.Holds, _ = n.settle.Kept()
	s.Policies = n.Policies.States(n.turn.Now())
	tasks, caches := 0, 0 // tokens of tasks that run and wait, and that caches have room for
	for _, a := range n.fleet.All() {
		if a.Joined() {
			caches += a.Reg().KVTokens
		}
		for _, h := range n.holds(a) {
			tasks += h.Rec.Prompt + h.Rec.Output
		}
	}
	for t := range n.Queue.All {
		tasks += t.Msg.Prompt.Tokens + t.Msg.Carried()
	}
	s.Regime = n.regimes.Stats(tasks, caches)
	return s
}

// watched tells of the tasks for which no slot is free, and of those that run and are believed to have no
// first token yet: on each agent those that came last.
func (n waiters) watched(w *regime.Watch) {
	every, i, now := 1+n.Queue.Waiting()/regime.MostWaiting, 0, n.turn.Now()
	for t := range n.Queue.All {
		if i++; i%every == 0 {
			if idle, blocked := n.meeting.Blocked(t); blocked {
				w.Waits(now.Sub(t.Arrived), 0, idle, every)
			}
		}
	}
	for _, a := range n.fleet.All() {
		if len(a.Runs) == 0 {
			continue
		}
		k := min(a.Load(n.turn.Nano()).Waiting, len(a.Runs))
		for _, h := range n.holds(a)[len(a.Runs)-k:] {
			if h.Expected.First > 0 && !h.Whose.Own() {
				_, queued := h.Expected.Times(nil, now.Sub(h.Sent))
				w.Waits(h.Sent.Sub(h.Whose.Arrived)+queued, now.Sub(h.Sent)-queued, h.Expected.First, 1)
			}
		}
	}
}

// hear has policies hear of a task, and of the agent that has it; not of what the hub sends itself.
func (n *Node) hear(t *task, a *agent, tell func(now time.Time, x *policy.Turn)) {
	if !t.Own() && n.Policies.Any() {
		x := policy.Turn{}
		x.Client, x.Session, x.Role = t.Client, t.Asks.Source.Session, t.Msg.RoleKey()
		if m := t.Msg; m != nil {
			x.Parent, x.Next, x.Back = m.Parent, m.Next, time.Duration(m.BackMS)*time.Millisecond
		}
		if a != nil {
			x.Agent = a.ID()
		}
		tell(n.turn.Now(), &x)
	}
}

// Money returns the accounts of clients at this hub, with the treasury's word on them.
func (n *Node) Money() *account.Room { return n.money }
