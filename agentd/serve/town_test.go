package serve

import (
	"time"

	"souk/agentd"
	"souk/bus"
	"souk/market"
)

var (
	card  = market.Price{Miss: market.Credit, Hit: market.Credit / 10, Out: 4 * market.Credit} // per million
	begun = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
)

func oneAgent(id string, slots int) agentd.AgentConfig {
	return agentd.AgentConfig{ID: id, Engine: agentd.EngineConfig{URL: "http://127.0.0.1:1"}, Model: "tiny",
		Slots: slots, Price: card,
		Domains: []bus.DomainScore{{Domain: "math", Score: 0.8}, {Domain: "code", Score: 0.5}}}
}

func newTestAgent(slots int, limits agentd.Config) *agentd.Agent {
	return agentd.NewAgent(oneAgent("a1", slots), limits,
		agentd.Info{Models: []string{"tiny"}, BlockSize: 16, KVTokens: 1000}, 7)
}

// dispatch is one as hub "math" of epoch 5 sends it.
func dispatch(hold string) *bus.Dispatch {
	return &bus.Dispatch{Kind: bus.DispatchTask, Domain: "math", Epoch: 5, Journal: "math", Round: 3,
		Hold: hold, Model: "tiny", MaxTokens: 100,
		Price: card, Premium: 11, SlotPrice: 9, Toll: -2, Fee: 2, Settle: market.SettleMetered, Quoted: 300,
		CostCap: market.Credit,
		Task: bus.Task{Client: "ann", ID: "t-" + hold, Session: "s-" + hold, Stream: true,
			Reply: "souk.v1.reply.ann.t-" + hold,
			Body:  []byte(`{"messages":[]}`), Prompt: bus.Prompt{Tokens: 50}}}
}

func claim(epoch int64) *bus.Claim {
	return &bus.Claim{Agent: "a1", Domain: "math", Epoch: epoch, Fence: epoch + 100}
}
