package client

import (
	"testing"

	"souk/bus"
)

// deaf is a bus on which nobody answers.
type deaf struct{ bus.Bus }

func (deaf) Publish(bus.Msg) error { return nil }
func (deaf) Subscribe(string, string, bus.Handler) (bus.Subscription, error) {
	return deaf{}, nil
}
func (deaf) Stop() error { return nil }

// What a chunk costs its reader here, from the bus to Next, without anybody waiting.
func BenchmarkHearAndRead(b *testing.B) {
	c, err := New(Config{ID: "ada"}, deaf{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	s, err := c.open("t")
	if err != nil {
		b.Fatal(err)
	}
	s.order.kept.off = true // else it grows with b.N
	s.accept(&bus.Accepted{Agent: "a"}, s.heard)
	const many = 256
	var msgs [many]bus.Msg
	for i := range msgs {
		data, err := bus.Encode(&bus.Chunk{Task: "t", Seq: uint64(i), Text: " solutions", Tokens: []uint32{2548}, Count: 1})
		if err != nil {
			b.Fatal(err)
		}
		msgs[i] = bus.Msg{Subject: bus.ReplySubject("ada", "t"), Data: data}
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if n%many == 0 {
			s.mu.Lock()
			s.order.next, s.order.known = 0, 0
			s.mu.Unlock()
		}
		c.hear(msgs[n%many])
		if got, _, err := s.step(); err != nil || got.Count != 1 {
			b.Fatalf("%+v %v", got, err)
		}
	}
}
