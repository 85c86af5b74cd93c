// Package serve runs the treasury: it joins the machine to the bus, the journal, the registry and the clock,
// and decides nothing.
package serve

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/bus/metrics"
	"souk/ledger"
	"souk/ledger/treasury"
	keeper "souk/ledger/witness/serve"
)

// Deps holds the ports of a Server.
type Deps struct {
	Bus      bus.Bus
	Registry bus.Registry // elects the market's treasury, names the hubs that lead, and has the keys of doors
	Journal  ledger.Journal
	LeaseTTL time.Duration  // of the leadership; 0: 5 s
	Signs    *keeper.Keeper // of the journal; nil: nobody signs it
	// Operator reads an operator's JWT: its name and public key; nil: nobody can approve anything
	Operator func(token string) (name, key string, err error)
	Log      *slog.Logger // nil: slog.Default
	// when its creds end, the zero time: never; nil: it is not known
	Expires func() time.Time
	Meter   metrics.Meter // of what it counts; nil: nobody collects that
}

// Server answers the treasury's requests on souk.v1.ledger.<op>.<who>, in msgpack or JSON as they came, while
// it is the one that the registry has elected. Every change is durable before anyone is told of it; requests
// that arrive during a sync share the next.
type Server struct {
	cfg    treasury.Config
	d      Deps
	t      *treasury.Treasury
	stands follow.Candidate
	epoch  atomic.Int64          // of the leadership, in each frame and answer
	pulse  atomic.Pointer[pulse] // of the leadership; nil: it does not lead
	ready  chan struct{}
	once   sync.Once // closes ready
	led    bool      // this process has, before
	beside string    // who led since this treasury did, and hubs were not heard yet; "": nobody
	queue  chan request
	doubt  chan request // whose epochs are to be proven
	inbox  string       // hubs answer below it, each under its own name and a word that it alone is told
	words  []byte       // the key that these are made with
	said   chan *bus.RecallReply
	disk   follow.Trouble // with the room on it
	away   follow.Trouble // with the registry, as an election begins
	stale  bus.Outage     // of the journal being this market's newest; likewise
	why    string         // nothing is done, as was said last; likewise
	denied string         // hubs that are refused, likewise
	nudge  chan struct{}
	reads  map[string]reading // by hub
	vouch  follow.Trouble     // with its saying what keys doors have

	requests, dropped, frames, records atomic.Int64

	mu      sync.Mutex          // of t, for Stats
	answers map[[2]string]int64 // by what was asked, and the outcome
}

// New replays the journal. It fails if the journal is not this treasury's or breaks a rule.
func New(cfg treasury.Config, d Deps) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if d.Bus == nil || d.Registry == nil || d.Journal == nil {
		return nil, errors.New("treasury: a bus, a registry and a journal are needed")
	}
	d.LeaseTTL = cmp.Or(d.LeaseTTL, leaseTTL)
	if name := d.Bus.Name(); name != cfg.Journal {
		return nil, fmt.Errorf("treasury: it is %s on the bus, and its journal is %s: hubs answer the "+
			"journal's name alone, so connect under that", name, cfg.Journal)
	}
	d.Log = cmp.Or(d.Log, slog.Default())
	s := &Server{
		cfg: cfg, d: d, ready: make(chan struct{}), queue: make(chan request, maxPending),
		doubt: make(chan request, maxPending), said: make(chan *bus.RecallReply, maxPending),
		nudge: make(chan struct{}, 1), reads: map[string]reading{}, answers: map[[2]string]int64{},
		inbox: bus.InboxOf(cfg.Journal) + "." + bus.LastToken(d.Bus.Inbox()), words: []byte(rand.Text()),
	}
	s.t = treasury.New(cfg, salt)
	err := d.Journal.Restore(s.t.Past)
	if err == nil {
		err = s.t.Restore()
	}
	if err != nil {
		return nil, fmt.Errorf("treasury: %w", err)
	}
	host, _ := os.Hostname()
	s.stands.Registry, s.stands.Key, s.stands.TTL = d.Registry, bus.TreasuryKey, d.LeaseTTL
	s.stands.Who, s.stands.Life, s.stands.Ended = "treasury", d.Journal.Life(), d.Journal.Ended
	s.stands.Moved = d.Journal.Moved
	s.stands.Log, s.stands.Asked, s.stands.Doubt = d.Log, s.asked, s.doubts
	s.stands.Idle = "silent: nothing is taken in or allotted until the registry has elected this treasury"
	e := bus.TreasuryEntry{Journal: cfg.Journal, Host: host, PID: os.Getpid(), Life: d.Journal.Life()}
	if s.stands.Value, err = bus.EncodeEntry(&e); err != nil {
		return nil, fmt.Errorf("treasury: %w", err)
	}
	s.observe()
	return s, nil
}

func salt() (b [16]byte) {
	rand.Read(b[:])
	return b
}

// Ready is closed once requests are taken for the first time.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Run stands for the market's only treasury, and is it whenever it is elected, until ctx ends; then it
// answers what has arrived within Config.Drain and returns nil. Where its lease is lost it falls silent, and
// stands anew; one whose journal may not be the newest gives the leadership back now and then. An error means
// that the journal takes nothing more: whether the last changes were written is not known, nobody was told of
// them, and only a restart can tell; or that its frames are of a later epoch than the registry gives.
func (s *Server) Run(ctx context.Context) error {
	defer s.d.Journal.Follow(func() ledger.Replica { return treasury.NewHistory(s.cfg) })()
	return follow.While(ctx, s.d.Journal.Held, func(ctx context.Context) error {
		return s.stands.Lead(ctx, func(ctx context.Context) (l bus.Leadership, err, fatal error) {
			l, err = s.stands.Elect(ctx)
			return l, err, nil
		}, s.lead)
	})
}
