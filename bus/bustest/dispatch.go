package bustest

import (
	"souk/bus"
	"souk/market"
)

// Card is the price list of an agent in tests, in credits per million tokens.
var Card = market.Price{Miss: market.Credit, Hit: market.Credit / 10, Out: 4 * market.Credit}

// Dispatch is one as hub "math" sends it to agent "a1" in epoch 5, for a task of client "ann".
func Dispatch(hold string) *bus.Dispatch {
	return &bus.Dispatch{
		Kind: bus.DispatchTask, Domain: "math", Epoch: 5, Journal: "math", Round: 3, Hold: hold,
		Model: "tiny", MaxTokens: 100, Price: Card, Premium: 11, SlotPrice: 9, Toll: -2, Fee: 2,
		Settle: market.SettleMetered, Quoted: 300, CostCap: market.Credit,
		Task: bus.Task{Client: "ann", ID: "t-" + hold, Session: "s-" + hold, Stream: true,
			Reply: bus.ReplySubject("ann", "t-"+hold), Body: []byte(`{"messages":[]}`),
			Prompt: bus.Prompt{Tokens: 50}},
	}
}

// Claim is that hub's claim to the agent, in an epoch.
func Claim(epoch int64) *bus.Claim {
	return &bus.Claim{Agent: "a1", Domain: "math", Epoch: epoch, Fence: epoch + 100}
}
