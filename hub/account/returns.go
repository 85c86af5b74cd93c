package account

import (
	"fmt"
	"slices"
	"strings"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// MaxReturns bounds returns remembered from before a start, to be told again.
const MaxReturns = 1 << 16

// returnsPerFrame bounds the returns of a frame: a stopping hub has one for each client that ever paid.
const returnsPerFrame = 256

// returnAbove hands back what is above an amount of each client's money that is neither held nor reserved.
func (r *Room) returnAbove(keep market.Credits, clients ...string) {
	here, number := r.turn.Journal, r.turn.Book.LastReturn(r.turn.Journal)
	for some := range slices.Chunk(clients, returnsPerFrame) {
		var records []ledger.Record
		for _, client := range some {
			if amount := r.available(client) - keep; amount > 0 {
				number++
				records = append(records, ledger.NewReturn(here, number, client, amount, r.turn.Salt()))
			}
		}
		if len(records) == 0 {
			continue
		}
		if err := r.turn.Commit(records...); err != nil {
			r.turn.Fault(fmt.Errorf("returns up to %d: %w", number, err))
			return
		}
		for i := range records {
			t := records[i].Transfer
			r.returns = append(r.returns, *t)
			if p := r.clients[t.Client]; p != nil && p.request != nil && !p.request.req.Ahead {
				p.request.least = max(p.request.least, p.request.req.Needs-keep) // see bus.FundsRequest.Needs
			}
		}
		r.sendReturns()
	}
}

// ReturnAll hands back all of clients' money that is neither held nor reserved.
func (r *Room) ReturnAll() { r.returnAbove(0, names(r.turn.Book)...) }

// Recalled gives back a client's money that no task here needs, and says what is left. The reply leaves after
// the return's frame is durable.
func (r *Room) Recalled(m *bus.Recall) error {
	if m.Hub != r.turn.Journal {
		return fmt.Errorf("recall of what hub %s has, this is %s", m.Hub, r.turn.Journal)
	}
	if r.outOfDate(m.Epoch) {
		return fmt.Errorf("recall by a treasury of epoch %d, and one of epoch %d has spoken", m.Epoch,
			r.epoch)
	}
	if m.Order != nil {
		return r.order(m)
	}
	if !m.Look && r.turn.Doubt == "" {
		r.returnAbove(0, m.Client)
		if p := r.clients[m.Client]; p != nil {
			p.notAhead = r.turn.Now().Add(aheadAgain) // others want it
		}
	}
	if m.Granted > r.turn.Book.LastGrant(r.turn.Journal) {
		r.AskAllotted()
	}
	b, a := r.turn.Book, bus.RecallReply{ID: m.ID, Hub: m.Hub, Client: m.Client}
	a.Avail, a.Held, a.Reserved = b.Avail(m.Client), b.Held(m.Client), r.Reserved(m.Client)
	a.Accepted, a.Returned = b.LastGrant(m.Hub), b.LastReturn(m.Hub)
	a.Uses, a.Since = b.Uses(m.Client, m.UsesKey, m.UsesDay)
	r.turn.Send(m.Inbox, &a)
	return nil
}

// returnWindow bounds the returns that are announced at once. The treasury takes them in order, and few that
// overtake others.
const returnWindow = 64

// sendReturns tells the treasury of the next returns. A request's id is made from the return's number, so
// that telling it twice changes nothing. After a start the treasury first says which of them it has, unless
// the hub is about to stop.
func (r *Room) sendReturns() {
	if !r.told && !r.turn.Draining {
		return
	}
	for _, t := range r.returns[:min(len(r.returns), returnWindow)] {
		if id := bus.ReturnID(r.turn.Journal, t.Number); r.requests[id] == nil {
			r.post(&request{op: bus.OpReturn,
				req: bus.FundsRequest{ID: id, Client: t.Client, Amount: t.Amount}})
		}
	}
}

// returned takes the reply to a return. A return that is refused is in the way of all that follow, so the
// operator is told.
func (r *Room) returned(a *request, m *bus.FundsReply) {
	if m.Code != "" {
		if !a.refused {
			a.refused = true
			r.turn.Fault(fmt.Errorf("treasury on return %s: %s: %s", m.ID, m.Code, m.Message))
		}
		r.requestLater(a, refusedAgain)
		return
	}
	r.over(a)
	is := func(t ledger.Transfer) bool { return bus.ReturnID(r.turn.Journal, t.Number) == m.ID }
	if i := slices.IndexFunc(r.returns, is); i >= 0 {
		// replies come nearly in order, so few returns are before this one
		copy(r.returns[1:i+1], r.returns[:i])
		r.returns = r.returns[1:]
	}
	r.sendReturns()
}

// tellReturns sends the returns that the treasury does not have: it has those up to taken.
func (r *Room) tellReturns(taken uint64) {
	r.told = true
	r.returns = slices.DeleteFunc(r.returns, func(t ledger.Transfer) bool {
		if t.Number > taken {
			return false
		}
		if a := r.requests[bus.ReturnID(r.turn.Journal, t.Number)]; a != nil {
			r.over(a)
		}
		return true
	})
	r.sendReturns()
}

// order records an operator's order at the treasury's command, or says what there is, and why not. The answer
// follows the record's frame. The number makes it once: the last order is said to who asks for it again.
func (r *Room) order(m *bus.Recall) error {
	b, here := r.turn.Book, r.turn.Journal
	a := &bus.RecallReply{ID: m.ID, Hub: here, Client: m.Client, Why: m.Why}
	if record, next := b.Take(*m.Order, m.Found, r.turn.Salt()); next && r.turn.Doubt == "" && m.Why == "" {
		if err := r.turn.Commit(record); err != nil {
			a.Why = bus.Clip(ledger.Plain(err), bus.MaxText)
		} else if record.Kind == ledger.KindRefund {
			r.Charged(record.Transfer.Client)
			r.admit(r.client(record.Transfer.Client))
		}
	}
	last := b.LastOrder(here)
	if a.Next, a.There, a.Ripe = last.Number+1, b.There(m.Order, m.Found), b.Ripe(); last.Number > 0 {
		a.Last = &last
	}
	r.turn.Send(m.Inbox, a)
	return nil
}

// Close ends the hub, step by step as time passes: it takes no more tasks, which the Node sees to; what runs
// is settled; everything that clients have here goes back; its surplus leaves, by the treasury's command; the
// treasury counts it as ended; and its journal is closed. A step that was made stays, so a hub that was
// stopped goes on from there.
func (r *Room) Close() { r.closing = true }

// Closing reports whether the hub ends: it was told to, or the treasury counts it as ended.
func (r *Room) Closing() bool { return r.closing }

// Waits says what a hub that ends waits for.
func (r *Room) Waits() string {
	holds := r.turn.Book.OpenCount()
	switch left := r.turn.Book.Balance(ledger.Surplus); {
	case r.turn.Doubt != "":
		return r.turn.Doubt
	case holds > 0:
		return fmt.Sprintf("%d holds are open: their tasks run, or their agents have not said how they ended", holds)
	case !r.told || len(r.returns) > 0 || r.hasMoney():
		return "the treasury has not taken back everything that clients have here"
	case left > 0 && !r.ended:
		return fmt.Sprintf("a surplus of %s is left: souk distribute %s says how it leaves%s", left,
			r.turn.Journal, r.Unpaid())
	case owed(r.turn.Book) > 0 && !r.ended:
		return strings.TrimPrefix(r.Unpaid(), "; ")
	case r.notEnded != "":
		return r.notEnded
	}
	return "the treasury has not answered"
}

// Unpaid says what agents are due here, which a closed journal cannot say was paid; "": nothing.
func (r *Room) Unpaid() string {
	due := owed(r.turn.Book)
	if due == 0 {
		return ""
	}
	return fmt.Sprintf("; agents are due %s, and a closed journal takes no remittance: ledger bal 'agent:*' says "+
		"who is, and souk remit AGENT AMOUNT that it was paid", due)
}

// owed sums up what agents are due.
func owed(b *ledger.Book) (sum market.Credits) {
	for _, a := range b.Balances("agent:*") {
		sum += a.Amount // of what clients paid
	}
	return sum
}

// hasMoney reports whether any of a client's money is here.
func (r *Room) hasMoney() bool {
	return slices.ContainsFunc(r.turn.Book.Balances("client:*"),
		func(b ledger.Balance) bool { return b.Amount > 0 })
}

// empty reports whether nobody's money is here or on its way from here, as far as the treasury has said. From
// a hub that counts as ended no surplus leaves, and no agent is paid: both stay on record.
func (r *Room) empty() bool {
	return r.told && r.turn.Book.OpenCount()+len(r.returns) == 0 && !r.hasMoney() &&
		(r.ended || r.turn.Book.Balance(ledger.Surplus)+owed(r.turn.Book) == 0)
}

// toldEnded closes a hub that the treasury counts as ended. It was stopped after the treasury ended it and
// before its journal was closed, or somebody ended it in its name. It is granted no money, so every task
// would be refused for ever.
func (r *Room) toldEnded() {
	r.ended = true
	if r.closing {
		return
	}
	r.turn.Fault(fmt.Errorf("the treasury counts hub %s as ended and grants it nothing: it settles what "+
		"runs, gives "+
		"back what clients have here, closes its journal and stops; start a hub with a journal of another "+
		"name",
		r.turn.Journal))
	r.tasks.Ended()
}

// CloseOn makes the next step of the end.
func (r *Room) CloseOn() {
	if !r.closing || !r.turn.Leading || r.turn.Doubt != "" || r.turn.Closed() || r.turn.Book.OpenCount() > 0 {
		return
	}
	if len(r.returns) == 0 && r.hasMoney() {
		r.ReturnAll()
	}
	id := r.turn.Journal + "-close"
	a := r.requests[id]
	if a == nil {
		if !r.empty() {
			return
		}
		for _, other := range r.requests { // which may come after this one, and be granted
			if other.op == bus.OpAllot {
				return
			}
		}
		a = &request{op: bus.OpClose, req: bus.FundsRequest{ID: id}}
		defer r.post(a)
	}
	a.req.After = r.turn.Book.LastGrant(r.turn.Journal)
	a.req.Returned = r.turn.Book.LastReturn(r.turn.Journal)
	a.req.Ordered = r.turn.Book.LastOrder(r.turn.Journal).Number
}

// treasuryEnded takes the treasury's answer to the end of the hub. If their numbers differ, the hub asks
// again with those of its journal then.
func (r *Room) treasuryEnded(a *request, m *bus.FundsReply) {
	if m.Code != "" {
		r.notEnded = fmt.Sprintf("the treasury said %s: %s", m.Code, m.Message)
		r.AskAllotted()
		r.requestLater(a, repeatAfter)
		return
	}
	r.over(a)
	if !r.empty() { // something has come since: CloseOn gives it back and asks again
		return
	}
	if err := r.turn.Commit(ledger.NewClose(r.turn.Journal, r.turn.Salt())); err != nil {
		r.turn.Fault(fmt.Errorf("close the journal: %w", err))
	}
}
