package hub

import (
	"fmt"
	"time"

	"souk/bus"
)

// A task whose first token does not come goes to another agent. An agent hears with each dispatch how long
// its first token may take, but for one case in a thousand, and says in its summaries which of them are
// later. The hub then asks it to give such a task up, which it does if its engine has still said nothing of
// it: so of two agents one alone ever answers, and the first token may come while the hub decides. From there
// on it is a task that its agent failed, and goes on as these do.
//
// Forecasts may be wrong for all tasks at once. So a task is asked for once, only where another agent has
// room for it that is not late itself, and all tasks together no more often than one agent that falls silent
// accounts for, beside a small share of what is handed out.

// Hedging says when a task without a first token goes to another agent.
type Hedging struct {
	On    bool          `yaml:"on"`
	Least time.Duration `yaml:"least"` // no task goes sooner after its dispatch
	// of the tasks that are handed out: so many may go, beside as many as an agent has slots
	Share float64 `yaml:"share"`
}

// DefaultHedging waits half a second at least: a node that is out of breath for so long is not silent.
func DefaultHedging() Hedging { return Hedging{On: true, Least: 500 * time.Millisecond, Share: 0.01} }

func (h Hedging) validate() error {
	switch {
	case h.Least < 10*time.Millisecond || h.Least > time.Minute:
		return fmt.Errorf("least: %v is not from 10ms to 1m", h.Least)
	case !(h.Share >= 0 && h.Share <= 1):
		return fmt.Errorf("share: %v is not from 0 to 1", h.Share)
	}
	return nil
}

// hedges counts the tasks that a hub asked a second agent for.
type hedges struct {
	spent float64 // tasks that were asked for, less what was earned by dispatches since
}

// lateness is what is known of an agent whose first tokens are late.
type lateness struct {
	late int // holds that its last summary named
	// by how much more than was expected its first tokens may take: it rises with each that was late and came
	// all the same, and falls with the others until one in two thousand is
	hazard float64

	gave      int   // tasks that it gave up, of which nobody knows yet whether it was well
	at, until int64 // by Node.nano: a first token of another task between these says that it was
}

const (
	lateStep   = 0.5
	timelyStep = lateStep / 2000
	mostHazard = 15
)

// watchOf is how long a hold's agent may take for the first token before it says so; 0: it need not. Where
// too few were seen it is what is expected at worst.
func (n *Node) watchOf(a *agent, h *hold) time.Duration {
	if !n.cfg.Hedge.On {
		return 0
	}
	within, known := a.predictor.Watch(h.ttft)
	if !known {
		within = h.first
	}
	return max(n.cfg.Hedge.Least, min(time.Hour, time.Duration(float64(within)*(1+a.lateness.hazard))))
}

// heardLate takes in which holds of an agent have no first token in time, by its own word. One that was asked
// for and is still named may not have heard.
func (n *Node) heardLate(a *agent, holds []string) {
	a.lateness.late = len(holds)
	given := 0
	for _, id := range holds {
		h := n.holds[id]
		if h == nil || h.agent != a || h.state != accepted || h.watch == 0 ||
			!h.given && !n.mayGive(h, given) {
			continue
		}
		if !h.given {
			h.given, h.asked, h.task.hedged = true, n.nano, true
			n.hedges.spent++
			given++
		}
		n.send(bus.ControlSubject(a.id, n.cfg.Domain), &bus.HoldControl{Hold: h.id, Late: true})
	}
}

// mayGive reports whether the task of a hold is to go to another agent, beside so many that go now.
func (n *Node) mayGive(h *hold, beside int) bool {
	t := h.task
	if t.hedged || n.now.Sub(h.sent) < h.watch || t.only != nil || !n.movable(h, bus.CodeEngineFailed) ||
		n.hedges.spent+1 > float64(n.largest()) {
		return false
	}
	room := -beside
	for _, a := range n.roster {
		if a != h.agent && a.lateness.late == 0 && n.usable(t, a) {
			room += a.free(n)
		}
	}
	if room <= 0 {
		return false
	}
	t.failedAt = append(t.failedAt, h.agent.id)
	_, no := n.survey(t)
	t.failedAt = t.failedAt[:len(t.failedAt)-1]
	return no == nil
}

// largest is how many slots the agent has that has most.
func (n *Node) largest() (slots int) {
	for _, a := range n.roster {
		if a.joined {
			slots = max(slots, a.slots)
		}
	}
	return slots
}

// hedged notes that an agent has given up a task. Whether it was well shows by what it does in as much time
// as that task had waited.
func (n *Node) hedged(h *hold) {
	n.stats.Hedged++
	x := &h.agent.lateness
	if x.gave == 0 {
		x.at = h.asked
	}
	x.gave++
	x.until = max(x.until, h.asked+(h.asked-n.at(-n.now.Sub(h.sent))))
	n.status.changed = true
}

// firstCame notes when the first token of a hold came that was served.
func (n *Node) firstCame(h *hold, ttft time.Duration) {
	if ttft <= 0 || h.watch == 0 {
		return
	}
	x := &h.agent.lateness
	step := -timelyStep
	if ttft > h.watch {
		step = lateStep
	}
	if came := n.at(ttft - n.now.Sub(h.sent)); x.gave > 0 && came > x.at {
		if came <= x.until {
			n.stats.HedgedFalse += int64(x.gave)
			step += lateStep * float64(x.gave)
		}
		x.gave, x.until = 0, 0
	}
	x.hazard = min(max(0, x.hazard+step), mostHazard)
}
