package hub

import (
	"fmt"
	"slices"
	"time"

	"souk/bus"
	"souk/ledger"
)

// distribute lets surplus leave at the treasury's command, or says what there is. The answer follows the
// record's frame. The number makes it once: what was distributed last is said to who asks for it again.
func (n *Node) distribute(m *bus.Recall) error {
	last, payee, amount := n.book.LastDistribute(n.cfg.Journal)
	if m.Amount > 0 && m.Number == last+1 && m.Amount <= n.book.Balance(ledger.Surplus) && n.doubt == "" {
		last, payee, amount = m.Number, m.Payee, m.Amount
		if err := n.commit(ledger.NewDistribute(n.cfg.Journal, last, payee, amount, "", false,
			n.salt())); err != nil {
			return err
		}
	}
	n.send(m.Inbox, &bus.RecallReply{ID: m.ID, Hub: n.cfg.Journal, Client: m.Client, Next: last + 1,
		Payee: payee, Amount: amount, Surplus: n.book.Balance(ledger.Surplus)})
	return nil
}

// Close ends the hub, step by step as time passes: it takes no more tasks; what runs is settled; everything
// that clients have here goes back; its surplus leaves, by the treasury's command; the treasury counts it as
// ended; and its journal is closed. A step that was made stays, so a hub that was stopped goes on from there.
func (n *Node) Close(now time.Time) {
	n.Drain(now)
	n.closing = true
}

// Closing reports whether the hub ends: it was told to, or the treasury counts it as ended.
func (n *Node) Closing() bool { return n.closing }

// Closed reports whether the journal is closed: nothing can follow.
func (n *Node) Closed() bool { return n.book.Closed(n.cfg.Journal) }

// Waits says what a hub that ends waits for.
func (n *Node) Waits() string {
	t := &n.treasury
	switch left := n.book.Balance(ledger.Surplus); {
	case n.doubt != "":
		return n.doubt
	case len(n.holds) > 0:
		return fmt.Sprintf("%d holds are open: their tasks run, or their agents have not said how they ended",
			len(n.holds))
	case !t.told || len(t.returns)+len(t.pending) > 0 || n.hasMoney():
		return "the treasury has not taken back everything that clients have here"
	case left > 0 && !t.ended:
		return fmt.Sprintf("a surplus of %s is left, which leaves by: souk distribute %s %s", left,
			n.cfg.Journal, left)
	case n.notEnded != "":
		return n.notEnded
	}
	return "the treasury has not answered"
}

// hasMoney reports whether any of a client's money is here.
func (n *Node) hasMoney() bool {
	return slices.ContainsFunc(n.book.Balances("client:*"),
		func(b ledger.Balance) bool { return b.Amount > 0 })
}

// empty reports whether nobody's money is here or on its way from here, as far as the treasury has said. From
// a hub that counts as ended no surplus leaves: it stays on record.
func (n *Node) empty() bool {
	t := &n.treasury
	return t.told && len(n.holds)+len(t.returns)+len(t.pending) == 0 && !n.hasMoney() &&
		(t.ended || n.book.Balance(ledger.Surplus) == 0)
}

// toldEnded closes a hub that the treasury counts as ended. It was stopped after the treasury ended it and
// before its journal was closed, or somebody ended it in its name. It is granted no money, so every task
// would be refused for ever.
func (n *Node) toldEnded() {
	n.treasury.ended = true
	if n.closing {
		return
	}
	n.fault(fmt.Errorf("the treasury counts hub %s as ended and grants it nothing: it settles what runs, gives "+
		"back what clients have here, closes its journal and stops; start a hub with a journal of another name",
		n.cfg.Journal))
	n.Close(n.now)
}

// closeOn makes the next step of the end.
func (n *Node) closeOn() {
	t := &n.treasury
	if !n.closing || !n.leading || n.doubt != "" || n.Closed() || len(n.holds) > 0 {
		return
	}
	if len(t.returns) == 0 && n.hasMoney() {
		n.returnAvailable()
	}
	id := n.cfg.Journal + "-close"
	a := t.requests[id]
	if a == nil {
		if !n.empty() {
			return
		}
		for _, other := range t.requests { // which may come after this one, and be granted
			if other.op == bus.OpAllot {
				return
			}
		}
		a = &request{op: bus.OpClose, req: bus.FundsRequest{ID: id}}
		defer n.post(a)
	}
	a.req.After, a.req.Returned = n.book.LastGrant(n.cfg.Journal), n.book.LastReturn(n.cfg.Journal)
	a.req.Distributed, _, _ = n.book.LastDistribute(n.cfg.Journal)
}

// treasuryEnded takes the treasury's answer to the end of the hub. Where they do not know the same, it is
// asked for again, with what the journal says then.
func (n *Node) treasuryEnded(a *request, m *bus.FundsReply) {
	if m.Code != "" {
		n.notEnded = fmt.Sprintf("the treasury said %s: %s", m.Code, m.Message)
		n.requestMissed()
		n.requestLater(a, repeatAfter)
		return
	}
	n.over(a)
	if !n.empty() { // something has come since: closeOn gives it back and asks again
		return
	}
	if err := n.commit(ledger.NewClose(n.cfg.Journal, n.salt())); err != nil {
		n.fault(fmt.Errorf("close the journal: %w", err))
	}
}
