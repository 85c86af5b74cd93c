package client

import (
	"context"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/reader"
)

// deaf is a bus on which nobody answers but the door, who accepts all.
type deaf struct{ bus.Bus }

func (deaf) Publish(bus.Msg) error { return nil }
func (deaf) Subscribe(string, string, bus.Handler) (bus.Subscription, error) {
	return deaf{}, nil
}
func (deaf) Stop() error          { return nil }
func (deaf) Connected() time.Time { return time.Now() }
func (deaf) Request(context.Context, bus.Msg) (bus.Msg, error) {
	data, err := bus.Encode(&bus.Answer{Accepted: &bus.Accepted{Client: "ada", Task: "t", Hub: "h",
		Agent: "a"}})
	return bus.Msg{Data: data}, err
}

// What a chunk costs its reader here, from the bus to Next, without anybody waiting.
func BenchmarkHearAndRead(b *testing.B) {
	c, err := New(Config{ID: "ada"}, deaf{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	const many = 1024
	var msgs [many]bus.Msg
	for i := range msgs {
		data, err := bus.Encode(&bus.Chunk{Task: "t", Seq: uint64(i), Text: " solutions",
			Tokens: []uint32{2548}, Count: 1})
		if err != nil {
			b.Fatal(err)
		}
		msgs[i] = bus.Msg{Subject: bus.ReplySubject("ada", "t", "a"), Data: data}
	}
	task := bus.Task{ID: "t", Failover: "off"} // else what is kept grows with b.N
	s, err := c.Submit(b.Context(), task)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if n > 0 && n%many == 0 {
			s.mu.Lock()
			s.m = reader.New(c.c.reader(), &task, time.Now())
			s.m.Step(time.Now(),
				reader.Verdict{Answer: &bus.Answer{Accepted: &bus.Accepted{Hub: "h", Agent: "a"}}})
			s.m.Ready()
			s.mu.Unlock()
		}
		c.reader.hear(msgs[n%many])
		if got, err := s.take(); err != nil || got.Count != 1 {
			b.Fatalf("%+v %v", got, err)
		}
	}
}
