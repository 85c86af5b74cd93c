package hub

import (
	"fmt"
	"time"

	"souk/bus"
	"souk/ledger"
)

// maxPending bounds grants kept while one before them is missing.
const maxPending = 4096

// requestMissed asks what was allotted: a lost reply must not strand money.
func (n *Node) requestMissed() {
	t := &n.treasury
	if t.missed != nil {
		return
	}
	t.missed = &request{op: bus.OpAllotted, behind: len(t.pending) > 0,
		req: bus.FundsRequest{ID: n.requestID(), After: n.book.LastGrant(n.cfg.Journal),
			AtMS: max(0, n.now.UnixMilli()), Spent: n.spent()}}
	if m := n.treasurys(); !m.Zero() {
		t.missed.req.Known = &m
	}
	n.timers.set(&t.again, time.Time{})
	n.post(t.missed)
}

// missed takes in what the treasury says it allotted.
func (n *Node) missed(a *request, m *bus.FundsReply) {
	t := &n.treasury
	next := bus.FundsEvery
	defer func() {
		if t.missed == nil {
			n.timers.set(&t.again, n.now.Add(next))
		}
	}()
	if n.hearWord(m); n.doubt != "" {
		n.untold(a.req.Spent)
		if n.marks.awaits {
			next = missedAgain
		}
		return
	}
	overtaken := m.Known != nil && a.req.Mark != nil && m.Known.Seq > a.req.Mark.Seq
	if m.Code != "" || m.Mark == nil || overtaken { // of an overtaken word the treasury takes no charges
		n.untold(a.req.Spent)
	}
	if m.Code == "" && m.Mark != nil {
		n.toldMark(&a.req)
		defer n.writeMark()
	}
	if m.Code == "" {
		clear(t.pending) // the treasury names every grant there is: one that it does not name was a mistake
	}
	more := n.accept(m.Grants)
	if m.Code != "" {
		next = missedAgain
		if !t.refuses {
			t.refuses = true
			n.fault(fmt.Errorf("the treasury does not say what it allotted: %s: %s", m.Code, m.Message))
		}
		return
	}
	t.refuses = false
	if m.Ended {
		n.toldEnded()
	}
	n.tellReturns(m.Returned)
	switch {
	case more, len(n.marks.changed) > 0 && n.marks.judged && m.Mark != nil,
		len(t.pending) > 0 && !a.behind && !n.full:
		n.requestMissed() // a reply holds only so many grants, and one may have come before this reply
	case len(t.pending) > 0 && !n.full:
		next = missedAgain
		if !t.gap {
			t.gap = true
			n.fault(fmt.Errorf("the treasury gave later grants than number %d, but not that one",
				n.book.LastGrant(n.cfg.Journal)+1))
		}
	default:
		for _, p := range n.sortedAccounts() {
			n.requestFor(p)
		}
	}
}

// missedAgain is how soon the treasury is asked again what it allotted, if it did not say, or said yes and
// gave nothing.
const missedAgain = time.Second

// due implements timed.
func (t *treasury) due(n *Node) {
	if n.leading {
		n.requestMissed()
	}
}

// accept records grants in order and reports whether any was new.
func (n *Node) accept(grants []bus.Grant) (more bool) {
	for _, g := range grants {
		if g.Hub == n.cfg.Journal && g.Number > n.book.LastGrant(n.cfg.Journal) &&
			len(n.treasury.pending) < maxPending {
			n.treasury.pending[g.Number] = g
		}
	}
	if n.doubt != "" {
		return false
	}
	if n.full {
		return false // a nearly full disk has no room for new money; it is taken in later
	}
	var records []ledger.Record
	var clients []string
	next := n.book.LastGrant(n.cfg.Journal) + 1
	for ; ; next++ {
		g, ok := n.treasury.pending[next]
		if !ok {
			break
		}
		delete(n.treasury.pending, next)
		records = append(records, ledger.NewAccept(n.cfg.Journal, g.Number, g.Client, g.Amount, n.salt()))
		clients = append(clients, g.Client)
	}
	if len(records) == 0 {
		return false
	}
	if err := n.commit(records...); err != nil {
		n.fault(fmt.Errorf("accept grants up to %d: %w", next-1, err))
		return false
	}
	n.treasury.gap = false
	for _, c := range clients {
		p := n.account(c)
		n.admitFunded(p)
		n.startIdle(p)
	}
	return true
}
