package hub

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/embedded"
	"souk/bus/membus"
	"souk/bus/natsbus"
	"souk/ledger"
	"souk/ledger/journal"
	"souk/market"
)

// From a task's arrival on NATS to its dispatch at the agent, on a hub of 16 agents with nothing else to do, journal and
// sync included; dispatch-us is what the hub itself took of it, sync-us the append and sync alone.
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
	s, err := NewServer(testConfig(), Deps{Bus: connect("hub"), Registry: world.Registry(), Journal: j, Log: slog.New(slog.DiscardHandler)})
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
			r.Grants = []bus.Grant{{ID: q.ID, Number: grant, Client: q.Client, Hub: q.Hub, Amount: q.Amount}}
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
			say(m.Reply, &bus.DispatchReply{Agent: id, Hold: d.Hold})
			c := completion(id, d, market.Usage{Prompt: 500, Output: 10})
			data, _ := bus.Encode(c)
			town.Publish(bus.Msg{Subject: bus.CompletionSubject(d.Domain, id), Data: data, Reply: "acks"})
			arrived <- at
		})
		reg := registration(id, "llama", 8, 0.8, card(1, 1, 4))
		data, err := bus.EncodeEntry(&reg)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := world.Registry().Register(b.Context(), bus.AgentKey(id), data, time.Hour); err != nil {
			b.Fatal(err)
		}
	}
	subscribe("acks", func(bus.Msg) { settled <- true })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	<-s.Ready()
	seq := uint64(0)
	heartbeat := func() {
		seq++
		for i := range 16 {
			id := fmt.Sprintf("a-%02d", i)
			say(bus.SummarySubject("math", id), &bus.Summary{Agent: id, Boot: 1, Seq: seq, State: bus.StateReady, Slots: 8, Price: card(1, 1, 4)})
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
		say(bus.HubTaskSubject("math"), benchTask(i))
		at := <-arrived
		total += at.Sub(begin)
		<-settled
		i++
	}
	b.StopTimer()
	st := s.Stats()
	b.ReportMetric(float64(total.Microseconds())/float64(i), "hop-us/task")
	b.ReportMetric(float64(st.Decision.P50.Microseconds()), "dispatch-us-p50")
	b.ReportMetric(float64(st.Decision.P99.Microseconds()), "dispatch-us-p99")
	b.ReportMetric(float64(st.Sync.P50.Microseconds()), "sync-us-p50")
	b.ReportMetric(float64(st.Round.P50.Microseconds()), "round-us-p50")
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

// A hub starts: its journal of a million frames is read from the disk and made a Node of, from the first frame, and from a snapshot
// that is as old as one becomes. A task leaves two frames where rounds are small. making-us/frame is the CPU that snapshots cost the
// hub which keeps them, making-ms what one takes.
func BenchmarkStart(b *testing.B) {
	const million, behind = 1_000_000, 1 << 17
	dir := filepath.Join(b.TempDir(), "j")
	open := func() *journal.Journal {
		j, err := journal.Open(dir, journal.Config{MinFree: -1})
		if err != nil {
			b.Fatal(err)
		}
		return j
	}
	cfg := testConfig()
	j := open()
	n := 0
	l := newLoad(b, 16, 8, 16)
	var frames []ledger.Frame
	l.frames = func(f []ledger.Frame) {
		if frames = append(frames, f...); len(frames) >= 1000 {
			if err := j.Append(frames...); err != nil {
				b.Fatal(err)
			}
			n, frames = n+len(frames), frames[:0]
		}
	}
	snapshot := func() time.Duration {
		begin := time.Now()
		if err := j.Snapshot(nil, newHistory(cfg)); err != nil {
			b.Fatal(err)
		}
		return time.Since(begin)
	}
	var making time.Duration
	for i, next := 0, million-2*behind; n < million; i++ {
		if n >= next {
			making = snapshot()
			next += behind
		}
		l.task(b, i, 2*time.Millisecond)
	}
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
	for _, from := range []string{"snapshot", "first-frame"} {
		b.Run(from, func(b *testing.B) {
			if from == "first-frame" {
				if err := os.RemoveAll(filepath.Join(dir, "snapshots")); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				j := open()
				again, err := NewNode(cfg, [32]byte{2})
				if err == nil {
					err = j.Restore(again.history)
				}
				if err == nil {
					err = again.Recall()
				}
				if err != nil {
					b.Fatal(err)
				}
				j.Close()
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "frames/s")
			if from == "snapshot" {
				b.ReportMetric(float64(making.Milliseconds()), "making-ms")
			}
		})
	}
}
