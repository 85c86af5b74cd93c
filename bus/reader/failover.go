package reader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"souk/bus"
)

// Failover after the first token. Before it, the hub gives a task to another agent by itself. After it the
// reader decides, since it alone knows what was delivered.
//
//	what happened                                   what follows
//	the end frame says that agent or engine failed  the market is asked for another agent
//	the agent has forgotten the answer              likewise
//	silence for Config.Silence                      likewise, unless an end frame says otherwise
//	the hub says that nobody listens there          likewise, unless an end frame says otherwise: the hub
//	                                                takes the question as the word that none has come
//	it failed, and a chunk before that is lost      likewise
//	the market names another agent                  its chunks follow on those that have come
//	the hub names a new agent before that verdict   likewise, whatever the verdict
//	the hub, or a door, is not there                it is asked again each second, for Config.MaxAbsence
//	its client's money is held for other tasks,     likewise
//	or too many wait
//	the bus is away                                 it is asked again after, for Config.MaxOutage
//	the market says nothing for Config.Silence      another door is asked: the hub knows what it said
//	the market says that it was served after all    the agent that was given up is asked for what is missing
//	the market refuses, or gives no verdict         the answer ends with the first failure, and the reason
//	the new agent fails as well                     that is the end: it may be the task that kills engines
//	failover is off, or cannot continue the answer  the first failure is its end; nobody is asked, but the
//	                                                hub how it ends, where that says that nobody listens
//
// A new agent gets the task as it was first sent, with the token ids, text, reasoning and tool calls that
// were delivered. Its attempt is a later one; chunks of an earlier attempt are ignored from then on.
type failover struct {
	task   *bus.Task // as the market is to have it; nil once nobody will need it again
	state  failoverState
	from   string      // the agent that was given up
	was    int         // the attempt at which that was
	failed *bus.Result // its end frame; nil if it was silent
	dead   bool        // it has none: its hub says that nobody listens there
	ends   bool        // nobody is to go on: the hub is asked how the answer ended
	why    error       // why nobody can
	back   bool        // it was taken up again, since it had served the answer
	joined bool        // the hub has named the new agent, where the chunks come

	begun, again time.Time // the market was asked first; it is to be asked again
	asked        time.Time // last
	times        int       // it was asked again, since it said nothing
	maybe        bool      // of some question nobody knows whether a hub has it: somebody may serve the rest
	waits        time.Time // since when it is not being asked
}

// failoverState is the stage of an answer's failover to another agent.
type failoverState uint8

const (
	untried  failoverState = iota // no other agent was asked for
	asking                        // the market was asked for one, and its verdict is awaited
	retrying                      // the market was out of reach: it will be asked again
	settled                       // the market has given its verdict, or asking it is of no use
)

// open reports whether the market is to say where the answer continues.
func (f *failover) open() bool { return f.state == asking || f.state == retrying }

const (
	askEvery  = time.Second            // a hub that is away
	lookEvery = 100 * time.Millisecond // for a bus that is away
)

// failed reports whether an end frame says that another agent may continue the answer: its agent failed, or
// was started again and knows nothing of it. An answer that was served to its end is paid, and not served
// again.
func failed(end *bus.Result) bool {
	return end.Code.Broken() || end.Code == bus.CodeUnknown && end.Receipt == nil
}

// brokeOff reports whether all has come of an answer whose agent failed.
func (s *Stream) brokeOff() bool { return s.done() && failed(s.end) }

// failOver asks the market for another agent for an answer that broke off, and reports whether it is asked.
// If that is of no use, the end of the answer says why.
func (s *Stream) failOver(now time.Time) bool {
	f := &s.failover
	noUse := s.cancelled || s.Err != nil || s.left || s.end != nil && !failed(s.end)
	if f.state != untried || s.verdict != accepted || noUse {
		return f.open()
	}
	f.state = settled
	from, err := s.kept.resume(f.task, s.Accepted.Agent, s.next)
	if err != nil {
		if f.task.Failover != "off" {
			f.why = err
		}
		if s.end != nil {
			end := *s.end
			if f.task.Failover != "off" {
				end = s.cannotContinue(end, err)
			}
			s.endHere(end)
		}
		return false
	}
	t := *f.task
	t.Resume, t.Hub, t.Attempt = from, s.Accepted.Hub, s.attempt+1
	t.Again, t.DeadlineMS = 0, 0 // the deadline is for the beginning, and this answer has begun
	f.failed = s.end
	s.leaveTo(now, &t)
	return true
}

// leaveTo gives up the agent that serves, and asks the market with t.
func (s *Stream) leaveTo(now time.Time, t *bus.Task) {
	f := &s.failover
	f.task, f.from, f.was, f.begun = t, s.Accepted.Agent, s.attempt, now
	s.move(t.Attempt)
	s.serving, s.hearing.missing = "", time.Time{}
	s.submitAgain(now)
}

// died takes the hub's word that the agent is dead. Only the reader knows whether the answer has ended: the
// hold ends without payment once the reader says that it has not.
func (s *Stream) died(now time.Time, c *bus.Chunk) {
	f := &s.failover
	if f.open() || s.end != nil && !failed(s.end) {
		return
	}
	if c.Attempt > s.attempt { // another had it, and nothing of that has come here
		s.move(c.Attempt)
		s.Accepted.Agent = c.Agent
	}
	if c.Agent != s.Accepted.Agent {
		return
	}
	s.hearing.heard = now
	if s.failOver(now) {
		if f.dead = f.failed == nil; f.dead {
			f.failed = &bus.Result{Client: f.task.Client, Task: s.task, Session: f.task.Session,
				Hub: s.Accepted.Hub, Agent: f.from, Model: s.Accepted.Model, Code: bus.CodeAgentFailed,
				Message: "the agent is dead"}
		}
		return
	}
	if s.over() {
		return
	}
	t := *f.task
	t.Resume = &bus.Resume{Agent: s.Accepted.Agent, Seq: s.next}
	t.Hub, t.Attempt, t.Failover, t.Again, t.DeadlineMS = s.Accepted.Hub, s.attempt+1, "off", 0, 0
	f.failed, f.ends, f.times, f.maybe = nil, true, 0, false
	s.leaveTo(now, &t)
}

func (s *Stream) submitAgain(now time.Time) {
	f := &s.failover
	f.state, f.asked, s.out.Submit = asking, now, f.task
}

// dueElsewhere returns when another door is to be asked, as the one that was asked may have died with the
// verdict; zero: never. Each question waits twice as long as the one before it.
func (s *Stream) dueElsewhere() (due time.Time) {
	f := &s.failover
	if s.c.AskAgain == 0 || s.cancelled && !f.ends || s.hearing.bus.IsZero() || f.times >= maxAgain {
		return due
	}
	return later(later(f.asked, s.hearing.bus), s.hearing.awake).Add(s.c.Silence << f.times)
}

// askElsewhere asks another door, when that is due. A hub that was asked gives the same verdict.
func (s *Stream) askElsewhere(now time.Time) {
	if due := s.dueElsewhere(); due.IsZero() || now.Before(due) {
		return
	}
	s.submitAgain(now)
	f := &s.failover
	f.times, f.maybe = f.times+1, true
	t := *f.task
	t.Again = bus.AgainHeard
	s.out.Submit = &t
}

// failoverVerdict takes in the market's verdict on that.
func (s *Stream) failoverVerdict(now time.Time, v Verdict) {
	f := &s.failover
	a, err := v.accepted(s.task)
	if err == nil && a.Agent == f.from {
		err = fmt.Errorf("no other agent than %s has it", f.from)
	}
	away := errors.Is(v.Err, bus.ErrDisconnected)
	absent := bus.CodeOf(err).Unsaid()
	f.maybe = f.maybe || v.Answer == nil && !errors.Is(v.Err, bus.ErrNotSent) &&
		!errors.Is(v.Err, bus.ErrNoResponders) && !errors.Is(v.Err, bus.ErrTooLarge)
	rest := away || (absent || v.notNow()) && now.Sub(f.begun) < s.c.MaxAbsence
	if rest && (!s.cancelled || f.ends) && !s.over() {
		f.state, f.waits, f.again = retrying, now, now.Add(askEvery)
		if away {
			s.hearing.bus, f.again = time.Time{}, now
		}
		return
	}
	s.endFailover(now, v, a, err)
}

// settles reports whether a verdict tells how the agent's hold ended.
func settles(v Verdict) bool {
	return v.Answer != nil && v.Answer.Result != nil && v.Answer.Result.Receipt != nil
}

// notNow reports whether the hub cannot take the task at this moment alone.
func (v Verdict) notNow() bool {
	return v.Answer != nil && v.Answer.Result != nil && v.Answer.Result.NotNow()
}

// endFailover takes a verdict as final: a continues the answer, or err says why nobody does.
func (s *Stream) endFailover(now time.Time, v Verdict, a bus.Accepted, err error) {
	f := &s.failover
	f.state, s.hearing.heard = settled, now
	switch {
	case err == nil:
		s.Accepted = a
		if a.Attempt > s.attempt {
			s.move(a.Attempt)
		}
		if s.cancelled || s.Err != nil {
			s.control(bus.StreamControl{Cancel: true})
		}
		s.name(now, a.Agent)
	case s.end != nil || s.Err != nil || f.joined && !s.cancelled: // the agent said more
	case f.ends && settles(v):
		end := *v.Answer.Result
		if f.why != nil {
			end = s.cannotContinue(end, f.why)
		}
		s.endHere(end)
	case bus.CodeOf(err) == bus.CodeAnswerGone && (f.failed == nil || f.dead) && !f.ends && !f.back:
		f.back = true // it keeps for some time what it has sent
		s.attempt, s.known = f.was, s.next
		s.serving, s.Accepted.Agent = f.from, f.from
		s.askResend(now)
	case f.ends:
		s.fail(now, bus.CodeUnknown, "agent %s is dead, and its hub has not said how the answer ended: %v",
			s.Accepted.Agent, err)
	case s.cancelled && v.Answer != nil && v.Answer.Result != nil:
		end := *v.Answer.Result
		if v.notNow() { // it does not come again
			end.Code, end.RetryMS = bus.CodeCancelled, 0
			end.Message = "it was cancelled before another agent had the rest"
		}
		s.endHere(end)
	case f.failed != nil:
		s.endHere(s.failureEnd(err, v))
	default:
		code := bus.CodeUnknown
		if c := bus.CodeOf(err); c.Broken() { // its hub knows that it is dead, and that nothing is paid
			code = c
		}
		s.fail(now, code, "agent %s fell silent, and the answer does not go on elsewhere: %v",
			s.Accepted.Agent, err)
	}
}

// failureEnd is the end of an answer whose agent failed, and that nobody continues.
func (s *Stream) failureEnd(err error, v Verdict) bus.Result {
	f := &s.failover
	end := s.cannotContinue(*f.failed, err)
	code := bus.CodeOf(err)
	if f.dead && settles(v) {
		end.Receipt = v.Answer.Result.Receipt
	}
	if code == bus.CodeUnknown || f.maybe && (v.Answer == nil || code.Unsaid() || v.notNow()) ||
		f.dead && !settles(v) {
		end.Code = bus.CodeUnknown // another agent may have served and billed the rest
		return end
	}
	// the hub knows more than who failed
	switch {
	case code == bus.CodeAnswerGone && v.Answer != nil: // it was served, and is paid
		return *v.Answer.Result
	case end.Code == bus.CodeUnknown && code.Broken():
		end.Code = code
	}
	return end
}

// retry asks the market again as soon as it may be there.
func (s *Stream) retry(now time.Time) {
	f := &s.failover
	switch {
	case s.hearing.bus.IsZero() && now.Sub(f.waits) >= s.c.MaxOutage:
		away := now.Sub(f.waits).Round(time.Second)
		s.endFailover(now, Verdict{}, bus.Accepted{},
			fmt.Errorf("the bus has been out of reach for %v", away))
	case s.hearing.bus.IsZero() || now.Before(f.again):
	default:
		s.submitAgain(now)
	}
}

// accepted returns who took the task, or why nobody did.
func (v Verdict) accepted(task string) (bus.Accepted, error) {
	switch {
	case v.Answer == nil:
		return bus.Accepted{}, NoVerdict(v.Err, task)
	case v.Answer.Accepted != nil:
		return *v.Answer.Accepted, nil
	case v.Answer.Result != nil:
		return bus.Accepted{}, &bus.Error{Code: v.Answer.Result.Code, Message: v.Answer.Result.Message}
	}
	return bus.Accepted{}, NoVerdict(errors.New("it said nothing"), task)
}

// NoVerdict explains to the client why the market gave no verdict on its task, and what to do.
func NoVerdict(err error, task string) error {
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

// cannotContinue is the end of an answer that broke off and cannot be continued, or begun anew.
func (s *Stream) cannotContinue(r bus.Result, why error) bus.Result {
	what := "what was delivered is not continued"
	if s.next == 0 {
		what = "nothing was delivered, and nobody else takes it"
	}
	r.Message = bus.Clip(fmt.Sprintf("%s; %s: %v", r.Message, what, bus.MessageOf(why)), bus.MaxText)
	return r
}
