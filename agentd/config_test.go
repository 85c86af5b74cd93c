package agentd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"souk/bus"
	"souk/market"
)

const node = `node: rack-3
drain_timeout: 30s
agents:
  - id: tiny-1
    engine: {url: "http://127.0.0.1:8000", progress: 10s}
    model: tiny
    domains: [{domain: math, score: 0.8}, {domain: general, score: 0.5}]
    slots: 8
    price: {miss: 0.15, hit: 0.015, out: 0.6}
`

func decode(text []byte) (Config, error) {
	c := Default()
	if err := yaml.UnmarshalWithOptions(text, &c, yaml.Strict()); err != nil {
		return c, fmt.Errorf("node.yaml: %s", yaml.FormatError(err, false, true))
	}
	return c, c.Validate()
}

func TestDecodeConfig(t *testing.T) {
	c, err := decode([]byte(node))
	if err != nil {
		t.Fatal(err)
	}
	a := c.Agents[0]
	if c.Node != "rack-3" || c.DrainTimeout != 30*time.Second ||
		a.Engine.Progress != 10*time.Second ||
		a.Price != (market.Price{Miss: 150_000_000, Hit: 15_000_000, Out: 600_000_000}) ||
		a.Domains[1] != (bus.DomainScore{Domain: "general", Score: 0.5}) {
		t.Errorf("%+v", c)
	}
	for _, bad := range []struct{ from, to, want string }{
		{"drain_timeout: 30s", "drain_time: 30s", `node.yaml: [2:1] unknown field "drain_time"`},
		{"    slots: 8", "    slots: 8\n    slots: 9", `"slots" already defined`},
		{"slots: 8", "slots: 0", "agents[0].slots: 0 is not from 1 to"},
		{"drain_timeout: 30s", "policies: {guard: sieve}",
			`policies.guard: there is no policy "sieve" here, only "patterns", "", which is none`},
		{"drain_timeout: 30s", "policies: {adapter: any}",
			`policies.adapter: there is no policy "any" here, only "next", "", which is none`},
		{"drain_timeout: 30s", "policies: {gard: patterns}", `unknown field "gard"`},
		{"drain_timeout: 30s", "policies: {guard: patterns}", `patterns: 0, and policies.guard is "patterns": `},
		{"drain_timeout: 30s", "patterns: [{name: n, pattern: ab, action: cut}]",
			`patterns: 1, and policies.guard is "": `},
		{"drain_timeout: 30s", "policies: {guard: patterns}\npatterns: [{name: n, pattern: 'a*b', action: cut}]",
			`patterns[0].pattern: "a*b": a match has no greatest length`},
		{"slots: 8", "slots: many", "[8:12]"},
		{"hit: 0.015", "hit: 0.2",
			"agents[0].price: hit is 0.2 and miss 0.15: a cached token may not cost more than a computed one"},
		{"hit: 0.015", "hit: -1", "price: hit"},
		{"id: tiny-1", "id: tiny.1", `agents[0].id: "tiny.1" is not an id`},
		{"http://127.0.0.1:8000", "127.0.0.1:8000",
			`agents[0].engine.url: "127.0.0.1:8000" is not like http://`},
		{"http://127.0.0.1:8000", "http://127.0.0.1:8000/?key=1",
			`"http://127.0.0.1:8000/?key=1" is not like http://`},
		{"http://127.0.0.1:8000", "http://10.0.0.7:8000/team/v1/",
			`agents[0].engine.url: "http://10.0.0.7:8000/team/v1/" ends with /v1, which is added: give it without ` +
				`/v1, as http://10.0.0.7:8000/team`},
		{"score: 0.8", "score: 1.8", "score"},
		{"domain: general", "domain: math", "math stands twice"},
		{"progress: 10s", "progress: -10s", "agents[0].engine.progress"},
		{"progress: 10s", "kv_events: {endpoint: 'tcp://node-7:5557'}",
			`agents[0].engine.kv_events.endpoint: "tcp://node-7:5557": "node-7" is not this machine alone`},
		{"progress: 10s", "kv_events: {replay: 'ipc:///run/kv'}", "agents[0].engine.kv_events.replay"},
		{"progress: 10s", "relay_every: 2s", "agents[0].engine.relay_every: 2s is more than 1s"},
		{"drain_timeout: 30s", "lease_ttl: 1s", "lease_ttl: 1s is not from 2s to"},
		{"drain_timeout: 30s", "keep_total: -1", "keep_total"},
		{"agents:\n", "agents:\n" + node[strings.Index(node, "  - id"):],
			`agents[1].id: agents[0] is called "tiny-1" as well`},
	} {
		text := strings.Replace(node, bad.from, bad.to, 1)
		if text == node {
			t.Fatalf("%q is not there", bad.from)
		}
		_, err := decode([]byte(text))
		if err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%q: error %v\nwant %q", bad.to, err, bad.want)
		}
	}
}

func TestDefaultIsValid(t *testing.T) {
	c := Default()
	c.Agents = []AgentConfig{oneAgent("a1", 1)}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if d := (Config{Agents: c.Agents}).WithDefaults(); d.MaxCompletions != c.MaxCompletions ||
		d.KeepTotal != c.KeepTotal {
		t.Errorf("%+v", d)
	}
}

// Two engines that say what they cache at one endpoint would be heard as one.
func TestOneEndpointForEachEngine(t *testing.T) {
	c := Default()
	c.Agents = []AgentConfig{oneAgent("a1", 1), oneAgent("a2", 1)}
	for i, at := range []string{"ipc:///run/a", "ipc:///run/a"} {
		c.Agents[i].Engine.KVEvents.Endpoint = at
	}
	if err := c.Validate(); err != nil {
		t.Error("two models of one engine:", err)
	}
	c.Agents[1].Engine.URL = "http://127.0.0.1:8009"
	const want = `agents[1].engine.kv_events.endpoint: agents[0] hears another engine at "ipc:///run/a"`
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

func FuzzDecodeConfig(f *testing.F) {
	f.Add([]byte(node))
	f.Add([]byte("agents: [{id: a, engine: {url: 'http://x'}, slots: 1e9}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := decode(data)
		if err == nil && len(c.Agents) == 0 {
			t.Error("a node without agents")
		}
	})
}
