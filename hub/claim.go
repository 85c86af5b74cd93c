package hub

import (
	"fmt"
	"strings"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// settle is what an agent's account of a hold comes to: the account as it is recorded, and the cost that
// the rule gives. What cannot be is put right where it can be (nobody serves more than where the stream is
// cut, and what was counted from what was relayed is no more than that), and the account is then kept
// beside the record word for word, so that the audit names it too.
//
// An agent of an older release may report cached tokens and say beside that that its engine reported none:
// it believed that many to be there. The number stands, since it can only lower what the client pays, and
// the other word goes.
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
	if output != c.Usage.Output || c.NoCacheReport && c.Usage.Cached > 0 {
		f := *c
		f.Usage.Output, f.NoCacheReport = output, c.NoCacheReport && c.Usage.Cached == 0
		fair = &f
	}
	cost = market.SettleTariff(h.rec.Settle, h.rec.Price, h.rec.Tariff, h.rec.Quoted, fair.Usage,
		h.rec.Amount-h.rec.Premium)
	said := ledger.Claim{Usage: c.Usage, Relayed: c.Relayed, Most: h.most, Cost: c.Cost}
	if lies := said.Lies(&h.rec, c.Unmetered, cost); len(lies) > 0 {
		kept := said
		claim, lie = &kept, strings.Join(lies, "; ")
	}
	return fair, cost, claim, lie
}

// unfit ends a hold whose agent's account of it is none: said again it would be no better, so waiting for
// its time to pass serves nobody. Nothing is due, and the acknowledgement says so.
func (n *Node) unfit(c *bus.Completion, why error) error {
	h := n.holds[c.Hold]
	switch {
	case h == nil && (&bus.CompletionAck{Hold: c.Hold}).Validate() == nil:
		return n.complete(c) // it has ended: who says so again is told again
	case h == nil || c.Agent != h.agent.id || c.Boot != h.rec.Boot:
		return why
	}
	h.agent.speaks(n)
	n.stats.agent(h.agent.id).Failed++
	n.acks.put(h.id, bus.CodeLate)
	n.fail(h, bus.CodeBadRequest, bus.CodeAgentFailed,
		fmt.Sprintf("agent %s: its account of the task is none: %v", h.agent.id, why))
	if n.holds[c.Hold] == nil {
		n.send(c.Inbox, &bus.CompletionAck{Hold: c.Hold, Code: bus.CodeLate})
	}
	return why
}
