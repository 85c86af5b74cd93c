// Package local brings a whole market up in one process: NATS and etcd, the treasury, the door, a hub
// for each domain and an agent for each engine, on loopback.
package local

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"souk/agentd"
	"souk/bus"
	"souk/cmd/daemon"
	"souk/market"
)

// Config describes a market; read from YAML by [LoadConfig]. [Default] is the one that comes with the
// program.
type Config struct {
	// address of the NATS server; loopback only; another port where that one is taken. Default 127.0.0.1:4222
	Listen string `yaml:"listen"`
	// address of the HTTP gateway, likewise, and beyond loopback with gateway.tls or gateway.proxies; default
	// 127.0.0.1:8080, or any port where NATS has any; "": none
	HTTP    *string  `yaml:"http"`
	Domains []Domain `yaml:"domains"`
	Agents  []Agent  `yaml:"agents"`
	// of simulated engines against the measured ones, above 0; default 1
	Speedup float64                   `yaml:"speedup"`
	Clients map[string]market.Credits `yaml:"clients"` // first deposits, in credits
	Hub     Block                     `yaml:"hub"`     // of all hubs: whatever a hub's own file may say
	Agentd  Block                     `yaml:"agentd"`  // of all agents' node, but for the agents

	Treasury Block `yaml:"treasury"` // whatever the treasury's own file may say
	Gateway  Block `yaml:"gateway"`  // whatever a gateway's own file may say under gateway

	Traces daemon.Traces `yaml:"traces"` // where its spans go, beside a collector
	// where it is asked how it is, and scraped; another port where that one is taken; default: nowhere
	Health daemon.Health `yaml:"health"`
}

// Domain is one hub.
type Domain struct {
	Name    string   `yaml:"name"`
	Labels  []string `yaml:"labels"`  // of the classifier; default: the name
	General bool     `yaml:"general"` // takes tasks of low confidence; exactly one domain does
	Hub     Block    `yaml:"hub"`     // of this hub, where it is not that of all
}

// Agent is one engine for sale. Its price is either a card or the name of a published row.
type Agent struct {
	ID       string       `yaml:"id"`
	Model    string       `yaml:"model"` // for a real engine: default the first that it serves
	PriceRow string       `yaml:"price_row"`
	Price    market.Price `yaml:"price"`
	Scores   []Score      `yaml:"scores"` // the first decides which hub the agent joins
	Slots    int          `yaml:"slots"`
	Engine   Engine       `yaml:"engine"`

	Owner string         `yaml:"owner"` // whose it is; default: the agent's own
	Class string         `yaml:"class"` // of agents that are paid one tariff; default: the model
	Ask   market.Credits `yaml:"ask"`   // for a task beside its metered cost, where pricing is tariff

	Agentd Block `yaml:"agentd"` // what an agentd's file may say of an agent beside all this

	every bool // a real engine is sold by each of its names
}

// Score is an operator's rating of an agent's answers in a domain, 0 to 1.
type Score struct {
	Domain string  `yaml:"domain"`
	Score  float64 `yaml:"score"`
}

// Engine is a simulated one, by profile, or a real one, by URL.
type Engine struct {
	Profile    string        `yaml:"profile"`
	URL        string        `yaml:"url"`
	APIKey     string        `yaml:"api_key"`     // that a real one wants
	Pooling    bool          `yaml:"pooling"`     // a simulated one embeds and reranks, and generates nothing
	RelayEvery time.Duration `yaml:"relay_every"` // as an agentd's engine.relay_every
}

// Limits of one process; beyond them run the parts as processes of their own.
const (
	MaxDomains = 32
	MaxAgents  = 256
	MaxSlots   = 4096 // of one agent
)

//go:embed market.yaml
var defaultMarket []byte

// Default is the market of the bundled market.yaml.
func Default() Config {
	c, err := ParseConfig("market.yaml", defaultMarket)
	if err != nil {
		panic("local: the bundled market.yaml: " + err.Error())
	}
	return c
}

// DefaultYAML is the bundled market.yaml itself, to begin one's own with.
func DefaultYAML() string { return string(defaultMarket) }

// LoadConfig reads a market from a YAML file. Unknown fields are errors that name the line.
func LoadConfig(path string) (Config, error) {
	var c Config
	if err := daemon.Load(section, path, &c); err != nil {
		return Config{}, err
	}
	return c.completed(path)
}

// ParseConfig reads a market from YAML; name stands in errors.
func ParseConfig(name string, b []byte) (Config, error) {
	var c Config
	if err := daemon.Parse(section, name, b, &c); err != nil {
		return Config{}, err
	}
	return c.completed(name)
}

// section is the section that every market's file has, and no other file.
const section = "domains"

// completed is a valid market with what its file left out.
func (c Config) completed(name string) (Config, error) {
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:4222")
	if c.HTTP == nil {
		c.HTTP = new(string)
		*c.HTTP = "127.0.0.1:8080"
		if host, port, err := net.SplitHostPort(c.Listen); err == nil && port == "0" {
			*c.HTTP = net.JoinHostPort(host, "0")
		}
	}
	c.Speedup = cmp.Or(c.Speedup, 1)
	for i := range c.Domains {
		if len(c.Domains[i].Labels) == 0 {
			c.Domains[i].Labels = []string{c.Domains[i].Name}
		}
	}
	for i := range c.Agents {
		c.Agents[i].Slots = cmp.Or(c.Agents[i].Slots, 8)
	}
	if err := c.Validate(); err != nil {
		return Config{}, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// HTTPAddress returns the gateway's address; "" if there is none.
func (c Config) HTTPAddress() string {
	if c.HTTP == nil {
		return ""
	}
	return *c.HTTP
}

// Validate says everything that is wrong with c, and changes nothing.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := daemon.CheckLoopback(c.Listen); err != nil {
		bad("listen: %w: this market speaks without TLS. Listen on 127.0.0.1 and reach it from elsewhere by "+
			"an SSH tunnel, or run its parts as processes, with `souk infra`", err)
	}
	g, err := c.gateway()
	errs = append(errs, err)
	if at := c.HTTPAddress(); at != "" {
		err := daemon.CheckLoopback(at)
		if err != nil && !(errors.Is(err, daemon.ErrRemote) && g.BeyondLoopback()) {
			bad("http: %w: give gateway.tls, or gateway.proxies that stand before it", err)
		}
	}
	errs = append(errs, c.Health.Validate())
	if !(c.Speedup > 0 && c.Speedup <= 1e6) {
		bad("speedup: %v, want above 0 and at most a million", c.Speedup)
	}
	domains := map[string]bool{}
	general := 0
	if len(c.Domains) == 0 || len(c.Domains) > MaxDomains {
		bad("domains: %d, want 1 to %d", len(c.Domains), MaxDomains)
	}
	labels := map[string]string{}
	for i, d := range c.Domains {
		where := fmt.Sprintf("domains[%d]", i)
		errs = append(errs, bus.CheckID(where+".name", d.Name))
		if domains[d.Name] {
			bad("%s.name: %q is there twice", where, d.Name)
		}
		domains[d.Name] = true
		for _, l := range d.Labels {
			if other, taken := labels[l]; taken {
				bad("%s.labels: %q is served by domain %q already", where, l, other)
			}
			labels[l] = d.Name
		}
		if d.General {
			general++
		}
	}
	if general != 1 && len(c.Domains) > 0 {
		bad("domains: %d are general, want exactly 1", general)
	}
	if len(c.Agents) == 0 || len(c.Agents) > MaxAgents {
		bad("agents: %d, want 1 to %d", len(c.Agents), MaxAgents)
	}
	agents := map[string]bool{}
	for i, a := range c.Agents {
		where := fmt.Sprintf("agents[%d]", i)
		errs = append(errs, bus.CheckID(where+".id", a.ID))
		if agents[a.ID] {
			bad("%s.id: %q is there twice: an agent's id is its own", where, a.ID)
		}
		agents[a.ID] = true
		errs = append(errs, a.validate(where, domains)...)
	}
	for _, id := range slices.Sorted(maps.Keys(c.Clients)) {
		errs = append(errs, bus.CheckID("clients", id))
		if c.Clients[id] <= 0 {
			bad("clients: %s: a deposit is above 0", id)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i, d := range c.Domains { // the hub itself judges its settings
		if h, err := c.hub(d); err != nil {
			errs = append(errs, err)
		} else if err := h.Validate(); err != nil {
			bad("domains[%d], or hub of all: %w", i, err)
		}
	}
	_, node := c.node()
	_, treasury := c.treasury()
	return errors.Join(append(errs, node, treasury)...)
}

func (a Agent) validate(where string, domains map[string]bool) []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(where+format, args...)) }
	if a.Slots < 1 || a.Slots > MaxSlots {
		bad(".slots: %d, want 1 to %d", a.Slots, MaxSlots)
	}
	if len(a.Scores) == 0 {
		bad(".scores: none; the first one decides which hub the agent joins")
	}
	for _, s := range a.Scores {
		if !domains[s.Domain] {
			bad(".scores: there is no domain %q", s.Domain)
		}
		if !(s.Score >= 0 && s.Score <= 1) {
			bad(".scores: %s: %v, want 0 to 1", s.Domain, s.Score)
		}
	}
	if _, err := a.Card(); err != nil {
		bad(".price: %w", err)
	}
	switch {
	case (a.Engine.Profile == "") == (a.Engine.URL == ""):
		bad(".engine: give a profile or a url, and not both")
	case a.Engine.URL != "":
		if err := agentd.CheckURL(a.Engine.URL); err != nil {
			bad(".engine.url: %w", err)
		}
	case !slices.Contains(Profiles(), a.Engine.Profile):
		bad(".engine.profile: there is no %q; known are %s", a.Engine.Profile, strings.Join(Profiles(), ", "))
	case a.Model == "":
		bad(".model: a simulated engine needs a name for what it serves")
	}
	if len(errs) > 0 {
		return errs
	}
	if c, err := a.config("http://engine", a.Model); err != nil {
		bad(".agentd: %w", err)
	} else if err := c.Validate(); err != nil {
		bad(": %w", err)
	}
	return errs
}

// Card is the agent's price card. One on which a cached token costs more than a computed one is refused.
func (a Agent) Card() (market.Price, error) {
	if a.PriceRow != "" {
		if a.Price != (market.Price{}) {
			return market.Price{}, errors.New("give price or price_row, and not both")
		}
		return Card(a.PriceRow)
	}
	if a.Price == (market.Price{}) {
		return market.Price{},
			errors.New("missing: give price {miss, hit, out} in credits per million tokens, or price_row")
	}
	return a.Price, a.Price.Validate()
}

// DefaultRow prices real engines of which nothing else is known: the cheapest row that comes with the
// program.
const DefaultRow = "fireworks/gpt-oss-20b"

// WithEngines is c with real engines in place of its agents, each by all of its names, all of them sold by
// one hub that serves every label. They are asked with a key; "": with none.
func (c Config) WithEngines(urls []string, priceRow, key string) Config {
	hub := Domain{Name: "general", General: true}
	for _, d := range c.Domains {
		hub.Labels = append(hub.Labels, d.Labels...)
		if d.General {
			hub.Name = d.Name
		}
	}
	slices.Sort(hub.Labels)
	c.Domains, c.Agents = []Domain{hub}, nil
	for i, u := range urls {
		c.Agents = append(c.Agents, Agent{
			ID: fmt.Sprintf("vllm-%d", i+1), PriceRow: priceRow, Slots: 8,
			Scores: []Score{{Domain: hub.Name, Score: 0.5}}, Engine: Engine{URL: u, APIKey: key},
			every: true,
		})
	}
	return c
}
