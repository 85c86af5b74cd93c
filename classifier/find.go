package classifier

import (
	"time"

	"souk/bus"
)

// A reader that hears nothing of the market asks another door, which does not know where the task went. So
// that door asks every hub whether it knows the task, before it places it: as a hub was given it by a door
// that has died, no other may take it.

// late is the age from which a door assumes that another may have placed the task: its reader asks another
// door after a while.
const late = 3 * time.Second

// MayBePlaced reports whether a hub may already have a task that was sent at since or later.
func MayBePlaced(t *bus.Task, since, now time.Time) bool {
	asleep := now.Round(0).Sub(since.Round(0)) // by the clock that goes on while the machine is suspended
	return t.Stream && t.Resume == nil && (t.Again > 0 || max(asleep, now.Sub(since)) > late)
}

// sentWithin bounds how long a question is on its way from its reader to the server, or how far the reader's
// clock is ahead. One may be on its way for longer, on a connection that stands still for a while.
const sentWithin = 2 * time.Second

// FirstSent returns the earliest moment at which the reader can have sent a task for the first time that it
// asks for again at since or later; zero: it may be any.
func FirstSent(t *bus.Task, since time.Time) time.Time {
	if t.AgeMS == 0 {
		return time.Time{}
	}
	first := since.Add(-time.Duration(t.AgeMS) * time.Millisecond)
	if said := time.UnixMilli(t.FirstMS); t.FirstMS > 0 && said.Before(first) {
		first = said
	}
	return first.Add(-sentWithin)
}

// MayBeAsked reports whether its reader may ask another door for a task: own says that it gave the id, as
// nobody else knows one of ours. A task that goes on is with its hub for good.
func MayBeAsked(t *bus.Task, own bool) bool { return t.Stream && t.Resume == nil && own }

// SameQuestion reports whether two requests under one id ask the same: for the answer from its beginning, or
// for the rest of it after the same attempt. Then one answer serves both.
func SameQuestion(a, b *bus.Task) bool {
	return (a.Resume == nil) == (b.Resume == nil) && a.Attempt == b.Attempt && a.Content() == b.Content()
}

// OwnerLookup asks a hub whether it knows a task: it has the ids of the task and no prompt, so that no hub
// takes it, and a hub that knows the id replies that its content was another.
func OwnerLookup(t *bus.Task) *bus.Task { return &bus.Task{Client: t.Client, ID: t.ID} }

// Knows reads the answer of a hub, as the table has it, to an OwnerLookup; sure is false if it says neither
// yes nor no, or comes from a hub that has led before and does not know yet that another does.
func (h *Hub) Knows(a *bus.Answer) (known, sure bool) {
	if a.Result == nil || a.Lookup != nil && a.Lookup.Epoch != h.Epoch {
		return false, false
	}
	return a.Result.Code == bus.CodeIDConflict,
		a.Result.Code == bus.CodeIDConflict || a.Result.Code == bus.CodeEmptyPrompt
}

// askedElsewhere is the age of a task at which its reader has asked another door: three heartbeats, at least.
const askedElsewhere = 6 * time.Second

// MayBeOver reports whether the reader of a task that was sent at since or later may have had its final
// result from another door. Then no hub knows it any more, and to place it anew would have it served and paid
// after all.
func MayBeOver(t *bus.Task, own bool, since, now time.Time) bool {
	return MayBeAsked(t, own) && max(now.Round(0).Sub(since.Round(0)), now.Sub(since)) > askedElsewhere
}

const outOfStep = "this door was out of step, and the task may be over by now; try again shortly"

// Found takes in which hub knows the task, if any, and whether all others have said that they do not; over,
// whether its reader may have had its last word already.
func (p *Placing) Found(hub string, all, over bool) {
	if p.state == looking {
		p.state = choosing
	}
	switch {
	case p.state != choosing:
	case hub != "":
		p.want.Pinned, p.want.There, p.found = hub, true, true
		if p.cancelled {
			p.cancelHub = hub
		}
	case !all:
		p.refuse(refusal(bus.CodeUnavailable,
			"a hub may have the task, and not every hub says whether it has; try again shortly"))
	case over:
		p.refuse(refusal(bus.CodeUnavailable, outOfStep))
	case p.task.Again == bus.AgainHeard:
		p.refuse(refusal(bus.CodeUnavailable,
			"somebody speaks of the task, and no hub that is there knows it; try again shortly"))
	}
}
