package settle

import (
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

// Hedging says whether a task without a first token goes to another agent.
type Hedging struct {
	On bool `yaml:"on"`
}

const hedgeLeast = 500 * time.Millisecond // for so long a node may be out of breath, and is not silent
const hedgeShare = 0.01                   // of the tasks handed out go, beside as many as an agent has slots

// Lateness tracks late first tokens of an agent.
type Lateness struct {
	Late int // holds that its last summary named
	// the allowance for its first tokens, as a share of the expected bound: it rises with each false alarm,
	// and falls with timely ones until one in two thousand is late
	Hazard float64

	gave      int   // tasks that it gave up, of which nobody knows yet whether it was well
	at, until int64 // by Turn.Nano: a first token of another task between these says that it was
}

// LateStep is the hazard that a late first token adds to its agent.
const LateStep = 0.5

const (
	timelyStep = LateStep / 2000
	mostHazard = 15
)

func (r *Room) lateness(agent string) *Lateness {
	x := r.late[agent]
	if x == nil {
		x = &Lateness{}
		r.late[agent] = x
	}
	return x
}

// Lateness returns an agent's record of late first tokens.
func (r *Room) Lateness(agent string) Lateness { return *r.lateness(agent) }

// Forget drops that record, as the agent was started anew, or is gone.
func (r *Room) Forget(agent string) { delete(r.late, agent) }

// WatchFor returns how long an agent may take for a first token before it must report, given the expected
// bound; 0: it need not.
func (r *Room) WatchFor(agent string, within time.Duration) time.Duration {
	if !r.limits.Hedge.On {
		return 0
	}
	wait := time.Duration(float64(within) * (1 + r.Lateness(agent).Hazard))
	return max(hedgeLeast, min(time.Hour, wait))
}

// HeardLate takes in the holds that an agent reports as late. One that the agent was asked to give up and
// still names is asked for again: the message may be lost.
func (r *Room) HeardLate(agent string, holds []string) {
	r.lateness(agent).Late = len(holds)
	given := 0
	for _, id := range holds {
		h := r.holds[id]
		if h == nil || h.Rec.Agent != agent || !h.State.May(FirstLate) || h.Watch == 0 ||
			!h.Given && !r.mayGive(h, given) {
			continue
		}
		if !h.Given {
			given++
		}
		r.happens(h, FirstLate)
	}
}

// mayGive reports whether an agent that is late with a first token is asked to give the task up, beside so
// many that go now.
func (r *Room) mayGive(h *Hold, beside int) bool {
	if h.Unread || h.Task.Hedged || r.turn.Now().Sub(h.Sent) < h.Watch ||
		!r.mayMove(h, bus.CodeEngineFailed) {
		return false
	}
	largest, free := r.hub.Others(h)
	return r.spent+1 <= float64(largest) && free > beside && r.elsewhere(h) != nil
}

// gaveUp notes that an agent has given up a task. Whether the agent was well is judged in as much time as
// that task had waited.
func (r *Room) gaveUp(h *Hold) {
	x := r.lateness(h.Rec.Agent)
	if x.gave == 0 {
		x.at = h.asked
	}
	x.gave++
	x.until = max(x.until, h.asked+(h.asked-r.turn.In(-r.turn.Now().Sub(h.Sent))))
	r.turn.Changed = true
}

// FirstCame notes when the first token of a hold came that was served. If its agent gave up tasks although it
// was well, these count.
func (r *Room) FirstCame(h *Hold, ttft time.Duration) {
	if ttft <= 0 || h.Watch == 0 {
		return
	}
	x, step := r.lateness(h.Rec.Agent), -timelyStep
	if ttft > h.Watch {
		step = LateStep
	}
	if came := r.turn.In(ttft - r.turn.Now().Sub(h.Sent)); x.gave > 0 && came > x.at {
		if came <= x.until {
			r.counts.HedgedFalse += int64(x.gave)
			step += LateStep * float64(x.gave)
		}
		x.gave, x.until = 0, 0
	}
	x.Hazard = min(max(0, x.Hazard+step), mostHazard)
}
