package agentd

import (
	"encoding/json"
	"time"

	"souk/bus"
	runtimepolicy "souk/bus/policy"
)

// An engine may serve many LoRA adapters and keep few of them ready. Each is sold by an agent of its own; one
// of these agents has the policy of the engine's adapters, hears from the others what becomes of their tasks,
// and says which of them is to be ready next. That one asks the engine for one token, which loads its
// adapter, or keeps it from being dropped. Nobody pays for that.

// adapters holds the events to pass to the agent that runs the policy, and the state of adapter loads.
type adapters struct {
	tells bool
	heard []runtimepolicy.Event
	// the last loads failed: none is tried before then, and how long that was after the last
	failed time.Time
	apart  time.Duration
	loads  int // under way
}

// mostHeard bounds what waits to be told. Beyond it the oldest is not: who is told of a beginning must be
// told of its end, or holds the task to run for long.
const mostHeard = 1024

// Tells has the agent tell what becomes of its tasks, in [Ready.Heard].
func (a *Agent) Tells() { a.tells = true }

func (a *Agent) hear(e runtimepolicy.Event) {
	a.policies.Observe(e)
	if !a.tells {
		return
	}
	if len(a.heard) >= mostHeard {
		a.heard = a.heard[1:]
	}
	a.heard = append(a.heard, e)
}

// Overhear takes in what another agent of the same engine tells.
func (a *Agent) Overhear(e runtimepolicy.Event) { a.policies.Overhear(e) }

// LoadBegins reports whether a token may be asked for to have the agent's adapter ready: the engine is well,
// has a sequence that no task has, and the last load has not failed just now. Then it counts until LoadOver.
func (a *Agent) LoadBegins(now time.Time) bool {
	if a.state == bus.StateReady && !a.draining && !now.Before(a.failed) && a.running+a.loads < a.cfg.Slots {
		a.loads++
		return true
	}
	a.Undone()
	return false
}

// Undone counts an effect that nobody did.
func (a *Agent) Undone() { a.counts.LoadsUndone++ }

// LoadRequest asks the engine for one token of the agent's adapter, which loads it.
func (a *Agent) LoadRequest() Request {
	return Request{ID: "load-" + a.cfg.ID, Kind: bus.KindCompletion, Body: json.RawMessage(`{"prompt":"."}`),
		Model: a.cfg.Model, MaxTokens: 1, Prompt: 1}
}

// LoadOver ends one that began, and returns what the policy is to hear of it.
func (a *Agent) LoadOver(now time.Time, err error) (heard []runtimepolicy.Event) {
	a.loads--
	if err != nil {
		a.Undone()
		a.apart = min(max(time.Second, 2*a.apart), time.Minute)
		a.failed = now.Add(a.apart)
		return nil
	}
	a.apart, a.failed = 0, time.Time{}
	a.counts.Loads++
	return []runtimepolicy.Event{{Kind: runtimepolicy.Loaded, At: now, Agent: runtimepolicy.IDOf(a.cfg.ID)}}
}
