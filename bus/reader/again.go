package reader

import (
	"errors"
	"time"

	"souk/bus"
)

// A door may die between a hub's acceptance and the reader, or before any hub has the task. So a reader that
// waits for the market's first verdict asks again, under the same id: another door finds the hub that has the
// task, and only the hub says who serves it.
//
//	what is heard                                  the market is asked again
//	chunks of somebody whom nobody has named       after Config.AskAgain
//	nothing at all                                 after Config.Silence: the door may have died, or the task
//	                                               waits at a hub for its first slot, which says nothing
//	heartbeats alone: a hub, or a long prefill     not yet
//	that question finds nobody who could answer    each second, for Config.MaxAbsence
//	the connection is lost before an answer comes  likewise
//
// Each question waits twice as long as the one before it, and there are few: each leaves an inbox at the hub.
type again struct {
	task  *bus.Task // as it was first sent
	first time.Time // when that was
	asked time.Time // when the market was asked last
	times int       // it was asked again, and somebody was there
	heard time.Time // when anybody was last heard; zero: nobody was
	chunk time.Time // since when a chunk waits for its sender to be named; zero: none does

	absent, retry time.Time // since when nobody answers; it is asked again then
}

const maxAgain = 6

// notice notes a chunk of an agent that the market has not named.
func (a *again) notice(now time.Time, c *bus.Chunk) {
	a.heard = now
	if !c.Heartbeat && a.chunk.IsZero() {
		a.chunk = now
	}
}

// dueAgain returns when the market is to be asked again, if no answer comes before; zero: never.
func (s *Stream) dueAgain() (due time.Time) {
	a := &s.again
	switch {
	case s.c.AskAgain == 0, s.verdict != none, s.cancelled, s.hearing.bus.IsZero():
		return due
	case !a.retry.IsZero():
		return a.retry
	case a.times >= maxAgain:
		return due
	}
	due = later(later(a.asked, a.heard), later(s.hearing.bus, s.hearing.awake)).Add(s.c.Silence << a.times)
	if !a.chunk.IsZero() {
		if named := later(a.asked, a.chunk).Add(s.c.AskAgain << a.times); named.Before(due) {
			due = named
		}
	}
	return due
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// askAgain gives the task to the market once more, when it is due.
func (s *Stream) askAgain(now time.Time) {
	a := &s.again
	if away := s.hearing.bus.IsZero(); away && !a.retry.IsZero() && now.Sub(a.absent) >= s.c.MaxOutage {
		s.giveUpAsking(errors.New("the bus is out of reach"))
		return
	}
	if due := s.dueAgain(); due.IsZero() || now.Before(due) {
		return
	}
	if a.retry.IsZero() {
		a.times++
	}
	a.retry, a.asked = time.Time{}, now
	t := *a.task
	t.Again = bus.AgainUnheard
	if !a.heard.IsZero() {
		t.Again = bus.AgainHeard
	}
	t.AgeMS = s.Age(now)
	t.FirstMS = max(0, now.UnixMilli()-t.AgeMS)
	s.out.Submit = &t
}

// unanswered handles a repeated question that no hub could answer, or one that was lost with the connection:
// it is asked once more, or the answer ends here. It returns false where the verdict says more.
func (s *Stream) unanswered(now time.Time, v Verdict, err error) bool {
	a := &s.again
	if a.times == 0 && s.c.AskAgain > 0 && errors.Is(v.Err, bus.ErrDisconnected) &&
		!errors.Is(v.Err, bus.ErrNotSent) {
		a.times = 1 // a hub may have it by the first question
	}
	if a.times == 0 || s.cancelled {
		return false
	}
	switch bus.CodeOf(err) {
	case bus.CodeUnavailable, bus.CodeDraining, bus.CodeTooManyTasks, bus.CodeDuplicate:
	case bus.CodeNoRoom:
		if a.heard.IsZero() {
			return false // no hub has it, and none takes it
		}
	default:
		if !errors.Is(v.Err, bus.ErrDisconnected) {
			return false
		}
	}
	if a.absent.IsZero() {
		a.absent = now
	}
	if a.retry = now.Add(askEvery); now.Sub(a.absent) >= s.c.MaxAbsence {
		s.giveUpAsking(errors.New(bus.MessageOf(err)))
	}
	return true
}

// giveUpAsking ends a task of which no hub says that it has it.
func (s *Stream) giveUpAsking(why error) { s.verdict, s.Err = refused, NoVerdict(why, s.task) }

// Age returns how long ago the task was first sent, in milliseconds, and at least one: by the clock that goes
// on while the machine is suspended, if that says more.
func (s *Stream) Age(now time.Time) int64 {
	first := s.again.first
	return min(max(1, max(now.Sub(first), now.Round(0).Sub(first.Round(0))).Milliseconds()), bus.MaxPatient)
}
