package serve

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/embedded"
	"souk/bus/membus"
	"souk/bus/natsbus"
	"souk/ledger/journal"
	"souk/market"
)

// From a task's arrival on NATS to its dispatch at the agent, on a hub of 16 agents with nothing else to
// do, journal and sync included; sync-us is the append and sync alone.
func BenchmarkServerUncontended(b *testing.B) {
	ns, err := embedded.StartNATS(embedded.NATSConfig{})
	if err != nil {
		b.Fatal(err)
	}
	defer ns.Close()
	connect := func(name string) bus.Bus {
		c, err := natsbus.Connect(natsbus.Config{InProcess: ns, Name: name})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { c.Close() })
		return c
	}
	j, err := journal.Open(filepath.Join(b.TempDir(), "j"), journal.Config{MinFree: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	world := membus.New(1)
	s, err := New(testConfig(),
		Deps{Bus: connect(testConfig().Journal), Registry: world.Registry(), Journal: j,
			Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	town := connect("town")
	say := func(subject string, m bus.Message) {
		data, err := bus.Encode(m)
		if err == nil {
			err = town.Publish(bus.Msg{Subject: subject, Data: data})
		}
		if err != nil {
			b.Error(err)
		}
	}
	subscribe := func(subject string, h bus.Handler) {
		if _, err := town.Subscribe(subject, "", h); err != nil {
			b.Fatal(err)
		}
	}
	grant := uint64(0)
	subscribe("souk.v1.ledger.*", func(m bus.Msg) {
		var q bus.FundsRequest
		if err := bus.Decode(m.Data, &q); err != nil {
			b.Error(err)
		}
		r := bus.FundsReply{ID: q.ID}
		if bus.LastToken(m.Subject) == bus.OpAllot {
			grant++
			r.Grants = []bus.Grant{{Number: grant, Client: q.Client, Hub: q.Hub, Amount: q.Amount}}
		}
		say(m.Reply, &r)
	})
	arrived := make(chan time.Time, 1)
	settled := make(chan bool, 1)
	for i := range 16 {
		id := fmt.Sprintf("a-%02d", i)
		subscribe(bus.DispatchSubject(id, "*"), func(m bus.Msg) {
			at := time.Now()
			var d bus.Dispatch
			if err := bus.Decode(m.Data, &d); err != nil {
				b.Error(err)
			}
			say(m.Reply, &bus.DispatchReply{Agent: id, Boot: d.Boot, Hold: d.Hold})
			c := completion(id, d, market.Usage{Prompt: 500, Output: 10})
			data, _ := bus.Encode(c)
			town.Publish(bus.Msg{Subject: bus.CompletionSubject(d.Domain, id), Data: data,
				Reply: bus.InboxOf(id) + ".acks"})
			arrived <- at
		})
		reg := registration(id, 8)
		data, err := bus.EncodeEntry(&reg)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := world.Registry().Register(b.Context(), bus.AgentKey(id), data, time.Hour); err != nil {
			b.Fatal(err)
		}
	}
	subscribe(bus.InboxOf("*")+".acks", func(bus.Msg) { settled <- true })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	<-s.Ready()
	seq := uint64(0)
	heartbeat := func() {
		seq++
		for i := range 16 {
			id := fmt.Sprintf("a-%02d", i)
			say(bus.SummarySubject("math", id),
				&bus.Summary{Agent: id, Boot: 1, Seq: seq, State: bus.StateReady,
					Slots: 8, Price: card(1, 1, 4)})
		}
	}
	var total time.Duration
	last := time.Now()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if time.Since(last) > time.Second {
			last = time.Now()
			heartbeat()
		}
		begin := time.Now()
		say(bus.HubTaskSubject("math", "door"), benchTask(i))
		at := <-arrived
		total += at.Sub(begin)
		<-settled
		i++
	}
	b.StopTimer()
	st := s.Stats()
	b.ReportMetric(float64(total.Microseconds())/float64(i), "hop-us/task")
	b.ReportMetric(float64(st.Sync.P50.Microseconds()), "sync-us-p50")
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

func benchTask(i int) *bus.Task {
	return &bus.Task{Client: fmt.Sprintf("c-%d", i%16), ID: fmt.Sprintf("t-%d", i), Kind: bus.KindChat,
		Stream: true, MaxTokens: 256, Body: benchBody, Session: fmt.Sprintf("s-%d", i%500), Inbox: "inbox",
		Prompt: bus.Prompt{Bytes: 2000, Messages: 3, Tokens: 500, Prefixes: benchPrefixes}}
}

var (
	benchBody     = make([]byte, 2000)
	benchPrefixes = []bus.PrefixHash{{Bytes: 512, Hash: 1}, {Bytes: 1024, Hash: 2}, {Bytes: 1536, Hash: 3},
		{Bytes: 2000, Hash: 4}}
)
