package agentd

import (
	"log/slog"
	"testing"
	"time"

	"souk/bus"
)

// nowhere is a bus that takes everything.
type nowhere struct{ bus.Bus }

func (nowhere) Publish(bus.Msg) error { return nil }
func (nowhere) MaxPayload() int       { return 1 << 20 }

// What a relayed token costs here beside the engine's client and the bus: metering, encoding, keeping.
func BenchmarkRelay(b *testing.B) {
	s, err := NewServer(Config{Agents: []AgentConfig{oneAgent("a1", 4)}}, Deps{Bus: nowhere{}, Engine: func(EngineConfig) Engine { return nil }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	a := s.agents[0]
	a.core = newTestAgent(4, s.cfg)
	d := dispatch("h")
	d.MaxTokens = 1 << 24
	d.CostCap = 1 << 60
	st := newStream(begun, d, a.core.Begin(d), s.cfg.KeepStream)
	c := Chunk{Text: " solutions", Tokens: []uint32{2548}, Count: 1, Events: 1}
	b.ReportAllocs()
	for b.Loop() {
		if err := a.relay(st, c); err != nil {
			b.Fatal(err)
		}
	}
}

// One dispatch, accepted, served and settled by the core alone.
func BenchmarkAgentTask(b *testing.B) {
	a := newTestAgent(4, Config{})
	a.Claimed(claim(5))
	now := begun
	d := dispatch("h")
	id := []byte("math/00000000/0")
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		for i, x := 12, n; i > 4; i, x = i-1, x/10 {
			id[i] = byte('0' + x%10)
		}
		d.Hold = string(id)
		if r, start := a.Dispatch("math", d); !start {
			b.Fatal(r)
		}
		run := a.Begin(d)
		e := run.End(Answer{Finish: "stop", TTFT: time.Millisecond}, nil)
		a.Ended(d, &e)
		a.Acked(d.Hold, "")
		now = now.Add(time.Millisecond)
		a.Ready(now)
	}
}
