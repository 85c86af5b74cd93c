package hub

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"souk/bus"
	"souk/hub/line"
	"souk/ledger"
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

// Any request and any answer may be lost, so whatever is asked is asked again, under the same id, until it is
// answered or nobody needs the answer.
const (
	// noAnswer is how long the hub waits for an answer. That is longer than the shell needs to say that there
	// was none, so that MaxRequests bounds what is under way in the shell, too.
	noAnswer = 2*TreasuryTimeout + time.Second
	// repeatAfter is how soon the hub asks again where there was none.
	repeatAfter = time.Second
	// refusedAgain is how soon the hub tells again of a return that was refused.
	refusedAgain = time.Minute
	// comeBackMost bounds how long a treasury may tell us to wait.
	comeBackMost = 5 * time.Second
)

// MaxRequests bounds requests to the treasury that are under way together: a stopping hub has one for each
// client.
const MaxRequests = 256

// TreasuryTimeout is how long a request to the treasury may take: it syncs a journal of its own.
const TreasuryTimeout = 2 * time.Second

// purse is a client's money at this hub, beyond what the book says.
type purse struct {
	client   string
	round    uint64         // in which a task of it stood in a line last
	number   int            // of the client among those of that round
	own      line.Pressure  // of its own tasks
	pressure float64        // on its tasks in that round, of other clients'
	open     int            // tasks
	waiting  int            // of them, those that wait for a slot
	reserved market.Credits // by tasks that wait: not yet held
	largest  market.Credits // reserve of late, the measure of chunks
	parked   []*task        // wait for money, first come first
	request  *request       // under way
	notAhead time.Time      // not asked ahead before
	pending  time.Time      // when the treasury last said that hubs are giving money back
	timer    timer          // the end of its idleness
}

// has is how many tasks of the client wait, for its money or a slot.
func (p *purse) has() int {
	if p == nil {
		return 0
	}
	return p.waiting + len(p.parked)
}

func (p *purse) drop(t *task) {
	if i := slices.Index(p.parked, t); i >= 0 {
		p.parked = slices.Delete(p.parked, i, i+1)
	}
}

// treasury is the state of the hub's dealings with the treasury.
type treasury struct {
	number   uint64
	requests map[string]*request  // by id
	flying   int                  // of them, those that an answer may come to
	line     []*request           // requests that wait until one of those has its answer
	missed   *request             // OpAllotted, under way
	pending  map[uint64]bus.Grant // came before the grant of a lower number
	returns  []giveBack           // not yet known to be taken in, by number
	told     bool                 // in this leadership the treasury has said which of them it has
	again    timer                // for the next question what was allotted
	sweep    sweep
	ended    bool // it counts the hub as ended
	gap      bool // a grant is missing, also at the treasury: the hub asks for no more
	refuses  bool // it would not say what it allotted, and that was logged
}

// request is one to the treasury that is not answered.
type request struct {
	op      string
	req     bus.FundsRequest
	client  string
	least   market.Credits
	number  uint64 // of a return
	ahead   bool   // no task waits for it
	flying  bool
	again   bool // it was asked more than once
	behind  bool // it was first asked when a grant was missing before one that had come
	refused bool
	timer   timer
}

// maxPending bounds grants kept while one before them is missing.
const maxPending = 4096

// maxReturns bounds returns remembered from before a start, to be told again.
const maxReturns = 1 << 16

// giveBack is a return as the journal has it.
type giveBack struct {
	number uint64
	client string
	amount market.Credits
}

func newTreasury() treasury {
	return treasury{requests: map[string]*request{}, pending: map[uint64]bus.Grant{}}
}

// idle reports whether no answer is waited for.
func (t *treasury) idle() bool { return t.flying == 0 }

// forgetRequests drops requests under way: their answers will not come to this leadership.
func (n *Node) forgetRequests() {
	t := &n.treasury
	for _, a := range t.requests {
		n.timers.set(&a.timer, time.Time{})
	}
	clear(t.requests)
	clear(t.pending)
	for _, p := range n.purses {
		p.request = nil
	}
	t.flying, t.line, t.missed, t.gap, t.told = 0, nil, nil, false, false
	t.sweep.stop()
}

// post asks the treasury something.
func (n *Node) post(a *request) {
	a.req.Hub, a.req.Domain, a.req.Epoch = n.cfg.Journal, n.cfg.Domain, n.epoch
	a.timer.owner = a
	n.treasury.requests[a.req.ID] = a
	n.launch(a)
}

// launch sends a request, again perhaps, as soon as not too many are under way.
func (n *Node) launch(a *request) {
	t := &n.treasury
	if t.flying >= MaxRequests {
		t.line = append(t.line, a)
		return
	}
	t.flying++
	a.flying = true
	n.timers.set(&a.timer, n.now.Add(noAnswer))
	n.out.Funds = append(n.out.Funds, Funds{a.op, a.req})
}

// land notes that the hub does not wait for the answer any more. Another request may take its place.
func (n *Node) land(a *request) {
	t := &n.treasury
	n.timers.set(&a.timer, time.Time{})
	if !a.flying {
		return
	}
	a.flying = false
	t.flying--
	for len(t.line) > 0 && t.flying < MaxRequests {
		next := t.line[0]
		t.line = t.line[1:]
		if t.requests[next.req.ID] == next {
			n.launch(next)
		}
	}
}

// over drops a request.
func (n *Node) over(a *request) {
	delete(n.treasury.requests, a.req.ID)
	n.land(a)
	if n.treasury.missed == a {
		n.treasury.missed = nil
	}
	if p := n.purses[a.client]; p != nil && p.request == a {
		p.request = nil
	}
}

// requestLater asks again after a while.
func (n *Node) requestLater(a *request, after time.Duration) {
	n.land(a)
	n.timers.set(&a.timer, n.now.Add(after))
}

// due implements timed: there was no answer, or it is time to ask again.
func (a *request) due(n *Node) {
	switch {
	case n.treasury.requests[a.req.ID] != a || !n.leading:
	case a.flying:
		n.unanswered(a)
	default:
		n.launch(a)
	}
}

// unanswered deals with a request that got no answer: the treasury may have heard it or not. The hub does not
// ask again for money that no task waits for. If it was granted, the next OpAllotted finds it.
func (n *Node) unanswered(a *request) {
	if p := n.purses[a.client]; a.op == bus.OpAllot && (p == nil || len(p.parked) == 0) {
		n.over(a)
		return
	}
	switch {
	case a.op == bus.OpAllotted && n.justBack():
		n.requestLater(a, backEvery)
	case a.op == bus.OpAllot && !a.again: // at once, the first time: a task waits
		a.again = true
		n.land(a)
		n.launch(a)
	default:
		n.requestLater(a, repeatAfter)
	}
}

func (n *Node) purse(client string) *purse {
	p := n.purses[client]
	if p == nil {
		p = &purse{client: client}
		n.purses[client] = p
	}
	return p
}

// idlePurses bounds the purses kept for clients without open tasks.
const idlePurses = 4096

// openPurse counts a task in.
func (n *Node) openPurse(client string) {
	n.open++
	p := n.purse(client)
	if p.open++; p.open == 1 {
		n.crowd.clients++
	}
}

// closePurse counts a task out.
func (n *Node) closePurse(client string) {
	n.open--
	p := n.purses[client]
	if p.open--; p.open == 0 {
		n.crowd.clients--
	}
	n.startIdle(p)
}

// startIdle begins the time after which an idle client's money goes back. A purse without money is kept only
// while there are few.
func (n *Node) startIdle(p *purse) {
	switch {
	case p.open > 0:
	case n.book.Avail(p.client) > 0:
		p.timer.owner = p
		n.timers.set(&p.timer, n.now.Add(n.cfg.PurseIdle))
	case len(n.purses) > idlePurses && p.request == nil:
		n.timers.set(&p.timer, time.Time{})
		delete(n.purses, p.client)
	}
}

// due implements timed. The client had no open task for PurseIdle, so what is above low water is of more use
// at other hubs. If there are many such purses, all of the money goes back, and the purse is forgotten.
func (p *purse) due(n *Node) {
	many := len(n.purses) > idlePurses
	if p.open > 0 || n.purses[p.client] != p {
		return
	}
	if n.leading && !n.stale {
		keep := times(p.largest, lowWaterHolds)
		if many {
			keep = 0
		}
		n.returnAbove(p.client, keep)
	}
	if many && p.request == nil {
		delete(n.purses, p.client)
	}
}

func (n *Node) sortedPurses() []*purse {
	return slices.SortedFunc(maps.Values(n.purses),
		func(a, b *purse) int { return cmp.Compare(a.client, b.client) })
}

// spare is what of a client's money may still be reserved.
func (n *Node) spare(client string) market.Credits { return n.book.Avail(client) - n.Reserved(client) }

// fund reserves what a task needs, or parks it while more is asked for.
func (n *Node) fund(t *task, need market.Credits) {
	p := n.purse(t.key.client)
	p.largest = max(need, p.largest-p.largest/8)
	t.wanted = need
	if len(p.parked) == 0 && need <= n.spare(p.client) {
		p.reserved += need
		t.reserved = need
		n.enqueue(t)
		n.requestAhead(p)
		return
	}
	t.state = parked
	p.parked = append(p.parked, t)
	n.timers.set(&t.timer, earlier(t.deadline, n.now.Add(n.cfg.FundsWait)))
	n.requestFor(p)
}

// enqueue lets a funded task wait for a slot.
func (n *Node) enqueue(t *task) {
	n.wait(t, 1)
	t.free = t.state == fresh && n.waiting <= n.freeSlots(n.waiting)
	t.state = waiting
	n.batch.Add(t, t.arrived)
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
	p := n.purses[t.key.client]
	n.room.move(p.waiting, p.waiting+by)
	n.waiting += by
	p.waiting += by
}

// release gives a task's reservation back.
func (n *Node) release(t *task) {
	if t.reserved > 0 {
		n.purses[t.key.client].reserved -= t.reserved
		t.reserved = 0
	}
}

// requestFor asks the treasury for what the first parked task lacks, and more, so that the next need not
// wait.
func (n *Node) requestFor(p *purse) {
	n.letIn(p)
	if p.request != nil || len(p.parked) == 0 || n.treasury.gap {
		return
	}
	least := p.parked[0].wanted - n.spare(p.client)
	n.allot(p, max(least, times(p.largest, chunkHolds)), least, false)
}

// requestAhead asks before a task needs it, if little is left.
func (n *Node) requestAhead(p *purse) {
	if p.request == nil && !n.treasury.gap && n.spare(p.client) < times(p.largest, lowWaterHolds) &&
		!n.now.Before(p.notAhead) && p.largest > 0 {
		n.allot(p, times(p.largest, chunkHolds), p.largest, true)
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

// requestID is new for every request of this hub: the epoch is never the same again.
func (n *Node) requestID() string {
	n.treasury.number++
	return n.cfg.Journal + "-" + strconv.FormatInt(n.epoch, 10) + "-" +
		strconv.FormatUint(n.treasury.number, 10)
}

func (n *Node) allot(p *purse, amount, least market.Credits, ahead bool) {
	p.request = &request{op: bus.OpAllot, client: p.client, least: least, ahead: ahead,
		req: bus.FundsRequest{ID: n.requestID(), Client: p.client, Amount: amount, Least: least,
			Ahead: ahead}}
	n.post(p.request)
}

// requestMissed asks what was allotted: a lost reply must not strand money.
func (n *Node) requestMissed() {
	t := &n.treasury
	if t.missed != nil {
		return
	}
	t.missed = &request{op: bus.OpAllotted, behind: len(t.pending) > 0,
		req: bus.FundsRequest{ID: n.requestID(), After: n.book.LastGrant(n.cfg.Journal)}}
	n.timers.set(&t.again, time.Time{})
	n.post(t.missed)
}

// funded takes the treasury's answer. Grants are accepted in the order of their numbers, each once.
func (n *Node) funded(m *bus.FundsReply) error {
	a := n.treasury.requests[m.ID]
	if a == nil {
		return fmt.Errorf("no request %s to the treasury is under way", m.ID)
	}
	if m.Code == bus.CodeUnavailable {
		n.land(a)
		n.unanswered(a)
		return nil
	}
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

// missed takes in what the treasury says it allotted.
func (n *Node) missed(a *request, m *bus.FundsReply) {
	t := &n.treasury
	next := bus.FundsEvery
	defer func() {
		if t.missed == nil {
			n.timers.set(&t.again, n.now.Add(next))
		}
	}()
	if n.judgeJournal(m) {
		return
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
	case more, len(t.pending) > 0 && !a.behind && !n.full:
		n.requestMissed() // a reply holds only so many grants, and one may have come before this reply
	case len(t.pending) > 0 && !n.full:
		next = missedAgain
		if !t.gap {
			t.gap = true
			n.fault(fmt.Errorf("the treasury gave later grants than number %d, but not that one",
				n.book.LastGrant(n.cfg.Journal)+1))
		}
	default:
		for _, p := range n.sortedPurses() {
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
	if n.stale {
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
		p := n.purse(c)
		n.letIn(p)
		n.startIdle(p)
	}
	return true
}

// letIn lets parked tasks in that can be funded now, first come first.
func (n *Node) letIn(p *purse) {
	if p == nil {
		return
	}
	for len(p.parked) > 0 && p.parked[0].wanted <= n.spare(p.client) {
		t := p.parked[0]
		p.parked = p.parked[1:]
		t.reserved = t.wanted
		p.reserved += t.reserved
		n.enqueue(t)
	}
}

// allotted takes the answer to a request for a client's money, and deals with those who wait for it.
func (n *Node) allotted(a *request, m *bus.FundsReply) {
	more := n.accept(m.Grants)
	p := n.purses[a.client]
	if p != nil && m.Code == bus.CodeAllotmentPending && !a.ahead && len(p.parked) > 0 {
		// Other hubs are giving back what they have. Whoever is parked waits for it, and we ask again.
		p.pending = n.now
		n.requestLater(a, min(max(time.Duration(m.RetryMS)*time.Millisecond, backEvery), comeBackMost))
		n.letIn(p)
		return
	}
	n.over(a)
	if len(n.treasury.pending) > 0 {
		defer n.requestMissed()
	}
	if p == nil {
		return
	}
	n.letIn(p)
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
			break // for money ahead of need no hub is asked to give back: for a parked task it is, next
		}
		var poor []*task
		for _, t := range p.parked {
			if m.Code == bus.CodeUnknownClient || t.wanted-n.spare(p.client) >= a.least {
				poor = append(poor, t)
			}
		}
		for _, t := range poor {
			n.end(t, n.broke(t, p, m))
		}
		n.letIn(p)
	default:
		p.notAhead = n.now.Add(aheadAgain)
		for len(p.parked) > 0 {
			t := p.parked[0]
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
	p := n.purses[client]
	return p != nil && p.request != nil && !p.pending.IsZero() && n.now.Sub(p.pending) < noAnswer+comeBackMost
}

// broke is the refusal of a task that its client cannot pay for.
func (n *Node) broke(t *task, p *purse, m *bus.FundsReply) *bus.Result {
	if m.Code == bus.CodeUnknownClient {
		return n.refusal(t.msg, m.Code, 0, "the treasury knows no client %s: make a deposit first", p.client)
	}
	elsewhere := m.Message // names the hubs that keep what they have of it
	if elsewhere == "" {
		elsewhere = money(m.Prepaid) + " are left with the treasury"
	}
	return n.refusal(t.msg, m.Code, 0,
		"the task may cost %s; client %s has %s to spend at this hub, and %s are held for its other tasks "+
			"here; %s: deposit more, or set a lower max_price",
		money(t.wanted), p.client, money(max(0, n.spare(p.client))), money(n.book.Held(p.client)+p.reserved),
		elsewhere)
}

// Reserved is what of a client's money is set aside for tasks that wait: it is not held yet.
func (n *Node) Reserved(client string) market.Credits {
	if p := n.purses[client]; p != nil {
		return p.reserved
	}
	return 0
}
