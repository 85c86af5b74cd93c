package bustest

import (
	"context"
	"fmt"
	"sync/atomic"

	"souk/bus"
	"souk/market"
)

// Card is the price list of an agent in tests, in credits per million tokens.
var Card = market.Price{Miss: market.Credit, Hit: market.Credit / 10, Out: 4 * market.Credit}

// Dispatch returns a dispatch from hub "math" to agent "a1", boot 7, in epoch 5 by [Claim], for a task of
// client "ann".
func Dispatch(hold string) *bus.Dispatch {
	return &bus.Dispatch{
		Kind: bus.DispatchTask, Domain: "math", Epoch: 5, Fence: 105, Boot: 7, Journal: "math", Round: 3,
		Hold:  hold,
		Model: "tiny", MaxTokens: 100, Price: Card, Premium: 11, SlotPrice: 9, Toll: -2, Fee: 2,
		Settle: market.SettleMetered, Quoted: 60_000, CostCap: market.Credit,
		Task: bus.Task{Client: "ann", ID: "t-" + hold, Session: "s-" + hold, Stream: true,
			Reply: bus.ReplyTo("ann", "t-"+hold), Body: []byte(`{"messages":[]}`),
			Prompt: bus.Prompt{Tokens: 50}},
	}
}

var handed atomic.Int64

// Hand hands a dispatch to an agent as a domain's hub does, and waits for its reply.
func Hand(ctx context.Context, b bus.Bus, domain, agent string, d *bus.Dispatch, h bus.Header) (
	r bus.DispatchReply, err error) {
	data, err := bus.Encode(d)
	if err != nil {
		return r, err
	}
	return HandBytes(ctx, b, domain, agent, data, h)
}

// HandBytes hands an agent what may be a dispatch.
func HandBytes(ctx context.Context, b bus.Bus, domain, agent string, data []byte, h bus.Header) (
	r bus.DispatchReply, err error) {
	m := bus.Msg{Subject: bus.DispatchSubject(agent, domain), Header: h, Data: data,
		Reply: bus.TakenSubject(domain, fmt.Sprint("1-", handed.Add(1)), agent)}
	replies := make(chan bus.Msg, 8)
	sub, err := b.Subscribe(m.Reply, "", func(m bus.Msg) { replies <- m })
	if err != nil {
		return r, err
	}
	defer sub.Stop()
	if err := b.Publish(m); err != nil {
		return r, err
	}
	select {
	case m := <-replies:
		return r, bus.Decode(m.Data, &r)
	case <-ctx.Done():
		return r, context.Cause(ctx)
	}
}

// Claim returns the claim of hub "math" to agent "a1" in an epoch.
func Claim(epoch int64) *bus.Claim {
	return &bus.Claim{Agent: "a1", Domain: "math", Epoch: epoch, Fence: epoch + 100}
}
