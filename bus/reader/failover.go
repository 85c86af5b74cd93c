package reader

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"souk/bus"
)

// Failover after the first token. Before it the hub gives a task to another agent by itself; of what was
// delivered it knows nothing, so after it the reader decides.
//
//	what happened                                  what follows
//	the end frame says agent or engine failed      the market is asked to go on elsewhere
//	the agent has forgotten the answer             likewise
//	silence for Config.Silence                     likewise, unless an end frame has come that says otherwise
//	it failed, and a chunk before that is lost     likewise
//	the market names another agent                 its chunks go on where the first came to
//	a new agent's chunks come before that word     likewise, whatever the word
//	the hub, or a door, is not there               it is asked again each second, for Config.MaxAbsence
//	the bus is away                                it is asked again when that is back, for Config.MaxOutage
//	the market refuses, or says nothing            the answer ends with the first failure, and the reason
//	it breaks off again                            that is its end: it may be the task that kills engines
//	failover is off, or the answer cannot go on    the first failure is its end; nobody is asked
//
// A new agent gets the task as it was first sent, with the token ids, text, reasoning and tool calls that
// were delivered. Its attempt is a later one; what is said under an earlier attempt is not heard any more.
type going struct {
	task   *bus.Task // as the market is to have it; nil once nobody will need it again
	course course
	from   string      // the agent that was given up
	failed *bus.Result // its end frame; nil if it was silent
	joined bool        // a chunk of the new agent's has come

	begun, again time.Time // the market was asked first; it is to be asked again
	rests        time.Time // since when it is not being asked
}

// course is how far an answer is on its way to another agent.
type course uint8

const (
	here      course = iota // nobody was asked
	asking                  // the market was, and its word is awaited
	resting                 // its word was that it is not there: it will be asked again
	elsewhere               // it has said its word, or there was no use in asking
)

// under reports whether the market is to say where the answer goes on.
func (g *going) under() bool { return g.course == asking || g.course == resting }

const (
	askEvery  = time.Second            // a hub that is away
	lookEvery = 100 * time.Millisecond // for a bus that is away
)

// failed reports whether another agent may mend what an end frame says: its agent failed, or is another
// life of itself that knows nothing of the answer. One that was served to its end is paid, and not served
// again.
func failed(end *bus.Result) bool {
	return end.Code.Broken() || end.Code == bus.CodeUnknown && end.Receipt == nil
}

// broke reports whether all has come of an answer whose agent failed.
func (s *Stream) broke() bool { return s.done() && failed(s.end) }

// goOn asks the market to go on elsewhere with an answer that broke off, and reports whether it is asked.
// If there is no use in it, the reason is told with the answer's end.
func (s *Stream) goOn(now time.Time) bool {
	g := &s.going
	over := s.cancelled || s.err != nil || s.left || s.end != nil && !failed(s.end)
	if g.course != here || s.word != accepted || over {
		return g.under()
	}
	g.course = elsewhere
	from, err := s.kept.resume(g.task, s.accepted.Agent, s.next)
	if err != nil {
		if s.end != nil {
			end := *s.end
			if g.task.Failover != "off" {
				end = cannotContinue(end, err)
			}
			end.Chunks = s.next // who does not know the answer does not know this either
			s.end = &end
		}
		return false
	}
	t := *g.task
	t.Resume, t.Hub, t.Attempt = from, s.accepted.Hub, s.attempt+1
	t.DeadlineMS = 0 // the answer began before it
	g.task, g.from, g.failed, g.begun = &t, s.accepted.Agent, s.end, now
	s.move(t.Attempt)
	s.hearing.missing = time.Time{}
	s.askMarket()
	return true
}

func (s *Stream) askMarket() { s.going.course, s.out.Ask = asking, s.going.task }

// wentOn is the market's word on that.
func (s *Stream) wentOn(now time.Time, w Word) {
	g := &s.going
	a, err := w.accepted(s.task)
	if err == nil && a.Agent == g.from {
		err = fmt.Errorf("no other agent than %s has it", g.from)
	}
	away, absent := errors.Is(w.Err, bus.ErrDisconnected), bus.CodeOf(err) == bus.CodeUnavailable
	if rest := away || absent && now.Sub(g.begun) < s.c.MaxAbsence; rest && !s.cancelled && !s.over() {
		g.course, g.rests, g.again = resting, now, now.Add(askEvery)
		if away {
			s.hearing.bus, g.again = time.Time{}, now
		}
		return
	}
	s.conclude(now, w, a, err)
}

// conclude takes a word for the last: by a, who goes on with the answer, or by err.
func (s *Stream) conclude(now time.Time, w Word, a bus.Accepted, err error) {
	g := &s.going
	g.course, s.hearing.heard = elsewhere, now
	switch {
	case err == nil:
		s.accepted = a
		if s.cancelled || s.err != nil {
			s.control(bus.StreamControl{Cancel: true})
		}
	case s.end != nil || s.err != nil || g.joined && !s.cancelled: // the agent's word is better
	case s.cancelled && w.Answer != nil && w.Answer.Result != nil:
		s.end = w.Answer.Result
	case g.failed != nil:
		s.end = s.failedFor(err, w)
	default:
		code := bus.CodeUnknown
		if c := bus.CodeOf(err); c.Broken() { // its hub knows that it is gone, and that nothing is paid
			code = c
		}
		s.fail(now, code, "agent %s fell silent, and the answer does not go on elsewhere: %v",
			s.accepted.Agent, err)
	}
}

// failedFor is the end of an answer whose agent failed, and with which nobody goes on.
func (s *Stream) failedFor(err error, w Word) *bus.Result {
	end := cannotContinue(*s.going.failed, err)
	end.Chunks = s.next
	// the agent knew nothing of it, but its hub does
	if code := bus.CodeOf(err); end.Code == bus.CodeUnknown {
		switch {
		case code.Broken():
			end.Code = code
		case code == bus.CodeAnswerGone && w.Answer != nil:
			end.Code, end.Message = code, w.Answer.Result.Message
		}
	}
	return &end
}

// rest asks the market again as soon as it may be there.
func (s *Stream) rest(now time.Time) {
	g := &s.going
	switch {
	case s.hearing.bus.IsZero() && now.Sub(g.rests) >= s.c.MaxOutage:
		away := now.Sub(g.rests).Round(time.Second)
		s.conclude(now, Word{}, bus.Accepted{}, fmt.Errorf("the bus has been out of reach for %v", away))
	case s.hearing.bus.IsZero() || now.Before(g.again):
	default:
		s.askMarket()
	}
}

// accepted is who took the task, or why nobody did.
func (w Word) accepted(task string) (bus.Accepted, error) {
	switch {
	case w.Answer == nil:
		return bus.Accepted{}, Wordless(w.Err, task)
	case w.Answer.Accepted != nil:
		return *w.Answer.Accepted, nil
	case w.Answer.Result != nil:
		return bus.Accepted{}, &bus.Error{Code: w.Answer.Result.Code, Message: w.Answer.Result.Message}
	}
	return bus.Accepted{}, Wordless(errors.New("it said nothing"), task)
}

// Wordless says what it means that no word on a task came.
func Wordless(err error, task string) error {
	var e *bus.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, bus.ErrNoResponders):
		return &bus.Error{Code: bus.CodeUnavailable,
			Message: "no door listens on this bus; start a classifier, or try again shortly"}
	case errors.Is(err, bus.ErrNotSent):
		return &bus.Error{Code: bus.CodeUnavailable,
			Message: "the bus is out of reach, and the task was not sent; try again shortly"}
	case errors.Is(err, bus.ErrTooLarge):
		return &bus.Error{Code: bus.CodeTooLarge,
			Message: "the task is larger than one message; shorten the prompt"}
	case errors.Is(err, context.Canceled):
		return bus.ErrClosed
	}
	return &bus.Error{Code: bus.CodeUnknown, Message: fmt.Sprintf(
		"the door gave no answer (%v); the task may still be served: "+
			"ask again under its id, %s, and it is served and paid once", err, task)}
}

// cannotContinue is the last word of an answer that broke off and cannot go on.
func cannotContinue(r bus.Result, why error) bus.Result {
	r.Message = clipText(fmt.Sprintf("%s; what was delivered is not continued: %v", r.Message,
		messageOf(why)))
	return r
}

func messageOf(err error) string {
	var e *bus.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}

func clipText(s string) string {
	if len(s) > bus.MaxText {
		return strings.ToValidUTF8(s[:bus.MaxText-3], "") + "..."
	}
	return s
}
