package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"souk/agentd"
	agentserve "souk/agentd/serve"
	"souk/agentd/vllm"
	"souk/bus"
	"souk/bus/embedded"
	"souk/bus/etcdreg"
	"souk/bus/gateway"
	"souk/bus/natsauth"
	"souk/bus/natsbus"
	"souk/classifier"
	door "souk/classifier/serve"
	"souk/hub"
	hubserve "souk/hub/serve"
	"souk/integration/replay"
	"souk/integration/vllmsim"
	"souk/ledger"
	"souk/ledger/journal"
	"souk/ledger/treasury"
	bank "souk/ledger/treasury/serve"
	"souk/market"
)

// Options say what to bring up and where.
type Options struct {
	Dir    string // data directory
	Config Config
	Log    *slog.Logger
	Known  []replay.Dialogue // dialogues that the simulated engines answer as recorded
	Within time.Duration     // for the market to stop; zero: StopWithin
}

const (
	// StopWithin bounds how long a market takes to stop: tasks that run may end, completions are settled.
	StopWithin = 10 * time.Second
	// ReadyWithin bounds how long a market may take to come up; only a real engine that boots comes near it.
	ReadyWithin = 60 * time.Second
)

// Market is a running market.
type Market struct {
	cfg    Config
	dir    *Dir
	log    *slog.Logger
	within time.Duration
	state  State
	link   *Link

	registry *etcdreg.Registry
	keys     *natsauth.Store

	keyFile, credsFile string // the first client's

	opened   []func() error // what to close at the end, last first
	parts    []*part        // what runs, in the order in which it is stopped
	hubs     []*hubserve.Server
	door     *door.Server
	gateway  *gateway.Server
	node     *agentserve.Server
	statuses *statuses
	engines  map[string]*vllmsim.Server // simulated ones, by agent

	failOnce  sync.Once
	failed    chan struct{}
	failure   error
	closeOnce sync.Once
	closeErr  error
}

// part is one of the market's servers as it runs.
type part struct {
	name string
	stop context.CancelFunc
	done chan struct{}
	err  error // once done is closed
}

// server is what every part of the market has.
type server interface {
	Run(ctx context.Context) error
	Ready() <-chan struct{}
}

// Start brings a market up and returns when it serves. ctx bounds the start alone.
func Start(ctx context.Context, o Options) (*Market, error) {
	if err := o.Config.Validate(); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Within == 0 {
		o.Within = StopWithin
	}
	if o.Config.bundles() {
		o.Log.Warn("bundle_tokens is ignored: tasks are placed one by one now; take it out of the file")
	}
	ctx, cancel := context.WithTimeout(ctx, ReadyWithin)
	defer cancel()
	dir, err := OpenDir(o.Dir)
	if err != nil {
		return nil, err
	}
	m := &Market{cfg: o.Config, dir: dir, log: o.Log, within: o.Within, failed: make(chan struct{}),
		statuses: newStatuses(), engines: map[string]*vllmsim.Server{}}
	m.opened = append(m.opened, dir.Close)
	if err := m.start(ctx, o.Known); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
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
		creds, err := m.keys.Member(role, ids)
		if err != nil {
			return nil, err
		}
		return natsbus.Connect(natsbus.Config{InProcess: nats, Name: ids.Name, Creds: creds})
	}
	join := func(role bus.Role, ids bus.IDs) (*natsbus.Bus, error) {
		b, err := connect(role, ids)
		if err == nil {
			m.opened = append(m.opened, b.Close)
		}
		return b, err
	}
	m.registry = registry
	m.link = newLink(func(role bus.Role, name string) (*natsbus.Bus, error) {
		return connect(role, bus.IDs{Name: name})
	}, bus.RoleGateway, m.state)
	if err := m.link.open("souk-market"); err != nil {
		return err
	}
	m.opened = append(m.opened, m.link.Close)
	if err := m.statuses.listen(m.link.bus); err != nil {
		return err
	}
	if err := m.startTreasury(ctx, join, registry); err != nil {
		return err
	}
	if err := m.startDoor(ctx, join, registry); err != nil {
		return err
	}
	if err := m.startGateway(ctx, join, registry); err != nil {
		return err
	}
	if err := m.startHubs(ctx, join, registry); err != nil {
		return err
	}
	if err := m.startAgents(ctx, join, registry, nodes); err != nil {
		return err
	}
	if _, funded := m.cfg.Clients[FirstClient]; funded {
		if err := m.firstCreds(); err != nil {
			return err
		}
	}
	// The parts stop in the order of the flow: no new tasks, then what runs ends, then it is settled.
	m.parts = inOrder(m.parts, "gateway", "door", "agents", "hub", "treasury")
	if err := m.await(ctx, "the hubs have their agents", m.statuses.complete(m.expected())); err != nil {
		return err
	}
	// The door listens for itself, and sends nobody to a hub of which it last heard that it has no agents.
	if err := m.await(ctx, "the door has heard of them", m.doorSells(ctx)); err != nil {
		return err
	}
	deposits := map[string]market.Credits{}
	for _, d := range m.cfg.Domains {
		deposits[m.cfg.hub(d).Prober()] = Probes
	}
	maps.Copy(deposits, m.cfg.Clients)
	for _, id := range slices.Sorted(maps.Keys(deposits)) {
		if _, err := m.Fund(ctx, id, deposits[id], "opening-"+id); err != nil {
			if bus.CodeOf(err) != bus.CodeIDConflict { // another amount than at the first start: made already
				return fmt.Errorf("fund %s: %w", id, err)
			}
			m.log.Info("deposit was made already", "client", id)
		}
	}
	return m.dir.Publish(m.state)
}

// Probes is what each hub has for texts that it puts on idle engines, unless the file says another sum. It is
// enough for thousands of long prompts.
const Probes = market.Credit / 10

// startServers runs NATS and etcd on loopback.
func (m *Market) startServers(ctx context.Context) (*embedded.NATS, *etcdreg.Registry, error) {
	if err := m.openKeys(); err != nil {
		return nil, nil, err
	}
	auth, err := m.keys.Server()
	if err != nil {
		return nil, nil, err
	}
	nats, err := embedded.StartNATS(embedded.NATSConfig{Listen: m.cfg.Listen, OrAny: true, Auth: auth,
		Log: m.log})
	if err != nil {
		return nil, nil, err
	}
	m.opened = append(m.opened, func() error { nats.Close(); return nil })
	host, port, err := net.SplitHostPort(m.cfg.Listen)
	if err != nil {
		return nil, nil, err
	}
	listen := net.JoinHostPort(host, "2379")
	if port == "0" {
		listen = net.JoinHostPort(host, "0")
	}
	log, hush := Hushable(m.log)
	files, err := natsauth.ServerCert(m.keys.Dir(), nil, time.Now())
	if err != nil {
		return nil, nil, err
	}
	etcd, err := embedded.StartEtcd(embedded.EtcdConfig{Dir: m.dir.Path(), Listen: listen, OrAny: true,
		TLS: files, Log: log})
	if err != nil {
		return nil, nil, err
	}
	m.opened = append(m.opened, func() error {
		hush()
		return etcd.Close()
	})
	// of a market that was killed, or was of several processes: this directory is ours alone
	if err := errors.Join(etcd.Unlock(ctx), etcd.RevokeLeases(ctx)); err != nil {
		return nil, nil, err
	}
	m.opened = append(m.opened, Tend(m.keys, nil, nil, m.log))
	registry, err := etcdreg.FromClient(etcd.Client())
	if err != nil {
		return nil, nil, err
	}
	m.state = State{Version: 1, PID: os.Getpid(), NATS: nats.URL(), Etcd: "https://" + etcd.Endpoint(),
		Started: time.Now().UTC()}
	for _, d := range m.cfg.Domains {
		m.state.Domains = append(m.state.Domains, d.Name)
	}
	for _, a := range m.cfg.Agents {
		m.state.Agents = append(m.state.Agents, a.ID)
	}
	return nats, registry, nil
}

// joiner connects a part of the market, until the market ends.
type joiner func(role bus.Role, ids bus.IDs) (*natsbus.Bus, error)

func (m *Market) openJournal(name string) (*journal.Journal, error) {
	j, err := journal.Open(m.dir.Journal(name), journal.Config{Log: m.log})
	if err == nil {
		m.opened = append(m.opened, j.Close)
	}
	return j, err
}

func (m *Market) startTreasury(ctx context.Context, join joiner, registry bus.Registry) error {
	j, err := m.openJournal(ledger.Treasury)
	if err != nil {
		return err
	}
	b, err := join(bus.RoleTreasury, bus.IDs{Name: ledger.Treasury})
	if err != nil {
		return err
	}
	s, err := bank.New(treasury.Default(), bank.Deps{Bus: b, Registry: registry, Journal: j, Log: m.log})
	if err != nil {
		return err
	}
	return m.run(ctx, "treasury", s)
}

func (m *Market) startDoor(ctx context.Context, join joiner, registry bus.Registry) error {
	b, err := join(bus.RoleDoor, bus.IDs{Name: "door"})
	if err != nil {
		return err
	}
	c := classifier.Default()
	c.ID, c.Drain = "door", m.within/2
	for _, d := range m.cfg.Domains {
		if d.General {
			c.General = d.Labels[0]
			if slices.Contains(d.Labels, classifier.Default().General) {
				c.General = classifier.Default().General
			}
		}
	}
	if m.door, err = door.New(c, door.Deps{Bus: b, Registry: registry, Log: m.log}); err != nil {
		return err
	}
	return m.run(ctx, "door", m.door)
}

// startGateway opens the market to clients over HTTP, and makes the first client's key.
func (m *Market) startGateway(ctx context.Context, join joiner, registry bus.Registry) error {
	if m.cfg.HTTPAddress() == "" {
		return nil
	}
	b, err := join(bus.RoleGateway, bus.IDs{Name: "gateway"})
	if err != nil {
		return err
	}
	l, err := listenOrAny(m.cfg.HTTPAddress())
	if err != nil {
		return fmt.Errorf("http: %w", err)
	}
	c := gateway.Default()
	c.ID, c.Drain = "gateway", m.within/4
	m.gateway, err = gateway.New(c, gateway.Deps{Bus: b, Registry: registry, Listener: l, Log: m.log})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	m.state.HTTP = "http://" + l.Addr().String()
	if _, funded := m.cfg.Clients[FirstClient]; funded {
		if err := m.firstKey(ctx, registry); err != nil {
			return errors.Join(err, l.Close())
		}
	}
	return m.run(ctx, "gateway", m.gateway)
}

// listenOrAny listens on an address, or on any port where that is taken.
func listenOrAny(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		host, _, _ := net.SplitHostPort(address)
		return net.Listen("tcp", net.JoinHostPort(host, "0"))
	}
	return l, err
}

func (m *Market) startHubs(ctx context.Context, join joiner, registry bus.Registry) error {
	var servers []server
	for _, d := range m.cfg.Domains {
		b, err := join(bus.RoleHub, bus.IDs{Name: d.Name, Domain: d.Name})
		if err != nil {
			return err
		}
		j, err := m.openJournal(d.Name)
		if err != nil {
			return err
		}
		c := m.cfg.hub(d)
		c.DrainTimeout = m.within / 4
		s, err := hubserve.New(c, hubserve.Deps{Bus: b, Registry: registry, Journal: j, Log: m.log,
			Learned: m.dir.Learned(d.Name)})
		if err != nil {
			return err
		}
		m.hubs = append(m.hubs, s)
		servers = append(servers, s)
	}
	return m.run(ctx, "hub", servers...)
}

// Rule is how a domain's rounds are priced and settled.
func (c Config) Rule(d Domain) hub.Rule { return c.hub(d).Rule }

// hub is one domain's hub as the market's rules want it.
func (c Config) hub(d Domain) hub.Config {
	h := hub.Default()
	h.Domain, h.Hub, h.Journal, h.Labels, h.General = d.Name, d.Name+"-1", d.Name, d.Labels, d.General
	c.Market.apply(&h)
	d.Market.apply(&h)
	return h
}

// apply sets what the rules say of a hub.
func (r Rules) apply(h *hub.Config) {
	if r.MaxBatch > 0 {
		h.Batch.MaxBatch = r.MaxBatch
	}
	if r.MaxWait > 0 {
		h.Batch.MaxWait = r.MaxWait
	}
	if r.Eager != nil {
		h.Batch.Eager = *r.Eager
	}
	if r.Fee > 0 {
		h.Fee = r.Fee
	}
	if r.SolveLimit != 0 {
		h.SolveLimit = r.SolveLimit
	}
	m := bus.MarketConfig{Pricing: r.Pricing, Settle: r.Settle, Clarke: r.Clarke, Tariffs: r.Tariffs,
		Ceilings: r.Ceilings}
	if r.Ceiling != 0 {
		m.Ceiling = &r.Ceiling
	}
	h.Rule = h.Rule.Overlay(&m)
}

func (m *Market) startAgents(ctx context.Context, join joiner, registry bus.Registry,
	agents []agentd.AgentConfig) error {
	ids := bus.IDs{Name: "agentd"}
	for _, a := range agents {
		ids.Agents = append(ids.Agents, a.ID)
	}
	b, err := join(bus.RoleAgentd, ids)
	if err != nil {
		return err
	}
	c := agentd.Default()
	c.Agents, c.DrainTimeout, c.SettleTimeout = agents, m.within/2, m.within/4
	m.node, err = agentserve.NewServer(c, agentserve.Deps{
		Bus: b, Registry: registry, Log: m.log,
		Engine: func(e agentd.EngineConfig) agentd.Engine { return vllm.New(e) },
	})
	if err != nil {
		return err
	}
	return m.run(ctx, "agents", m.node)
}

// run starts servers of one kind and waits until they are ready.
func (m *Market) run(ctx context.Context, name string, servers ...server) error {
	for _, s := range servers {
		life, stop := context.WithCancel(context.Background())
		p := &part{name: name, stop: stop, done: make(chan struct{})}
		m.parts = append(m.parts, p)
		go func() {
			defer close(p.done)
			if p.err = s.Run(life); p.err != nil {
				p.err = fmt.Errorf("%s: %w", name, p.err)
				m.fail(p.err)
			} else if life.Err() == nil {
				m.fail(fmt.Errorf("%s: ended by itself", name))
			}
		}()
	}
	for _, s := range servers {
		if err := m.await(ctx, name+" is ready", s.Ready()); err != nil {
			return err
		}
	}
	return nil
}

// await waits for something, or for the first failure.
func (m *Market) await(ctx context.Context, what string, ready <-chan struct{}) error {
	select {
	case <-ready:
		return nil
	case <-m.failed:
		return m.failure
	case <-ctx.Done():
		return fmt.Errorf("the market did not come up: waited until %s: %w", what, context.Cause(ctx))
	}
}

func (m *Market) fail(err error) {
	m.failOnce.Do(func() {
		m.failure = err
		close(m.failed)
	})
}

// Failed is closed when a part of the market has ended by itself; Err says which and why.
func (m *Market) Failed() <-chan struct{} { return m.failed }

// Err is why the market failed, or nil.
func (m *Market) Err() error {
	select {
	case <-m.failed:
		return m.failure
	default:
		return nil
	}
}

// Close stops the market within [Options].Within: no new tasks, those that run may end, completions are
// settled.
func (m *Market) Close() error {
	m.closeOnce.Do(func() {
		var errs []error
		for i, p := range m.parts {
			p.stop()
			if i+1 == len(m.parts) || m.parts[i+1].name != p.name {
				for _, same := range m.parts[:i+1] {
					<-same.done
				}
			}
		}
		for _, p := range m.parts {
			if p.err != nil && p.err != m.Err() {
				errs = append(errs, p.err)
			}
		}
		for _, closeIt := range slices.Backward(m.opened) {
			if err := closeIt(); err != nil {
				errs = append(errs, err)
			}
		}
		m.closeErr = errors.Join(errs...)
	})
	return m.closeErr
}

// inOrder sorts parts by name, in the order given.
func inOrder(parts []*part, names ...string) []*part {
	slices.SortStableFunc(parts, func(a, b *part) int {
		return slices.Index(names, a.name) - slices.Index(names, b.name)
	})
	return parts
}

// State says where the market is.
func (m *Market) State() State { return m.state }

// Config is what the market was started with.
func (m *Market) Config() Config { return m.cfg }

// Link speaks to the market from inside its process, over NATS like anyone.
func (m *Market) Link() *Link { return m.link }

// Hubs are the market's hubs, in the order of its domains, for their counts.
func (m *Market) Hubs() []*hubserve.Server { return m.hubs }

// Door is the market's classifier, for its counts.
func (m *Market) Door() *door.Server { return m.door }

// Gateway is the market's door for HTTP, for its counts; nil if it has none.
func (m *Market) Gateway() *gateway.Server { return m.gateway }

// Registry is the market's registry.
func (m *Market) Registry() bus.Registry { return m.registry }

// KeyFile is where the first client's key for HTTP is; "" if it has none.
func (m *Market) KeyFile() string { return m.keyFile }

// CredsFile is where the first client's creds for NATS are; "" if it has none.
func (m *Market) CredsFile() string { return m.credsFile }

// Keys are the market's, by which all who come to its NATS server are known.
func (m *Market) Keys() *natsauth.Store { return m.keys }

// Ask asks one task; see [Link.Ask].
func (m *Market) Ask(ctx context.Context, t bus.Task) (replay.Answer, error) {
	return m.link.Ask(ctx, t)
}

// AskWith asks one task and shows every chunk; see [Link.AskWith].
func (m *Market) AskWith(ctx context.Context, t bus.Task, each func(bus.Chunk)) (replay.Answer, error) {
	return m.link.AskWith(ctx, t, each)
}

// Fund deposits for a client; see [Link.Fund].
func (m *Market) Fund(ctx context.Context, client string, amount market.Credits, id string) (bus.FundsReply,
	error) {
	return m.link.Fund(ctx, client, amount, id)
}

// Engine is the simulated engine of an agent, nil if it has a real one; to make it fail.
func (m *Market) Engine(agent string) *vllmsim.Server { return m.engines[agent] }

// Free is the number of free slots that the hubs published last.
func (m *Market) Free() int { return m.statuses.free() }

// doorSells is closed once the door knows of agents in every domain that will have any.
func (m *Market) doorSells(ctx context.Context) <-chan struct{} {
	want, done := m.expected(), make(chan struct{})
	go func() {
		t := time.NewTicker(time.Millisecond)
		defer t.Stop()
		for len(m.door.Stats().Selling) < len(want) {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
		}
		close(done)
	}()
	return done
}

// expected is how many agents each domain's hub will sell.
func (m *Market) expected() map[string]int {
	n := map[string]int{}
	for _, a := range m.cfg.Agents {
		n[a.Scores[0].Domain]++
	}
	return n
}
