package serve

import (
	"log/slog"
	"testing"

	"souk/agentd"
	"souk/bus"
)

// nowhere is a bus that takes everything.
type nowhere struct{ bus.Bus }

func (nowhere) Publish(bus.Msg) error { return nil }
func (nowhere) MaxPayload() int       { return 1 << 20 }

// What a relayed token costs here beside the engine's client and the bus: metering, encoding, keeping.
func BenchmarkRelay(b *testing.B) {
	s, err := NewServer(agentd.Config{Agents: []agentd.AgentConfig{oneAgent("a1", 4)}},
		Deps{Bus: nowhere{}, Engine: func(agentd.EngineConfig) agentd.Engine { return nil },
			Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	a := s.agents[0]
	a.core = newCore(4, s.cfg)
	d := dispatch("h")
	d.MaxTokens = 1 << 24
	d.CostCap = 1 << 60
	st := agentd.NewStream(begun, d, a.core.Begin(d), s.cfg.KeepStream)
	c := agentd.Chunk{Text: " solutions", Tokens: []uint32{2548}, Count: 1, Events: 1}
	b.ReportAllocs()
	for b.Loop() {
		if err := a.relay(st, c); err != nil {
			b.Fatal(err)
		}
	}
}
