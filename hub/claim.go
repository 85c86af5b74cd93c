package hub

import (
	"fmt"
	"strings"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// settle returns what is recorded of an agent's account of a hold, and the cost that the rule gives. An
// account that cannot be true is corrected: no answer is longer than where the stream is cut, and tokens
// counted from what was relayed are no more than that. Then claim is the account word for word. It is kept
// beside the record, so that the audit names it, too.
//
// An agent that got the task because it said that it holds some of the prompt is paid for that much as
// cached, whatever its engine found: the quote that won was made of its word, so it pays for what was not
// true, and the client does not.
func (h *hold) settle(c *bus.Completion) (fair *bus.Completion, cost market.Credits, claim *ledger.Claim,
	lie string) {
	output := c.Usage.Output
	if most := h.rec.MaxTokens; most > 0 {
		output = min(output, most)
	}
	if c.Unmetered {
		output = min(output, c.Relayed)
	}
	fair = c
	billed := bus.Billed(c.Usage, max(h.rec.Asserted, c.Asserted))
	if output != c.Usage.Output || billed != c.Usage {
		f := *c
		f.Usage = billed
		f.Usage.Output, f.NoCacheReport = output, c.NoCacheReport && billed.Cached == 0
		fair = &f
	}
	cost = market.Settle(h.rec.Settle, h.rec.Price, h.rec.Tariff, h.rec.Quoted, fair.Usage,
		h.rec.Amount-h.rec.Premium)
	said := ledger.Claim{Usage: c.Usage, Relayed: c.Relayed, Most: h.most, Cost: c.Cost}
	if lies := said.Lies(&h.rec, c.Unmetered, cost); len(lies) > 0 {
		kept := said
		claim, lie = &kept, strings.Join(lies, "; ")
	}
	return fair, cost, claim, lie
}

// unfit ends a hold whose agent sent an account that is not valid. A repeat would not be valid either, so
// there is nothing to wait for. Nothing is due, and the acknowledgement says so.
func (n *Node) unfit(c *bus.Completion, why error) error {
	h := n.holds[c.Hold]
	switch {
	case h == nil && (&bus.CompletionAck{Hold: c.Hold}).Validate() == nil:
		return n.complete(c) // it has ended: who says so again is told again
	case h == nil || c.Agent != h.agent.id || c.Boot != h.rec.Boot:
		return why
	}
	h.agent.alive(n)
	n.stats.agent(h.agent.id).Failed++
	n.acks.Put(h.task.key.client, h.id, bus.CodeLate, 1)
	n.fail(h, bus.CodeBadRequest, bus.CodeAgentFailed,
		fmt.Sprintf("agent %s: its account of the task is none: %v", h.agent.id, why))
	if n.holds[c.Hold] == nil {
		n.send(c.Inbox, &bus.CompletionAck{Hold: c.Hold, Code: bus.CodeLate})
	}
	return why
}
