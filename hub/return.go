package hub

import (
	"fmt"
	"slices"
	"strings"

	"souk/bus"
	"souk/ledger"
)

// returnsPerFrame bounds the returns of one frame: a stopping hub has one for each client that ever paid here.
const returnsPerFrame = 256

// returnSpare hands back what no task needs, client by client: a stopping hub strands no money.
func (n *Node) returnSpare() {
	number := n.book.LastReturn(n.cfg.Journal)
	var records []ledger.Record
	record := func() bool {
		if len(records) == 0 {
			return true
		}
		if err := n.commit(records...); err != nil {
			n.fault(fmt.Errorf("returns up to %d: %w", number, err))
			return false
		}
		for i := range records {
			r := given(&records[i])
			n.treasury.returns = append(n.treasury.returns, r)
			n.sendReturn(r)
		}
		records = nil
		return true
	}
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
		records = append(records, ledger.NewReturn(n.cfg.Journal, number, client, amount, n.salt()))
		if len(records) == returnsPerFrame && !record() {
			return
		}
	}
	record()
}

// given is a return by its record.
func given(r *ledger.Record) giveBack {
	return giveBack{r.Transfer.Number, r.Transfer.Client, r.Transfer.Amount}
}

// sendReturn tells the treasury of a return. The request's id is made from the return's number, so that telling it twice changes
// nothing.
func (n *Node) sendReturn(r giveBack) {
	q := bus.FundsRequest{ID: bus.ReturnID(n.cfg.Journal, r.number), Client: r.client, Hub: n.cfg.Journal, Epoch: n.epoch, Amount: r.amount}
	if _, asked := n.treasury.asks[q.ID]; asked {
		return
	}
	n.treasury.asks[q.ID] = ask{op: bus.OpReturn, client: r.client, number: r.number}
	n.out.Funds = append(n.out.Funds, Funds{bus.OpReturn, q})
}

// returned notes that the treasury has taken a return in. Any other answer is tried again when the treasury has said how many it
// has.
func (n *Node) returned(a ask, m *bus.FundsReply) error {
	switch {
	case m.Code == "":
		t := &n.treasury
		if i := slices.IndexFunc(t.returns, func(r giveBack) bool { return r.number == a.number }); i >= 0 {
			copy(t.returns[1:i+1], t.returns[:i]) // answers come nearly in order: what is before it is the shorter part
			t.returns = t.returns[1:]
		}
	case m.Code == bus.CodeUnavailable:
		n.treasury.owed = true
	default:
		n.fault(fmt.Errorf("treasury on return %s: %s: %s", m.ID, m.Code, m.Message))
	}
	return nil
}

const journalStale = "the hub's journal lacks its end: an older copy stands in its place"

// stale reports whether the treasury took in a return that this journal does not have: it is an older copy, and lists money as
// there to be spent that went back, or was spent, after it was made. Such a hub settles what runs and takes nothing more.
func (n *Node) stale(m *bus.FundsReply) bool {
	own := n.book.LastReturn(n.cfg.Journal)
	if m.Code != "" || m.Returned <= own {
		return n.lost
	}
	if !n.lost {
		n.lost = true
		n.status.changed = true
		n.fault(fmt.Errorf("%s: the treasury has taken in return %d of hub %s, and its last here is %d: nothing is awarded until the newer journal is back", journalStale, m.Returned, n.cfg.Journal, own))
		n.sendAway(bus.CodeUnavailable, journalStale)
	}
	return true
}

// resendReturns tells the treasury again of the returns that it has not heard of: it has those up to taken.
func (n *Node) resendReturns(taken uint64) {
	t := &n.treasury
	if !t.owed {
		return
	}
	t.owed = false
	t.returns = slices.DeleteFunc(t.returns, func(r giveBack) bool { return r.number <= taken })
	for _, r := range t.returns {
		n.sendReturn(r)
	}
}
