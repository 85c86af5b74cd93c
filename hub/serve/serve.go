// Package serve runs a hub: it wins the domain's election, claims its agents, and carries messages between a
// [hub.Node], bus, journal and treasury. What happens in the market the Node decides.
package serve

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/bus/metrics"
	"souk/bus/sight"
	"souk/hub"
	"souk/hub/account"
	"souk/ledger"
	keeper "souk/ledger/witness/serve"
)

// Deps holds the ports of a Server.
type Deps struct {
	Bus      bus.Bus
	Registry bus.Registry
	Journal  ledger.Journal // of this hub alone; replayed by Run, not closed
	Log      *slog.Logger   // nil: slog.Default
	Spans    *sight.Spans   // nil: none
	Seed     [32]byte       // of the salts; zero: random, as it must be outside simulations
	Learned  string         // a file of what the hub has learned of its agents; "": it begins anew each time
	Close    bool           // the hub ends: see [hub.Node.Close]
	Signs    *keeper.Keeper // of the journal; nil: nobody signs it
	// when its creds end, the zero time: never; nil: it is not known
	Expires func() time.Time
	Meter   metrics.Meter // of what it counts and measures; nil: nobody collects that
}

// Server runs a Node.
//
// One goroutine steps the Node through whatever has arrived; a second makes frames durable, all that have
// queued up with one sync, and only then sends what follows from them. The first does not wait for it.
type Server struct {
	cfg  hub.Config
	deps Deps
	log  *slog.Logger

	mu   sync.Mutex // guards node
	node *hub.Node
	wake time.Time // when the next turn is due at the latest; zero: never

	in      chan input
	work    chan todo
	broken  chan error // the journal's first error
	ready   chan struct{}
	isReady sync.Once
	dropped atomic.Int64
	running atomic.Bool
	leading atomic.Bool
	unknown atomic.Pointer[string] // why the hub may not begin its journal yet; nil: it has begun
	why     string                 // what a hub that ends waited for last
	twin    bool                   // a copy of the journal led while this hub stood by
	trouble follow.Trouble         // with the registry
	disk    follow.Trouble         // with the room on it

	stands   follow.Candidate
	mute     follow.Trouble // with the treasury
	restarts atomic.Bool    // it gave no answer, or no word, when it was asked last
	asking   sync.WaitGroup // requests to it

	quotes quoting // of onQuote alone
	feed   feed

	measures *measures
	spans    spans
}

// solveLimit bounds the time for a round's prices: one that takes longer is cleared at posted prices, and its
// record says so. It is ten batches, and a thousand times what one of 64 tasks on 16 agents takes.
const solveLimit = 100 * time.Millisecond

// New returns a hub that is not running yet.
func New(cfg hub.Config, deps Deps) (*Server, error) {
	if deps.Bus == nil || deps.Registry == nil || deps.Journal == nil {
		return nil, errors.New("hub: a bus, a registry and a journal are needed")
	}
	if name := deps.Bus.Name(); name != cfg.Journal {
		return nil, fmt.Errorf("hub: it is %s on the bus, and its journal is %s: the treasury answers the "+
			"journal's name alone, so connect under that", name, cfg.Journal)
	}
	if deps.Seed == ([32]byte{}) {
		crand.Read(deps.Seed[:])
	}
	if deps.Log == nil {
		deps.Log = slog.Default()
	}
	node, err := hub.NewNode(cfg, deps.Seed)
	if err != nil {
		return nil, err
	}
	node.Limit = func() func() bool {
		until := time.Now().Add(solveLimit)
		return func() bool { return time.Now().After(until) }
	}
	log := deps.Log
	s := &Server{
		cfg: cfg, deps: deps, log: log.With("hub", cfg.Domain), node: node,
		in: make(chan input, maxQueued), work: make(chan todo, maxGroups), broken: make(chan error, 1),
		ready: make(chan struct{}), measures: newMeasures(deps.Meter, cfg.Domain),
		feed:  feed{begin: make(chan struct{}, 1)},
		spans: spans{by: deps.Spans, domain: cfg.Domain, open: map[string]sight.Span{}},
	}
	s.stands.Registry, s.stands.Key, s.stands.TTL = deps.Registry, bus.HubKey(cfg.Domain), cfg.LeaseTTL
	s.stands.Who, s.stands.Life, s.stands.Ended = "hub", deps.Journal.Life(), deps.Journal.Ended
	s.stands.Moved = deps.Journal.Moved
	s.stands.Log = s.log
	s.stands.Asked = func(err error) { s.asked("leader", "who leads the domain is not known", err) }
	s.stands.Doubt, s.stands.Idle = s.doubts, "not leading: nothing is awarded until the domain is led again"
	s.observe()
	return s, nil
}

// Ready is closed when the hub leads its domain, listens, and has claimed the agents that were there.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Leading reports whether the hub leads its domain. One that does not settles its own and awards nothing.
func (s *Server) Leading() bool { return s.leading.Load() }

// with has the Node for as long as do takes.
func (s *Server) with(do func(n *hub.Node)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do(s.node)
}

// Refuses returns why the hub takes no task now, whoever sends it; "" if it does.
func (s *Server) Refuses() (why string) {
	s.with(func(n *hub.Node) { why, _ = n.Refuses() })
	if why == "" && !s.deps.Journal.HasRoom() {
		why = "the journal's disk is nearly full: free some space"
	}
	return why
}

// Unready returns why the hub does not sell: the treasury contradicts its journal, it does not lead, or
// something keeps it from taking tasks, or another journal speaks for the treasury than it holds grants of;
// "" if it sells, and will.
func (s *Server) Unready() string {
	why := s.contradicted()
	if why == "" && !s.Leading() {
		if why := s.unknown.Load(); why != nil {
			return *why
		}
		return s.stands.Standing("the domain is led by another hub, or nobody can say by whom: standing by")
	}
	if why = cmp.Or(why, s.Refuses()); why != "" {
		return "no task is taken: " + why
	}
	s.with(func(n *hub.Node) { why = n.Money().Foreign() })
	return why
}

// Run replays the journal, then leads the domain whenever it wins the election, until ctx ends; then it
// drains within DrainTimeout and returns nil. It returns an error if the journal refuses anything: what is
// then in memory may never have happened. A hub that is told to end returns nil once its journal is closed,
// and the reason if ctx ends before. It returns an error if its journal is closed, or the treasury has ended
// the hub. It can be called once.
func (s *Server) Run(ctx context.Context) error {
	if s.running.Swap(true) {
		return errors.New("hub: Run was called before")
	}
	return follow.While(ctx, s.deps.Journal.Held, s.run)
}

func (s *Server) run(ctx context.Context) error {
	if err := s.replay(); err != nil {
		return fmt.Errorf("hub %s: journal %s: %w", s.cfg.Domain, s.cfg.Journal, err)
	}
	if !s.deps.Close {
		if !s.closed() {
			if err := s.leadAlways(ctx); err != nil || !s.closed() {
				return err
			}
		}
		return fmt.Errorf("hub %s: journal %s is closed, for this hub has ended: give another one a "+
			"journal of another name", s.cfg.Domain, s.cfg.Journal)
	}
	s.node.Close(time.Now())
	if !s.closed() {
		s.log.Info("the hub ends: it leads its domain once more, after whoever leads it now",
			"journal", s.cfg.Journal)
		if err := s.leadAlways(ctx); err != nil {
			return err
		}
	}
	if !s.closed() {
		return fmt.Errorf("hub %s: journal %s is not closed: %s", s.cfg.Domain, s.cfg.Journal,
			cmp.Or(s.why, "it did not lead its domain"))
	}
	s.log.Info("the hub has ended: its journal is closed", "journal", s.cfg.Journal)
	return nil
}

// leadAlways leads the domain whenever it can, until ctx ends or the journal is closed.
func (s *Server) leadAlways(ctx context.Context) (err error) {
	defer func() { // what the last frames came to
		select {
		case broken := <-s.broken:
			err = errors.Join(err, broken)
		default:
		}
	}()
	defer s.deps.Journal.Follow(func() ledger.Replica { return hub.NewHistory() })()
	s.relearn()
	defer s.remember(ctx)()
	var writer sync.WaitGroup
	writer.Go(s.write)
	defer writer.Wait()
	defer close(s.work)

	e := bus.HubEntry{Domain: s.cfg.Domain, Labels: s.cfg.Labels, General: s.cfg.General,
		Hub: s.cfg.Hub, Journal: s.cfg.Journal, Life: s.deps.Journal.Life()}
	if s.stands.Value, err = bus.EncodeEntry(&e); err != nil {
		return fmt.Errorf("hub %s: %w", s.cfg.Domain, err)
	}
	return s.stands.Lead(ctx, s.standBy, func(ctx context.Context, r follow.Reign) error {
		err := s.lead(ctx, r)
		switch {
		case errors.Is(err, follow.ErrGivesWay) && s.contradicted() != "":
			return s.standBack(ctx)
		case errors.Is(err, bus.ErrLost) && s.closed():
			return nil
		}
		return err
	})
}

// standBack leaves the domain to whoever has a better journal, the hub's own newest or that of one that
// stands by, until ctx ends. What the old journal has open is not settled: agents that it answered would not
// tell the newest.
func (s *Server) standBack(ctx context.Context) error {
	s.why = s.contradicted()
	s.log.Error("the leadership is given back, and this hub stands for it again only when it is started anew",
		"why", s.why)
	if s.deps.Close {
		return nil
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.broken:
		return err
	}
}

func (s *Server) replay() error {
	begin := time.Now()
	if err := s.deps.Journal.Restore(s.node.Past); err != nil {
		return err
	}
	o := s.node.Book().Journal()
	if o.Journal != "" && (o.Journal != s.cfg.Journal || o.Domain != s.cfg.Domain) {
		return fmt.Errorf("it is the journal %s of domain %s: each hub has its own data directory",
			o.Journal, o.Domain)
	}
	var err error
	s.with(func(n *hub.Node) {
		err = n.Restore()
		if j := s.deps.Journal; j.Moved() || j.Confirmed() {
			n.Money().Await(account.WasMoved, !j.Moved())
		}
	})
	// as after each start of the machine: if it lasts, it gives way, and logs it
	if waits := s.doubts().Why; waits != "" {
		s.log.Info(waits)
	}
	if seq, _, _ := s.node.Book().Last(); seq > 0 && err == nil {
		s.log.Info("replayed", "frames", seq, "open_holds", s.node.Book().OpenCount(),
			"took", time.Since(begin).Round(time.Millisecond))
	}
	return err
}

// closed reports whether the journal is closed.
func (s *Server) closed() (is bool) {
	s.with(func(n *hub.Node) { is = n.Book().Closed(s.cfg.Journal) })
	return is
}

// ends reports whether the hub ends, whether its journal is closed, and if not, what it waits for; else what
// agents are due.
func (s *Server) ends() (ending, closed bool, waits string) {
	s.with(func(n *hub.Node) {
		if ending = n.Money().Closing(); ending {
			if closed, waits = n.Book().Closed(s.cfg.Journal), n.Money().Unpaid(); !closed {
				waits = n.Money().Waits()
			}
		}
	})
	return ending, closed, waits
}

// asked notes whether a part of the server has an answer from the registry; each tries again within seconds.
func (s *Server) asked(part, bad string, err error) {
	s.trouble.Note(s.log, part, err == nil, bad+"; trying on", "the registry answers again", "err", err)
}
