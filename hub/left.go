package hub

import (
	"fmt"
	"slices"
	"time"

	"souk/bus"
	"souk/hub/estimate"
	"souk/hub/round"
	"souk/market"
)

// What becomes of those whom a round leaves: they wait for news, or for the moment when they are worth no
// more than they cost, at which they are told.

// leaves has the tasks that the round did not place wait for news, and refuses those that are worth less than
// they cost wherever they go.
func (n *Node) leaves(whys []round.Why) {
	s := &n.round
	idle, free := false, n.fleet.Free(1) > 0 // somebody waits beside a slot that is free
	for k, t := range s.tasks {
		best, beside := whys[k].Best, free && slices.ContainsFunc(s.waiters[k].Offers,
			func(o estimate.Offer) bool { return s.agents[o.Agent].Free(n.turn.Nano()) > 0 })
		if t.Barred && t.Waits() { // it may have them in a moment, although nothing else happens
			best = n.bestOf(t)
			beside = beside || best != nil && s.agents[best.Agent].Free(n.turn.Nano()) > 0
		}
		switch {
		case !t.Waits():
		case n.worthless(t, best):
		case whys[k].Beyond: // a round of its own follows
			n.plan.rest = true
			n.queue.Again(t)
		default:
			idle = idle || beside
		}
		if best != nil && t.Waits() {
			t.Lost()
		}
	}
	if idle || n.sessions.Waiting() > 0 && slices.ContainsFunc(s.agents,
		func(a *agent) bool { return n.sessions.Fits(&a.sessions) }) {
		n.queue.Beside()
	}
	for _, t := range s.tasks {
		if t.hold != nil {
			n.money.Admit(t.Client()) // its hold may be less than was reserved
		}
	}
}

// worthless refuses a task that is worth less than it costs at every agent; best is where it lacks least of
// those that take tasks now, if any does. Else it notes how long the task may wait.
func (n *Node) worthless(t *task, best *estimate.Offer) bool {
	most := -market.MaxCredits
	if best != nil {
		most = best.Bare()
	}
	if most < n.cfg.Fee {
		most = n.hope(t, most)
	}
	if most == -market.MaxCredits { // there is none
		return false
	}
	if most >= n.cfg.Fee {
		n.queue.Lasts(t, t.Stated().Lasts(most-n.cfg.Fee, t.Waited(n.turn.Now())))
		return false
	}
	n.plan.kept.End(n.turn.Nano(), t.Worth, 0)
	retry := time.Duration(0)
	if t.Rounds() > 0 {
		retry = time.Second
	}
	worth := "less than it costs at each agent that may take tasks again"
	if best != nil {
		worth = fmt.Sprintf("%s credits and costs %s credits at %s, and no agent would do better", best.Value,
			best.Cost+n.cfg.Fee, n.round.agents[best.Agent].ID())
	}
	n.end(t, n.turn.Refusal(t.Msg, bus.CodeNotWorthIt, retry,
		"after %v of waiting it is worth %s: offer more, or more patience",
		t.Waited(n.turn.Now()).Round(time.Millisecond), worth), true)
	return true
}

// hope is the most that a task would be worth beyond its cost, which is so much at agents that take tasks
// now, at one that takes none and may again: it is left alone for a moment, as it refused one, or has no
// engine that answers, or is silent.
func (n *meeting) hope(t *task, most market.Credits) market.Credits {
	for _, a := range n.fleet.All() {
		returns, left := a.Returns(n.turn.Nano())
		if !returns || !n.goes(t, a) {
			continue
		}
		e := n.estimate(t, a, n.heldBy(t, a))
		in := t.Waited(n.turn.Now()) + left + e.First
		most = max(most, e.Value(t.Stated(), in, t.money.Reserved())-e.Cost)
	}
	return most
}

// waiters are the tasks, as package queue sees them: see [queue.Tasks].
type waiters struct{ *Node }

func (w waiters) Beat(t *task) { w.settle.Beat(t.Msg, "") }

// Overdue tells a task that waited until its deadline what stood in its way.
func (w waiters) Overdue(t *task) {
	w.plan.kept.End(w.turn.Nano(), t.Worth, 0)
	w.end(t, w.unplaced(t), true)
}

// unplaced is the truth about a task whose deadline passed while it waited.
func (w waiters) unplaced(t *task) *bus.Result {
	serves := func(is func(*agent) bool) func() bool {
		return func() bool {
			return slices.ContainsFunc(w.fleet.All(), func(a *agent) bool { return is(a) && w.goes(t, a) })
		}
	}
	if t.place.Outside() {
		retry, why := w.sessions.Refusal(&t.place)
		return w.turn.Refusal(t.Msg, bus.CodeNoRoom, retry, "%s", why)
	}
	return w.turn.Refusal(t.Msg, bus.CodeNoRoom, time.Second, "%s", w.queue.Missed(t, t.Refusals,
		serves(func(a *agent) bool { return a.Free(w.turn.Nano()) > 0 }),
		serves(func(a *agent) bool { return a.Open(w.turn.Nano()) })))
}

func (w waiters) Spent(all []*task) {
	w.snapshot()
	w.agree(all)
	for _, t := range all {
		if t.Waits() { // what the one before leaves may have had others take its room
			w.round.offers = w.round.offers[:0] // no round may be held for long
			w.round.sheet.Clear()
			w.worthless(t, w.bestOf(t))
		}
	}
}

// bestOf returns the offer at which a task is worth most beyond its cost, among the agents of a round; nil
// where none may serve it in time.
func (n *meeting) bestOf(t *task) *estimate.Offer {
	s := &n.round
	first := len(s.offers)
	n.offered(t, false)
	w := n.waiter(t, s.offers[first:])
	return round.Best(&w)
}
