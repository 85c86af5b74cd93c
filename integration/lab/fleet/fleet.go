package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"souk/bus"
	"souk/bus/bustest/proxy"
	"souk/bus/follow"
	"souk/bus/natsauth"
	"souk/cmd/parts"
	"souk/ledger"
	"souk/market"
)

// Plan says which parts a fleet has. Texts are YAML, one field a line, added to the part's section of its
// file.
type Plan struct {
	Bin string // directory of the commands
	Dir string // an empty directory: files, data, logs
	// a hub for each; the first takes what has no hub of its own, the second mathematics
	Domains []string
	Agents  int           // each with an engine and a node of its own; they join the hubs in turn
	Slots   int           // of each
	Profile string        // of the engines; "" = steady
	Grace   time.Duration // what a hold lives beyond its task; 0 = 4 s
	Slowest time.Duration // most time between two tokens that a hub reckons with; 0 = 40 ms
	Speedup float64       // of the engines: at 1 a steady one gives a token each ten milliseconds
	// of each engine's cache, and each publishes what becomes of them; 0 = many, and none does
	Blocks int
	// that each engine serves beside its model and keeps one of ready, each sold by an agent of its node:
	// "agent-N-ADAPTER"
	Adapters []string

	Treasury, Hub, Door, Agentd string
	HubOf                       map[string]string  // more for the hub of a domain
	AgentOf                     func(n int) string // and for agent n; may be nil
	// names of parts that reach NATS and etcd, and of nodes that reach their engine, through proxies
	Proxied  []string
	Clients  map[string]market.Credits
	Vanished map[string]bool // clients whom nobody can ask what they were told
	Prepare  func(*Fleet)    // before anything is started
}

// Part is one process of a fleet.
type Part = parts.Part

// Fleet is a market of processes.
type Fleet struct {
	Plan
	NATS, Etcd string // host:port
	Data       string
	Keys       *natsauth.Store

	mu      sync.Mutex
	parts   []*Part
	proxies []*proxy.Proxy
	links   map[string]*Links
	closers []func() error
}

// Links are the connections of one part, each by a proxy.
type Links struct{ NATS, Etcd, Engine *proxy.Proxy }

// Names of parts. Hubs are "hub-DOMAIN", nodes "agentd-N" and engines "engine-N", counted from 1; agent
// "agent-N" is on "agentd-N".
const (
	NATS       = "nats"
	Etcd       = "etcd"
	Treasury   = "treasury"
	Classifier = "classifier"
)

// Model is the model of all engines, with one seed: an answer that goes on elsewhere stays the same.
const Model = "gpt-oss-20b"

// StopWithin is the time that a part gets to end well: more than any promises, as machines may be slow.
const StopWithin = 60 * time.Second

// Start writes the files, starts every part and waits until all are ready and the hubs sell every agent.
func Start(ctx context.Context, p Plan) (*Fleet, error) {
	f := &Fleet{Plan: p, Data: filepath.Join(p.Dir, "data"), links: map[string]*Links{}}
	for _, dir := range []string{"conf", "log", "data"} {
		if err := os.MkdirAll(filepath.Join(p.Dir, dir), 0o700); err != nil {
			return nil, err
		}
	}
	if err := f.start(ctx); err != nil {
		f.Kill()
		return nil, err
	}
	return f, nil
}

func (f *Fleet) start(ctx context.Context) error {
	f.NATS, f.Etcd = port(), port()
	var err error
	if f.Keys, err = natsauth.Init(natsauth.Dir(f.Data)); err != nil {
		return err
	}
	if f.Prepare != nil {
		f.Prepare(f)
	}
	stages := [][]func() (*Part, error){{
		func() (*Part, error) {
			return f.Add(NATS, "", fmt.Sprintf("infra: {nats: %q, etcd: none}\ndata: %s\n", f.NATS, f.Data),
				"souk", "infra")
		},
		func() (*Part, error) {
			return f.Add(Etcd, "", fmt.Sprintf("infra: {nats: none, etcd: %q}\ndata: %s\n", f.Etcd, f.Data),
				"souk", "infra")
		},
	}, {
		func() (*Part, error) {
			return f.Add(Treasury, f.market(Treasury, bus.RoleTreasury, bus.IDs{Name: ledger.Treasury}),
				fmt.Sprintf("data: %s\nlease_ttl: 5s\ntreasury:\n  drain: 5s\n%s", f.Data, f.Treasury),
				"treasury")
		},
	}, {}}
	for i := range max(1, f.Agents) {
		stages[0] = append(stages[0], func() (*Part, error) { return f.AddEngine(i + 1) })
	}
	for i, d := range f.Domains {
		stages[2] = append(stages[2], func() (*Part, error) {
			return f.AddHub("hub-"+d, d, i == 0, f.Hub+f.HubOf[d])
		})
	}
	for i := range f.Agents {
		stages[2] = append(stages[2], func() (*Part, error) { return f.AddAgentd(i+1, f.Agentd) })
	}
	stages[2] = append(stages[2], func() (*Part, error) {
		return f.Add(Classifier, f.market(Classifier, bus.RoleDoor, bus.IDs{Name: "door-1"}),
			"classifier:\n  id: door-1\n  general: "+f.Domains[0]+"\n  drain: 10s\n"+f.Door, "classifier")
	})
	for _, stage := range stages {
		var parts []*Part
		for _, add := range stage {
			p, err := add()
			if err == nil {
				err = p.Start()
			}
			if err != nil {
				return err
			}
			parts = append(parts, p)
		}
		for _, p := range parts {
			if err := p.Ready(ctx); err != nil {
				return err
			}
		}
	}
	if err := f.fund(ctx); err != nil {
		return err
	}
	agents := f.Agents * (1 + len(f.Adapters))
	if err := f.Sold(ctx, agents); err != nil {
		return err
	}
	if err := f.known(ctx); err != nil {
		return err
	}
	return f.Sold(ctx, agents) // by the next status: the door has the one before, of which we heard
}

// known waits until the door has heard of every hub.
func (f *Fleet) known(ctx context.Context) error {
	for {
		var stats struct{ Market []string }
		if err := f.Part(Classifier).Stats(ctx, &stats); err == nil && len(stats.Market) >= len(f.Domains) {
			return nil
		}
		if !follow.Pause(ctx, 10*time.Millisecond) {
			return fmt.Errorf("the door knows %v of %v: %w", stats.Market, f.Domains, ctx.Err())
		}
	}
}

// market is the section that says where NATS and etcd are for a part, and who it is there.
func (f *Fleet) market(name string, role bus.Role, ids bus.IDs) string {
	creds, err := f.Keys.Ensure(role, ids, time.Now())
	if err != nil {
		panic(err) // a disk of a test is full
	}
	nats, etcd := f.NATS, f.Etcd
	if l := f.Links(name); l != nil {
		nats, etcd = l.NATS.Addr(), l.Etcd.Addr()
	}
	return fmt.Sprintf("market: {nats: \"nats://%s\", etcd: [%q], creds: %q}\n", nats, etcd, creds)
}

// Links returns the proxies of a part that the plan names; nil for others.
func (f *Fleet) Links(name string) *Links {
	if !slices.Contains(f.Proxied, name) {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.links[name]; l != nil {
		return l
	}
	l := &Links{NATS: f.proxy(f.NATS), Etcd: f.proxy(f.Etcd)}
	f.links[name] = l
	return l
}

// proxy needs the lock.
func (f *Fleet) proxy(target string) *proxy.Proxy {
	p, err := proxy.New(target)
	if err != nil {
		panic(err) // no port of loopback is free
	}
	f.proxies = append(f.proxies, p)
	return p
}

// Add makes a part of a daemon with a file, and does not start it.
func (f *Fleet) Add(name, marketAt, text string, command ...string) (*Part, error) {
	health := port()
	path := filepath.Join(f.Dir, "conf", name+".yaml")
	text = fmt.Sprintf("%shealth: {listen: %q}\nlog: {level: %s}\n%s", marketAt, health,
		cmp.Or(os.Getenv("SOUK_FLEET_LOG"), "info"), text)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, err
	}
	args := append([]string{filepath.Join(f.Bin, command[0])}, command[1:]...)
	return f.AddPart(&Part{Name: name, Args: append(args, "--config", path), Health: health}), nil
}

// AddPart takes a part in whose command and health are given.
func (f *Fleet) AddPart(p *Part) *Part {
	p.Log, p.ReadyAt = filepath.Join(f.Dir, "log", p.Name+".log"), cmp.Or(p.ReadyAt, "/readyz")
	f.mu.Lock()
	defer f.mu.Unlock()
	f.parts = append(f.parts, p)
	return p
}

// AddEngine makes the part of engine n.
func (f *Fleet) AddEngine(n int) (*Part, error) {
	address := port()
	_, at, _ := net.SplitHostPort(address)
	args := []string{filepath.Join(f.Bin, "souk"), "engine", "--port", at, "--model", Model, "--profile",
		cmp.Or(f.Profile, "steady"), "--speedup", fmt.Sprint(cmp.Or(f.Speedup, 1)), "--admin"}
	if f.Blocks > 0 {
		const size = 16 // tokens of a block
		args = append(args, "--num-gpu-blocks-override", fmt.Sprint(f.Blocks), "--max-model-len",
			fmt.Sprint(min(8192, (f.Blocks-1)*size)), "--kv-events-config",
			fmt.Sprintf(`{"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "ipc://%s/kv-%d", `+
				`"replay_endpoint": "ipc://%s/again-%d"}`, f.Dir, n, f.Dir, n))
	}
	if len(f.Adapters) > 0 {
		args = append(args, "--lora-modules", strings.Join(f.Adapters, ","), "--max-cpu-loras", "1",
			"--sim-adapter-load", "20ms")
	}
	return f.AddPart(&Part{Name: fmt.Sprintf("engine-%d", n), Health: address, ReadyAt: "/health",
		Args: args}), nil
}

// AddHub makes the part of a hub. Its journal is called after it, so that a second hub of a domain has its
// own.
func (f *Fleet) AddHub(name, domain string, general bool, more string) (*Part, error) {
	who := bus.IDs{Name: name, Domain: domain}
	return f.Add(name, f.market(name, bus.RoleHub, who), f.hubText(name, domain, general, more), "hub")
}

func (f *Fleet) hubText(name, domain string, general bool, more string) string {
	labels := "[general, humanities, social, law, medicine, code, math, science, finance]"
	if len(f.Domains) > 1 {
		labels = "[general, humanities, social, law, medicine, code]"
	}
	if !general {
		labels = "[math, science, finance]"
	}
	// Holds of a hub that died, and of tasks that no agent got, end by their own time: seconds rather than
	// minutes.
	return fmt.Sprintf("data: %s\nhub:\n  domain: %s\n  hub: %s\n  journal: %s\n  labels: %s\n  general: "+
		"%t\n  drain_timeout: 20s\n  hold_grace: %v\n  slowest_itl: %v\n%s",
		f.Data, domain, name, name, labels, general, cmp.Or(f.Grace, 4*time.Second),
		cmp.Or(f.Slowest, 40*time.Millisecond), more)
}

// AddAgentd makes the part of node n, which sells engine n as agent-n.
func (f *Fleet) AddAgentd(n int, more string) (*Part, error) {
	name := fmt.Sprintf("agentd-%d", n)
	who := bus.IDs{Name: name, Agents: []string{fmt.Sprintf("agent-%d", n)}}
	for _, a := range f.Adapters {
		who.Agents = append(who.Agents, who.Agents[0]+"-"+a)
	}
	return f.Add(name, f.market(name, bus.RoleAgentd, who), f.agentdText(n, more), "agentd")
}

func (f *Fleet) agentdText(n int, more string) string {
	engine := f.Part(fmt.Sprintf("engine-%d", n)).Health
	if l := f.Links(fmt.Sprintf("agentd-%d", n)); l != nil {
		f.mu.Lock()
		if l.Engine == nil {
			l.Engine = f.proxy(engine)
		}
		f.mu.Unlock()
		engine = l.Engine.Addr()
	}
	domain, agent := f.Domains[(n-1)%len(f.Domains)], ""
	if f.AgentOf != nil {
		agent = f.AgentOf(n)
	}
	text := fmt.Sprintf(`data: %s
agentd:
  node: node-%d
  drain_timeout: 20s
  settle_timeout: 10s
%s  agents:
`, f.Data, n, more)
	for _, sold := range append([]string{Model}, f.Adapters...) {
		id, ready := fmt.Sprint("agent-", n), ""
		if sold != Model {
			id += "-" + sold
		}
		if len(f.Adapters) > 0 {
			ready = ", adapters: 1"
		}
		text += fmt.Sprintf(`    - id: %s
      engine: {url: "http://%s"%s}
      model: %s
      scale: 20
      domains: [{domain: %s, score: 0.7}]
      slots: %d
      price: {miss: 0.075, hit: 0.0375, out: 0.30}
%s`, id, engine, ready, sold, domain, cmp.Or(f.Slots, 4), agent)
	}
	return text
}

func (f *Fleet) onClose(g func() error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closers = append(f.closers, g)
}

// Part returns the part of that name.
func (f *Fleet) Part(name string) *Part {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.parts {
		if p.Name == name {
			return p
		}
	}
	panic("fleet: there is no part " + name)
}

// Parts are all parts, in the order in which they were added.
func (f *Fleet) Parts() []*Part {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.parts)
}

// Sold waits until the hubs sell so many agents with a free slot in all.
func (f *Fleet) Sold(ctx context.Context, agents int) error {
	b, err := f.connect(bus.RoleViewer, "look", f.NATS)
	if err != nil {
		return err
	}
	defer b.Close()
	return sold(ctx, b, agents)
}

// Stop ends every part, the door first and the servers last, as an operator would. Its error names each that
// did not end well.
func (f *Fleet) Stop() error {
	f.mu.Lock()
	closers := f.closers
	f.closers = nil
	f.mu.Unlock()
	var errs []error
	for _, g := range slices.Backward(closers) {
		errs = append(errs, g())
	}
	for _, prefix := range []string{Classifier, "agentd", "hub", Treasury, "engine", Etcd, NATS} {
		var wg sync.WaitGroup
		var mu sync.Mutex
		for _, p := range f.Parts() {
			if strings.HasPrefix(p.Name, prefix) {
				wg.Go(func() {
					err := p.Stop(StopWithin)
					mu.Lock()
					defer mu.Unlock()
					errs = append(errs, err)
				})
			}
		}
		wg.Wait()
	}
	f.closeProxies()
	return errors.Join(errs...)
}

func (f *Fleet) closeProxies() {
	f.mu.Lock()
	proxies := f.proxies
	f.proxies = nil
	f.mu.Unlock()
	for _, p := range proxies {
		p.Close()
	}
}

// Kill ends every part at once.
func (f *Fleet) Kill() {
	for _, p := range f.Parts() {
		if p.Alive() {
			_ = p.Kill() // an error means that it has ended
		}
	}
	f.closeProxies()
}
