package hub

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"souk/bus"
	"souk/market"
)

// idlePurses bounds the purses kept for clients without open tasks.
const idlePurses = 4096

// purse is a client's money at this hub, beyond what the book says.
type purse struct {
	client   string
	round    uint64            // in which a task of it stood in a line last
	number   int               // of the client among those of that round
	open     int               // tasks
	waiting  int               // of them, those that wait for a slot
	reserved market.Credits    // by tasks that wait: not yet held
	largest  market.Credits    // reserve of late, the measure of chunks
	vouchers []bus.DoorVoucher // what doors vouched for, the latest last
	parked   []*task           // wait for money, first come first
	request  *request          // under way
	notAhead time.Time         // not asked ahead before
	pending  time.Time         // when the treasury last said that hubs are giving money back
	timer    timer             // the end of its idleness
	serial   uint64            // among all purses that were, from 1
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

func (n *Node) purse(client string) *purse {
	p := n.purses[client]
	if p == nil {
		n.opened++
		p = &purse{client: client, serial: n.opened}
		n.purses[client] = p
	}
	return p
}

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
	if n.leading && n.doubt == "" {
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

// Reserved is what of a client's money is set aside for tasks that wait: it is not held yet.
func (n *Node) Reserved(client string) market.Credits {
	if p := n.purses[client]; p != nil {
		return p.reserved
	}
	return 0
}
