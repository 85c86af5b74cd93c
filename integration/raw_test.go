package integration

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"souk/agentd"
	agentserve "souk/agentd/serve"
	"souk/agentd/vllm"
	"souk/agentd/vllmsim"
	"souk/bus"
	"souk/bus/etcdreg"
	"souk/bus/natsauth"
	"souk/bus/natsbus"
)

// `nats request souk.v1.task.dev '{...}'` gets the whole answer, and what it cost, as one JSON object.
func TestNATSRequestGetsTheWholeAnswer(t *testing.T) {
	m := start(t, one)
	nc := raw(t, m)
	reply, err := nc.Request("souk.v1.task.dev",
		[]byte(`{"messages":[{"role":"user","content":"What is a souk?"}],"max_tokens":30}`), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Text    string
		Cost    json.Number
		Hub     string
		Agent   string
		Usage   struct{ Completion_tokens int }
		Receipt struct{ ID string }
	}
	if err := json.Unmarshal(reply.Data, &r); err != nil {
		t.Fatalf("%v: %s", err, reply.Data)
	}
	if r.Text == "" || r.Cost == "" || r.Cost == "0" || r.Hub != "general" || r.Agent != "only" ||
		r.Usage.Completion_tokens == 0 || r.Receipt.ID == "" {
		t.Errorf("got %s", reply.Data)
	}
}

// `stream: true` gets word of who serves the task, then numbered chunks on the reply subject, then an end
// frame.
func TestRawStream(t *testing.T) {
	m := start(t, one)
	nc := raw(t, m)
	chunks, err := nc.SubscribeSync("souk.v1.reply.dev.raw-1.*")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	reply, err := nc.Request("souk.v1.task.dev",
		[]byte(`{"messages":[{"role":"user","content":"What is a souk?"}],"max_tokens":30,"stream":true,"souk":{"task":"raw-1"}}`), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var a bus.Accepted
	if err := json.Unmarshal(reply.Data, &a); err != nil || a.Agent != "only" ||
		a.Reply != "souk.v1.reply.dev.raw-1" {
		t.Fatalf("%v: %s", err, reply.Data)
	}
	var text strings.Builder
	for seq := uint64(0); ; {
		msg, err := chunks.NextMsg(10 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		var c bus.Chunk
		if err := bus.Decode(msg.Data, &c); err != nil {
			t.Fatal(err)
		}
		switch {
		case c.Heartbeat:
		case c.Result != nil:
			if c.Result.Chunks != seq || c.Result.Usage.Output == 0 || text.Len() == 0 ||
				c.Result.Receipt == nil {
				t.Errorf("after %d chunks and %q came the end frame %+v", seq, text.String(), c.Result)
			}
			return
		case c.Seq != seq:
			t.Fatalf("chunk %d came after %d chunks", c.Seq, seq)
		default:
			seq++
			text.WriteString(c.Text)
		}
	}
}

// A trace context that the client sends reaches the engine: same trace, whatever parts it passed.
func TestTraceContextReachesTheEngine(t *testing.T) {
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	engine, err := vllmsim.New(vllmsim.Config{Model: "gpt-oss-20b"})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	var mu sync.Mutex
	var heard, state string
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/completions") {
			mu.Lock()
			heard, state = r.Header.Get("traceparent"), r.Header.Get("tracestate")
			mu.Unlock()
		}
		engine.ServeHTTP(w, r)
	}))
	defer front.Close()
	m := start(t, strings.Replace(one, "{profile: steady}", `{url: "`+front.URL+`"}`, 1))
	nc := raw(t, m)
	msg := nats.NewMsg("souk.v1.task.dev")
	msg.Data = []byte(`{"messages":[{"role":"user","content":"Hello"}],"max_tokens":5}`)
	msg.Header.Set("traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
	msg.Header.Set("tracestate", "souk=1")
	if _, err := nc.RequestMsg(msg, time.Minute); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if !strings.HasPrefix(heard, "00-"+trace+"-") || state != "souk=1" {
		t.Errorf("the engine heard traceparent %q, tracestate %q", heard, state)
	}
}

// A second node whose agent has a name that is taken is refused; the first one goes on.
func TestTwoAgentsOfOneName(t *testing.T) {
	m := start(t, one)
	engine, err := vllmsim.New(vllmsim.Config{Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	if err := engine.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	files, err := natsauth.ClientCert(m.Keys.Dir, "thief", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	secure, err := natsauth.TLSOf(files)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := etcdreg.Dial(t.Context(), etcdreg.Config{Endpoints: []string{
		strings.TrimPrefix(m.State.Etcd, "https://")}, TLS: secure})
	if err != nil {
		t.Fatal(err)
	}
	defer registry.Close()
	creds, err := m.Keys.Ensure(bus.RoleAgentd, bus.IDs{Name: "agentd", Agents: []string{"only"}},
		time.Now())
	if err != nil {
		t.Fatal(err)
	}
	b, err := natsbus.Connect(natsbus.Config{URL: m.State.NATS, Name: "agentd",
		Creds: natsauth.File(creds)})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	card := m.Config.Agents[0]
	price, err := card.Card()
	if err != nil {
		t.Fatal(err)
	}
	cfg := agentd.Default()
	cfg.Node = "elsewhere"
	cfg.Agents = []agentd.AgentConfig{{ID: "only", Engine: agentd.EngineConfig{URL: engine.URL()}, Model: "m",
		Slots: 1, Price: price,
		Domains: []bus.DomainScore{{Domain: "general", Score: 0.9}}}}
	node, err := agentserve.NewServer(cfg,
		agentserve.Deps{Bus: b, Registry: registry,
			Engine: func(c agentd.EngineConfig) agentd.Engine { return vllm.New(c) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := node.Run(ctx); err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "only") {
		t.Errorf("the second agent \"only\" ran until %v; want it refused at once", err)
	}
	if a, err := m.Ask(t.Context(), chat("Hello")); err != nil || a.Result.Code != "" ||
		a.Result.Model != "gpt-oss-20b" {
		t.Errorf("after that a task got %+v, %v", a.Result, err)
	}
}

// A card on which a cached token costs more than a computed one never enters the market.
func TestACardWhereAHitCostsMoreIsRefused(t *testing.T) {
	cfg := agentd.Default()
	cfg.Agents = []agentd.AgentConfig{{ID: "a", Engine: agentd.EngineConfig{URL: "http://127.0.0.1:1"},
		Slots:   1,
		Domains: []bus.DomainScore{{Domain: "general", Score: 1}}}}
	cfg.Agents[0].Price.Miss, cfg.Agents[0].Price.Hit, cfg.Agents[0].Price.Out = 100, 200, 300
	if _, err := agentserve.NewServer(cfg, agentserve.Deps{}); err == nil ||
		!strings.Contains(err.Error(), "hit") {
		t.Errorf("got %v", err)
	}
}
