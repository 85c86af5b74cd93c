package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"souk/agentd"
	agentserve "souk/agentd/serve"
	"souk/agentd/vllm"
	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/embedded"
	"souk/bus/membus"
	"souk/bus/natsbus"
	"souk/market"
)

// BenchmarkRelayedToken measures one token of 300 concurrent streams from the engine's socket to NATS, with
// everything in this process: a server that writes one event for each stream every 10 ms, the HTTP client,
// the node, the NATS server, and a subscriber that reads every chunk.
func BenchmarkRelayedToken(b *testing.B) {
	const streams, pause = 300, 10 * time.Millisecond
	each := max(b.N/streams, 50)
	event := []byte(`data: {"id":"chatcmpl-9b1f67bbfbd476c2","object":"chat.completion.chunk","created":1795175355,"model":"tiny","choices":[{"index":0,"delta":{"content":" solutions"},"logprobs":null,"finish_reason":null,"token_ids":[2548]}]}` + "\n\n")
	last := []byte(`data: {"id":"c","choices":[{"index":0,"delta":{"content":"."},"finish_reason":"stop","token_ids":[2]}],"usage":{"prompt_tokens":9,"completion_tokens":` + fmt.Sprint(each) + `}}` + "\n\ndata: [DONE]\n\n")
	mux := http.NewServeMux()
	mux.HandleFunc("/health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/v1/models", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"data":[{"id":"tiny","max_model_len":8192}]}`)
	})
	mux.HandleFunc("/v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for range each - 1 {
			<-tick.C
			w.Write(event)
			w.(http.Flusher).Flush()
		}
		w.Write(last)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: mux}
	go server.Serve(listener)
	defer server.Close()

	nats, err := embedded.StartNATS(embedded.NATSConfig{Listen: "127.0.0.1:0"})
	if err != nil {
		b.Fatal(err)
	}
	defer nats.Close()
	connect := func(name string) *natsbus.Bus {
		c, err := natsbus.Connect(natsbus.Config{URL: nats.URL, Name: name})
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	hub, node := connect("hub"), connect("node")
	defer hub.Close()
	defer node.Close()
	var chunks, tokens, gaps atomic.Int64
	var ended sync.WaitGroup
	next := map[string]uint64{}
	if _, err := hub.Subscribe("souk.v1.reply.*.*.*", "", func(m bus.Msg) {
		var c bus.Chunk
		if err := bus.Decode(m.Data, &c); err != nil {
			b.Error(err)
		}
		if c.Heartbeat {
			return
		}
		if c.Seq != next[c.Task] {
			gaps.Add(1)
		}
		next[c.Task] = c.Seq + 1
		chunks.Add(1)
		tokens.Add(int64(len(c.Tokens)))
		if c.Result != nil {
			ended.Done()
		}
	}); err != nil {
		b.Fatal(err)
	}
	if _, err := hub.Subscribe("souk.v1.hub.math.completion.*", "", func(m bus.Msg) {
		var c bus.Completion
		bus.Decode(m.Data, &c)
		ack, _ := bus.Encode(&bus.CompletionAck{Hold: c.Hold})
		hub.Publish(bus.Msg{Subject: m.Reply, Data: ack})
	}); err != nil {
		b.Fatal(err)
	}
	registry := membus.New(1).Registry()
	claim, _ := bus.EncodeEntry(&bus.Claim{Agent: "a1", Domain: "math", Epoch: 5})
	registry.Put(context.Background(), bus.ClaimKey("a1"), claim)
	price := market.Price{Miss: 1, Hit: 1, Out: 1}
	s, err := agentserve.NewServer(agentd.Config{Agents: []agentd.AgentConfig{{ID: "a1",
		Engine:  agentd.EngineConfig{URL: "http://" + listener.Addr().String()},
		Domains: []bus.DomainScore{{Domain: "math"}}, Slots: streams, Price: price}}},
		agentserve.Deps{Bus: node, Registry: registry, Log: slog.New(slog.DiscardHandler),
			Engine: func(c agentd.EngineConfig) agentd.Engine { return vllm.New(c) }})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	<-s.Ready()
	sold, err := registry.Get(ctx, bus.ClaimKey("a1"))
	if err != nil {
		b.Fatal(err)
	}
	listed, err := registry.Get(ctx, bus.AgentKey("a1"))
	if err != nil {
		b.Fatal(err)
	}
	var r bus.Registration
	if err := bus.DecodeEntry(listed[0].Value, &r); err != nil {
		b.Fatal(err)
	}
	before := cpu()
	b.ResetTimer()
	for i := range streams {
		id := fmt.Sprint("t", i)
		d := bus.Dispatch{Kind: bus.DispatchTask, Domain: "math", Epoch: 5,
			Fence: sold[0].Create, Boot: r.Boot, Journal: "math", Round: 1,
			Hold: id, Model: "tiny", MaxTokens: each + 1, Price: price, CostCap: market.Credit,
			Task: bus.Task{Client: "ann", ID: id, Stream: true, Reply: "souk.v1.reply.ann." + id,
				Body: []byte(`{"messages":[]}`)}}
		ended.Add(1)
		if r, err := bustest.Hand(ctx, hub, "math", "a1", &d, nil); err != nil || r.Code != "" {
			b.Fatalf("%+v %v", r, err)
		}
	}
	ended.Wait()
	spent := cpu() - before
	b.StopTimer()
	stop()
	if err := <-done; err != nil {
		b.Error(err)
	}
	if got, want := tokens.Load(), int64(streams*each); got != want || gaps.Load() != 0 {
		b.Errorf("%d tokens of %d, %d gaps", got, want, gaps.Load())
	}
	b.ReportMetric(float64(spent.Nanoseconds())/float64(tokens.Load()), "cpu-ns/token")
	b.ReportMetric(float64(tokens.Load())/float64(chunks.Load()), "tokens/message")
	b.ReportMetric(0, "ns/op")
}

// cpu returns the time that this process has used, user and system.
func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
