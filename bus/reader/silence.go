package reader

import (
	"cmp"
	"fmt"
	"time"

	"souk/bus"
)

// hearing tracks when a reader could hear its agent, and when it did.
type hearing struct {
	heard   time.Time // when the agent last said anything
	bus     time.Time // since when the bus is there; zero while it is away
	awake   time.Time // since when no Tick came too late
	tickDue time.Time // when the next Tick is due
	missing time.Time // since when chunk number lacks is missing; zero: none is
	lacks   uint64
	asked   time.Time // when it, or a sign of life, was last asked for
}

// noticeSleep notes that the reader, or its whole machine, was asleep: what came meanwhile may not have been
// heard yet.
func (h *hearing) noticeSleep(now time.Time, doze time.Duration) {
	if !h.tickDue.IsZero() && now.Sub(h.tickDue) > doze {
		h.awake = now
	}
}

// since returns when silence begins to count: a reader that could not hear calls nobody silent.
func (h *hearing) since() time.Time { return later(later(h.heard, h.bus), h.awake) }

// fillGap asks for missing chunks, at most once in ResumeEvery.
func (s *Stream) fillGap(now time.Time) {
	h := &s.hearing
	switch {
	case !s.gap() || s.over():
		h.missing = time.Time{}
		return
	case h.missing.IsZero() || h.lacks != s.next:
		h.missing, h.lacks = now, s.next
	}
	if s.verdict == accepted && now.Sub(h.asked) >= s.c.ResumeEvery {
		s.askResend(now)
	}
}

func (s *Stream) askResend(now time.Time) {
	s.hearing.asked = now
	next := s.next
	s.control(bus.StreamControl{Resume: &next})
}

// checkSilence decides what follows from a silence.
func (s *Stream) checkSilence(now time.Time) {
	h := &s.hearing
	if s.c.MaxAnswer > 0 && s.verdict == accepted && now.Sub(s.begun) >= s.c.MaxAnswer {
		s.fail(now, bus.CodeTimeout, "the answer took longer than %v; ask for it with stream: true",
			s.c.MaxAnswer)
		return
	}
	switch {
	case s.verdict == none:
		s.askAgain(now)
		return
	case s.failover.state == asking:
		s.askElsewhere(now) // beside that the verdict has a time limit of its own
		return
	case s.failover.state == retrying:
		s.retry(now)
		return
	}
	unheard := now.Sub(h.heard)
	if h.bus.IsZero() {
		if unheard >= s.c.MaxOutage {
			s.fail(now, bus.CodeUnknown, "the bus is out of reach, and nothing was heard for %v; "+
				"what agent %s served of task %s may still be settled",
				unheard.Round(time.Millisecond), s.agent(), s.task)
		}
		return
	}
	s.fillGap(now)
	if !h.missing.IsZero() && h.missing.Before(h.bus) {
		h.missing = h.bus
	}
	silence := now.Sub(h.since())
	silent := silence >= s.c.Silence
	lost := !h.missing.IsZero() && now.Sub(h.missing) >= s.c.ResumeWait && unheard <= s.c.Quiet
	switch {
	case (silent || lost && s.end != nil) && s.failOver(now):
	case lost || silent && s.end != nil:
		s.lose(now)
	case silent:
		s.fail(now, bus.CodeUnknown,
			"agent %s has been silent for %v; what it served of task %s may still be settled",
			s.agent(), silence.Round(time.Millisecond), s.task)
	case s.verdict == accepted && unheard >= s.c.Quiet && now.Sub(h.asked) >= s.c.ResumeEvery:
		s.askResend(now) // an answer that has ended sends no heartbeats: its end frame may be what was lost
	}
}

// lose ends an answer of which a chunk is lost for good. If its end frame has come, that says what was paid.
func (s *Stream) lose(now time.Time) {
	why := fmt.Sprintf("chunk %d of task %s is lost, and agent %s has not sent it again",
		s.next, s.task, s.agent())
	if s.end == nil {
		s.fail(now, bus.CodeAnswerGone, "%s", why)
		return
	}
	end := *s.end
	end.Code = cmp.Or(end.Code, bus.CodeAnswerGone)
	if end.Message != "" {
		why = end.Message + "; " + why
	}
	end.Message = bus.Clip(why, bus.MaxText)
	s.endHere(end)
}

func (s *Stream) agent() string { return cmp.Or(s.Accepted.Agent, "(not named yet)") }

// plan sets when checkSilence may decide differently.
func (s *Stream) plan(now time.Time) {
	due := s.due(now)
	if !due.IsZero() && !due.After(now) {
		due = now.Add(time.Millisecond)
	}
	s.out.Wake, s.hearing.tickDue = due, due
}

func (s *Stream) due(now time.Time) (due time.Time) {
	h := &s.hearing
	if s.over() {
		return due
	}
	sooner := func(t time.Time) { due = bus.Sooner(due, t) }
	if s.c.MaxAnswer > 0 && s.verdict == accepted {
		sooner(s.begun.Add(s.c.MaxAnswer))
	}
	away := h.bus.IsZero()
	switch quiet := h.heard.Add(s.c.Quiet); {
	case s.verdict == none && away && s.c.AskAgain > 0 && !s.cancelled:
		sooner(now.Add(lookEvery))
	case s.verdict == none:
		return s.dueAgain()
	case s.failover.state == asking:
		sooner(s.dueElsewhere())
	case s.failover.state == retrying && away:
		sooner(now.Add(lookEvery))
	case s.failover.state == retrying:
		sooner(s.failover.again)
	case quiet.After(now):
		sooner(quiet)
		if !h.missing.IsZero() && !away {
			if s.verdict == accepted {
				sooner(h.asked.Add(s.c.ResumeEvery))
			}
			sooner(h.missing.Add(s.c.ResumeWait))
		}
	case away:
		sooner(now.Add(lookEvery))
	default:
		sooner(h.since().Add(s.c.Silence))
		if s.verdict == accepted {
			sooner(h.asked.Add(s.c.ResumeEvery))
		}
	}
	return due
}
