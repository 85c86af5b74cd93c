// Package serve runs the treasury: it joins the machine to the bus, the journal, the registry and the clock,
// and decides nothing.
package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/ledger/treasury"
)

// Deps is what a Server is wired to.
type Deps struct {
	Bus      bus.Bus
	Registry bus.Registry // names the hubs that lead, and the keys that doors vouch with
	Journal  ledger.Journal
	Log      *slog.Logger // nil: slog.Default
}

// Server answers the treasury's requests on souk.v1.ledger.<op>.<who>, in msgpack or JSON as they came. Every
// change is durable before anyone is told of it; requests that arrive during a sync share the next.
type Server struct {
	cfg   treasury.Config
	d     Deps
	t     *treasury.Treasury
	epoch int64
	ready chan struct{}
	queue chan request
	doubt chan request // whose epochs are to be proven
	inbox string       // hubs answer below it, each under its own name and a word that it alone is told
	words []byte       // the key that these are made with
	said  chan *bus.RecallReply
	disk  bus.Outage // of the room on it; of serve alone
	stale bus.Outage // of the journal being this market's newest; likewise
	vouch bus.Outage // of the registry's saying doors' keys; of their follower alone

	requests, refused, dropped, frames, records atomic.Int64
	mu                                          sync.Mutex // of t, for Stats
}

// New replays the journal. It fails if the journal is not this treasury's or breaks a rule.
func New(cfg treasury.Config, d Deps) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if d.Bus == nil || d.Registry == nil || d.Journal == nil {
		return nil, errors.New("treasury: a bus, a registry and a journal are needed")
	}
	if name := d.Bus.Name(); name != cfg.Journal {
		return nil, fmt.Errorf("treasury: it is %s on the bus, and its journal is %s: hubs answer the journal's "+
			"name alone, so connect under that", name, cfg.Journal)
	}
	if d.Log == nil {
		d.Log = slog.Default()
	}
	s := &Server{
		cfg: cfg, d: d, ready: make(chan struct{}), queue: make(chan request, cfg.MaxPending),
		doubt: make(chan request, cfg.MaxPending), said: make(chan *bus.RecallReply, cfg.MaxPending),
		inbox: bus.InboxOf(cfg.Journal) + "." + bus.LastToken(d.Bus.Inbox()), words: []byte(rand.Text()),
	}
	s.t = treasury.New(cfg, salt)
	err := d.Journal.Restore(s.t.Past())
	if err == nil {
		err = s.t.Restore()
	}
	if err != nil {
		return nil, fmt.Errorf("treasury: %w", err)
	}
	_, last, _ := s.t.Book().Last()
	if s.epoch = cfg.Epoch; s.epoch == 0 {
		s.epoch = last + 1
	}
	if s.epoch < last {
		return nil, fmt.Errorf("treasury: epoch %d is lower than the journal's %d: a newer writer was here",
			s.epoch, last)
	}
	return s, nil
}

func salt() (b [16]byte) {
	rand.Read(b[:])
	return b
}

// Ready is closed once requests are taken.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Run serves until ctx ends, then answers what has arrived within Config.Drain and returns nil. An error
// means that the journal takes nothing more: whether the last changes were written is not known, nobody was
// told of them, and only a restart can tell.
func (s *Server) Run(ctx context.Context) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.d.Journal.Follow(func() ledger.Replica { return treasury.NewHistory(s.cfg) })()
	sub, err := s.d.Bus.Subscribe(bus.LedgerSubjects, "", s.take)
	if err != nil {
		return fmt.Errorf("treasury: subscribe: %w", err)
	}
	proving, stop := context.WithCancel(ctx)
	var prover sync.WaitGroup
	prover.Go(func() { s.prove(proving) })
	synced := make(chan struct{})
	prover.Go(func() { s.keys(proving, sync.OnceFunc(func() { close(synced) })) })
	defer prover.Wait()
	defer stop()
	answers, err := s.d.Bus.Subscribe(s.inbox+".*.*", "", s.hear)
	if err != nil {
		sub.Stop()
		return fmt.Errorf("treasury: subscribe: %w", err)
	}
	defer answers.Stop()
	select {
	case <-synced:
	case <-time.After(keysWithin):
	case <-ctx.Done():
	}
	s.d.Log.Info("treasury open", "journal", s.cfg.Journal, "epoch", s.epoch)
	close(s.ready)
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
		case <-ctx.Done():
			continue
		}
		if err != nil {
			sub.Stop()
			return err
		}
		if timer.Stop(); !wake.IsZero() {
			timer.Reset(time.Until(wake))
		}
	}
	sub.Stop() // no take runs after this
	return s.drain(context.WithoutCancel(ctx))
}

// drain serves what had arrived when the subscription ended.
func (s *Server) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Drain)
	defer cancel()
	for ctx.Err() == nil {
		select {
		case r := <-s.queue:
			if _, err := s.serve(&r); err != nil {
				return err
			}
			continue
		default:
		}
		break
	}
	s.mu.Lock()
	s.t.Stop()
	ready := s.t.Ready()
	s.mu.Unlock()
	if err := s.act(ready); err != nil {
		return err
	}
	if err := s.d.Bus.Flush(ctx); err != nil {
		s.d.Log.Warn("treasury: last answers may not have left", "err", err)
	}
	return nil
}

func (s *Server) begin() error {
	if err := s.t.Begin(); err != nil {
		return fmt.Errorf("treasury: %w", err)
	}
	return s.commit(s.t.Ready())
}
