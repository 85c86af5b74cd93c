package hub

import (
	"fmt"
	"slices"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// maxReturns bounds returns remembered from before a start, to be told again.
const maxReturns = 1 << 16

// giveBack is a return as the journal has it.
type giveBack struct {
	number uint64
	client string
	amount market.Credits
}

// returnsPerFrame bounds the returns of one frame: a stopping hub has one for each client that ever paid
// here.
const returnsPerFrame = 256

// returnAvailable hands back what no task needs, client by client: a stopping hub strands no money.
func (n *Node) returnAvailable() {
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
			n.treasury.returns = append(n.treasury.returns, given(&records[i]))
		}
		n.sendReturns()
		records = nil
		return true
	}
	for _, client := range n.clients() {
		amount := n.available(client)
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

// returnAbove hands back what is above an amount of a client's money that is neither held nor reserved.
func (n *Node) returnAbove(client string, keep market.Credits) {
	amount := n.available(client) - keep
	if amount <= 0 {
		return
	}
	r := ledger.NewReturn(n.cfg.Journal, n.book.LastReturn(n.cfg.Journal)+1, client, amount, n.salt())
	if err := n.commit(r); err != nil {
		n.fault(fmt.Errorf("return of %s of client %s: %w", money(amount), client, err))
		return
	}
	n.treasury.returns = append(n.treasury.returns, given(&r))
	n.sendReturns()
	if p := n.accounts[client]; p != nil && p.request != nil && !p.request.ahead {
		p.request.least = max(p.request.least, p.request.req.Needs-keep) // see bus.FundsRequest.Needs
	}
}

// recall gives back a client's money that no task here needs, and says what is left. The reply leaves after
// the return's frame is durable.
func (n *Node) recall(m *bus.Recall) error {
	if m.Hub != n.cfg.Journal {
		return fmt.Errorf("recall of what hub %s has, this is %s", m.Hub, n.cfg.Journal)
	}
	if n.outOfDate(m.Epoch) {
		return fmt.Errorf("recall by a treasury of epoch %d, and one of epoch %d has spoken", m.Epoch,
			n.treasury.epoch)
	}
	if m.Number > 0 {
		return n.distribute(m)
	}
	if !m.Look && n.doubt == "" {
		n.returnAbove(m.Client, 0)
		if p := n.accounts[m.Client]; p != nil {
			p.notAhead = n.now.Add(aheadAgain) // others want it
		}
	}
	if m.Granted > n.book.LastGrant(n.cfg.Journal) {
		n.requestMissed()
	}
	n.send(m.Inbox, &bus.RecallReply{
		ID: m.ID, Hub: n.cfg.Journal, Client: m.Client,
		Avail: n.book.Avail(m.Client), Held: n.book.Held(m.Client), Reserved: n.Reserved(m.Client),
		Accepted: n.book.LastGrant(n.cfg.Journal), Returned: n.book.LastReturn(n.cfg.Journal),
	})
	return nil
}

// sweep gives back, once in a leadership, the money of clients that have had no open task since it began.
// They may be many, so it takes a few at a time.
type sweep struct {
	clients []string
	begun   bool
	timer   timer
}

const (
	sweepStep  = 64
	sweepEvery = 50 * time.Millisecond
)

func (s *sweep) stop() { s.clients, s.begun = nil, false }

// due implements timed.
func (s *sweep) due(n *Node) {
	if !n.leading || n.draining || n.doubt != "" {
		return
	}
	if !s.begun {
		s.begun = true
		for _, client := range n.clients() {
			p := n.accounts[client]
			if n.book.Avail(client) > 0 && (p == nil || p.open == 0 && p.timer.place == 0) {
				s.clients = append(s.clients, client)
			}
		}
	}
	step := s.clients[:min(len(s.clients), sweepStep)]
	s.clients = s.clients[len(step):]
	for _, client := range step {
		if p := n.accounts[client]; p == nil {
			n.returnAbove(client, 0)
		} else if p.open == 0 {
			n.returnAbove(client, times(p.largest, lowWaterHolds))
		}
	}
	if len(s.clients) > 0 {
		n.timers.set(&s.timer, n.now.Add(sweepEvery))
	}
}

// returnWindow is how many returns are told at once. The treasury takes them in order, and few that overtake
// others.
const returnWindow = 64

// sendReturns tells the treasury of the next returns. A request's id is made from the return's number, so
// that telling it twice changes nothing. After a start it is first to say which of them it has, unless we are
// about to stop.
func (n *Node) sendReturns() {
	t := &n.treasury
	if !t.told && !n.draining {
		return
	}
	for _, r := range t.returns[:min(len(t.returns), returnWindow)] {
		if id := bus.ReturnID(n.cfg.Journal, r.number); t.requests[id] == nil {
			n.post(&request{op: bus.OpReturn, client: r.client, number: r.number,
				req: bus.FundsRequest{ID: id, Client: r.client, Amount: r.amount}})
		}
	}
}

// returned takes the reply to a return. A return that is refused is in the way of all that follow, so the
// operator is told.
func (n *Node) returned(a *request, m *bus.FundsReply) {
	if m.Code != "" {
		if !a.refused {
			a.refused = true
			n.fault(fmt.Errorf("treasury on return %s: %s: %s", m.ID, m.Code, m.Message))
		}
		n.requestLater(a, refusedAgain)
		return
	}
	n.over(a)
	t := &n.treasury
	if i := slices.IndexFunc(t.returns, func(r giveBack) bool { return r.number == a.number }); i >= 0 {
		// replies come nearly in order, so few returns are before this one
		copy(t.returns[1:i+1], t.returns[:i])
		t.returns = t.returns[1:]
	}
	n.sendReturns()
}

// tellReturns sends the returns that the treasury does not have: it has those up to taken.
func (n *Node) tellReturns(taken uint64) {
	t := &n.treasury
	t.told = true
	t.returns = slices.DeleteFunc(t.returns, func(r giveBack) bool {
		if r.number > taken {
			return false
		}
		if a := t.requests[bus.ReturnID(n.cfg.Journal, r.number)]; a != nil {
			n.over(a)
		}
		return true
	})
	n.sendReturns()
}
