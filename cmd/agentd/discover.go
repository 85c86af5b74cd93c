package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	"souk/bus/follow"
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
	errs = append(errs, bus.CheckBounds("discover.every", d.Every, 100*time.Millisecond, time.Hour))
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

// finder has the engines sold that are found on the ports of a node.
type finder struct {
	discover
	node   string
	server *agentserve.Server // that sells them
	engine func(agentd.EngineConfig) agentd.Engine
	may    func(agent string) bool // the node's creds name an agent; nil: they name all
	log    *slog.Logger
}

// awaits says which agents cannot be sold yet.
func awaits(s agentd.Stats) string {
	if len(s.Agents) == 0 {
		return "no engine found yet"
	}
	var waiting []string
	for _, a := range s.Agents {
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
func (f *finder) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	found := make(chan error, 1)
	go func() {
		err := f.find(ctx)
		if err != nil {
			stop()
		}
		found <- err
	}()
	err := f.server.Run(ctx)
	stop()
	return errors.Join(<-found, err)
}

// find looks for engines until ctx ends.
func (f *finder) find(ctx context.Context) error {
	known := map[int]bool{}
	for first := true; len(f.numbers) > 0; first = false {
		for _, a := range f.look(ctx, known) {
			if f.may != nil && !f.may(a.ID) {
				f.log.Warn("engine found, and not sold: the creds do not name its agent (souk auth renew "+
					"NAME --agents)", "agent", a.ID, "url", bus.Redact(a.Engine.URL))
				continue
			}
			f.log.Info("engine found", "agent", a.ID, "url", bus.Redact(a.Engine.URL))
			if err := f.server.Add(a); err != nil {
				return err
			}
		}
		if first && len(known) == 0 {
			f.log.Warn("no engine found yet; looking on", "ports", strings.Join(f.Ports, ","), "every",
				f.Every)
		}
		if !follow.Pause(ctx, f.Every) {
			return nil
		}
	}
	return nil
}

// look asks the ports where nothing is known yet, all at once, and returns the agents of those that answer.
func (f *finder) look(ctx context.Context, known map[int]bool) []agentd.AgentConfig {
	answers := make([]*agentd.AgentConfig, len(f.numbers))
	var wg sync.WaitGroup
	for i, port := range f.numbers {
		if known[port] {
			continue
		}
		wg.Go(func() {
			a := f.sold(f.node, port)
			info, err := f.engine(a.Engine.WithDefaults()).Info(ctx)
			switch {
			case err != nil:
				f.log.Debug("no ready engine", "port", port, "err", err)
				return
			case len(info.Models) == 0 || a.Model != "" && !slices.Contains(info.Models, a.Model):
				f.log.Debug("engine serves another model", "port", port, "models", info.Models)
				return
			}
			answers[i] = &a
		})
	}
	wg.Wait()
	var out []agentd.AgentConfig
	for i, a := range answers {
		if a != nil {
			known[f.numbers[i]] = true
			out = append(out, *a)
		}
	}
	return out
}
