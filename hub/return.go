package hub

import (
	"fmt"
	"slices"
	"strings"

	"souk/bus"
	"souk/ledger"
)

// returnSpare hands back what no task needs, client by client: a stopping hub strands no money.
func (n *Node) returnSpare() {
	number := n.book.LastReturn(n.cfg.Journal)
	for _, b := range n.book.Balances("client:*:avail") {
		client := strings.TrimSuffix(strings.TrimPrefix(b.Account, "client:"), ":avail")
		amount := b.Amount
		if p := n.purses[client]; p != nil {
			amount -= p.reserved
		}
		if amount <= 0 {
			continue
		}
		number++
		rec := ledger.NewReturn(n.cfg.Journal, number, client, amount, n.salt())
		if err := n.commit(rec); err != nil {
			n.fault(fmt.Errorf("return %d: %w", number, err))
			return
		}
		n.sendReturn(returnRequest(n.cfg.Journal, rec))
	}
}

// returnRequest tells the treasury of a return. Its id is made from the return's number, so that telling it
// twice changes nothing.
func returnRequest(journal string, rec ledger.Record) bus.FundsRequest {
	t := rec.Transfer
	return bus.FundsRequest{ID: bus.ReturnID(journal, t.Number), Client: t.Client, Hub: journal, Amount: t.Amount}
}

func (n *Node) sendReturn(r bus.FundsRequest) {
	r.Epoch = n.epoch
	n.treasury.asks[r.ID] = ask{op: bus.OpReturn, client: r.Client}
	n.treasury.returns = append(n.treasury.returns, r)
	n.out.Funds = append(n.out.Funds, Funds{bus.OpReturn, r})
}

// returned notes that the treasury has taken a return in; any other answer is tried again at the next start.
func (n *Node) returned(m *bus.FundsReply) error {
	if m.Code != "" && m.Code != bus.CodeUnavailable {
		n.fault(fmt.Errorf("treasury on return %s: %s: %s", m.ID, m.Code, m.Message))
	}
	if m.Code == "" {
		n.treasury.returns = slices.DeleteFunc(n.treasury.returns, func(r bus.FundsRequest) bool { return r.ID == m.ID })
	}
	return nil
}

// resendReturns tells the treasury again of the returns that it may not have heard of.
func (n *Node) resendReturns() {
	again := n.treasury.returns
	n.treasury.returns = nil
	for _, r := range again {
		n.sendReturn(r)
	}
}
