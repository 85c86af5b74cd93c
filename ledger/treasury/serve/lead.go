package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"souk/bus"
	"souk/bus/follow"
)

const (
	leaseTTL = 5 * time.Second // how long one that died keeps others out
	ledIn    = time.Second     // the registry may take to hear that it leads
)

// asked notes whether the registry says who leads.
func (s *Server) asked(err error) {
	s.away.Note(s.d.Log, "leader", err == nil, "whether another treasury leads is not known; asking on",
		"the registry answers again", "err", err)
}

// Leading reports whether this is the market's treasury now: whether it answers.
func (s *Server) Leading() bool {
	p := s.pulse.Load()
	return p != nil && p.runs()
}

// lead serves for one time of leadership. It returns nil after draining, bus.ErrLost when its lease was lost,
// follow.ErrGivesWay after it was to yield, or the journal's error.
func (s *Server) lead(ctx context.Context, r follow.Reign) error {
	defer r.Resign(s.d.Log)
	s.forget()
	pulse := newPulse(s.d.LeaseTTL, r.Lost())
	s.epoch.Store(r.Epoch())
	s.pulse.Store(pulse)
	defer s.pulse.Store(nil)
	if err := s.stands.Ask(ctx, r, s.since); err != nil || ctx.Err() != nil {
		return err
	}
	if err := s.begin(); err != nil {
		return err
	}
	if s.Closed() == "" { // else it is remembered once it works
		if err := s.stands.Ask(ctx, r, s.remember); err != nil || ctx.Err() != nil {
			return err
		}
	}
	requests, err := s.d.Bus.Subscribe(bus.LedgerSubjects, "", s.take)
	if err != nil {
		return fmt.Errorf("treasury: subscribe: %w", err)
	}
	answers, err := s.d.Bus.Subscribe(s.inbox+".*.*", "", s.hear)
	if err != nil {
		requests.Stop()
		return fmt.Errorf("treasury: subscribe: %w", err)
	}
	defer answers.Stop()
	proving, stop := context.WithCancel(ctx)
	var prover sync.WaitGroup
	prover.Go(func() { s.prove(proving) })
	beating, still := context.WithCancel(context.WithoutCancel(ctx)) // while it drains, too
	prover.Go(func() { pulse.beat(beating) })
	synced := make(chan struct{})
	prover.Go(func() { s.keys(proving, sync.OnceFunc(func() { close(synced) })) })
	defer prover.Wait()
	defer stop()
	defer still()
	select {
	case <-synced:
	case <-time.After(keysWithin):
	case <-r.Lost():
	case <-ctx.Done():
	}
	if s.waits() {
		_, _ = s.leaders(ctx) // else it is asked again
	}
	if !s.stands.Resumes() {
		s.d.Log.Info("treasury open", "journal", s.cfg.Journal, "epoch", r.Epoch())
	}
	s.once.Do(func() { close(s.ready) })
	err = s.loop(ctx, r, pulse.gap)
	requests.Stop() // no take begins after this
	if err != nil && !errors.Is(err, follow.ErrGivesWay) {
		return err
	}
	if unsaid := s.drain(context.WithoutCancel(ctx)); unsaid != nil {
		return unsaid
	}
	return err
}

// loop serves until ctx ends, or with an error.
func (s *Server) loop(ctx context.Context, r follow.Reign, gap <-chan struct{}) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		var wake time.Time
		err := error(nil)
		select {
		case first := <-s.queue:
			wake, err = s.serve(&first)
		case m := <-s.said:
			wake, err = s.serve(nil, m)
		case <-timer.C:
			wake, err = s.serve(nil)
		case <-s.nudge:
			wake, err = s.serve(nil)
		case <-r.Lost():
			err = errLost
		case <-gap:
			err = errLost
		case <-r.Yield:
			err = follow.ErrGivesWay
		case <-ctx.Done():
			continue
		}
		if err != nil {
			return err
		}
		if timer.Stop(); !wake.IsZero() {
			timer.Reset(time.Until(wake))
		}
	}
	return nil
}

var errLost = fmt.Errorf("treasury: %w", bus.ErrLost)

// drain serves what had arrived when the subscriptions ended.
func (s *Server) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Drain)
	defer cancel()
	for len(s.queue) > 0 && ctx.Err() == nil {
		r := <-s.queue
		if _, err := s.serve(&r); err != nil {
			return unlessLost(err)
		}
	}
	s.mu.Lock()
	s.t.Stop()
	ready, closed := s.t.Ready(), s.t.Closed()
	s.mu.Unlock()
	if err := s.act(ready, closed); err != nil {
		return unlessLost(err)
	}
	if err := s.d.Bus.Flush(ctx); err != nil {
		s.d.Log.Warn("treasury: last answers may not have left", "err", err)
	}
	return nil
}

// unlessLost is an error of the journal; that another leads while this one ends is none.
func unlessLost(err error) error {
	if errors.Is(err, bus.ErrLost) {
		return nil
	}
	return err
}

// since finds out who else led, and worked, since this treasury did.
func (s *Server) since(ctx context.Context) error {
	by, err := s.stands.Since(ctx, bus.TreasuryLedKey)
	if by != "" {
		s.beside = by
		s.d.Log.Warn("another treasury has led since this one did: hubs are heard first", "led_by", by)
	}
	return err
}

// remember has the registry know that this treasury leads, and works.
func (s *Server) remember(ctx context.Context) error {
	return s.d.Registry.Put(ctx, bus.TreasuryLedKey, s.stands.Value)
}

// begin judges the epoch, and writes the first frame of an empty journal.
func (s *Server) begin() error {
	s.mu.Lock()
	_, last, _ := s.t.Book.Last()
	err := error(nil)
	if epoch := s.epoch.Load(); epoch < last {
		err = fmt.Errorf("epoch %d is below %d, the last in its journal: another has led since, or etcd was "+
			"made anew or restored to an older revision (deploy/runbook.md: etcd)", epoch, last)
	} else {
		err = s.t.Begin()
	}
	ready := s.t.Ready()
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("treasury: %w", err)
	}
	if err := s.commit(ready); err != nil {
		return err
	}
	// One that is new, or that holds nothing yet, may have been begun beside another. One that may be a copy
	// hears hubs each time: another may have led since they spoke; one on its own file, where another did.
	s.mu.Lock()
	defer s.mu.Unlock()
	frames, _, _ := s.t.Book.Last()
	if s.cfg.Believe != 0 && s.cfg.Believe == frames {
		s.d.Signs.Alone()
	}
	s.t.Stands(s.d.Signs.Stands())
	if s.d.Journal.Moved() || !s.led && frames <= 1 || s.beside != "" {
		s.t.Await()
	}
	s.led, s.beside = true, ""
	return nil
}

// forget drops what was asked of an earlier leadership, and waits for nobody: whoever asked has no answer,
// and asks again.
func (s *Server) forget() {
	for {
		select {
		case <-s.queue:
		case <-s.doubt:
		case <-s.said:
		default:
			s.mu.Lock()
			s.t.Depose()
			s.mu.Unlock()
			return
		}
		s.dropped.Add(1)
	}
}
