package hub

import (
	"slices"
	"time"

	"souk/bus"
	"souk/hub/predict"
	"souk/hub/regime"
	"souk/ledger"
	"souk/market"
)

// regimes is what a Node knows of how full its domain is. Nothing of it reads a bid of the round at hand:
// times of first tokens and the number of those who wait read none at all, and slot prices are those of
// earlier rounds.
type regimes struct {
	watch *regime.Watch
	roomy []*agent // scratch

	unserved   int   // tasks that ended unserved at unservedAt, by Node.nano
	unservedAt int64 // for which roomy is still what it was
}

// Regime is how full the domain is, by the signal that acts.
func (n *Node) Regime() regime.State { return n.regimes.watch.State() }

// params are the regime's parameters in the next round.
func (n *Node) params() regime.Params {
	return n.cfg.Regimes.Params(n.Regime(), n.cfg.Regime)
}

// Toll charges a task for an agent beside what the market itself does: at most 0, and never by a bid. Package
// hub/regime/router has one.
type Toll interface {
	// Draw is a number for a task on an agent in a round of such a seed.
	Draw(seed [32]byte, task, agent string) float64
	// Of is the charge where the task costs scale in the mean of its agents, most is the largest of its
	// draws, and what the agent has cached saves it so much. None of these follows a bid.
	Of(p regime.Params, scale market.Credits, draw, most float64, saved market.Credits) market.Credits
}

// toll is the regime's charge.
func (n *Node) toll(scale market.Credits, draw, most float64, saved market.Credits) market.Credits {
	p := n.params()
	if p.Idle() {
		return 0
	}
	return n.cfg.Parts.Toll.Of(p, scale, draw, most, saved)
}

// mostWaiting is how many of those who wait a reading looks at, as evenly as it can: 1 ms.
const mostWaiting = 256

// observe reads the signals where it is time. It is asked after rounds, so that who waits then is not about
// to have a slot that has just come free; a hub says its status once a second, so it is seldom asked late.
func (n *Node) observe() {
	w := n.regimes.watch
	if !w.Due(n.nano) {
		return
	}
	before, charged, slots := w.State(), n.params(), 0
	for _, a := range n.roster {
		if a.open(n) {
			slots += a.slots
		}
	}
	w.Room(n.nano, slots)
	n.waitForSlots(w)
	n.waitForTokens(w)
	w.Read(n.nano)
	if w.State() != before {
		n.status.changed = true
	}
	if n.params() != charged {
		n.news() // what a free slot was not worth may be charged no more
	}
}

// waitForSlots tells of the tasks for which no slot is free.
func (n *Node) waitForSlots(w *regime.Watch) {
	n.findRoomy()
	every, i := 1+n.batch.All()/mostWaiting, 0
	n.batch.Each(func(t *task, arrived time.Time) {
		if i++; i%every == 0 && n.kept(t) {
			w.Waits(n.now.Sub(arrived), 0, n.idleFirst(t), every)
		}
	})
}

// findRoomy finds the agents that have a slot free, for kept.
func (n *Node) findRoomy() {
	x := &n.regimes
	clear(x.roomy)
	x.roomy, x.unserved = x.roomy[:0], 0
	for _, a := range n.roster {
		if a.free(n) > 0 {
			x.roomy = append(x.roomy, a)
		}
	}
}

// kept reports whether a task that waits is kept waiting by others: one that could have a slot, and finds
// that dear, is not, whatever it offers.
func (n *Node) kept(t *task) bool {
	return !t.outside.IsZero() || !slices.ContainsFunc(n.regimes.roomy, func(a *agent) bool {
		return a.suits(t)
	})
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
				w.Waits(h.sent.Sub(h.task.arrived), n.now.Sub(h.sent), h.idle, 1)
			}
		}
	}
}

// idleFirst is how long the first token of a task would take on an idle agent: where it is planned for, or on
// the first that serves it; 0 where none does.
func (n *Node) idleFirst(t *task) time.Duration {
	a := t.plannedFor
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
		Counted: held.tokens + t.carried(), Cached: held.cached, MaxTokens: t.assumed()})
	return first
}

// noteServed takes in how long a task took, and its first token, that was served.
func (n *Node) noteServed(h *hold, c *bus.Completion) {
	t := h.task
	if t.only != nil || t.msg == nil || t.carried() > 0 {
		return
	}
	first := min(time.Duration(max(0, c.TTFTUS))*time.Microsecond, n.now.Sub(h.sent)+clocksDiffer)
	n.regimes.watch.Served(max(0, h.sent.Sub(t.arrived)), first, h.idle)
}

// regimeSets adds to what policies set in a round what the regime charged, where it follows the load: with
// it the record names what was charged, and in which regime.
func (n *Node) regimeSets(r *market.Round, all []ledger.Set) []ledger.Set {
	state := n.Regime()
	if !n.cfg.Regimes.Adapt || state == regime.Below || n.params().Idle() {
		return all
	}
	s := &n.round
	in, by := map[market.TaskID]bool{}, map[ledger.Set]market.Credits{}
	for _, t := range r.Tasks {
		in[t.ID] = true
	}
	for _, x := range all {
		by[ledger.Set{Task: x.Task, Agent: x.Agent}] = x.Toll
	}
	for i := range s.pairs {
		p := &s.pairs[i]
		t, a := s.tasks[p.task].id, s.agents[p.agent].id
		if !in[t] {
			continue
		}
		toll := p.toll + s.tolls.Of(int(p.agent), p.service, p.prefill) -
			by[ledger.Set{Task: string(t), Agent: a}]
		if toll < 0 {
			all = append(all, ledger.Set{Policy: "regime-" + state.String(), Task: string(t), Agent: a,
				Toll: toll})
		}
	}
	ledger.SortSets(all)
	return all
}

// noteUnserved takes in a task that waited until its deadline, or until it was worth no more than it costs,
// for a slot that others had. Those whose worth was too small to win one are among them: who of those that
// wait has the slots follows bids, how many wait for how long does not, and where overload shows in nothing
// else it shows in them. One that could have a slot, and finds that dear, was not kept waiting.
//
// Many may end at once, and agents be many: the slots that are free are found once for all of them, and of
// more than mostWaiting every second is looked at, of twice as many every fourth, and so on.
func (n *Node) noteUnserved(t *task, code bus.Code) {
	if t.only != nil || code != bus.CodeNoRoom && code != bus.CodeNotWorthIt {
		return
	}
	x := &n.regimes
	if x.unserved == 0 || x.unservedAt != n.nano {
		n.findRoomy()
		x.unserved, x.unservedAt = 0, n.nano
	}
	every := 1
	for x.unserved >= every*mostWaiting {
		every *= 2
	}
	if x.unserved++; x.unserved%every == 0 && n.kept(t) {
		x.watch.Missed(n.now.Sub(t.arrived), n.idleFirst(t), every)
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

// RegimeStats says how full the domain is.
type RegimeStats struct {
	State       string
	Level       int // 0 below the knee, 1 in transition, 2 saturated
	Temperature float64
	Overlap     float64
	Rho         float64 // tokens of tasks that run and wait, by those that caches hold
	// tasks a second that the slots serve at most; 0: not known. And what speaks for twice as many, by what
	// is enough, see [regime.Watch.Serves].
	Serves, Evidence float64
	Readings         []regime.Reading
}

func (n *Node) regimeStats() RegimeStats {
	s, p := n.Regime(), n.params()
	serves, evidence := n.regimes.watch.Serves()
	return RegimeStats{State: s.String(), Level: int(s), Temperature: p.Temperature, Overlap: p.Overlap,
		Rho: n.rho(), Serves: serves, Evidence: evidence, Readings: n.regimes.watch.Readings()}
}
