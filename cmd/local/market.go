package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	agentserve "souk/agentd/serve"
	"souk/agentd/vllmsim"
	"souk/bus"
	"souk/bus/etcdreg"
	"souk/bus/follow"
	"souk/bus/gateway"
	"souk/bus/natsauth"
	"souk/bus/natsbus"
	"souk/bus/sight"
	door "souk/classifier/serve"
	"souk/cmd/daemon"
	"souk/cmd/replay"
	hubserve "souk/hub/serve"
	"souk/ledger/journal"
	"souk/market"
)

// Options say what to bring up and where.
type Options struct {
	Dir    string // data directory
	Config Config
	Log    *slog.Logger
	Known  []replay.Dialogue // dialogues that the simulated engines answer as recorded
	Within time.Duration     // for the market to stop; zero: StopWithin

	// Patient waits for room on its disk, however long that takes; else a disk without room is an error.
	Patient bool
	Journal journal.Config // of all of its journals, but for Log

	// Connect connects its parts, as [natsbus.Connect] does where nobody says otherwise: for a measurement of
	// what another server beneath them would cost.
	Connect func(natsbus.Config) (*natsbus.Bus, error)
}

const (
	// StopWithin bounds how long a market takes to stop: tasks that run may end, completions are settled.
	StopWithin = 10 * time.Second
	// HTTPShare is which part of that answers over HTTP have to end.
	HTTPShare = 4
	// ReadyWithin bounds how long a market may take to come up; only a real engine that boots comes near it.
	ReadyWithin = 60 * time.Second
)

// Market is a running market.
type Market struct {
	Config Config // with which it was started
	dir    *Dir
	log    *slog.Logger
	within time.Duration
	dial   func(natsbus.Config) (*natsbus.Bus, error)
	ledger journal.Config
	room   func() (free, needed int64) // on the disk of the journals
	State  State                       // where the market is
	Link   *Link                       // speaks to it from inside its process, over NATS like anyone

	Registry *etcdreg.Registry
	Keys     *natsauth.Store // by which all who come to its NATS server are known

	KeyFile, CredsFile string        // the first client's
	sells              chan struct{} // closed once the first deposits stand

	opened  []func() error     // what to close at the end, last first
	parts   []*part            // what runs, in the order in which it is stopped
	whys    []func() string    // of those of them that can say why they are not ready
	Hubs    []*hubserve.Server // in the order of its domains
	Door    *door.Server
	Gateway *gateway.Server            // nil: none
	health  *daemon.Process            // of /metrics and what is beside it
	Node    *agentserve.Server         // of all agents
	heard   *Watcher                   // the hubs
	engines map[string]*vllmsim.Server // simulated ones, by agent

	spans  *sight.Spans    // nil: none
	failed context.Context // ends with the first failure, as its cause
	fail   context.CancelCauseFunc
	closed func() error // m.stop, once
}

// Start brings a market up and returns when it serves. ctx bounds the start alone.
func Start(ctx context.Context, o Options) (*Market, error) {
	if err := o.Config.Validate(); err != nil {
		return nil, err
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Within == 0 {
		o.Within = StopWithin
	}
	if o.Connect == nil {
		o.Connect = natsbus.Connect
	}
	o.Journal.Log = o.Log
	dir, err := OpenDir(o.Dir)
	if err != nil {
		return nil, err
	}
	m := &Market{Config: o.Config, dir: dir, log: o.Log, within: o.Within, dial: o.Connect, ledger: o.Journal,
		engines: map[string]*vllmsim.Server{}, sells: make(chan struct{})}
	m.failed, m.fail = context.WithCancelCause(context.Background())
	m.closed = sync.OnceValue(m.stop)
	m.opened = append(m.opened, dir.Close)
	spans, flush, err := daemon.Trace("market", o.Config.Traces, o.Log)
	m.spans, m.opened = spans, append(m.opened, flush)
	if err == nil {
		err = m.watch()
	}
	if err == nil {
		err = m.begin(ctx, o)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// watch has the market be asked how it is, and measured, until it ends.
func (m *Market) watch() (err error) {
	m.health, err = daemon.Watched("market", m.Config.Health, ListenOrAny, m.log)
	if err != nil {
		return err
	}
	m.opened = append(m.opened, m.health.Close)
	m.ledger.Meter = m.health.Meter()
	m.health.Lacks(func() string {
		if !m.selling() {
			return ""
		}
		return m.unready()
	})
	m.health.Serving(m.sells, func() any { return m.stats() })
	return nil
}

// selling reports whether the market sells, and so has all of its parts.
func (m *Market) selling() bool { return follow.Closed(m.sells) }

// stats are the counts of all parts.
func (m *Market) stats() any {
	var all struct {
		Door    any   `json:"door,omitempty"`
		Gateway any   `json:"gateway,omitempty"`
		Hubs    []any `json:"hubs,omitempty"`
		Node    any   `json:"node,omitempty"`
	}
	if !m.selling() {
		return all
	}
	all.Door, all.Node = m.Door.Stats(), m.Node.Stats()
	if m.Gateway != nil {
		all.Gateway = m.Gateway.Stats()
	}
	for _, h := range m.Hubs {
		all.Hubs = append(all.Hubs, h.Stats())
	}
	return all
}

// begin brings the market up; the wait for room on its disk has a time of its own.
func (m *Market) begin(ctx context.Context, o Options) error {
	within, cancel := context.WithTimeout(ctx, ReadyWithin)
	defer cancel()
	if err := m.start(within, o.Known); err != nil {
		return err
	}
	if err := m.awaitRoom(ctx, o.Patient); err != nil {
		return err
	}
	within, cancel = context.WithTimeout(ctx, ReadyWithin)
	defer cancel()
	return m.open(within)
}

// start brings everything up in the order of what needs what: servers, treasury, door, hubs, agents.
func (m *Market) start(ctx context.Context, known []replay.Dialogue) error {
	nodes, err := m.startEngines(ctx, known)
	if err != nil {
		return err
	}
	nats, registry, err := m.startServers(ctx)
	if err != nil {
		return err
	}
	connect := func(role bus.Role, ids bus.IDs) (*natsbus.Bus, error) {
		creds, err := m.Keys.Member(role, ids)
		if err != nil {
			return nil, err
		}
		return m.dial(natsbus.Config{InProcess: nats, Name: ids.Name, Creds: creds})
	}
	join := func(role bus.Role, ids bus.IDs) (*natsbus.Bus, error) {
		b, err := connect(role, ids)
		if err == nil {
			m.opened = append(m.opened, b.Close)
		}
		return b, err
	}
	m.Registry = registry
	m.Link = newLink(func(role bus.Role, name string) (*natsbus.Bus, error) {
		return connect(role, bus.IDs{Name: name})
	}, bus.RoleGateway, m.State)
	if err := m.Link.open("souk-market"); err != nil {
		return err
	}
	m.opened = append(m.opened, m.Link.Close)
	if m.heard, err = m.Link.Hear(context.Background()); err != nil { // as long as there is the link
		return err
	}
	for _, start := range []func(context.Context, joiner, bus.Registry) error{m.startTreasury, m.startDoor,
		m.startGateway, m.startHubs} {
		if err := start(ctx, join, registry); err != nil {
			return err
		}
	}
	if err := m.startAgents(ctx, join, registry, nodes); err != nil {
		return err
	}
	if _, funded := m.Config.Clients[FirstClient]; funded {
		if err := m.firstCreds(); err != nil {
			return err
		}
	}
	// The parts stop in the order of the flow: no new tasks, then what runs ends, then it is settled.
	m.parts = inOrder(m.parts, "gateway", "door", "agents", "hub", "treasury")
	return nil
}

// lookEvery is how often the disk is checked while it lacks room, and a part asked why it is not ready.
const lookEvery = 250 * time.Millisecond

// awaitRoom waits until the disk has room for new money. Meanwhile what was in hand at the last stop is
// settled, and other commands find the market and hear why it takes nothing.
func (m *Market) awaitRoom(ctx context.Context, patient bool) error {
	free, needed := m.room()
	if free >= needed {
		return nil
	}
	const mb = 1 << 20
	if !patient {
		return fmt.Errorf("the disk of %s has %d MB free, and no task and no money is taken below %d MB: free "+
			"some space", m.dir.Path, free/mb, needed/mb)
	}
	m.log.Warn("the market waits for room on its disk, and takes no task and no money until then: free some "+
		"space", "data", m.dir.Path, "free_mb", free/mb, "needed_mb", needed/mb)
	if err := m.dir.Publish(m.State); err != nil {
		m.log.Warn("other commands do not find the market yet", "err", err)
	}
	look := time.Tick(lookEvery)
	for free < needed {
		select {
		case <-look:
		case <-m.failed.Done():
			return m.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		free, needed = m.room()
	}
	return nil
}

// open waits until the market sells, and makes the first deposits and the first client's key.
func (m *Market) open(ctx context.Context) error {
	want := map[string]int{} // agents that each domain's hub will sell
	for _, a := range m.Config.Agents {
		want[a.Scores[0].Domain]++
	}
	sold := until(ctx, func() bool { return m.heard.sells(want) })
	if err := m.await(ctx, "the hubs have their agents", sold, m.unready); err != nil {
		return err
	}
	// The door listens for itself, and sends nobody to a hub of which it last heard that it has no agents.
	known := until(ctx, func() bool { return len(m.Door.Stats().Selling) >= len(want) })
	if err := m.await(ctx, "the door has heard of them", known, m.unready); err != nil {
		return err
	}
	deposits := map[string]market.Credits{}
	for _, d := range m.Config.Domains {
		c, err := m.Config.hub(d)
		if err != nil {
			return err
		}
		deposits[bus.ProberOf(c.Domain)] = Probes
	}
	maps.Copy(deposits, m.Config.Clients)
	for _, id := range slices.Sorted(maps.Keys(deposits)) {
		if _, err := m.Link.Fund(ctx, id, deposits[id], "opening-"+id); err != nil {
			if bus.CodeOf(err) != bus.CodeIDConflict { // another amount than at the first start: made already
				return fmt.Errorf("fund %s: %w", id, err)
			}
			m.log.Info("deposit was made already", "client", id)
		}
	}
	if _, funded := m.Config.Clients[FirstClient]; funded && m.Gateway != nil {
		if err := m.firstKey(ctx, m.Registry); err != nil { // who finds it has money
			return err
		}
	}
	close(m.sells)
	return m.dir.Publish(m.State)
}

// Probes is each hub's default sum for texts that it puts on idle engines. It is enough for thousands of long
// prompts.
const Probes = market.Credit / 10

// Ask asks one task; see [Link.Ask].
func (m *Market) Ask(ctx context.Context, t bus.Task) (replay.Answer, error) {
	return m.Link.Ask(ctx, t)
}

// AskWith asks one task and shows every chunk; see [Link.AskWith].
func (m *Market) AskWith(ctx context.Context, t bus.Task, each func(bus.Chunk)) (replay.Answer, error) {
	return m.Link.AskWith(ctx, t, each)
}

// Engine is the simulated engine of an agent, nil if it has a real one; to make it fail.
func (m *Market) Engine(agent string) *vllmsim.Server { return m.engines[agent] }

// Free is the number of free slots that the hubs published last.
func (m *Market) Free() (n int) {
	for _, h := range m.heard.Hubs() {
		n += h.Status.Free
	}
	return n
}

// until returns what is closed once something is so, unless ctx ends before.
func until(ctx context.Context, is func() bool) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		for !is() {
			if !follow.Pause(ctx, time.Millisecond) {
				return
			}
		}
		close(done)
	}()
	return done
}
