package serve_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/membus"
	"souk/classifier"
	"souk/classifier/serve"
)

// BenchmarkDoor measures one task at the door, from the client's bytes to the hub's and back, on a bus in
// memory whose own cost is part of it, and beside a hub that answers with ready bytes. cpu-us/op is processor
// time of the whole process.
func BenchmarkDoor(b *testing.B) {
	body, _ := json.Marshal(map[string]any{
		"model": "auto", "stream": true, "max_tokens": 256,
		"messages": []map[string]string{
			{"role": "system", "content": "You are a helpful assistant."},
			{"role": "user", "content": strings.Repeat(mathQuestion+" ", 6)},
		},
	})
	packed, err := bus.Encode(&bus.Task{Body: body, Stream: true})
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		data []byte
	}{{"msgpack", packed}, {"json", body}} {
		b.Run(c.name, func(b *testing.B) {
			w := membus.New(1)
			door, clients, hubs := w.Bus("door"), w.Bus("clients"), w.Bus("hubs")
			defer door.Close()
			defer clients.Close()
			defer hubs.Close()
			registry := w.Registry()
			value, _ := bus.EncodeEntry(&bus.HubEntry{Domain: "math", Labels: []string{"math"}, Hub: "h",
				Journal: "j", General: true})
			lead, err := registry.Elect(b.Context(), bus.HubKey("math"), value, time.Hour)
			if err != nil {
				b.Fatal(err)
			}
			config := classifier.Default()
			config.ID, config.StatusTTL = "door", time.Hour
			s, err := serve.New(config,
				serve.Deps{Bus: door, Registry: registry, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			ctx, stop := context.WithCancel(b.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			<-s.Ready()
			answer, _ := bus.Encode(&bus.Answer{Accepted: &bus.Accepted{Client: "ada", Task: "t", Hub: "math",
				Agent: "a", Model: "m", Reply: bus.ReplyTo("ada", "t"), Round: 1}})
			hubs.Subscribe(bus.HubTaskSubject("math", "door"), "",
				func(m bus.Msg) { hubs.Publish(bus.Msg{Subject: m.Reply, Data: answer}) })
			status, _ := bus.Encode(&bus.Status{Domain: "math", Labels: []string{"math"}, Epoch: lead.Epoch(),
				Agents: 1, Slots: 64, Free: 64, Room: 64,
				Models: []bus.ModelStatus{{Model: "m", Agents: 1, Free: 64, Quality: 1}}})
			hubs.Publish(bus.Msg{Subject: bus.StatusSubject("math"), Data: status})
			b.ReportAllocs()
			from := cpu()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := clients.Request(b.Context(),
						bus.Msg{Subject: bus.TaskSubject("ada", ""), Data: c.data}); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64((cpu()-from).Microseconds())/float64(b.N), "cpu-us/op")
			stop()
			if err := <-ended; err != nil {
				b.Error(err)
			}
			if st := s.Stats(); st.Accepted < uint64(b.N) {
				b.Errorf("%d accepted of %d: %+v", st.Accepted, b.N, st)
			}
		})
	}
}

func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
