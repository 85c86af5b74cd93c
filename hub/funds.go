package hub

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// Sizes of allotments, in largest holds of a client: asked for at once, and what is left when more is asked
// for ahead of need.
const (
	chunkHolds    = 8
	lowWaterHolds = 4
)

// askAgain is how long a client whose treasury had nothing to spare is not asked for ahead.
const askAgain = 5 * time.Second

// purse is a client's money at this hub, beyond what the book says.
type purse struct {
	client   string
	open     int            // tasks
	reserved market.Credits // by tasks that wait: not yet held
	largest  market.Credits // reserve of late, the measure of chunks
	parked   []*task        // wait for money, first come first
	asked    string         // id of the request under way
	notAhead time.Time      // not asked ahead before
}

func (p *purse) unpark(t *task) {
	if i := slices.Index(p.parked, t); i >= 0 {
		p.parked = slices.Delete(p.parked, i, i+1)
	}
}

// treasury is what the hub knows of its dealings with the treasury.
type treasury struct {
	number  uint64
	asks    map[string]ask
	pending map[uint64]bus.Grant // came before the grant of a lower number
	returns []giveBack           // not yet known to be taken in, by number
	owed    bool                 // some of them may have to be told again
	again   timer                // for grants that were missed
	gap     bool                 // a grant is missing that the treasury does not have either: no more is asked for
	refuses bool                 // it would not say what it allotted, and that was said
}

// ask is a request under way.
type ask struct {
	op     string
	client string
	least  market.Credits
	number uint64 // of a return
}

// maxPending bounds grants kept while one before them is missing.
const maxPending = 4096

// maxReturns bounds returns remembered to be told again: as many as a treasury lets wait for one before them.
const maxReturns = 1 << 16

// giveBack is a return as the journal has it.
type giveBack struct {
	number uint64
	client string
	amount market.Credits
}

func newTreasury() treasury {
	return treasury{asks: map[string]ask{}, pending: map[uint64]bus.Grant{}}
}

func (t *treasury) idle() bool { return len(t.asks) == 0 }

// forget drops requests under way: their answers will not come to this leadership.
func (t *treasury) forget() {
	clear(t.asks)
	clear(t.pending)
	t.gap = false
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
	n.purse(client).open++
}

// closePurse counts a task out.
func (n *Node) closePurse(client string) {
	n.open--
	p := n.purses[client]
	p.open--
	if p.open == 0 && p.asked == "" && len(n.purses) > idlePurses {
		delete(n.purses, client)
	}
}

func (n *Node) sortedPurses() []*purse {
	all := make([]*purse, 0, len(n.purses))
	for _, p := range n.purses {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *purse) int { return cmp.Compare(a.client, b.client) })
	return all
}

// spare is what of a client's money may still be reserved.
func (n *Node) spare(p *purse) market.Credits { return n.book.Avail(p.client) - p.reserved }

// fund reserves what a task needs, or parks it while more is asked for.
func (n *Node) fund(t *task, need market.Credits) {
	p := n.purse(t.key.client)
	p.largest = max(need, p.largest-p.largest/8)
	t.wanted = need
	if len(p.parked) == 0 && need <= n.spare(p) {
		p.reserved += need
		t.reserved = need
		n.enqueue(t)
		n.askAhead(p)
		return
	}
	t.state = parked
	p.parked = append(p.parked, t)
	n.timers.set(&t.timer, earlier(t.deadline, n.now.Add(n.cfg.FundsWait)))
	n.askFor(p)
}

// enqueue lets a funded task wait for a slot.
func (n *Node) enqueue(t *task) {
	n.waiting++
	t.free = t.state == 0 && n.waiting <= n.freeSlots()
	t.state = waiting
	n.batch.Add(t, t.arrived)
	wake := t.deadline
	if t.promised {
		wake = earlier(wake, n.now.Add(beatEvery)) // its reader waits for chunks
	}
	n.timers.set(&t.timer, wake)
	n.status.changed = true
}

// release gives a task's reservation back.
func (n *Node) release(t *task) {
	if t.reserved > 0 {
		n.purses[t.key.client].reserved -= t.reserved
		t.reserved = 0
	}
}

// askFor asks the treasury for what the first parked task lacks, and more, so that the next need not wait.
func (n *Node) askFor(p *purse) {
	n.unpark(p)
	if p.asked != "" || len(p.parked) == 0 || n.treasury.gap {
		return
	}
	least := p.parked[0].wanted - n.spare(p)
	n.request(p, max(least, times(p.largest, chunkHolds)), least)
}

// askAhead asks before need, where little is left.
func (n *Node) askAhead(p *purse) {
	if p.asked == "" && !n.treasury.gap && n.spare(p) < times(p.largest, lowWaterHolds) && !n.now.Before(p.notAhead) && p.largest > 0 {
		n.request(p, times(p.largest, chunkHolds), p.largest)
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
	return n.cfg.Journal + "-" + strconv.FormatInt(n.epoch, 10) + "-" + strconv.FormatUint(n.treasury.number, 10)
}

func (n *Node) request(p *purse, amount, least market.Credits) {
	p.asked = n.requestID()
	n.treasury.asks[p.asked] = ask{op: bus.OpAllot, client: p.client, least: least}
	n.out.Funds = append(n.out.Funds, Funds{bus.OpAllot, bus.FundsRequest{
		ID: p.asked, Client: p.client, Hub: n.cfg.Journal, Epoch: n.epoch, Amount: amount, Least: least,
	}})
}

// askMissed asks for grants that were given and never arrived: a lost reply must not strand money.
func (n *Node) askMissed() {
	for _, a := range n.treasury.asks {
		if a.op == bus.OpAllotted {
			return
		}
	}
	id := n.requestID()
	n.treasury.asks[id] = ask{op: bus.OpAllotted}
	n.out.Funds = append(n.out.Funds, Funds{bus.OpAllotted, bus.FundsRequest{
		ID: id, Hub: n.cfg.Journal, Epoch: n.epoch, After: n.book.LastGrant(n.cfg.Journal),
	}})
}

// funded takes the treasury's answer. Grants are accepted in the order of their numbers, each once.
func (n *Node) funded(m *bus.FundsReply) error {
	a, ok := n.treasury.asks[m.ID]
	if !ok {
		return fmt.Errorf("no request %s to the treasury is under way", m.ID)
	}
	delete(n.treasury.asks, m.ID)
	if a.op == bus.OpReturn {
		return n.returned(a, m)
	}
	if a.op == bus.OpAllotted && n.stale(m) {
		return nil
	}
	if a.op == bus.OpAllotted && m.Code == "" {
		clear(n.treasury.pending) // the treasury says what there is: a number that it does not name was a mistake
	}
	more := n.accept(m.Grants)
	if a.op == bus.OpAllotted {
		if m.Code == "" {
			n.treasury.refuses = false
			n.resendReturns(m.Returned)
		} else if m.Code != bus.CodeUnavailable && !n.treasury.refuses {
			n.treasury.refuses = true
			n.fault(fmt.Errorf("the treasury does not say what it allotted: %s: %s", m.Code, m.Message))
		}
		switch {
		case m.Code != "" && n.justBack():
			n.timers.set(&n.treasury.again, n.now.Add(backEvery))
		case m.Code != "":
			n.timers.set(&n.treasury.again, n.now.Add(askMissedAgain))
		case more:
			n.askMissed() // a reply holds only so many
		case len(n.treasury.pending) > 0 && !n.full:
			n.treasury.gap = true
			n.fault(fmt.Errorf("the treasury gave later grants than number %d, but not that one", n.book.LastGrant(n.cfg.Journal)+1))
			n.timers.set(&n.treasury.again, n.now.Add(askMissedAgain))
		default:
			for _, p := range n.sortedPurses() {
				n.askFor(p)
			}
		}
		return nil
	}
	n.allotted(n.purses[a.client], a, m)
	switch {
	case m.Code == bus.CodeUnavailable || len(n.treasury.pending) > 0:
		n.askMissed()
	case m.Code == "" && !more:
		// A yes without money. Asking at once would be a loop as fast as the bus.
		n.timers.set(&n.treasury.again, n.now.Add(askMissedAgain))
	case m.Code == "" || m.Code == bus.CodeInsufficientFunds:
		if p := n.purses[a.client]; p != nil {
			n.askFor(p)
		}
	}
	return nil
}

// askMissedAgain is how long after no answer the treasury is asked once more.
const askMissedAgain = time.Second

// due implements timed.
func (t *treasury) due(n *Node) {
	if n.leading {
		n.askMissed()
	}
}

// accept records grants in order and reports whether any was new.
func (n *Node) accept(grants []bus.Grant) (more bool) {
	for _, g := range grants {
		if g.Hub == n.cfg.Journal && g.Number > n.book.LastGrant(n.cfg.Journal) && len(n.treasury.pending) < maxPending {
			n.treasury.pending[g.Number] = g
		}
	}
	if n.lost {
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
		n.unpark(n.purses[c])
	}
	return true
}

// unpark lets parked tasks in that can be funded now, first come first.
func (n *Node) unpark(p *purse) {
	if p == nil {
		return
	}
	for len(p.parked) > 0 && p.parked[0].wanted <= n.spare(p) {
		t := p.parked[0]
		p.parked = p.parked[1:]
		t.reserved = t.wanted
		p.reserved += t.reserved
		n.enqueue(t)
	}
}

// allotted deals with those who waited for an answer about p's client.
func (n *Node) allotted(p *purse, a ask, m *bus.FundsReply) {
	if p == nil {
		return
	}
	p.asked = ""
	n.unpark(p)
	switch m.Code {
	case "":
	case bus.CodeUnavailable:
		// Whoever is parked waits until its time is up: askMissed finds what was granted meanwhile, and
		// the next task of the client asks anew.
		return
	case bus.CodeUnknownClient, bus.CodeInsufficientFunds:
		p.notAhead = n.now.Add(askAgain)
		var poor []*task
		for _, t := range p.parked {
			if m.Code == bus.CodeUnknownClient || t.wanted-n.spare(p) >= a.least {
				poor = append(poor, t)
			}
		}
		for _, t := range poor {
			n.end(t, n.broke(t, p, m))
		}
		n.unpark(p)
	default:
		p.notAhead = n.now.Add(askAgain)
		for len(p.parked) > 0 {
			t := p.parked[0]
			n.end(t, n.refusal(t.msg, bus.CodeAllotmentPending, time.Second, "the treasury said %s: %s", m.Code, m.Message))
		}
	}
}

// broke is the truth about a task that its client cannot pay.
func (n *Node) broke(t *task, p *purse, m *bus.FundsReply) *bus.Result {
	if m.Code == bus.CodeUnknownClient {
		return n.refusal(t.msg, m.Code, 0, "the treasury knows no client %s: make a deposit first", p.client)
	}
	return n.refusal(t.msg, m.Code, 0, "the task may cost %s; client %s has %s to spend at this hub, %s held for its other tasks, and %s with the treasury: deposit more, or set a lower max_price",
		money(t.wanted), p.client, money(max(0, n.spare(p))), money(n.book.Held(p.client)+p.reserved), money(m.Prepaid))
}
