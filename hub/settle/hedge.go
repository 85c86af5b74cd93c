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

// Late counts the holds that an agent's last summary named as late.
func (r *Room) Late(agent string) int { return r.late[agent] }

// Forget drops that, as the agent was started anew, or is gone.
func (r *Room) Forget(agent string) { delete(r.late, agent) }

const hedgeLeast = 500 * time.Millisecond // for so long a node may be out of breath, and is not silent
const hedgeShare = 0.01                   // of the tasks handed out go, beside as many as an agent has slots

// WatchFor returns how long an agent may take for a first token before it must report, given within which
// time it comes nearly always; 0: it need not.
func (r *Room) WatchFor(within time.Duration) time.Duration {
	if !r.limits.Hedge.On {
		return 0
	}
	return max(hedgeLeast, min(time.Hour, within))
}

// HeardLate takes in the holds that an agent reports as late. One that the agent was asked to give up and
// still names is asked for again: the message may be lost.
func (r *Room) HeardLate(agent string, holds []string) {
	r.late[agent] = len(holds)
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
