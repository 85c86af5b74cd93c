package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"souk/agentd/vllmsim"
	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/bustest/servers"
	"souk/bus/etcdreg"
	"souk/bus/natsbus"
	"souk/cmd/daemon"
	"souk/market"
)

// The command against real NATS and etcd servers and the stand-in for vLLM: it registers, serves what a hub
// awards, and leaves nothing behind when it is told to stop.
func TestServesAMarket(t *testing.T) {
	nats, etcd := servers.Start(t)
	engine, err := vllmsim.New(vllmsim.Config{Model: "tiny"})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	if err := engine.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "agentd.yaml")
	text := fmt.Sprintf(`market: {nats: %q, etcd: [%q]}
log: {level: debug}
agentd:
  node: n1
  agents:
    - {id: a1, engine: {url: %q}, domains: [{domain: math, score: 0.5}], slots: 4, price: {miss: 1, hit: 0.1, out: 4}}
`, nats.URL, etcd.Endpoint(), engine.URL())
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	running, sigterm := context.WithCancel(ctx)
	ended := make(chan int, 1)
	var log bytes.Buffer
	go func() { ended <- run(running, []string{"--config", path}, &log, &log) }()

	registry, err := etcdreg.Dial(t.Context(), etcdreg.Config{Endpoints: []string{etcd.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	defer registry.Close()
	hub, err := natsbus.Connect(natsbus.Config{URL: nats.URL, Name: "hub"})
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Close()

	var r bus.Registration
	agents, err := registry.Watch(ctx, bus.AgentsPrefix)
	if err != nil {
		t.Fatal(err)
	}
	for ev := range agents {
		if ev.Key == bus.AgentKey("a1") {
			if err := bus.DecodeEntry(ev.Value, &r); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	if r.Model != "tiny" || r.MaxModelLen != 8192 || r.BlockSize != 16 || r.KVTokens <= 0 ||
		r.Price.Hit != market.Credit/10 {
		t.Errorf("registered %+v", r)
	}
	lead, err := registry.Elect(ctx, bus.HubKey("math"), []byte(`{}`), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	claim, _ := bus.EncodeEntry(&bus.Claim{Agent: "a1", Domain: "math", Epoch: lead.Epoch()})
	fence, err := lead.Claim(ctx, bus.ClaimKey("a1"), claim)
	if err != nil {
		t.Fatal(err)
	}

	var said string
	chunks := make(chan bus.Chunk, 1024)
	listen := func(subject string, h func(bus.Msg)) {
		if _, err := hub.Subscribe(subject, "", h); err != nil {
			t.Fatal(err)
		}
	}
	listen("souk.v1.reply.ann.*.a1", func(m bus.Msg) {
		var c bus.Chunk
		if err := bus.Decode(m.Data, &c); err != nil {
			t.Error(err)
		}
		chunks <- c
	})
	completions := make(chan bus.Completion, 4)
	listen("souk.v1.hub.math.completion.*", func(m bus.Msg) {
		var c bus.Completion
		if err := bus.Decode(m.Data, &c); err != nil {
			t.Error(err)
		}
		ack, _ := bus.Encode(&bus.CompletionAck{Hold: c.Hold})
		hub.Publish(bus.Msg{Subject: m.Reply, Data: ack})
		completions <- c
	})
	d := bus.Dispatch{Kind: bus.DispatchTask, Domain: "math", Epoch: lead.Epoch(), Fence: fence, Boot: r.Boot,
		Journal: "math", Round: 1,
		Hold: "math/1/0", Model: "tiny", MaxTokens: 24,
		Price: r.Price, Premium: 5, Settle: market.SettleMetered, CostCap: market.Credit,
		Task: bus.Task{Client: "ann", ID: "t1", Stream: true, Reply: "souk.v1.reply.ann.t1",
			Body: []byte(`{"messages":[{"role":"user","content":"What is two and two?"}],"temperature":0}`)}}
	if err := hub.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	var reply bus.DispatchReply
	for asked := false; !asked; { // as a hub does: an agent whose lease is not yet its own says nothing
		within, end := context.WithTimeout(ctx, time.Second)
		reply, err = bustest.Hand(within, hub, "math", "a1", &d, nil)
		end()
		asked = err == nil || ctx.Err() != nil
	}
	if err != nil {
		t.Fatal(err, log.String())
	}
	if reply.Code != "" {
		t.Fatalf("%+v", reply)
	}
	var result bus.Result
	ids := 0
	for next := uint64(0); ; next++ {
		select {
		case c := <-chunks:
			if c.Seq != next {
				t.Fatalf("chunk %d, want %d", c.Seq, next)
			}
			said += c.Text
			ids += len(c.Tokens)
			if c.Result == nil {
				continue
			}
			result = *c.Result
		case <-ctx.Done():
			t.Fatal("no answer; the log says ", log.String())
		}
		break
	}
	c := <-completions
	want := r.Price.Cost(result.Usage)
	if result.Code != "" || result.Usage.Output != 24 && result.Finish != "stop" ||
		result.Usage.Output != ids || said == "" || result.Cost != want || c.Cost != want ||
		result.TTFTUS <= 0 {
		t.Errorf("%q, %d ids, %+v\n%+v", said, ids, result, c)
	}

	sigterm()
	select {
	case code := <-ended:
		if code != daemon.ExitOK {
			t.Errorf("exit %d: %s", code, log.String())
		}
	case <-ctx.Done():
		t.Fatal("still running")
	}
	if kvs, err := registry.Get(ctx, bus.AgentsPrefix); err != nil || len(kvs) != 0 {
		t.Errorf("left behind: %v %v", kvs, err)
	}
}
