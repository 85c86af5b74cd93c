package hub

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"souk/bus"
	"souk/ledger"
)

// First is what the treasury has to be asked before the first frame of an empty journal, and [Node.Begin]
// takes its answer; false if there are frames.
func (n *Node) First(epoch int64) (f Funds, ask bool) {
	if n.book.Journal().Journal != "" {
		return Funds{}, false
	}
	id := fmt.Sprintf("%s-%d-0", n.cfg.Journal, epoch)
	q := bus.FundsRequest{ID: id, Hub: n.cfg.Journal, Epoch: epoch, Unsure: true}
	return Funds{bus.OpAllotted, q}, true
}

// Begin takes the treasury's answer to First: whether it has dealt with a journal of this name. Then this
// one is not new: the one there was is lost, and what it held would be spent twice. begins is false without
// an error where the treasury does not say: a hub has no money to sell for before it does.
func (n *Node) Begin(r *bus.FundsReply) (begins bool, err error) {
	if isSilence(r) || n.outOfDate(r.Epoch) {
		return false, nil
	}
	if len(r.Grants) > 0 || r.Returned > 0 || r.Known != nil || r.Code == bus.CodeBadRequest {
		why := r.Message
		if why == "" {
			why = fmt.Sprintf("the treasury has allotted money to one of that name and has taken %d "+
				"returns of it in",
				r.Returned)
		}
		return false, fmt.Errorf("hub %s: journal %s is empty, but %s: bring the journal back, or give "+
			"this hub a "+
			"journal of another name", n.cfg.Domain, n.cfg.Journal, why)
	}
	return r.Code == "", nil
}

// Lead begins a time of leadership. The first frame of an empty journal is written.
func (n *Node) Lead(now time.Time, epoch int64) error {
	if err := n.Restore(); err != nil {
		return err
	}
	n.advance(now)
	if _, last, _ := n.book.Last(); epoch < last {
		return fmt.Errorf("hub %s: epoch %d is below %d, the last in its journal: another has led since, "+
			"or etcd was made anew or restored to an older revision (deploy/runbook.md: etcd)",
			n.cfg.Hub, epoch, last)
	}
	if n.epoch == 0 {
		n.stats = newStats() // what was replayed was counted when it happened
	}
	n.deaf()
	n.epoch, n.leading, n.draining, n.cut, n.led = epoch, true, n.closing, false, n.now
	if n.book.Journal().Journal == "" {
		if err := n.commit(ledger.NewOpen(n.cfg.Journal, ledger.RoleHub, n.cfg.Domain,
			n.salt())); err != nil {
			n.leading = false
			return err
		}
	}
	for _, class := range slices.Sorted(maps.Keys(n.sales)) { // of an earlier leadership
		n.timers.set(&n.sales[class].timer, time.Time{})
	}
	clear(n.sales)
	clear(n.early)
	n.status.changed, n.status.next = true, n.now
	for _, a := range n.roster {
		n.listen(a)
	}
	n.timers.set(&n.treasury.sweep.timer, n.now.Add(n.cfg.AccountIdle))
	n.chargedBefore()
	n.marks.told, n.marks.quiet, n.marks.judged = 0, false, false
	n.requestMissed()
	return nil
}

// Depose ends it: what waits is sent away, what runs goes on. From now on nothing is recorded but the ends
// of the hub's own holds, which nobody else can end.
func (n *Node) Depose(now time.Time) {
	n.advance(now)
	if !n.leading {
		return
	}
	n.refuseWaiting(bus.CodeUnavailable, "the hub lost its leadership; try again", againSoon)
	for _, a := range n.roster {
		a.joined = false
		n.sized(a, 0)
	}
	n.leading, n.cut = false, false // who does not lead does not look after the bus
	n.deaf()
	n.forgetRequests()
}

// Drain takes no more tasks and sends away those that wait; what runs is settled as ever. Idle tells the
// end.
func (n *Node) Drain(now time.Time) {
	n.advance(now)
	if n.leading && !n.draining {
		n.draining = true
		n.status.changed = true
		n.refuseWaiting(bus.CodeDraining, "the hub is stopping; try again", againSoon)
	}
}

// Retire hands unspent allotments back to the treasury; for a hub that has drained. What a journal has that
// may be an older copy may be spent.
func (n *Node) Retire(now time.Time) {
	n.advance(now)
	if n.leading && n.draining && n.doubt == "" {
		n.returnAvailable()
	}
}

// Idle reports whether nothing runs and nothing is asked of the treasury.
func (n *Node) Idle() bool { return len(n.holds) == 0 && n.treasury.idle() }

// refuseWaiting refuses every task that holds no money yet. Those without their money come first: what
// another leaves would fund them.
func (n *Node) refuseWaiting(code bus.Code, why string, again time.Duration) {
	for _, p := range n.sortedAccounts() {
		for len(p.awaiting) > 0 {
			n.end(p.awaiting[0], n.refusal(p.awaiting[0].msg, code, again, "%s", why))
		}
	}
	n.batch.Wake()
	for _, t := range n.batch.Take(nil, n.batch.Len()) {
		n.end(t, n.refusal(t.msg, code, again, "%s", why))
	}
}

// Holding reports whether the next Step or Ready may want new money written down, a hold or an allotment,
// or lately could not: then Room has to be told first.
func (n *Node) Holding() bool {
	return n.full || n.batch.Len() > 0 || len(n.treasury.requests) > 0
}

// Room says whether the journal has room for new holds. Without it tasks are refused and those that wait
// are sent away; what runs is settled.
func (n *Node) Room(has bool) {
	if n.full == !has || !n.leading {
		return
	}
	n.full = !has
	n.status.changed = true
	if has {
		n.accept(nil)
		return
	}
	n.refuseWaiting(bus.CodeUnavailable, diskFull, againFull)
}

const diskFull = "the disk of the hub's journal is nearly full: no new money is held"
