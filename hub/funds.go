package hub

import (
	"fmt"
	"slices"
	"time"

	"souk/bus"
	"souk/market"
)

// Sizes of allotments, counted in a client's largest holds. chunkHolds are asked for at once. Below
// lowWaterHolds the hub asks for more before a task needs it.
const (
	chunkHolds    = 8
	lowWaterHolds = 4
)

// aheadAgain is how long the hub does not ask ahead for a client, after the treasury had nothing of its money
// to spare, or has called some of it back.
const aheadAgain = 5 * time.Second

// fund reserves what a task needs, or has it await funds while more is asked for.
func (n *Node) fund(t *task, need market.Credits) {
	p := n.account(t.key.client)
	t.account = p
	p.largest = max(need, p.largest-p.largest/8)
	t.wanted = need
	if len(p.awaiting) == 0 && need <= n.available(p.client) {
		p.reserved += need
		t.reserved = need
		n.enqueue(t)
		n.requestAhead(p)
		return
	}
	t.state = awaitingFunds
	p.awaiting = append(p.awaiting, t)
	n.timers.set(&t.timer, earlier(t.deadline, n.now.Add(n.cfg.FundsWait)))
	n.requestFor(p)
}

// enqueue lets a funded task wait for a slot.
func (n *Node) enqueue(t *task) {
	n.wait(t, 1)
	if t.only == nil && t.moves == 0 && t.refusals == 0 {
		n.regimes.watch.Came(n.nano)
	}
	t.free = t.state == fresh && n.waiting <= n.freeSlots(n.waiting)
	t.state = waiting
	n.batch.Add(t, t.arrived)
	t.left = t.deadline.Sub(n.now)
	n.lasts(t, t.surplus)
	wake := t.deadline
	if t.moves > 0 {
		wake = earlier(wake, n.now.Add(beatEvery)) // its reader waits for chunks
	}
	n.timers.set(&t.timer, wake)
	n.status.changed = true
	n.makeRoom()
}

// wait counts a task in or out that waits for a slot.
func (n *Node) wait(t *task, by int) {
	p := n.accounts[t.key.client]
	n.room.move(p.waiting, p.waiting+by)
	n.waiting += by
	p.waiting += by
}

// release gives a task's reservation back.
func (n *Node) release(t *task) {
	if t.reserved > 0 {
		n.accounts[t.key.client].reserved -= t.reserved
		t.reserved = 0
	}
}

// requestFor asks the treasury for what the first task that awaits funds lacks, and more, so that the next
// need not wait.
func (n *Node) requestFor(p *account) {
	n.admitFunded(p)
	if p.request != nil || len(p.awaiting) == 0 || n.treasury.gap {
		return
	}
	needs := p.awaiting[0].wanted
	least := needs - n.available(p.client)
	n.allot(p, max(least, times(p.largest, chunkHolds)), least, needs)
}

// requestAhead asks before a task needs it, if little is left.
func (n *Node) requestAhead(p *account) {
	if p.request == nil && !n.treasury.gap && n.available(p.client) < times(p.largest, lowWaterHolds) &&
		!n.now.Before(p.notAhead) && p.largest > 0 {
		n.allot(p, times(p.largest, chunkHolds), p.largest, 0)
	}
}

// times multiplies within what an amount may be.
func times(c market.Credits, k int64) market.Credits {
	v, ok := c.Mul(k)
	if !ok {
		return market.MaxCredits
	}
	return min(v, market.MaxCredits)
}

// allot asks for money of a client, of which least is missing for a task that needs so much; 0: no task waits
// for it.
func (n *Node) allot(p *account, amount, least, needs market.Credits) {
	p.request = &request{op: bus.OpAllot, client: p.client, least: least, ahead: needs == 0,
		req: bus.FundsRequest{ID: n.requestID(), Client: p.client, Amount: amount, Least: least, Needs: needs,
			Returned: n.book.LastReturn(n.cfg.Journal), Ahead: needs == 0}}
	n.post(p.request)
}

// funded takes the treasury's answer. Grants are accepted in the order of their numbers, each once.
func (n *Node) funded(m *bus.FundsReply) error {
	a := n.treasury.requests[m.ID]
	if a == nil {
		return fmt.Errorf("no request %s to the treasury is under way", m.ID)
	}
	old := !isSilence(m) && n.outOfDate(m.Epoch)
	if a.why = ""; old || m.Code == bus.CodeUnavailable || n.isForeign(m) {
		if !old {
			a.why = m.Message
			n.putOff(m.Message)
		}
		n.land(a)
		n.unanswered(a)
		return nil
	}
	n.hearMark(a, m.Epoch, m.Code, m.Mark)
	switch a.op {
	case bus.OpReturn:
		n.returned(a, m)
	case bus.OpAllotted:
		n.over(a)
		n.missed(a, m)
	case bus.OpClose:
		n.treasuryEnded(a, m)
	default:
		n.allotted(a, m)
	}
	return nil
}

// admitFunded admits tasks that can be funded now, first come first.
func (n *Node) admitFunded(p *account) {
	if p == nil {
		return
	}
	for len(p.awaiting) > 0 && p.awaiting[0].wanted <= n.available(p.client) {
		t := p.awaiting[0]
		p.awaiting = p.awaiting[1:]
		if t.sought { // it asked for little, and there may be more
			n.within(t, t.share(n.available(p.client), 1+len(p.awaiting)))
			t.sought = false
		}
		t.reserved = t.wanted
		p.reserved += t.reserved
		n.enqueue(t)
	}
}

// allotted takes the answer to a request for a client's money, and deals with those who wait for it.
func (n *Node) allotted(a *request, m *bus.FundsReply) {
	more := n.accept(m.Grants)
	p := n.accounts[a.client]
	if p != nil && m.Code == bus.CodeAllotmentPending && !a.ahead && len(p.awaiting) > 0 {
		// Other hubs are giving back what they have. Whoever awaits funds waits for it, and we ask again.
		p.pending = n.now
		n.requestLater(a, min(max(time.Duration(m.RetryMS)*time.Millisecond, backEvery), comeBackMost))
		n.admitFunded(p)
		return
	}
	n.over(a)
	if len(n.treasury.pending) > 0 {
		defer n.requestMissed()
	}
	if p == nil {
		return
	}
	n.admitFunded(p)
	switch m.Code {
	case "":
		if !more && len(n.treasury.pending) == 0 {
			// The treasury said yes and gave nothing. To ask at once would be a loop as fast as the bus.
			n.timers.set(&n.treasury.again, n.now.Add(missedAgain))
			return
		}
	case bus.CodeUnknownClient, bus.CodeInsufficientFunds, bus.CodeAllotmentPending:
		p.notAhead = n.now.Add(aheadAgain)
		if a.ahead && m.Code != bus.CodeUnknownClient {
			break // for money ahead of need no hub is asked to give back: for one that waits it is, next
		}
		var poor []*task
		for _, t := range p.awaiting {
			if m.Code == bus.CodeUnknownClient || t.wanted-n.available(p.client) >= a.least {
				poor = append(poor, t)
			}
		}
		for _, t := range poor {
			if !n.lower(t, p, m, len(poor)) {
				n.end(t, n.broke(t, p, m))
			}
		}
		n.admitFunded(p)
	default:
		p.notAhead = n.now.Add(aheadAgain)
		for len(p.awaiting) > 0 {
			t := p.awaiting[0]
			n.end(t, n.refusal(t.msg, bus.CodeAllotmentPending, time.Second, "the treasury said %s: %s",
				m.Code, m.Message))
		}
		return
	}
	if len(n.treasury.pending) == 0 {
		n.requestFor(p)
	}
}

// isRecalled reports whether other hubs are giving back money of a client for whom a task waits here.
func (n *Node) isRecalled(client string) bool {
	p := n.accounts[client]
	return p != nil && p.request != nil && !p.pending.IsZero() && n.now.Sub(p.pending) < noAnswer+comeBackMost
}

// lower has a task that may cost more than its client can spend pay at most what is free, if that is enough
// for some agent: nearly every answer costs a small part of what it may cost. Else nobody could spend the
// last of a balance, or a small budget. A task whose answer need not be cut, once the others here have ended,
// waits for these: no bid says which of the two it is. Where too little is known of, the treasury is asked
// for just what is enough: it calls no money back from other hubs where more is asked for than they have. It
// reports whether the task may still be served.
func (n *Node) lower(t *task, p *account, m *bus.FundsReply, among int) bool {
	free, all := total(max(0, n.available(p.client)), m.Prepaid), n.all(p, m)
	if m.Code != bus.CodeInsufficientFunds || t.wanted <= free ||
		t.only != nil { // an agent would be judged by an answer that it was not paid for
		return false
	}
	if t.worst > free && t.worst <= all {
		return n.seek(t, t.worst, m)
	}
	return n.within(t, t.share(free, among)) || all < t.least && n.seek(t, t.least, m)
}

// seek has a task ask for so much, once, that other hubs may have.
func (n *Node) seek(t *task, most market.Credits, m *bus.FundsReply) bool {
	if t.sought || m.Allotted == 0 {
		return false
	}
	t.sought = true
	return n.within(t, most)
}

// lowerHere has a task pay at most what is free of its client's money at this hub, as the treasury says
// nothing, if its answer need not be cut for that. It reports whether the task waits for a slot now.
func (n *Node) lowerHere(t *task) bool {
	p := n.accounts[t.key.client]
	available := n.available(p.client)
	if t.only != nil || t.worst > available || !n.within(t, t.share(available, len(p.awaiting))) {
		return false
	}
	p.drop(t)
	p.awaiting = slices.Insert(p.awaiting, 0, t)
	n.admitFunded(p)
	return true
}

// share is what a task may have of what is free, among so many that came at once: so much that its answer
// need not be cut, if there is so much.
func (t *task) share(free market.Credits, among int) market.Credits {
	return min(free, max(t.worst, free/market.Credits(among)))
}

// within lowers what a task may cost to so much, and what is to be reserved for it with that. It
// reports whether some agent would serve it for that, as agents stood when it came; else all stay.
func (n *Node) within(t *task, most market.Credits) bool {
	if most <= 0 || most < t.least {
		return false
	}
	t.most = most
	if n.setTerms(t) != nil {
		return false
	}
	t.wanted = t.terms.Cap()
	return true
}

// all is what a client has once none of its tasks here holds anything: at the hub, and at the treasury.
func (n *Node) all(p *account, m *bus.FundsReply) market.Credits {
	return total(max(0, n.available(p.client)), n.book.Held(p.client), p.reserved, m.Prepaid)
}

// total adds up within what an amount may be.
func total(list ...market.Credits) (sum market.Credits) {
	for _, c := range list {
		var ok bool
		if sum, ok = sum.Add(max(0, c)); !ok {
			return market.MaxCredits
		}
	}
	return min(sum, market.MaxCredits)
}

// broke is the refusal of a task that its client cannot pay for. What its other tasks here hold comes back
// when they end: where that would do, the task may come again then.
func (n *Node) broke(t *task, p *account, m *bus.FundsReply) *bus.Result {
	if m.Code == bus.CodeUnknownClient {
		return n.refusal(t.msg, m.Code, 0, "the treasury knows no client %s: make a deposit first", p.client)
	}
	elsewhere := m.Message // names the hubs that keep what they have of it
	if elsewhere == "" {
		elsewhere = money(m.Prepaid) + " are left with the treasury"
	}
	available, held := max(0, n.available(p.client)), n.book.Held(p.client)+p.reserved
	code, retry, advice := m.Code, time.Duration(0), ""
	all, least := n.all(p, m), t.least
	if t.worst <= all {
		least = t.worst
	}
	if min(t.wanted, least) <= all && held > 0 {
		code, retry, advice = bus.CodeAllotmentPending, time.Second, "come again when these have ended, "
	}
	return n.refusal(t.msg, code, retry,
		"the task may cost %s, and at least %s must be free for it; client %s has %s to spend at this hub, "+
			"and %s are held for its other tasks here; %s: %sdeposit more, or, where that is the budget of "+
			"a key, wait until it is filled up",
		money(t.wanted), money(least), p.client, money(available), money(held), elsewhere, advice)
}
