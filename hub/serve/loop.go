package serve

import (
	"context"
	"fmt"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/hub"
)

// input is something for the Node, at the time that it came: a message, or a change of the roster.
type input func(n *hub.Node)

// Bounds of one turn of the loops.
const (
	maxSteps  = 256 // messages between two looks at what is ready
	maxGroups = 64  // turns whose frames are made durable by one sync
	maxQueued = 8192
)

// doorsHear is how long a hub that stops still answers what doors send it: so long they may not have heard
// that it does. To unsubscribe at once would leave unanswered what is under way, and what waits here, of
// which nobody could say then whether it was served.
const doorsHear = 200 * time.Millisecond

// loop steps the Node until the leadership is lost or to be given back, the journal breaks, or ctx has ended
// and nothing runs.
func (s *Server) loop(ctx context.Context, l follow.Reign) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	stopping := ctx.Done()
	var giveUp, told <-chan time.Time
	retired, said := false, time.Time{}
	for {
		var first input
		select {
		case first = <-s.in:
		case <-timer.C:
		case <-stopping:
			stopping = nil
			giveUp, told = time.After(s.cfg.DrainTimeout), time.After(doorsHear)
			s.with(func(n *hub.Node) { n.Drain(time.Now()) })
		case <-told:
			told = nil
		case <-giveUp:
			s.log.Warn("stopping with holds open: their agents' completions are taken after the next start",
				"holds", s.Stats().Holds)
			return nil
		case <-l.Lost():
		case <-l.Yield:
			return follow.ErrGivesWay
		case err := <-s.broken:
			return err
		}
		select {
		case <-l.Lost(): // what came in the same moment is for who leads now
			return fmt.Errorf("hub %s: %w", s.cfg.Domain, bus.ErrLost)
		default:
		}
		quiet, err := s.advance(first, timer)
		if err != nil {
			return err
		}
		if ending, closed, why := s.ends(); closed {
			if why != "" {
				s.log.Warn("the journal is closed" + why)
			}
			return nil
		} else if ending {
			if why != s.why || time.Since(said) >= bus.SayAgain {
				said = time.Now()
				s.log.Info("the hub ends; its journal is closed later", "waits_for", why)
			}
			s.why = why
		}
		if stopping == nil && told == nil && quiet {
			if retired {
				return nil
			}
			retired = true
			s.with(func(n *hub.Node) { n.Retire(time.Now()) })
			timer.Reset(0)
		}
	}
}

// advance steps the Node by what has arrived, hands on what is to be done, and sets the timer for the next
// turn. It returns the journal's error.
func (s *Server) advance(first input, timer *time.Timer) (quiet bool, err error) {
	begun := time.Now()
	r, quiet := s.turn(first)
	if !r.Empty() {
		select {
		case s.work <- todo{Ready: r, begun: begun}:
		case err = <-s.broken:
			return quiet, err
		}
	}
	if timer.Stop(); !r.Wake.IsZero() {
		timer.Reset(time.Until(r.Wake))
	}
	return quiet, nil
}

// asleep is the lateness of a turn that shows that the process was stopped or starved.
const asleep = 2 * time.Second

// turn steps the Node through what has arrived and says what is to be done.
func (s *Server) turn(first input) (r hub.Ready, quiet bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	look := func() {
		if s.node.Holding() {
			s.node.Room(s.disk.Note(s.log, "disk", s.deps.Journal.HasRoom(), "the journal's disk is nearly full: no "+
				"task is taken until it has room; free some space", "the journal's disk has room again"))
		}
	}
	if now := time.Now(); !s.wake.IsZero() && now.Sub(s.wake) > asleep {
		s.log.Warn("the process did not run for a while", "late", now.Sub(s.wake).Round(time.Millisecond))
		s.node.Slept(now)
	}
	look()
	for i := 0; i < maxSteps && (first != nil || len(s.in) > 0); i++ {
		if first == nil {
			first = <-s.in
		}
		first(s.node)
		first = nil
	}
	now := time.Now()
	s.node.Tick(now)
	look()
	r = s.node.Ready()
	s.wake = r.Wake
	took := time.Since(now)
	if r.Rounds > 0 {
		took /= time.Duration(r.Rounds)
		s.node.Queue.Took(took)
		s.measures.round.Record(took.Seconds())
	}
	return r, s.node.Idle()
}

// message is an input of a message that came now.
func (s *Server) message(m bus.Message) input {
	at := time.Now()
	return func(n *hub.Node) {
		if err := n.Step(at, m); err != nil {
			s.log.Debug("message ignored", "err", err)
		}
	}
}

// hand hands an input to the loop, unless its queue is full.
func (s *Server) hand(in input) bool {
	select {
	case s.in <- in:
		return true
	default:
		s.dropped.Add(1)
		return false
	}
}

// pass hands an input to the loop, and waits for room until ctx ends: what the registry says may not be lost.
func (s *Server) pass(ctx context.Context, in input) bool {
	select {
	case s.in <- in:
		return true
	case <-ctx.Done():
		return false
	}
}
