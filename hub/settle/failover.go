package settle

import (
	"slices"
	"time"

	"souk/bus"
	"souk/hub/turn"
)

// An agent that fails does not fail its client's task. As long as nothing was delivered, the hub gives the
// task to another agent by itself. What was delivered only the reader has, so the reader sends the task again
// together with it, and the rest is a new award. In both cases the failed hold is void: an agent that fails
// earns nothing.

const (
	// of one task before anything was delivered, also where its reader has asked for another agent meanwhile:
	// it may be the task that kills engines
	maxMoves = 2
	// MostMoves bounds how often a task goes to another agent, counting dispatches that were not begun.
	MostMoves = 16

	// BeatEvery is how often the hub tells the reader of a task that it waits for its next agent.
	BeatEvery = 1500 * time.Millisecond

	lookEvery = 200 * time.Millisecond // whether an agent that a reader gives up on has said anything
	maxLook   = 10 * time.Second       // after which the reader is told that it still serves

	// after which a reader that asks for the rest answers no more whether it has the end, where its agent is
	// back: a door may have died with the answer, and the reader asks another after six seconds
	deadFor = 15 * time.Second
)

// goesOn reports whether the task of a hold may be given to anybody after it.
func (r *Room) goesOn(h *Hold) bool {
	return r.turn.Leading && !r.turn.Draining && h.Msg != nil && !h.Cancelled &&
		(h.Next == nil || h.Next.Resume.Seq == 0) && r.turn.Now().Before(h.Deadline)
}

// mayTryAgain reports whether a task is tried again whose hold ended through no fault of its own: not if its
// client knows of an agent that may have begun.
func (r *Room) mayTryAgain(h *Hold) bool {
	t := h.Task
	promised := t.Told && (t.Moves == 0 || h.State.Taken())
	return r.goesOn(h) && !promised && t.Refusals < r.limits.MaxRefusals
}

// mayMove reports whether a task may go to another agent, as long as nothing was delivered, where its agent
// gives it up with such a code. An answer goes on elsewhere once.
func (r *Room) mayMove(h *Hold, code bus.Code) bool {
	t, m := h.Task, h.Msg
	if !r.goesOn(h) || len(m.Body) == 0 && m.Large == nil || m.Failover == "off" ||
		t.Told && t.Moves == 0 && !h.State.Taken() || t.Moves >= min(r.limits.MaxRefusals, MostMoves) {
		return false
	}
	return code.Unbegun() && code != bus.CodeUnavailable || len(t.Earlier) < maxMoves &&
		(code == bus.CodeUnavailable || code.Broken() && (m.Resume == nil || len(m.Resume.Tokens) == 0))
}

// moved gives a task that its agent failed to another, with its first arrival; where there is none, to the
// same once its engine can be reached again; or to any, where its engine had no room beyond its slots. It
// returns false if there is none, or the task must not move.
func (r *Room) moved(h *Hold, e Event, code bus.Code) bool {
	if !r.mayMove(h, code) {
		return false
	}
	if h.Given && code.Broken() {
		code = bus.CodeLateFirst
	}
	wait, back := r.elsewhere(h), h.Beyond && code == bus.CodeNoSlot // its agent's slots may do
	if wait == nil && code == bus.CodeUnavailable {                  // its engine may, as for who comes now
		r.hub.Avoid(h, e)
		back = true
	}
	if back {
		wait = r.hub.Wait(h, false)
	}
	if wait == nil || !r.voided(h, e, code, Move) {
		return false
	}
	if code == bus.CodeLateFirst {
		r.counts.Hedged++
		r.turn.Changed = true
	}
	r.counts.Moved++
	t := h.Task
	if t.FailedHold = r.receipt(h); !back {
		t.FailedAt = append(t.FailedAt, h.Rec.Agent)
	}
	t.Earlier = append(t.Earlier, h.ID)
	t.Moves++
	t.Accepted = nil
	h.Msg.Attempt++
	wait()
	return true
}

// elsewhere returns what has a hold's task wait for another agent; nil where none would serve it.
func (r *Room) elsewhere(h *Hold) (wait func()) {
	t := h.Task
	t.FailedAt = append(t.FailedAt, h.Rec.Agent)
	wait = r.hub.Wait(h, true)
	t.FailedAt = t.FailedAt[:len(t.FailedAt)-1]
	return wait
}

// Registered takes in a registration of the agent of a hold, and ends what ran on an earlier process of it. A
// new registration can only follow the end of the old lease, so that process is dead. It may have written
// down completions before: while the registration names its boot as a former one, its holds wait for them. So
// do those of boots that the node's directory did not have, as where it was made anew or is a copy: whoever
// has the other may send them. A hub that was started again knows the boot by the hold's record.
func (r *Room) Registered(h *Hold, reg *bus.Registration) {
	elsewhere := len(reg.Lives) > 0 && !slices.Contains(reg.Lives, h.Rec.Boot)
	if h.Rec.Boot != reg.Boot && !slices.Contains(reg.Former, h.Rec.Boot) && !elsewhere {
		r.void(h, Lost, agentFailed(agentRestarted))
	}
}

// Died says that the agent of a hold is no longer there. What nobody can have heard of ends. A reader that
// was told of the agent may have the end of its answer, of which the hub has no account yet: it is asked, and
// the hold stays open until the reader says that it has not, by asking for the rest; until the account comes
// after all; or until the hold's time is over. While the agent stays away its readers are asked again, as the
// question may be lost.
func (r *Room) Died(h *Hold) {
	switch {
	case h.Unread:
		r.void(h, Lost, agentFailed(agentDead))
	case !h.State.Taken():
		r.void(h, Dead, agentFailed(agentDead))
	case h.Next != nil:
		r.givenUp(h)
	default:
		r.happens(h, Dead)
	}
}

// HasNoEnd reports whether a reader's request for the rest of an answer means that it has not had the end.
func (r *Room) HasNoEnd(h *Hold) bool {
	return !h.inquired.IsZero() && (r.hub.Agent(h).Dead || r.turn.Now().Sub(h.inquired) < deadFor)
}

// Asked takes a reader's request for the rest of an answer. The agent's word decides whether it failed, not
// the reader's: if the hub does not hear the agent either, it has failed; else the reader is told to wait.
func (r *Room) Asked(h *Hold, m *bus.Task) {
	old := h.Next
	if h.Next = m; old != nil {
		r.hub.Refuse(old, bus.CodeDuplicate, time.Second, "the same was asked again: that question is answered")
		return
	}
	if h.nextAt = r.turn.Now(); r.HasNoEnd(h) {
		r.givenUp(h)
		return
	}
	r.lookAgain(h)
}

// looks is called by a hold's timer, while its reader waits to hear whether the agent has failed.
func (r *Room) looks(h *Hold) {
	a, waited := r.hub.Agent(h), r.turn.Now().Sub(h.nextAt)
	switch {
	case r.HasNoEnd(h):
		r.givenUp(h)
		return
	case a.former(h) && waited >= turn.Settling: // that process left no completion of this hold
		r.void(h, Silent, agentFailed(agentRestarted))
	case a.Silent:
		r.hub.Avoid(h, Silent)
		r.void(h, Silent, agentFailed("the agent fell silent"))
	case waited >= maxLook:
		m := h.Next
		h.Next = nil
		r.hub.Refuse(m, bus.CodeUnknown, time.Second,
			"agent "+h.Rec.Agent+" says that it serves the task: the way from it to you is cut")
	}
	r.lookAgain(h)
}

// lookAgain sets that timer again, as long as hold and reader are there.
func (r *Room) lookAgain(h *Hold) {
	if !h.State.Ended() && h.Next != nil {
		r.turn.Set(&h.look, r.turn.Now().Add(lookEvery))
	}
}

// givenUp ends a hold of a dead agent, whose reader has not had the end. If nothing was delivered, the task
// goes to another agent.
func (r *Room) givenUp(h *Hold) {
	e, m := Silent, h.Next
	if m.Failover != "off" && m.Resume.Seq == 0 && h.Msg != nil && h.Msg.Resume == nil {
		e = GivenUp
	}
	r.void(h, e, agentFailed(agentDead))
	r.lookAgain(h)
}

// Beat sends a heartbeat to the reader of a task that the agent serves, or, for "", that waits for one.
func (r *Room) Beat(m *bus.Task, agent string) {
	c := &bus.Chunk{Task: m.ID, Attempt: m.Attempt, Heartbeat: true, Agent: agent}
	if m.Resume != nil {
		c.Seq = m.Resume.Seq
	}
	r.turn.Send(m.Reply+"."+r.turn.Domain, c)
}
