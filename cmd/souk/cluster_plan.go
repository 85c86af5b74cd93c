package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"souk/bus"
	"souk/bus/natsauth"
	"souk/cmd/daemon"
	"souk/cmd/parts"
)

// inEffect holds the fields of a daemon's configuration that the plan needs, as the daemon prints it.
type inEffect struct {
	Listen string `yaml:"listen"` // of a gateway
	Health struct {
		Listen string `yaml:"listen"`
	} `yaml:"health"`
	Stop struct {
		Within time.Duration `yaml:"within"`
	} `yaml:"stop"`
	Infra struct {
		NATS  string      `yaml:"nats"`
		Etcd  string      `yaml:"etcd"`
		Names []infraName `yaml:"names"`
	} `yaml:"infra"`
	Market struct {
		Creds string `yaml:"creds"`
	} `yaml:"market"`
	Hub struct {
		Domain  string `yaml:"domain"`
		Journal string `yaml:"journal"`
	} `yaml:"hub"`
	Treasury struct {
		Journal string `yaml:"journal"`
	} `yaml:"treasury"`
	Classifier struct {
		ID string `yaml:"id"`
	} `yaml:"classifier"`
	Gateway struct {
		ID string `yaml:"id"`
	} `yaml:"gateway"`
	Agentd struct {
		Node   string `yaml:"node"`
		Agents []struct {
			ID     string `yaml:"id"`
			Engine struct {
				URL string `yaml:"url"`
			} `yaml:"engine"`
		} `yaml:"agents"`
	} `yaml:"agentd"`
	Discover struct {
		Ports []string `yaml:"ports"`
	} `yaml:"discover"`
}

// cluster lists the processes to start, in order.
type cluster struct {
	dir      string // data
	bin      string
	nats     string
	etcd     string
	http     string // URL of the gateway; "": there is none
	domains  []string
	agents   int // that hubs will sell
	stages   [][]*process
	moved    []string // notes on ports that were taken
	used     map[string]bool
	replaced map[string]string // address in the files: address used instead
}

// planCluster reads the files, by asking each command what its file means, and gives every process its ports.
func planCluster(ctx context.Context, dir, bin, path string, cfg clusterConfig) (*cluster, error) {
	c := &cluster{dir: dir, bin: bin, used: map[string]bool{}, replaced: map[string]string{}}
	at := func(name string) string {
		if filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(filepath.Dir(path), name)
	}
	daemonOf := func(name, file string, command ...string) (*process, inEffect, error) {
		p := &process{Part: parts.Part{Name: name, Args: append(command, "--config", at(file)),
			Log: filepath.Join(dir, "log", name+".log"), Env: []string{"SOUK_DATA=" + dir},
			ReadyAt: "/readyz"}}
		p.Args[0] = filepath.Join(bin, p.Args[0])
		e, err := c.ask(ctx, p.Args)
		if err != nil {
			return nil, e, err
		}
		e.Health.Listen = cmp.Or(e.Health.Listen, "127.0.0.1:0")
		p.within = e.Stop.Within
		p.Health, err = c.place(e.Health.Listen)
		p.Env = append(p.Env, "SOUK_HEALTH_LISTEN="+p.Health)
		return p, e, err
	}

	infra, e, err := daemonOf("infra", cfg.Infra, "souk", "infra")
	if err != nil {
		return nil, err
	}
	if c.nats, err = c.place(e.Infra.NATS); err != nil {
		return nil, err
	}
	if c.etcd, err = c.place(e.Infra.Etcd); err != nil {
		return nil, err
	}
	infra.Env = append(infra.Env, "SOUK_INFRA_NATS="+c.nats, "SOUK_INFRA_ETCD="+c.etcd)
	infra.endpoint = "nats://" + c.nats + ", etcd " + c.etcd
	first := []*process{infra}
	for _, e := range cfg.Engines {
		p, err := c.engine(e)
		if err != nil {
			return nil, err
		}
		first = append(first, p)
	}

	marketAt := []string{"SOUK_MARKET_NATS=nats://" + c.nats, "SOUK_MARKET_ETCD=" + c.etcd}
	keys, err := natsauth.Init(natsauth.Dir(dir))
	if err != nil {
		return nil, err
	}
	join := func(name, file, command string, role bus.Role) (*process, inEffect, error) {
		p, e, err := daemonOf(name, file, command)
		if err != nil {
			return nil, e, err
		}
		p.endpoint = "http://" + p.Health
		ids := bus.IDs{Domain: e.Hub.Domain, // each has its own section alone
			Name: cmp.Or(e.Treasury.Journal, e.Hub.Journal, e.Classifier.ID, e.Gateway.ID)}
		if role == bus.RoleAgentd {
			ids.Name = daemon.Name("agentd-" + e.Agentd.Node)
			ids.Agents, err = c.wire(p, e, cfg.Engines)
		}
		creds := ""
		if err == nil {
			creds, err = keys.Ensure(role, ids, time.Now())
		}
		if err != nil {
			return nil, e, fmt.Errorf("%s: %s: %w", file, p.Name, err)
		}
		p.Env = append(append(p.Env, marketAt...), "SOUK_MARKET_CREDS="+creds)
		return p, e, nil
	}
	treasury, _, err := join("treasury", cfg.Treasury, "treasury", bus.RoleTreasury)
	if err != nil {
		return nil, err
	}
	var hubs, nodes []*process
	for _, file := range cfg.Hubs {
		p, e, err := join(stem(file), file, "hub", bus.RoleHub)
		if err != nil {
			return nil, err
		}
		c.domains = append(c.domains, e.Hub.Domain)
		hubs = append(hubs, p)
	}
	door, _, err := join("classifier", cfg.Classifier, "classifier", bus.RoleDoor)
	if err != nil {
		return nil, err
	}
	for _, file := range cfg.Agentd {
		p, _, err := join(stem(file), file, "agentd", bus.RoleAgentd)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, p)
	}
	doors := []*process{door}
	if cfg.Gateway != "" {
		p, e, err := join("gateway", cfg.Gateway, "gateway", bus.RoleGateway)
		if err != nil {
			return nil, err
		}
		at, err := c.place(e.Listen)
		if err != nil {
			return nil, err
		}
		p.Env = append(p.Env, "SOUK_LISTEN="+at)
		c.http = "http://" + at
		p.endpoint = c.http
		doors = append(doors, p)
	}
	c.stages = [][]*process{first, {treasury}, hubs, nodes, doors}
	names := map[string]bool{}
	for _, p := range slices.Concat(c.stages...) {
		if names[p.Name] {
			return nil, fmt.Errorf("%s: two processes would be called %s: give their files or engines "+
				"different names", path, p.Name)
		}
		names[p.Name] = true
	}
	return c, nil
}

func stem(file string) string { return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)) }

// ask has a command judge its file and say what is in effect.
func (c *cluster) ask(ctx context.Context, args []string) (inEffect, error) {
	var e inEffect
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, args[0], append(args[1:len(args):len(args)], "--check-config")...)
	cmd.Env = append(os.Environ(), "SOUK_DATA="+c.dir)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return e, fmt.Errorf("%w: `make build` makes the commands, --bin says where they are", err)
		}
		return e, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(errs.String()))
	}
	if err := yaml.Unmarshal(out.Bytes(), &e); err != nil {
		return e, fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return e, nil
}

// place gives an address of the files to a process, or a free one of the same host where it is taken.
func (c *cluster) place(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	l, err := net.Listen("tcp", address)
	if err == nil {
		got := l.Addr().String()
		l.Close()
		if !c.used[got] {
			c.used[got] = true
			return got, nil
		}
	}
	for range 100 {
		// below those that the system hands out, so that nobody has it before its process does
		l, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(10_000+rand.IntN(20_000))))
		if err != nil {
			continue
		}
		got := l.Addr().String()
		l.Close()
		if !c.used[got] {
			c.used[got] = true
			c.replaced[address] = got
			c.moved = append(c.moved, fmt.Sprintf("port %s is taken: %s is used instead", port, got))
			return got, nil
		}
	}
	return "", fmt.Errorf("no free port on %s: end what holds them, or write another address: %w", host, err)
}

// engine is the process of a simulated engine.
func (c *cluster) engine(e clusterEngine) (*process, error) {
	if err := bus.CheckID("engines.name", e.Name); err != nil {
		return nil, err
	}
	address, err := c.place(net.JoinHostPort("127.0.0.1", strconv.Itoa(e.Port)))
	if err != nil {
		return nil, fmt.Errorf("engine %s: %w", e.Name, err)
	}
	_, port, _ := net.SplitHostPort(address)
	e.Speedup = cmp.Or(e.Speedup, 1)
	var adapters []string
	if len(e.Adapters) > 0 {
		adapters = []string{"--lora-modules", strings.Join(e.Adapters, ",")}
	}
	return &process{
		Part: parts.Part{Name: e.Name, Log: filepath.Join(c.dir, "log", e.Name+".log"),
			Args: append([]string{filepath.Join(c.bin, "souk"), "engine", "--port", port, "--model", e.Model,
				"--profile", e.Profile,
				"--speedup", strconv.FormatFloat(e.Speedup, 'g', -1, 64)}, adapters...),
			Health: address, ReadyAt: "/health"},
		endpoint: "http://" + address, within: 5 * time.Second,
	}, nil
}

// wire tells a node of engines whose ports were taken, and lists its agents, those too that it may find yet.
func (c *cluster) wire(p *process, e inEffect, engines []clusterEngine) (agents []string, err error) {
	for i, a := range e.Agentd.Agents {
		agents = append(agents, a.ID)
		u, err := url.Parse(a.Engine.URL)
		if err != nil {
			return nil, err
		}
		if instead := c.replaced[u.Host]; instead != "" {
			p.Env = append(p.Env, fmt.Sprintf("SOUK_AGENTD_AGENTS_%d_ENGINE_URL=http://%s", i, instead))
		}
	}
	var found []string
	changed := false
	for _, engine := range engines {
		if !slices.Contains(portsOf(e.Discover.Ports), engine.Port) {
			continue
		}
		port := strconv.Itoa(engine.Port)
		if instead := c.replaced[net.JoinHostPort("127.0.0.1", port)]; instead != "" {
			changed = true
			_, port, _ = net.SplitHostPort(instead)
		}
		found = append(found, port)
	}
	c.agents += len(agents) + len(found)
	looked := portsOf(e.Discover.Ports) // an engine may come to any of them later
	if changed {
		p.Env = append(p.Env, "SOUK_DISCOVER_PORTS="+strings.Join(found, ","))
		looked = append(looked, portsOf(found)...) // infra's file may name the others
	}
	slices.Sort(looked)
	for _, port := range slices.Compact(looked) {
		agents = append(agents, daemon.AgentAt(e.Agentd.Node, strconv.Itoa(port)))
	}
	return agents, nil
}

// portsOf returns all ports of "8000-8007", "8100", which the node has judged.
func portsOf(ranges []string) (ports []int) {
	for _, r := range ranges {
		low, high, span := strings.Cut(r, "-")
		from, err := strconv.Atoi(strings.TrimSpace(low))
		to := from
		if span && err == nil {
			to, err = strconv.Atoi(strings.TrimSpace(high))
		}
		for port := from; err == nil && port <= to; port++ {
			ports = append(ports, port)
		}
	}
	return ports
}
