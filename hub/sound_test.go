package hub

import (
	"fmt"
	"time"

	"souk/bus"
	"souk/market"
)

// Sound judges what no message says of a Node: that its counts are those of the tasks, holds and accounts
// that it has.
func (n *Node) Sound() error {
	reserved, open, waits := map[string]market.Credits{}, map[string]int{}, map[string]int{}
	count := map[taskState]int{}
	all := 0
	for _, t := range n.known {
		if t.state == done {
			continue
		}
		all++
		count[t.state]++
		open[t.key.client]++
		reserved[t.key.client] += t.reserved
		if t.state == waiting {
			waits[t.key.client]++
		}
		if (t.state == waiting || t.state == awaitingFunds) && n.leading && n.now.After(t.deadline) {
			return fmt.Errorf("task %s waits for %v after its deadline", t.key.id, n.now.Sub(t.deadline))
		}
		if (t.state == waiting) != (t.reserved > 0 && t.hold == nil) && t.state == waiting {
			return fmt.Errorf("task %s waits with %v reserved", t.key.id, t.reserved)
		}
	}
	most := 0
	for c, p := range n.accounts {
		if p.reserved != reserved[c] || p.open != open[c] || p.waiting != waits[c] ||
			n.book.Avail(c) < p.reserved {
			return fmt.Errorf("account of %s: %v reserved (tasks say %v), %d open (%d), %d waiting (%d), %v available",
				c, p.reserved, reserved[c], p.open, open[c], p.waiting, waits[c], n.book.Avail(c))
		}
		most = max(most, p.waiting)
	}
	for _, t := range n.known { // what a task has kept is what it would be quoted now
		for _, a := range n.roster {
			if t.state != waiting || a.reg.Agent == "" {
				continue
			}
			held := a.expect(t)
			kept, now := *n.noted(t, a, held), n.idleQuote(t, a, held).brief
			if kept != now {
				return fmt.Errorf("%s on %s: kept is %+v, and it would be quoted %+v", t.id, a.id, kept, now)
			}
		}
	}
	agents := 0
	for _, a := range n.roster {
		agents += len(a.holds)
	}
	if n.room.most != most {
		return fmt.Errorf("%d wait, of one client %d; counted as %d", n.waiting, most, n.room.most)
	}
	if n.waiting != count[waiting] || n.waiting != n.batch.All() || n.open != all ||
		len(n.holds) != n.book.OpenCount() || agents != len(n.holds) || count[running] != len(n.holds) {
		return fmt.Errorf("counts: waiting %d/%d/%d, open %d/%d, %d holds, %d in the book, %d on agents, %d running",
			n.waiting, count[waiting], n.batch.All(), n.open, all, len(n.holds),
			n.book.OpenCount(), agents, count[running])
	}
	if n.open == 0 && (n.bodies != 0 || n.waiting != 0) {
		return fmt.Errorf("%d bytes of bodies are kept, and %d tasks wait, of none", n.bodies, n.waiting)
	}
	return nil
}

// Remembers is of how many tasks the Node knows anything, with those that have ended.
func (n *Node) Remembers() int { return len(n.known) }

// AtStart is all that a hub knows before it leads.
func (n *Node) AtStart() []any {
	return []any{n.known, n.ended, n.holds, n.open, n.acks, n.accounts, n.roster, n.timers, n.treasury, n.now,
		n.nano, n.past,
		n.book.Balances("*"), n.book.OpenHolds(), n.book.Tariffs()}
}

// Gains is the most that a task which came then is worth now beyond its cost, and that cost, at any agent
// that takes tasks and may serve it in time; less than 0 where there is none. It changes nothing.
func (n *Node) Gains(m bus.Task, came time.Time) (best, cost market.Credits) {
	own := *n
	best = -market.MaxCredits
	own.round = scratch{}
	t := &task{key: taskKey{m.Client, m.ID}, arrived: came}
	own.read(t, &m)
	if own.judgeTime(t) != nil || own.setTerms(t) != nil {
		return best, 0
	}
	for _, a := range n.roster {
		if !a.open(n) || !own.usable(t, a) {
			continue
		}
		in := own.backlog(a)
		q := own.quoted(t, a, in)
		ttft := a.predictor.Later(q.first, q.work, in)
		if a.predictor.Half(ttft) > t.deadline.Sub(n.now) {
			continue
		}
		value := t.stated().Value(market.Quote{TTFT: n.now.Sub(came) + max(0, ttft-in.Queue), Cost: q.cost,
			Quality: q.quality})
		if x := min(value, q.room(t.terms.Cap())) - q.cost - n.cfg.Fee; x > best {
			best, cost = x, q.cost+n.cfg.Fee
		}
	}
	return best, cost
}
