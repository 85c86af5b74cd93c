package agentd

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"souk/agentd/kvevent"
	"souk/agentd/policy"
	"souk/agentd/policy/guard"
	"souk/bus"
	"souk/market"
)

const (
	KeepFrames = 30 * time.Second // how long an ended answer can be asked for again
	MaxRun     = 10 * time.Minute // of a task whose dispatch sets no limit
	// summaryEvery is the most time between two summaries.
	summaryEvery = time.Second
	// keepCompletions is how long a completion is repeated: no hold lives so long.
	keepCompletions = 24 * time.Hour
	// the first pause before a completion is sent again; it doubles, up to a while
	retryMin, retryMax = 200 * time.Millisecond, 5 * time.Second
)

// Config is one node: its agents and its limits. Zero fields take the values of [Default].
type Config struct {
	Node   string        `yaml:"node"` // names this machine in errors and in the registry
	Agents []AgentConfig `yaml:"agents"`

	LeaseTTL   time.Duration `yaml:"lease_ttl"` // how long a dead node is still believed alive
	SummaryGap time.Duration `yaml:"-"`         // least time between two summaries
	// of the engine's metrics; they correct the hub's own count, slowly
	ScrapeEvery time.Duration `yaml:"scrape_every"`
	Heartbeat   time.Duration `yaml:"heartbeat"` // most time in which a stream says nothing
	// bytes kept of one answer for a client that missed some
	KeepStream    int           `yaml:"keep_stream"`
	KeepTotal     int           `yaml:"keep_total"`     // bytes kept of all ended answers of one agent
	DrainTimeout  time.Duration `yaml:"drain_timeout"`  // what running tasks get to finish after SIGTERM
	SettleTimeout time.Duration `yaml:"settle_timeout"` // what hubs then get to acknowledge completions
	// not yet acknowledged; beyond it no task is accepted, since work nobody settles is unpaid
	MaxCompletions int `yaml:"max_completions"`

	Policies policy.Params   `yaml:"policies"` // runtime policies, by where they are asked; off by default
	Patterns []guard.Pattern `yaml:"patterns"` // that the policy patterns looks for
}

// AgentConfig is one agent: one engine serving one model.
type AgentConfig struct {
	ID      string            `yaml:"id"`
	Engine  EngineConfig      `yaml:"engine"`
	Model   string            `yaml:"model"` // empty: the first that the engine serves
	Scale   float64           `yaml:"scale"` // parameters, in billions
	Domains []bus.DomainScore `yaml:"domains"`
	Slots   int               `yaml:"slots"` // requests at once, and one in its queue: --max-num-seqs or less
	Price   market.Price      `yaml:"price"` // credits per million tokens
	// whose agent it is: asks of one owner count as one; empty: the node
	Owner string `yaml:"owner"`
	// model, precision, hardware; agents of one class are paid one tariff; empty: the model
	Class string `yaml:"class"`
	// wanted for a task beside its metered cost, where the domain's pricing is tariff
	Ask market.Credits `yaml:"ask"`
	// of its engine, beside what that says itself: text (it reads text alone), split (others compute
	// prompts for it), embedding and rerank
	Features []string `yaml:"features"`
}

// Default is a node without agents.
func Default() Config {
	return Config{
		// etcd grants no less than 2 s and restarts it at a change of leader
		LeaseTTL: 10 * time.Second,
		// a hub with a thousand agents hears ten thousand a second at most
		SummaryGap:     100 * time.Millisecond,
		ScrapeEvery:    2 * time.Second,
		Heartbeat:      2 * time.Second,
		KeepStream:     1 << 20,
		KeepTotal:      16 << 20,
		DrainTimeout:   60 * time.Second,
		SettleTimeout:  10 * time.Second,
		MaxCompletions: 4096,
	}
}

// WithDefaults fills what is left zero.
func (c Config) WithDefaults() Config { return filled(c, Default()) }

// filled returns c with its zero fields set from d.
func filled[T any](c, d T) T {
	to, from := reflect.ValueOf(&c).Elem(), reflect.ValueOf(d)
	for i := range to.NumField() {
		if to.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
	return c
}

// Validate judges a configuration whose zero fields will be filled in; it names every field that is wrong.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(c.Node) > bus.MaxName {
		wrong("node: %d bytes, at most %d", len(c.Node), bus.MaxName)
	}
	for _, d := range []struct {
		name        string
		v, min, max time.Duration
	}{
		{"lease_ttl", c.LeaseTTL, 2 * time.Second, time.Hour},
		{"scrape_every", c.ScrapeEvery, 10 * time.Millisecond, time.Hour},
		{"heartbeat", c.Heartbeat, 10 * time.Millisecond, time.Minute},
		{"drain_timeout", c.DrainTimeout, time.Millisecond, 24 * time.Hour},
		{"settle_timeout", c.SettleTimeout, time.Millisecond, time.Hour},
	} {
		errs = append(errs, bus.CheckBounds(d.name, d.v, d.min, d.max))
	}
	errs = append(errs, bus.CheckBounds("keep_stream", c.KeepStream, 1, 1<<30),
		bus.CheckBounds("keep_total", c.KeepTotal, 1, 1<<34),
		bus.CheckBounds("max_completions", c.MaxCompletions, 1, 1<<20))
	for _, err := range c.Policies.Faults(c.knownPolicies(new(EngineConfig))) {
		wrong("policies.%w", err)
	}
	for _, err := range guard.Faults(c.Patterns) {
		wrong("patterns%w", err)
	}
	if looks := c.Policies.Guard == patterns; looks != (len(c.Patterns) > 0) {
		wrong("patterns: %d, and policies.guard is %q: %q looks for them, and needs one at least",
			len(c.Patterns), c.Policies.Guard, patterns)
	}
	for i, a := range c.Agents {
		if c.Policies.Adapter != "" && a.Engine.Adapters < 1 && c.shared(i) {
			wrong("agents[%d].engine.adapters: %d, and policies.adapter is %q: say how many adapters the engine "+
				"keeps ready (--max-cpu-loras)", i, a.Engine.Adapters, c.Policies.Adapter)
		}
		for _, err := range a.faults() {
			wrong("agents[%d].%w", i, err)
		}
		for j, b := range c.Agents[:i] {
			if a.ID == b.ID {
				wrong("agents[%d].id: agents[%d] is called %q as well", i, j, a.ID)
			}
			if at := a.Engine.KVEvents.Endpoint; at != "" && at != kvevent.NoEvents &&
				at == b.Engine.KVEvents.Endpoint && a.Engine.URL != b.Engine.URL {
				wrong("agents[%d].engine.kv_events.endpoint: agents[%d] hears another engine at %q: give each "+
					"engine one of its own", i, j, at)
			}
		}
	}
	return errors.Join(errs...)
}

// shared reports whether other agents have the same engine.
func (c *Config) shared(i int) bool {
	return slices.ContainsFunc(c.Agents, func(b AgentConfig) bool {
		return b.ID != c.Agents[i].ID && b.Engine.WithDefaults().URL == c.Agents[i].Engine.WithDefaults().URL
	})
}

// part is an agent's part of what its engine has of something, by the slots of all agents that sell it.
func (c *Config) part(a *AgentConfig, all int) int {
	slots, url := a.Slots, a.Engine.WithDefaults().URL
	for i := range c.Agents {
		if b := &c.Agents[i]; b.ID != a.ID && b.Engine.WithDefaults().URL == url {
			slots += b.Slots
		}
	}
	return int(int64(all) * int64(a.Slots) / int64(max(1, slots)))
}

// Validate judges one agent; it names every field that is wrong.
func (a AgentConfig) Validate() error { return errors.Join(a.faults()...) }

// faults says what is wrong with an agent, each in one line that begins with the field.
func (a AgentConfig) faults() (errs []error) {
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	found := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	found(bus.CheckID("id", a.ID))
	e := a.Engine.WithDefaults()
	if err := CheckURL(e.URL); err != nil {
		wrong("engine.url: %w", err)
	}
	if k := e.Kind; !slices.Contains([]string{"", KindVLLM, KindSGLang, KindLlamaCpp, KindOpenAI}, k) {
		wrong("engine.kind: %.80q is not %s, %s, %s or %s: leave it out, and the engine is asked", k, KindVLLM,
			KindSGLang, KindLlamaCpp, KindOpenAI)
	}
	for _, d := range []struct {
		name string
		v    time.Duration
	}{{"first_event", e.FirstEvent}, {"progress", e.Progress}, {"suspect", e.Suspect}, {"probe", e.Probe},
		{"relay_every", e.RelayEvery}} {
		found(bus.CheckBounds("engine."+d.name, d.v, 0, time.Hour))
	}
	if e.RelayEvery > time.Second {
		wrong("engine.relay_every: %v is more than 1s: readers would see the answer stutter", e.RelayEvery)
	}
	found(bus.CheckBounds("engine.adapters", e.Adapters, 0, 1024))
	if e.Adapter != (Adapter{}) && (e.Adapter.Path == "" || e.Adapter.Name != a.Model || a.Model == "") {
		wrong("engine.adapter: name %.80q, path %.80q: the name is to be the agent's model, %q, and the path "+
			"where the engine finds it", e.Adapter.Name, e.Adapter.Path, a.Model)
	}
	if len(e.Adapter.Path) > 4096 {
		wrong("engine.adapter.path: %d bytes, at most 4096", len(e.Adapter.Path))
	}
	if err := e.KVEvents.Validate(); err != nil {
		wrong("engine.kv_events.%w", err)
	}
	found(bus.CheckBounds("slots", a.Slots, 1, bus.MaxSlots))
	found(a.Price.Validate())
	found(bus.CheckBounds("ask", a.Ask, 0, market.MaxWorth))
	if len(errs) > 0 {
		return errs
	}
	// The rest as the registry will judge it, with a model where the engine's own is taken.
	r := a.registration("", 0, Info{}, bus.StateReady)
	r.Model = cmp.Or(r.Model, "any")
	found(r.Validate())
	return errs
}

// CheckURL says what is wrong with an engine's base URL.
func CheckURL(base string) error {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" ||
		u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%q is not like http://127.0.0.1:8000", bus.Redact(base))
	}
	root, ends := strings.CutSuffix(strings.TrimRight(base, "/"), "/v1")
	if ends { // as OpenAI's clients want it
		return fmt.Errorf("%q ends with /v1, which is added: give it without /v1, as %s", bus.Redact(base),
			bus.Redact(root))
	}
	return nil
}

// registration is the agent's entry in the registry.
func (a AgentConfig) registration(node string, boot int64, info Info, state string) *bus.Registration {
	features := slices.Clone(a.Features)
	pools := info.Pools
	for _, kind := range []string{bus.KindEmbedding, bus.KindRerank} {
		if slices.Contains(features, kind) && !strings.Contains(pools, kind) {
			pools = strings.TrimSpace(pools + " " + kind)
		}
	}
	if info.Parsers && !slices.Contains(features, bus.Parsers) {
		features = append(features, bus.Parsers)
	}
	if info.Kind != "" && info.Kind != KindVLLM && !slices.Contains(features, bus.Opaque) {
		features = append(features, bus.Opaque)
	}
	return &bus.Registration{
		Agent: a.ID, Boot: boot, Node: node, Model: a.Model, Scale: a.Scale, Domains: a.Domains,
		MaxModelLen: info.MaxModelLen, BlockSize: info.BlockSize, KVTokens: info.KVTokens,
		Slots: a.Slots, Price: a.Price, Owner: a.Owner, Class: a.Class, Features: features, Pools: pools,
		State:    state,
		Engine:   info.Version,
		Template: info.Template,
		FirstMS:  a.Engine.FirstEvent.Milliseconds(),
	}
}
