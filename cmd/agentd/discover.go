package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"souk/agentd"
	"souk/agentd/kvevent"
	agentserve "souk/agentd/serve"
	"souk/bus"
	"souk/cmd/daemon"
)

// discover says on which ports of this machine engines are looked for, and how those found are sold.
type discover struct {
	Ports []string      `yaml:"ports"` // "8000-8007", "8100"; usualPorts where agent is given
	Every time.Duration `yaml:"every"` // between two looks
	// how each is sold; id and engine.url follow from its port. Without a model each is sold for what it
	// serves first, now and after an upgrade
	Agent agentd.AgentConfig `yaml:"agent"`

	numbers []int // the ports, once judged
}

// usualPorts are vLLM's own default and those that people count on from there, one for each GPU of a node.
const usualPorts = "8000-8007"

// maxPorts bounds how many ports are asked each time.
const maxPorts = 256

// complete lists the ports to ask: those named, less those of the node's own agents. Its error names every
// field that is wrong.
func (d *discover) complete(node agentd.Config) ([]int, error) {
	if len(d.Ports) == 0 && d.Agent.Slots != 0 {
		d.Ports = []string{usualPorts}
	}
	if len(d.Ports) == 0 {
		return nil, nil
	}
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("discover."+format, args...)) }
	if d.Every < 100*time.Millisecond || d.Every > time.Hour {
		wrong("every: %v is not within 100ms and 1h", d.Every)
	}
	ours := map[int]bool{}
	for _, a := range node.Agents {
		if u, err := url.Parse(a.Engine.WithDefaults().URL); err == nil &&
			daemon.CheckLoopback(u.Host) == nil {
			port, _ := strconv.Atoi(u.Port())
			ours[port] = true
		}
	}
	var out []int
	for i, text := range d.Ports {
		low, high, span := strings.Cut(text, "-")
		if !span {
			high = low
		}
		from, err := strconv.Atoi(strings.TrimSpace(low))
		to, err2 := strconv.Atoi(strings.TrimSpace(high))
		if err != nil || err2 != nil || from < 1 || to > 65535 || from > to {
			wrong("ports[%d]: %q: write a port, or two as \"8000-8007\"", i, text)
			continue
		}
		if len(out)+to-from >= maxPorts {
			wrong("ports[%d]: %q: more than %d ports in all", i, text, maxPorts)
			break
		}
		for p := from; p <= to; p++ {
			if !ours[p] && !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	if e := d.Agent.Engine; d.Agent.ID != "" || e.URL != "" || e.KVEvents != (kvevent.Source{}) {
		wrong("agent: id, engine.url and engine.kv_events are of one engine, and follow from its port or what it " +
			"says: leave them out")
	}
	if err := d.sold(node.Node, 8000).Validate(); err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			wrong("agent.%s", line)
		}
	}
	return out, errors.Join(errs...)
}

// sold is the agent of the engine on a port.
func (d discover) sold(node string, port int) agentd.AgentConfig {
	at, a := strconv.Itoa(port), d.Agent
	a.ID, a.Engine.URL = daemon.AgentAt(node, at), "http://127.0.0.1:"+at
	return a
}

// node runs the agents of the file and those whose engines are found, each lot as a server of its own on one
// connection.
type node struct {
	cfg  agentd.Config // without agents
	deps agentserve.Deps
	news *fanout
	// the agents of the file are registered, or, if it names none, the first found one is
	ready chan struct{}
	may   func(agent string) bool // the node's creds name an agent; nil: they name all

	mu      sync.Mutex
	servers []*agentserve.Server
}

func newNode(cfg agentd.Config, deps agentserve.Deps) *node {
	cfg.Agents = nil
	return &node{cfg: cfg, deps: deps, news: &fanout{Bus: deps.Bus}, ready: make(chan struct{})}
}

func (n *node) add(agents []agentd.AgentConfig) error {
	cfg, deps := n.cfg, n.deps
	cfg.Agents, deps.Bus = agents, n.news.branch()
	s, err := agentserve.NewServer(cfg, deps)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.servers = append(n.servers, s)
	return nil
}

func (n *node) stats() agentd.Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := agentd.Stats{Node: n.cfg.Node}
	for _, s := range n.servers {
		out.Agents = append(out.Agents, s.Stats().Agents...)
	}
	return out
}

// awaits says which agents cannot be sold yet.
func (n *node) awaits() string {
	agents := n.stats().Agents
	if len(agents) == 0 {
		return "no engine found yet"
	}
	var waiting []string
	for _, a := range agents {
		if a.State != bus.StateReady {
			waiting = append(waiting, withReason(a))
		}
	}
	if len(waiting) == 0 {
		return ""
	}
	return "waiting for the engines of " + strings.Join(waiting, ", ")
}

// unsold says why none of the node's agents is sold, where each has been; "" where one is.
func unsold(s agentd.Stats) string {
	var all []string
	for _, a := range s.Agents {
		if a.State != bus.StateUnhealthy {
			return ""
		}
		all = append(all, withReason(a))
	}
	if len(all) == 0 {
		return ""
	}
	return "no engine of this node can be sold: " + strings.Join(all, ", ")
}

func withReason(a agentd.AgentStats) string {
	if a.Why == "" {
		return a.Agent
	}
	return a.Agent + " (" + a.Why + ")"
}

// run serves until ctx ends and all agents have drained, or one cannot be offered at all.
func (n *node) run(ctx context.Context, d discover) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	whole, end := context.WithCancel(context.WithoutCancel(ctx)) // what drains needs the news, too
	defer end()
	go n.news.run(whole)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	start := func(s *agentserve.Server) {
		first := s == n.servers[0]
		wg.Go(func() {
			if err := s.Run(ctx); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
				stop()
			}
		})
		wg.Go(func() {
			select {
			case <-s.Ready():
				if first {
					close(n.ready)
				}
			case <-ctx.Done():
			}
		})
	}
	for _, s := range n.servers {
		start(s)
	}
	known := map[int]bool{}
	for first := true; len(d.numbers) > 0 && ctx.Err() == nil; first = false {
		for _, a := range n.look(ctx, d, known) {
			if n.may != nil && !n.may(a.ID) {
				n.deps.Log.Warn("engine found, and not sold: the creds do not name its agent (souk auth renew "+
					"NAME --agents)", "agent", a.ID, "url", bus.Redact(a.Engine.URL))
				continue
			}
			n.deps.Log.Info("engine found", "agent", a.ID, "url", bus.Redact(a.Engine.URL))
			if err := n.add([]agentd.AgentConfig{a}); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
				stop()
				break
			}
			start(n.servers[len(n.servers)-1])
		}
		if first && len(known) == 0 {
			n.deps.Log.Warn("no engine found yet; looking on", "ports", strings.Join(d.Ports, ","), "every",
				d.Every)
		}
		t := time.NewTimer(d.Every)
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
	}
	wg.Wait()
	return errors.Join(errs...)
}

// look asks the ports where nothing is known yet, all at once, and returns the agents of those that answer.
func (n *node) look(ctx context.Context, d discover, known map[int]bool) []agentd.AgentConfig {
	type answer struct {
		agent agentd.AgentConfig
		ok    bool
	}
	answers := make([]answer, len(d.numbers))
	var wg sync.WaitGroup
	for i, port := range d.numbers {
		if known[port] {
			continue
		}
		wg.Go(func() {
			a := d.sold(n.cfg.Node, port)
			if !listens(ctx, port) {
				return
			}
			info, err := n.deps.Engine(a.Engine.WithDefaults()).Info(ctx)
			switch {
			case err != nil:
				n.deps.Log.Debug("port answers, but not as a ready engine", "port", port, "err", err)
				return
			case len(info.Models) == 0 || a.Model != "" && !slices.Contains(info.Models, a.Model):
				n.deps.Log.Debug("engine serves another model", "port", port, "models", info.Models)
				return
			}
			answers[i] = answer{a, true}
		})
	}
	wg.Wait()
	var out []agentd.AgentConfig
	for i, a := range answers {
		if a.ok {
			known[d.numbers[i]] = true
			out = append(out, a.agent)
		}
	}
	return out
}

// listens reports whether anything takes connections on a port of this machine: most do not, and that is
// cheap to learn.
func listens(ctx context.Context, port int) bool {
	c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp",
		net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err == nil {
		c.Close()
	}
	return err == nil
}

// fanout gives each server of the node all news of the one connection, where a connection tells one reader.
type fanout struct {
	bus.Bus
	mu       sync.Mutex
	branches []chan bus.Health
}

type branch struct {
	bus.Bus
	news chan bus.Health
}

func (b branch) Health() <-chan bus.Health { return b.news }

func (f *fanout) branch() bus.Bus {
	f.mu.Lock()
	defer f.mu.Unlock()
	news := make(chan bus.Health, 16)
	f.branches = append(f.branches, news)
	return branch{f.Bus, news}
}

func (f *fanout) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case h, ok := <-f.Bus.Health():
			if !ok {
				return
			}
			f.mu.Lock()
			for _, b := range f.branches {
				select {
				case b <- h:
				default: // as the bus itself does: who does not listen misses it
				}
			}
			f.mu.Unlock()
		}
	}
}
