package hub

import (
	"time"

	"souk/bus"
	"souk/hub/predict"
	"souk/hub/regime"
)

// regimes is what a Node knows of how full its domain is. Nothing of it reads a bid of the round at hand:
// times of first tokens and the number of those who wait read none at all, and slot prices are those of
// earlier rounds.
type regimes struct {
	watch *regime.Watch
	roomy []*agent // scratch
}

// Regime is how full the domain is, by the signal that acts.
func (n *Node) Regime() regime.State { return n.regimes.watch.State() }

// params are the regime's parameters in the next round.
func (n *Node) params() regime.Params {
	return n.cfg.Regimes.Params(n.Regime(), n.cfg.Regime)
}

// mostWaiting is how many of those who wait a reading looks at, as evenly as it can: 1 ms.
const mostWaiting = 256

// observe reads the signals where it is time. It is asked before rounds, and a hub says its status once a
// second, so it is seldom asked late.
func (n *Node) observe() {
	w := n.regimes.watch
	if !w.Due(n.nano) {
		return
	}
	before := w.State()
	n.waitForSlots(w)
	n.waitForTokens(w)
	w.Read(n.nano)
	if w.State() != before {
		n.status.changed = true
	}
}

// waitForSlots tells of the tasks for which no slot is free. One that could have a slot, and finds that dear,
// is not kept waiting by others.
func (n *Node) waitForSlots(w *regime.Watch) {
	x := &n.regimes
	x.roomy = x.roomy[:0]
	for _, a := range n.roster {
		if a.free(n) > 0 {
			x.roomy = append(x.roomy, a)
		}
	}
	every, i := 1+n.batch.All()/mostWaiting, 0
	n.batch.Each(func(t *task, arrived time.Time) {
		if i++; i%every != 0 {
			return
		}
		if t.unseated.IsZero() {
			for _, a := range x.roomy {
				if a.suits(t) {
					return
				}
			}
		}
		w.Waits(n.now.Sub(arrived), n.idleFirst(t), every)
	})
	clear(x.roomy)
}

// waitForTokens tells of the tasks that run and are believed to have no first token yet: on each agent those
// that came last.
func (n *Node) waitForTokens(w *regime.Watch) {
	for _, a := range n.roster {
		if len(a.holds) == 0 {
			continue
		}
		k := min(a.queue.Load(n.nano).Waiting, len(a.holds))
		for _, h := range a.holds[len(a.holds)-k:] {
			if h.idle > 0 && h.task.only == nil {
				w.Waits(n.now.Sub(h.task.arrived), h.idle, 1)
			}
		}
	}
}

// idleFirst is how long the first token of a task would take on an idle agent: at home, or on the first that
// serves it; 0 where none does.
func (n *Node) idleFirst(t *task) time.Duration {
	a := t.home
	if a == nil || !a.open(n) || !a.suits(t) {
		a = nil
		for _, b := range n.roster {
			if b.open(n) && b.suits(t) {
				a = b
				break
			}
		}
	}
	if a == nil {
		return 0
	}
	held := a.expect(t)
	first, _, _ := a.predictor.Idle(predict.Features{Prompt: t.msg.Prompt.Tokens + t.carried(),
		Counted: held.tokens + t.carried(), Cached: held.cached, MaxTokens: t.msg.MaxTokens})
	return first
}

// noteFirst takes in how long the first token took of a task that was served.
func (n *Node) noteFirst(h *hold, c *bus.Completion) {
	t := h.task
	if t.only != nil || t.msg == nil || t.carried() > 0 {
		return
	}
	took := time.Duration(0) // nobody says
	if c.TTFTUS > 0 && h.idle > 0 {
		took = max(0, h.sent.Sub(t.arrived)) + min(time.Duration(c.TTFTUS)*time.Microsecond,
			n.now.Sub(h.sent)+clocksDiffer)
	}
	n.regimes.watch.Served(took, h.idle)
}

// noteUnserved takes in a task that waited for a slot in vain.
func (n *Node) noteUnserved(t *task, code bus.Code) {
	if t.only == nil && (code == bus.CodeNoRoom || code == bus.CodeOutbid) {
		n.regimes.watch.Missed(n.now.Sub(t.arrived), n.idleFirst(t))
	}
}

// rho is how many tokens the tasks that run and wait have with their expected answers, by those that the
// agents' caches hold (anarchy, Prop. 5); 0 where no agent says what its cache holds.
func (n *Node) rho() float64 {
	tokens, room := 0, 0
	for _, a := range n.roster {
		if a.joined {
			room += a.reg.KVTokens
		}
		for _, h := range a.holds {
			tokens += h.rec.Prompt + h.rec.Output
		}
	}
	if room == 0 {
		return 0
	}
	n.batch.Each(func(t *task, _ time.Time) { tokens += t.msg.Prompt.Tokens + t.carried() })
	return float64(tokens) / float64(room)
}
