package hub

import (
	"time"

	"souk/bus"
	"souk/market"
)

// What becomes of those whom a round leaves: they wait for news, or for the moment when they are worth no
// more than they cost, at which they are told.

// leaves has the tasks that the round did not place wait for news, and refuses those that are worth less than
// they cost wherever they go.
func (n *Node) leaves() {
	s := &n.round
	idle := false // somebody waits beside a slot that is free
	beyond := s.edged[min(s.within, len(s.edged)):]
	i := 0
	for k, t := range s.tasks {
		var best *pair
		beside := false
		for ; i < len(s.pairs) && int(s.pairs[i].task) == k; i++ {
			p := &s.pairs[i]
			if best == nil || p.bare() > best.bare() {
				best = p
			}
			beside = beside || s.agents[p.agent].free(n) > 0
		}
		if t.barred && t.state == waiting { // it may have them in a moment, although nothing else happens
			best = n.bestOf(t)
			beside = beside || best != nil && s.agents[best.agent].free(n) > 0
		}
		left := len(beyond) > 0 && beyond[0] == t
		if left {
			beyond = beyond[1:]
		}
		switch {
		case t.state != waiting:
		case best != nil && best.bare() < n.cfg.Fee && !n.soon(t):
			n.worthless(t, best)
		case left: // a round of its own follows
			t.rounds++
			n.plan.rest = true
			n.batch.Add(t, t.arrived)
			n.lasts(t, best.bare()-n.cfg.Fee)
		default:
			t.rounds++
			n.batch.Leave(t, t.arrived)
			idle = idle || beside
			if best != nil {
				n.lasts(t, best.bare()-n.cfg.Fee)
			}
		}
	}
	if (idle || n.roomy()) && n.plan.again.place == 0 {
		n.timers.set(&n.plan.again, n.now.Add(again))
	}
	for _, t := range s.tasks {
		if t.state == running && t.account != nil {
			n.admitFunded(t.account) // its hold may be less than was reserved
		}
	}
}

// bare is the value less the cost.
func (p *pair) bare() market.Credits { return p.value - p.cost }

// worthless refuses a task that is worth less than it costs at every agent; best is where it lacks least.
func (n *Node) worthless(t *task, best *pair) {
	n.plan.kept.End(n.nano, t.worth, 0)
	retry := time.Duration(0)
	if t.rounds > 0 {
		retry = time.Second
	}
	n.end(t, n.refusal(t.msg, bus.CodeNotWorthIt, retry,
		"after %v of waiting it is worth %s and costs %s at %s, and no agent would do better: offer more, or "+
			"more patience",
		t.waited.Round(time.Millisecond), money(best.value), money(best.cost+n.cfg.Fee),
		n.round.agents[best.agent].id))
}

// soon reports whether an agent that is left alone for a moment, as it refused a task, would have one that is
// worth what it costs.
func (n *Node) soon(t *task) bool {
	for _, a := range n.roster {
		if !a.there(n) || n.nano >= a.avoidUntil || !a.suits(t) {
			continue
		}
		q := n.noted(t, a, n.heldBy(t, a))
		in := n.now.Sub(t.waits()) + time.Duration(a.avoidUntil-n.nano) + q.first
		value := min(q.room(t.reserved),
			t.stated().Value(market.Quote{TTFT: in, Cost: q.cost, Quality: q.quality}))
		if a.takes(q.prompt) && value-q.cost >= n.cfg.Fee {
			return true
		}
	}
	return false
}

// lasts notes how long a task that is worth so much more than it costs may wait until it is worth less, if
// nothing else changes.
func (n *Node) lasts(t *task, best market.Credits) {
	t.spent = time.Time{}
	if d := t.stated().Lasts(best); d < t.left {
		t.spent = n.now.Add(max(d+1, again))
		if x := &n.plan.spent.timer; x.place == 0 || t.spent.Before(x.at) {
			n.timers.set(x, t.spent)
		}
	}
}

// spent is the moment when the first of those who wait is worth no more than it costs. No round may be held
// then, as no slot is free.
type spent struct{ timer }

// due implements timed.
func (x *spent) due(n *Node) {
	var over []*task
	next := time.Time{}
	n.batch.Each(func(t *task, _ time.Time) {
		switch {
		case t.spent.IsZero():
		case t.spent.After(n.now):
			next = earlier(next, t.spent)
		default:
			over = append(over, t)
		}
	})
	n.timers.set(&x.timer, next)
	if len(over) == 0 {
		return
	}
	n.standUp()
	for _, t := range over {
		best := n.bestOf(t)
		if t.spent = (time.Time{}); best == nil {
			continue
		}
		if left := best.bare() - n.cfg.Fee; left < 0 && !n.soon(t) {
			n.worthless(t, best)
		} else {
			n.lasts(t, left)
		}
	}
}

// bestOf is where a task is worth most beyond its cost, among the agents of a round; nil where none may serve
// it in time.
func (n *Node) bestOf(t *task) (best *pair) {
	t.waited, t.left = n.now.Sub(t.waits()), t.deadline.Sub(n.now)
	for k, a := range n.round.agents {
		if !a.suits(t) {
			continue
		}
		if p, ok := n.pair(t, k, n.heldBy(t, a)); ok && (best == nil || p.bare() > best.bare()) {
			best = &p
		}
	}
	return best
}
