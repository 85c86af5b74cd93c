package serve

import (
	"time"

	"souk/agentd"
	"souk/bus"
	"souk/bus/bustest"
)

var dispatch, claim, card = bustest.Dispatch, bustest.Claim, bustest.Card

var begun = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func oneAgent(id string, slots int) agentd.AgentConfig {
	return agentd.AgentConfig{
		ID: id, Engine: agentd.EngineConfig{URL: "http://127.0.0.1:1"}, Model: "tiny", Slots: slots,
		Price:   card,
		Domains: []bus.DomainScore{{Domain: "math", Score: 0.8}, {Domain: "code", Score: 0.5}},
	}
}

// newCore is the machine of an agent whose engine is ready.
func newCore(slots int, limits agentd.Config) *agentd.Agent {
	info := agentd.Info{Models: []string{"tiny"}, BlockSize: 16, KVTokens: 1000}
	return agentd.NewAgent(oneAgent("a1", slots), limits, info, 7, [32]byte{1})
}
