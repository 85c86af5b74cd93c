package hub

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"souk/bus"
	"souk/market"
)

// idleAccounts bounds the accounts kept for clients without open tasks.
const idleAccounts = 4096

// account is a client's money at this hub, beyond what the book says.
type account struct {
	client   string
	round    uint64            // in which a task of it stood in a line last
	number   int               // of the client among those of that round
	open     int               // tasks
	waiting  int               // of them, those that wait for a slot
	reserved market.Credits    // by tasks that wait: not yet held
	largest  market.Credits    // reserve of late, the measure of chunks
	vouchers []bus.DoorVoucher // what doors vouched for, the latest last
	awaiting []*task           // wait for money, first come first
	request  *request          // under way
	notAhead time.Time         // not asked ahead before
	pending  time.Time         // when the treasury last said that hubs are giving money back
	timer    timer             // the end of its idleness
	serial   uint64            // among all accounts that were, from 1
}

// has is how many tasks of the client wait, for its money or a slot.
func (p *account) tasks() int {
	if p == nil {
		return 0
	}
	return p.waiting + len(p.awaiting)
}

func (p *account) drop(t *task) {
	if i := slices.Index(p.awaiting, t); i >= 0 {
		p.awaiting = slices.Delete(p.awaiting, i, i+1)
	}
}

func (n *Node) account(client string) *account {
	p := n.accounts[client]
	if p == nil {
		n.opened++
		p = &account{client: client, serial: n.opened}
		n.accounts[client] = p
	}
	return p
}

// openAccount counts a task in.
func (n *Node) openAccount(client string) {
	n.open++
	p := n.account(client)
	p.open++
}

// closeAccount counts a task out.
func (n *Node) closeAccount(client string) {
	n.open--
	p := n.accounts[client]
	p.open--
	n.startIdle(p)
}

// startIdle begins the time after which an idle client's money goes back. An account without money is kept
// only while there are few.
func (n *Node) startIdle(p *account) {
	switch {
	case p.open > 0:
	case n.book.Avail(p.client) > 0:
		p.timer.owner = p
		n.timers.set(&p.timer, n.now.Add(n.cfg.AccountIdle))
	case len(n.accounts) > idleAccounts && p.request == nil:
		n.timers.set(&p.timer, time.Time{})
		delete(n.accounts, p.client)
	}
}

// due implements timed. The client had no open task for AccountIdle, so what is above low water is of more
// use at other hubs. If there are many such accounts, all of the money goes back, and the account is
// forgotten.
func (p *account) due(n *Node) {
	many := len(n.accounts) > idleAccounts
	if p.open > 0 || n.accounts[p.client] != p {
		return
	}
	if n.leading && n.doubt == "" {
		keep := times(p.largest, lowWaterHolds)
		if many {
			keep = 0
		}
		n.returnAbove(p.client, keep)
	}
	if many && p.request == nil {
		delete(n.accounts, p.client)
	}
}

func (n *Node) sortedAccounts() []*account {
	return slices.SortedFunc(maps.Values(n.accounts),
		func(a, b *account) int { return cmp.Compare(a.client, b.client) })
}

// available is what of a client's money may still be reserved.
func (n *Node) available(client string) market.Credits {
	return n.book.Avail(client) - n.Reserved(client)
}

// Reserved is what of a client's money is set aside for tasks that wait: it is not held yet.
func (n *Node) Reserved(client string) market.Credits {
	if p := n.accounts[client]; p != nil {
		return p.reserved
	}
	return 0
}
