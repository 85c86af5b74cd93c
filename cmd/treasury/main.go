// Command treasury keeps the clients' prepaid money and allots it to hubs.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"souk/bus"
	"souk/cmd/internal/daemon"
	"souk/ledger/journal"
	"souk/ledger/treasury"
)

// version is set by the linker; see the Makefile.
var version = ""

func main() { daemon.Main(daemon.Command(role())) }

// config is the treasury's file.
type config struct {
	daemon.Common `yaml:",inline"`
	Market        daemon.Market   `yaml:"market"`
	Data          string          `yaml:"data"` // the journal is in DATA/journal/NAME
	LeaseTTL      time.Duration   `yaml:"lease_ttl"`
	Treasury      treasury.Config `yaml:"treasury"`
}

const example = daemon.MarketExample + `data: /var/lib/souk               # the journal is kept in DATA/journal/treasury
lease_ttl: 5s                     # how long a treasury that died keeps others out
treasury:                         # every field has a default, see below
  drain: 5s                       # for answering what has arrived when it is told to stop
`

func role() daemon.Role {
	return daemon.Role{
		Name:  "treasury",
		Short: "The clients' money: deposits, payouts, and allotments to hubs",
		Long: `treasury keeps what clients have deposited and allots it to hubs, so that no client is ever charged more than it deposited,
over all hubs. A market has one: a second one is refused as long as the first lives. Its journal is the clients' money; back it up.`,
		Example: example,
		Version: version,
		New: func() daemon.Config {
			return &config{Common: daemon.Default(), Market: daemon.DefaultMarket(), LeaseTTL: 5 * time.Second, Treasury: treasury.Default()}
		},
		Serve: func(ctx context.Context, p *daemon.Process, c daemon.Config) error { return serve(ctx, p, c.(*config)) },
	}
}

func serve(ctx context.Context, p *daemon.Process, c *config) (err error) {
	j, err := journal.Open(filepath.Join(c.Data, "journal", c.Treasury.Journal), journal.Config{Log: p.Log})
	if err != nil {
		return daemon.InData(err)
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	l, err := p.Connect(ctx, c.Market, "treasury")
	if err != nil {
		return err
	}
	defer l.Close()
	s, err := treasury.NewServer(c.Treasury, treasury.Deps{Bus: l.Bus, Registry: l.Registry, Journal: j, Log: p.Log})
	if err != nil {
		return err
	}
	only := &seat{registry: l.Registry, ttl: c.LeaseTTL, p: p, life: j.Life(), ended: j.Ended}
	if err := only.take(ctx); err != nil {
		return err
	}
	p.Serving(s.Ready(), func() any { return s.Stats() })
	run, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		if err := only.keep(run); err != nil {
			stop(err)
		}
	}()
	err = s.Run(run)
	if ctx.Err() == nil {
		err = errors.Join(err, context.Cause(run))
	}
	stop(nil)
	<-kept
	only.leave()
	return err
}

// seat is the key that says who is the market's treasury. The journal's lock keeps two processes off one journal; the
// seat keeps a second treasury with a journal of its own, which knows of no deposits, off the market.
type seat struct {
	registry bus.Registry
	ttl      time.Duration
	p        *daemon.Process
	life     string            // names this process: who has the journal's lock after it knows that it has died
	ended    func(string) bool // whether that was a process before this one
	lease    bus.Lease
}

// holder is the value of bus.TreasuryKey.
type holder struct {
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Life    string    `json:"life,omitempty"`
}

// take waits out the lease of a treasury that has died, and fails if one lives. The lease of one that had this very journal is
// not waited for: the journal's lock proves that it is dead.
func (s *seat) take(ctx context.Context) error {
	host, _ := os.Hostname()
	value, err := json.Marshal(holder{host, os.Getpid(), time.Now().UTC(), s.life})
	if err != nil {
		return err
	}
	var waits bus.Outage
	var since time.Time // another holds it
	for {
		s.lease, err = s.registry.Register(ctx, bus.TreasuryKey, value, s.ttl)
		if err == nil || ctx.Err() != nil {
			if lasted, over := waits.Works(time.Now(), "seat"); over && err == nil {
				s.p.Log.Info("the market's only treasury", "after", lasted.Round(time.Millisecond))
			}
			return err
		}
		switch taken := errors.Is(err, bus.ErrExists); {
		case taken && s.evict(ctx):
			continue
		case !taken:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > s.ttl+3*time.Second: // the lease of one that died would have ended
			return fmt.Errorf("the market has a treasury already, %s: stop that one, or start this one on another market", s.who(ctx))
		}
		if waits.Failed(time.Now(), "seat") {
			s.p.Log.Warn("waiting to be the market's only treasury", "err", err, "held_by", s.who(ctx))
		}
		if !pause(ctx, 500*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// evict ends the lease that an earlier life of this treasury has left behind, or this one had lost. It reports whether there
// was one.
func (s *seat) evict(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	kvs, err := s.registry.Get(ctx, bus.TreasuryKey)
	var h holder
	if err != nil || len(kvs) != 1 || json.Unmarshal(kvs[0].Value, &h) != nil || h.Life != s.life && !s.ended(h.Life) {
		return false
	}
	if err := s.registry.Evict(ctx, bus.TreasuryKey, kvs[0].Value); err != nil {
		return false
	}
	s.p.Log.Info("the lease of an earlier life of this treasury is ended", "pid", h.PID)
	return true
}

func (s *seat) who(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	kvs, err := s.registry.Get(ctx, bus.TreasuryKey)
	var h holder
	if err != nil || len(kvs) == 0 || json.Unmarshal(kvs[0].Value, &h) != nil {
		return "unknown"
	}
	return fmt.Sprintf("process %d on %s, started %s", h.PID, h.Host, h.Started.Format(time.RFC3339))
}

// keep takes the seat again whenever its lease was lost, as in an outage of etcd, during which the treasury serves on. It fails
// if another has taken it.
func (s *seat) keep(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.lease.Lost():
			s.p.Log.Warn("lease lost: etcd was out of reach for longer than lease_ttl; taking it again")
			if err := s.take(ctx); err != nil && ctx.Err() == nil {
				return err
			}
			if ctx.Err() != nil {
				return nil
			}
		}
	}
}

func (s *seat) leave() {
	if s.lease == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.lease.Close(ctx); err != nil {
		s.p.Log.Debug("lease not given back; it ends by itself", "err", err)
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Complete judges the file.
func (c *config) Complete() error {
	var errs []error
	if c.Data == "" {
		errs = append(errs, errors.New("data: not set: write the directory for the journal, or set SOUK_DATA"))
	}
	if c.LeaseTTL < 2*time.Second || c.LeaseTTL > time.Hour {
		errs = append(errs, fmt.Errorf("lease_ttl: %v is not within 2s, the least that etcd grants, and 1h", c.LeaseTTL))
	}
	return errors.Join(append(errs, c.Treasury.Validate(), c.Market.Validate())...)
}

// Drain is the time for answering what has arrived, and for giving the seat back.
func (c *config) Drain() time.Duration { return c.Treasury.Drain + 3*time.Second }
