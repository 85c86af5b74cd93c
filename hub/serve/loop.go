package serve

import (
	"context"
	"fmt"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/hub"
)

// input is something for the Node: a message, or a change of the roster.
type input struct {
	at    time.Time
	m     bus.Message
	join  *bus.Registration
	leave string
	gone  string // nobody listens where this agent did
	again bool   // the bus is there again
	cut   bool   // it is away
	set   *setting
}

// setting is news of the domain's entry in the registry; nil when there is none.
type setting struct{ config *bus.MarketConfig }

// Bounds of one turn of the loops.
const (
	maxSteps  = 256 // messages between two looks at what is ready
	maxGroups = 64  // turns whose frames are made durable by one sync
)

// loop steps the Node until the leadership is lost or to be given back, the journal breaks, or ctx has ended
// and nothing runs.
func (s *Server) loop(ctx context.Context, l follow.Reign, tasks bus.Subscription) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	stopping := ctx.Done()
	var giveUp <-chan time.Time
	retired, said := false, time.Time{}
	for {
		var first input
		select {
		case first = <-s.in:
		case <-timer.C:
		case q := <-s.quoteRequests:
			s.quote(q)
			select { // a turn waits for one quote at most
			case first = <-s.in:
			case <-timer.C:
			default:
				continue
			}
		case <-stopping:
			stopping = nil
			giveUp = time.After(s.cfg.DrainTimeout)
			tasks.Stop()
			s.mu.Lock()
			s.node.Drain(time.Now())
			s.mu.Unlock()
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
			return nil
		} else if ending {
			if why != s.why || time.Since(said) >= bus.SayAgain {
				said = time.Now()
				s.log.Info("the hub ends; its journal is closed later", "waits_for", why)
			}
			s.why = why
		}
		if stopping == nil && quiet {
			if retired {
				return nil
			}
			retired = true
			s.mu.Lock()
			s.node.Retire(time.Now())
			s.mu.Unlock()
			timer.Reset(0)
		}
	}
}

// advance steps the Node by what has arrived, hands on what is to be done, and sets the timer for the next
// turn. It returns the journal's error.
func (s *Server) advance(first input, timer *time.Timer) (quiet bool, err error) {
	r, quiet := s.turn(first)
	if !r.Empty() {
		select {
		case s.work <- todo{Ready: r}:
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
			s.node.Room(s.hasRoom())
		}
	}
	if now := time.Now(); !s.wake.IsZero() && now.Sub(s.wake) > asleep {
		s.log.Warn("the process did not run for a while", "late", now.Sub(s.wake).Round(time.Millisecond))
		s.node.Slept(now)
	}
	look()
	for i := 0; i < maxSteps && (!first.at.IsZero() || len(s.in) > 0); i++ {
		if first.at.IsZero() {
			first = <-s.in
		}
		s.step(first)
		first = input{}
	}
	now := time.Now()
	s.node.Tick(now)
	look()
	r = s.node.Ready()
	s.wake = r.Wake
	took := time.Since(now)
	s.node.Queue.Took(took)
	if r.Rounds > 0 {
		s.measures.one(s.measures.round, took/time.Duration(r.Rounds))
	}
	return r, s.node.Idle()
}

// hasRoom reports whether the journal's disk has room for new money, and names in the log when it has none.
func (s *Server) hasRoom() bool {
	return s.disk.Note(s.log, "disk", s.deps.Journal.HasRoom(), "the journal's disk is nearly full: no task is "+
		"taken until it has room; free some space", "the journal's disk has room again")
}

func (s *Server) step(in input) {
	switch {
	case in.join != nil:
		if err := s.node.Join(in.at, *in.join); err != nil {
			s.log.Warn("agent not sold", "err", err)
		} else {
			s.log.Info("agent joined", "agent", in.join.Agent, "model", in.join.Model,
				"slots", in.join.Slots, "boot", in.join.Boot)
		}
	case in.leave != "":
		s.node.Leave(in.at, in.leave)
		s.log.Info("agent left", "agent", in.leave)
	case in.gone != "":
		if s.node.Absent(in.at, in.gone) {
			s.log.Warn("agent dead: nobody listens there any more; what its readers have not had the end of is void",
				"agent", in.gone)
		}
	case in.again:
		s.node.Hears(in.at, true)
	case in.cut:
		s.node.Hears(in.at, false)
	case in.set != nil:
		if err := s.node.Configure(in.at, in.set.config); err != nil {
			s.log.Warn("settings not applied", "err", err)
		} else {
			c := s.node.Config()
			s.log.Info("settings", "max_batch", c.Batch.MaxBatch, "max_wait", c.Batch.MaxWait,
				"eager", c.Batch.Eager, "pricing", c.Pricing, "settle", c.Settle, "clarke", c.Clarke)
		}
	default:
		if err := s.node.Step(in.at, in.m); err != nil {
			s.log.Debug("message ignored", "err", err)
		}
	}
}

// offer hands a message to the loop, unless its queue is full.
func (s *Server) offer(m bus.Message) bool { return s.hand(input{at: time.Now(), m: m}) }

func (s *Server) hand(in input) bool {
	select {
	case s.in <- in:
		return true
	default:
		s.dropped.Add(1)
		return false
	}
}

// pass hands an input to the loop, and waits for room until ctx ends: what the registry says must not be
// lost.
func (s *Server) pass(ctx context.Context, in input) bool {
	select {
	case s.in <- in:
		return true
	case <-ctx.Done():
		return false
	}
}
