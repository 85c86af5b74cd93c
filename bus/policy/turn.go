package policy

import (
	"time"

	"souk/bus"
)

// Turn is a turn of a session as its host knows it.
type Turn struct {
	Client  string
	Session ID // as bus.SessionKey has it; 0: it is of none
	Role    ID
	Agent   string
}

// Event says that something happens to it.
func (t *Turn) Event(now time.Time, kind EventKind) Event {
	return Event{Kind: kind, At: now, Agent: IDOf(t.Agent), Client: IDOf(t.Client), Session: t.Session,
		Role: t.Role}
}

// Ended says how it has ended at its agent.
func (t *Turn) Ended(now time.Time, c *bus.Completion) Event {
	if c.Outcome == bus.OutcomeFailed {
		return t.Event(now, Failed)
	}
	e := t.Event(now, Served)
	e.Usage, e.Stop, e.Tool, e.Thought = c.Usage, StopOf(c.Finish), c.Tool, c.Thought
	e.TTFT, e.ITL = time.Duration(c.TTFTUS)*time.Microsecond, time.Duration(c.ITLUS)*time.Microsecond
	if c.Outcome == bus.OutcomeCancelled {
		e.Stop = StopCut
	}
	return e
}
