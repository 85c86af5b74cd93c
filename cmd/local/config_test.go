package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"souk/market"
)

func TestDefaultMarket(t *testing.T) {
	c := Default()
	models, hubs := map[string]bool{}, map[string]int{}
	for _, a := range c.Agents {
		card, err := a.Card()
		if err != nil {
			t.Fatal(err)
		}
		if card.Hit >= card.Miss {
			t.Errorf("%s: a hit costs %s, a miss %s", a.ID, card.Hit, card.Miss)
		}
		models[a.Model] = true
		hubs[a.Scores[0].Domain]++
	}
	if len(c.Agents) < 6 || len(models) != 3 || len(c.Domains) != 3 {
		t.Errorf("%d agents of %d models in %d domains; want 6 or more of 3 in 3", len(c.Agents), len(models),
			len(c.Domains))
	}
	for _, d := range c.Domains {
		if hubs[d.Name] < 2 {
			t.Errorf("domain %s has %d agents, want two or more: one alone competes with nobody", d.Name,
				hubs[d.Name])
		}
	}
}

func TestPriceRowsAreAsPublished(t *testing.T) {
	got, err := Card("groq/openai/gpt-oss-20b")
	want := market.Price{Miss: 75_000_000, Hit: 37_500_000, Out: 300_000_000}
	if err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	if _, err := Card("groq/gpt-5"); err == nil || !strings.Contains(err.Error(), "known are") {
		t.Errorf("an unknown row gave %v", err)
	}
	rows, err := PriceRows()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if err := r.Card().Validate(); err != nil || r.Prices.Cached == 0 {
			t.Errorf("%s/%s: %v", r.Provider, r.Model, err)
		}
	}
}

const small = `
domains: [{name: general, general: true}]
agents:
  - {id: a, model: m, price_row: fireworks/gpt-oss-20b, scores: [{domain: general, score: 0.5}], engine: {url: "http://127.0.0.1:8000"}}
`

func TestConfigErrorsNameTheField(t *testing.T) {
	if _, err := ParseConfig("small.yaml", []byte(small)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, want string }{
		{"domains:", "domain: 1\ndomains:", `2: unknown field "domain": write domains`},
		{"model: m", "modell: m", `unknown field "agents[0].modell": write model`},
		{"model: m", "model: m, slots: many", `small.yaml:4: agents[0].slots: "many": write a whole number`},
		{"general: true", "general: maybe", `small.yaml:2: domains[0].general: "maybe": write true or false`},
		{"general: true", "general: false", "domains: 0 are general, want exactly 1"},
		{"name: general", "name: a.b", "domains[0].name"},
		{"score: 0.5", "score: 1.5", "agents[0].scores: general: 1.5, want 0 to 1"},
		{"domains:", "hub: {hedge: {upon: true}}\ndomains:", `hub: [2:15] unknown field "upon"`},
		{"domains:", "hub: {sessions: {admit: true}}\ndomains:", `hub: [2:7] unknown field "sessions"`},
		{"domains:", "hub: {domain: other}\ndomains:", "domain, hub, journal, labels and general are those"},
		{"general: true", "general: true, hub: {terms: {delta: 7}}", "of all: hub: terms: delta is 7, want more than"},
		{"general: true", "general: true, hub: 3", "domain general: hub: "},
		{"model: m", "model: m, agentd: {touches: true}", `agents[0].agentd: [4:32] unknown field "touches"`},
		{"model: m", "model: m, agentd: {id: b}", "id, model, slots, price, domains and engine.url stand"},
		{"domain: general", "domain: law", `agents[0].scores: there is no domain "law"`},
		{`{url: "http://127.0.0.1:8000"}`, "{profile: h200}",
			`agents[0].engine.profile: there is no "h200"; known are`},
		{`{url: "http://127.0.0.1:8000"}`, "{}", "agents[0].engine: give a profile or a url, and not both"},
		{`http://127.0.0.1:8000`, "127.0.0.1:8000", "agents[0].engine.url"},
		{`http://127.0.0.1:8000`, "http://127.0.0.1:8000/v1", "give it without /v1, as http://127.0.0.1:8000"},
		{"price_row: fireworks/gpt-oss-20b", "price: {miss: 0.1, hit: 0.2, out: 0.3}", "agents[0].price:"},
		{"price_row: fireworks/gpt-oss-20b", "price_row: nobody/nothing", "agents[0].price: price row"},
		{"price_row: fireworks/gpt-oss-20b, ", "", "agents[0].price: missing"},
		{"domains:", "listen: 0.0.0.0:4222\ndomains:", "speaks without TLS"},
		{"domains:", "speedup: -1\ndomains:", "speedup: -1, want above 0"},
		{"domains:", "clients: {dev: -5}\ndomains:", "clients: dev: a deposit is above 0"},
		{"domains:", "clients: {a.b: 5}\ndomains:", "clients: \"a.b\" is not an id"},
		{"domains:", "hub: {settle: later}\ndomains:",
			`of all: hub: settle: "later" is none of metered, quoted`},
		{"domains:", "hub: {pricing: tariff}\ndomains:", `ceiling: pricing "tariff" needs one above 0`},
		{"domains:", "hub: {tariffs: {l4: 0.1}}\ndomains:",
			`tariffs: they mean something under pricing "posted" alone`},
	} {
		changed := strings.Replace(small, c.from, c.to, 1)
		_, err := ParseConfig("small.yaml", []byte(changed))
		if err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.HasPrefix(err.Error(), "small.yaml:") {
			t.Errorf("%s: got %v\nwant it to hold %q", c.to, err, c.want)
		}
	}
	twice := small + strings.Join(strings.Split(small, "\n")[3:], "\n")
	if _, err := ParseConfig("small.yaml", []byte(twice)); err == nil ||
		!strings.Contains(err.Error(), `agents[1].id: "a" is there twice`) {
		t.Errorf("two agents with one id: %v", err)
	}
}

func TestLoopbackOnly(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:0": true, "localhost:4222": true, "[::1]:4222": true, "127.8.0.1:1": true,
		"0.0.0.0:4222": false, ":4222": false, "10.0.0.1:4222": false, "[::]:0": false,
		"example.org:80": false, "127.0.0.1": false,
	} {
		c := Default()
		c.Listen = address
		if err := c.Validate(); (err == nil) != ok {
			t.Errorf("%s: %v, want allowed = %v", address, err, ok)
		}
	}
	for more, ok := range map[string]bool{"": false, "gateway: {proxies: [10.0.0.7]}\n": true,
		"gateway: {tls: {cert: c.pem, key: k.pem}}\n": true} {
		if _, err := ParseConfig("http.yaml", []byte(small+"http: 0.0.0.0:8080\n"+more)); (err == nil) != ok {
			t.Errorf("http beyond loopback with %q: %v", more, err)
		}
	}
}

func TestOneMarketPerDirectory(t *testing.T) {
	path := t.TempDir()
	first, err := OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = OpenDir(path)
	if want := fmt.Sprintf("in use by the market of process %d", os.Getpid()); err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("a second market on the directory: %v, want %q", err, want)
	}
	// who is told to start one would hear that the directory is in use
	if _, err := ReadState(path); !errors.Is(err, errStarting) || errors.Is(err, ErrNoMarket) ||
		!strings.Contains(err.Error(), fmt.Sprintf("process %d brings it up", os.Getpid())) {
		t.Errorf("a market that is not up yet has the state %v", err)
	}
	first.Waits("no task is taken: the hub's journal is an older copy")
	if _, err := ReadState(path); !errors.Is(err, errStarting) ||
		!strings.Contains(err.Error(), fmt.Sprintf("process %d brings it up, and says: no task is taken",
			os.Getpid())) {
		t.Errorf("one that waits for the right journal has the state %v", err)
	}
	if _, err := OpenDir(path); err == nil ||
		!strings.Contains(err.Error(), fmt.Sprintf("process %d:", os.Getpid())) {
		t.Errorf("a second market on the directory: %v", err)
	}
	first.Waits("")
	if _, err := ReadState(path); err == nil || strings.Contains(err.Error(), "and says") {
		t.Errorf("once it waits for nothing in particular it has the state %v", err)
	}
	if err := first.Publish(State{PID: os.Getpid(), NATS: "nats://127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	if s, err := ReadState(path); err != nil || s.NATS != "nats://127.0.0.1:1" {
		t.Errorf("got %+v, %v", s, err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadState(path); !errors.Is(err, ErrNoMarket) ||
		!strings.Contains(err.Error(), "souk up --data "+path) {
		t.Errorf("a market that has ended has the state %v", err)
	}
	second, err := OpenDir(path)
	if err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	// A copy of its directory is not mistaken for it, nor what a killed market leaves behind, whoever has its
	// number now.
	if err := second.Publish(State{PID: os.Getpid(), NATS: "nats://127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	twin := t.TempDir()
	if err := os.CopyFS(twin, os.DirFS(path)); err != nil {
		t.Fatal(err)
	}
	s, err := ReadState(twin)
	if !errors.Is(err, ErrNoMarket) || !strings.Contains(err.Error(), "is a copy of") {
		t.Errorf("a copy has the state %+v, %v", s, err)
	}
	if err := os.WriteFile(stateFile(path), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadState(path); err == nil || !strings.Contains(err.Error(), "start it again") {
		t.Errorf("a state that cannot be read: %v", err)
	}
	second.Close()
}

func TestJournalsWithoutTheirRegistryAreRefused(t *testing.T) {
	path := t.TempDir()
	if err := os.MkdirAll(filepath.Join(path, "journal", "math"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := OpenDir(path)
	if err == nil || !strings.Contains(err.Error(), "Restore "+filepath.Join(path, "etcd")) {
		t.Fatalf("got %v, want the repair named", err)
	}
	if err := os.MkdirAll(filepath.Join(path, "etcd", "member"), 0o700); err != nil {
		t.Fatal(err)
	}
	d, err := OpenDir(path)
	if err != nil {
		t.Fatalf("with both: %v", err)
	}
	d.Close()
}

// Whatever the bytes: no panic, and what is taken can be started.
func FuzzParseConfig(f *testing.F) {
	f.Add(defaultMarket)
	f.Add([]byte(small))
	f.Add([]byte("domains: [{name: a, general: true}]\nagents: [{scores: [{}]}]"))
	f.Add([]byte("clients: {dev: 1e400}"))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("\x00"))
	f.Add([]byte(strings.Replace(small, "score: 0.5}]", "score: 0.5}], agentd: {ask: 1}", 1) +
		"hub: {regimes: {adapt: true}}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseConfig("fuzz.yaml", b)
		if err != nil {
			return
		}
		if err := c.Validate(); err != nil {
			t.Errorf("took a market that is not valid: %v", err)
		}
		for _, d := range c.Domains {
			if h, err := c.hub(d); err != nil || h.Validate() != nil {
				t.Errorf("took a market whose hub %s cannot be started: %v, %v", d.Name, err, h.Validate())
			}
		}
	})
}

// What a market's file says of hubs and agents is laid over what they have of themselves, a domain's over
// that of all.
func TestSettingsOfParts(t *testing.T) {
	c, err := ParseConfig("parts.yaml", []byte(`
hub: {fee: 0.000001, terms: {multiple: 9}, batch: {max_batch: 200}}
domains:
  - {name: general, general: true}
  - {name: math, hub: {terms: {delta: 0.7}, max_agents: 7}}
agents:
  - {id: a, model: m, price_row: fireworks/gpt-oss-20b, scores: [{domain: general, score: 0.5}], slots: 4,
     engine: {url: "http://127.0.0.1:8000", relay_every: 5ms}, agentd: {ask: 1, engine: {suspect: 3s}}}
agentd: {keep_stream: 4096, policies: {guard: patterns}, patterns: [{name: p, pattern: abc, action: cut}]}
gateway: {max_open: 7, max_open_per_key: 3, cors: ["http://localhost:5173"], pprof: "127.0.0.1:0"}
`))
	if err != nil {
		t.Fatal(err)
	}
	general, err := c.hub(c.Domains[0])
	if err != nil || general.Terms.Multiple != 9 || general.Terms.Delta == 0.7 ||
		general.Batch.MaxBatch != 200 || general.Fee != 1000 {
		t.Errorf("general: %+v, %v", general, err)
	}
	math, err := c.hub(c.Domains[1])
	if err != nil || math.Terms.Multiple != 9 || math.Terms.Delta != 0.7 || math.MaxAgents != 7 ||
		math.Hub != "math-1" {
		t.Errorf("math: %+v, %v", math, err)
	}
	a, err := c.Agents[0].config("http://engine", "m")
	if err != nil || a.Ask != market.Credit || a.Slots != 4 || a.Engine.URL != "http://engine" ||
		a.Engine.Suspect != 3*time.Second || a.Engine.RelayEvery != 5*time.Millisecond {
		t.Errorf("agent: %+v, %v", a, err)
	}
	n, err := c.node()
	if err != nil || n.KeepStream != 4096 || n.Policies.Guard != "patterns" || len(n.Patterns) != 1 ||
		n.Heartbeat != 2*time.Second {
		t.Errorf("node: %+v, %v", n, err)
	}
	g, err := c.gateway()
	if err != nil || g.MaxOpen != 7 || g.MaxOpenKey != 3 || len(g.CORS) != 1 || g.Pprof == "" ||
		g.WrongKeys != 20 {
		t.Errorf("gateway: %+v, %v", g, err)
	}
	for _, wrong := range []string{"agentd: {agents: [{id: b}]}", "agentd: {node: n}", "agentd: {gard: x}",
		"gateway: {id: g}", "gateway: {drain: 1s}", "gateway: {max_opn: 1}",
		"gateway: {pprof: \"0.0.0.0:1\"}", "gateway: {cors: [localhost]}",
		"gateway: {cors: [\"https://a.example/\"]}", "gateway: {cors: [\"https://A.example\"]}",
		"gateway: {cors: [\"https://a.example:443\"]}", "gateway: {cors: [\"http://a.example:80\"]}"} {
		part, _, _ := strings.Cut(wrong, " ")
		if _, err := ParseConfig("wrong.yaml", []byte(small+wrong+"\n")); err == nil ||
			!strings.Contains(err.Error(), part+" ") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// A market whose configuration says http: "" has no gateway; one that says nothing has.
func TestHTTPCanBeOff(t *testing.T) {
	for more, want := range map[string]string{"": "127.0.0.1:8080", "http: \"\"\n": "",
		"http: 127.0.0.1:0\n": "127.0.0.1:0"} {
		c, err := ParseConfig("small.yaml", []byte(more+small))
		if err != nil || c.HTTPAddress() != want {
			t.Errorf("%q: at %q, %v; want %q", more, c.HTTPAddress(), err, want)
		}
	}
	simulated := strings.Replace(small, `url: "http://127.0.0.1:8000"`, "profile: steady", 1)
	c, err := ParseConfig("small.yaml", []byte("listen: 127.0.0.1:0\nhttp: \"\"\n"+simulated))
	if err != nil {
		t.Fatal(err)
	}
	m, err := Start(t.Context(), Options{Dir: t.TempDir(), Config: c, Within: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if m.State.HTTP != "" || m.KeyFile != "" {
		t.Errorf("it listens at %q, with a key in %q", m.State.HTTP, m.KeyFile)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// Whoever is another user than the market's is told so, not only that something was not permitted.
func TestAnotherUsersDirectory(t *testing.T) {
	denied := &os.PathError{Op: "open", Path: "d/market.json", Err: syscall.EACCES}
	said := unreadable("d", denied)
	if !errors.Is(said, os.ErrPermission) || !strings.Contains(said.Error(), "be the user who started it") {
		t.Errorf("it says: %v", said)
	}
	if other := errors.New("torn"); unreadable("d", other) != other {
		t.Error("an error of another kind was changed")
	}
}
