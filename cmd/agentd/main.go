// Command agentd offers the vLLM servers of one node to the market.
package main

import (
	"context"
	"errors"
	"os"
	"time"

	"souk/agentd"
	agentserve "souk/agentd/serve"
	"souk/agentd/vllm"
	"souk/bus"
	"souk/cmd/daemon"
)

func main() { daemon.Main(daemon.Command(role())) }

// config is the node's file.
type config struct {
	daemon.Common `yaml:",inline"`
	Market        daemon.Market `yaml:"market"`
	// the node's own directory is DATA/agentd/node-NODE; empty: none
	Data     string        `yaml:"data"`
	Agentd   agentd.Config `yaml:"agentd"`
	Discover discover      `yaml:"discover"`
}

const example = daemon.MarketExample +
	`data: /var/lib/souk               # with it a killed node is back at once, what it had served is paid
agentd:
  node: rack-3                 # default: the host's name
  drain_timeout: 60s           # what running tasks get after SIGTERM
  agents:                      # one for each server and model: vLLM, or another (deploy/engines.md)
    - id: qwen-8b-1            # unique in the market
      engine: {url: "http://127.0.0.1:8000", progress: 30s}       # without /v1; api_key: where it wants one
      # engine.kv_events: {endpoint: "ipc:///run/vllm/kv", replay: "ipc:///run/vllm/again"}   # as in the
      # engine's own --kv-events-config; default: what the engine says of it; endpoint: none: it is not heard
      model: Qwen/Qwen3-8B     # default: the first that the server serves
      scale: 8                 # billions of parameters
      domains: [{domain: math, score: 0.81}, {domain: general, score: 0.64}]   # joins the hub of the first
      slots: 32                # at most the server's --max-num-seqs
      price: {miss: 0.15, hit: 0.03, out: 0.6}                                 # credits per million tokens
  # policies: {guard: patterns, adapter: next}   # what is passed on of answers; which LoRA adapter comes next
  # patterns: [{name: key, pattern: '\bsk-[A-Za-z0-9]{20,48}', action: cut}]   # or flag: it is only counted
discover:                      # instead of agents, or beside them: engines found on this machine
  ports: ["8000-8007"]         # these by default; ports of the agents above are left out
  every: 5s                    # engines that boot later are found later
  agent:                       # how each is sold; its id is NODE-PORT
    domains: [{domain: general, score: 0.64}]
    slots: 8
    price: {miss: 0.15, hit: 0.03, out: 0.6}
`

func role() daemon.Role[*config] {
	return daemon.Role[*config]{
		Name:  "agentd",
		As:    bus.RoleAgentd,
		Short: "Offer the vLLM servers of this node to the market",
		Long: `agentd registers each vLLM server of this node (or SGLang, llama.cpp, Ollama, TGI, LMDeploy: see
deploy/engines.md) as an agent once it is ready, serves what hubs award, meters it, and accounts for it. On
SIGTERM it takes no more tasks, finishes those in hand and has them settled. Servers that still boot are
waited for. With a data directory, that proves by its lock that a life which was killed is dead, it is sold
again at once, and what that one had served is paid.

vLLM needs --enable-prompt-tokens-details, SGLang --enable-cache-report, else cached tokens are billed as
computed ones.`,
		Example: example,
		New:     newConfig,
		Serve:   serve,
	}
}

func newConfig() *config {
	return &config{Common: daemon.Default(), Market: daemon.DefaultMarket(), Agentd: agentd.Default(),
		Discover: discover{Every: 5 * time.Second}}
}

func newEngine(c agentd.EngineConfig) agentd.Engine { return vllm.New(c) }

func serve(ctx context.Context, p *daemon.Process, c *config) (err error) {
	var home *agentserve.Home
	if c.Data != "" {
		if home, err = agentserve.OpenHome(c.Data, c.Agentd.Node); err != nil {
			return daemon.InData(err)
		}
		defer func() { err = errors.Join(err, home.Close()) }()
		if len(home.Boots()) == 1 {
			p.Log.Info("the node's directory is new, a copy, or the machine has started anew: what earlier lives of its " +
				"agents may have served is waited for until their holds end by themselves")
		}
	}
	l, err := p.Connect(ctx, c.Market, bus.RoleAgentd, c.IDs())
	if err != nil {
		return err
	}
	defer l.Close()
	if twice := soldTwice(c.Agentd.Agents); len(twice) > 0 {
		p.Log.Warn("agents sell an engine's model that another of them sells: it needs the slots of all "+
			"together", "agents", twice)
	}
	s, err := agentserve.NewServer(c.Agentd, agentserve.Deps{Bus: l.Bus, Registry: l.Registry,
		Spans: p.Spans, Home: home, Log: p.Log, Meter: p.Meter(),
		Engine: func(c agentd.EngineConfig) agentd.Engine {
			e := vllm.New(c)
			e.Spans = p.Spans
			return e
		}})
	if err != nil {
		return err
	}
	p.Awaits(func() string { return awaits(s.Stats()) })
	p.Lacks(func() string { return unsold(s.Stats()) })
	p.Serving(s.Ready(), func() any { return s.Stats() })
	f := finder{discover: c.Discover, node: c.Agentd.Node, server: s, engine: newEngine, may: l.Speaks,
		log: p.Log}
	return f.run(ctx)
}

// IDs returns the node's id, and those of the agents in its file.
func (c *config) IDs() bus.IDs {
	ids := bus.IDs{Name: daemon.Name("agentd-" + c.Agentd.Node)}
	for _, a := range c.Agentd.Agents {
		ids.Agents = append(ids.Agents, a.ID)
	}
	return ids
}

// Complete fills in what follows from the rest, such as the name of the node from its host, and judges the
// whole configuration.
func (c *config) Complete() error {
	if c.Agentd.Node == "" {
		c.Agentd.Node, _ = os.Hostname()
	}
	var errs []error
	found, err := c.Discover.complete(c.Agentd)
	errs = append(errs, err)
	c.Discover.numbers = found
	if len(c.Agentd.Agents) == 0 && len(c.Discover.Ports) == 0 {
		errs = append(errs, errors.New("agents: none: write one for each engine, or under discover.agent "+
			"how engines found on ports 8000-8007 are sold"))
	}
	return errors.Join(append(errs, c.Agentd.Validate(), c.Market.Validate())...)
}

// soldTwice names the agents that sell the same model of the same engine as an earlier agent of the file.
// That is seldom meant: the engine would need the slots of both.
func soldTwice(agents []agentd.AgentConfig) (out []string) {
	for i, a := range agents {
		for _, b := range agents[:i] {
			if a.Engine.WithDefaults().URL == b.Engine.WithDefaults().URL &&
				(a.Model == b.Model || a.Model == "" || b.Model == "") {
				out = append(out, a.ID)
				break
			}
		}
	}
	return out
}

// Drain is the time for running tasks, for having them settled, and for giving the leases back.
func (c *config) Drain() time.Duration {
	all := c.Agentd.WithDefaults()
	return all.DrainTimeout + all.SettleTimeout + 3*time.Second
}
