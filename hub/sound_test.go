package hub

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"souk/bus"
	"souk/hub/admission"
	"souk/hub/meeting"
	"souk/hub/queue"
	"souk/ledger"
	"souk/market"
)

// Sound judges what no message says of a Node: that its counts are those of the tasks, holds and accounts
// that it has.
func (n *Node) Sound() error {
	reserved, awaits, waits := map[string]market.Credits{}, map[string]int{}, map[string]int{}
	all, runs, waiting := 0, 0, 0
	for _, t := range n.admission.Known() {
		if !t.Open {
			continue
		}
		all++
		switch {
		case t.Hold != nil:
			runs++
		case t.Waits:
			waits[t.Client]++
			waiting++
			reserved[t.Client] += t.Most
		default:
			awaits[t.Client]++
		}
		if t.Hold == nil && n.turn.Leading && n.turn.Now().After(t.Deadline) {
			return fmt.Errorf("task %s waits for %v after its deadline", t.ID, n.turn.Now().Sub(t.Deadline))
		}
		if t.Waits && (t.Most == 0 || t.Hold != nil) {
			return fmt.Errorf("task %s waits with %v reserved", t.ID, t.Most)
		}
	}
	most := 0
	for _, b := range n.turn.Book.Balances("client:*:avail") {
		c := strings.TrimSuffix(strings.TrimPrefix(b.Account, "client:"), ":avail")
		if n.Money().Reserved(c) != reserved[c] || n.Queue.Of(c) != waits[c] || b.Amount < reserved[c] ||
			n.money.Awaiting(c) != awaits[c] {
			return fmt.Errorf("account of %s: %v reserved (tasks say %v), %d waiting (%d), %d for money (%d), %v available",
				c, n.money.Reserved(c), reserved[c], n.Queue.Of(c), waits[c], n.money.Awaiting(c), awaits[c],
				b.Amount)
		}
		most = max(most, waits[c])
	}
	for _, t := range n.admission.Known() { // what is kept of who holds its prompt is what is so now
		if !t.Waits {
			continue
		}
		x := n.Forecasts.Prefixes
		kept := slices.Clone(x.Look(&t.Asks.Held, &t.Msg.Prompt))
		if now := x.Depths(nil, t.Msg.Prompt.Prefixes); !slices.Equal(kept, now) {
			return fmt.Errorf("%s: kept is that %v hold its prompt, and it is %v", t.Name, kept, now)
		}
	}
	agents := 0
	for _, a := range n.fleet.All() {
		agents += len(a.Runs)
	}
	holds, bytes := n.settle.Kept()
	if n.Queue.Busiest() != most {
		return fmt.Errorf("%d wait, of one client %d; counted as %d", n.Queue.Waiting(), most, n.Queue.Busiest())
	}
	if n.Queue.Waiting() != waiting || n.admission.Open() != all ||
		holds != n.turn.Book.OpenCount() || agents != holds || runs != holds {
		return fmt.Errorf("counts: waiting %d/%d, open %d/%d, %d holds, %d in the book, %d on agents, %d running",
			n.Queue.Waiting(), waiting, n.admission.Open(), all, holds,
			n.turn.Book.OpenCount(), agents, runs)
	}
	if n.admission.Open() == 0 && (bytes != 0 || n.Queue.Waiting() != 0) {
		return fmt.Errorf("%d bytes of bodies are kept, and %d tasks wait, of none", bytes, n.Queue.Waiting())
	}
	return nil
}

// Remembers counts the tasks of which the Node knows anything, with those that have ended.
func (n *Node) Remembers() int { return len(n.admission.Known()) }

// AtStart returns everything that a hub knows before it leads.
func (n *Node) AtStart() []any {
	var open []ledger.Hold
	for _, a := range n.fleet.All() {
		for _, h := range n.holds(a) {
			rec, _ := n.turn.Book.Hold(h.ID)
			open = append(open, rec)
		}
	}
	return []any{n.admission, n.settle, n.money, n.fleet.All(), n.turn.Now(),
		n.turn.Nano(), n.turn.Next(),
		n.turn.Book.Balances("*"), n.turn.Book.OpenCount(), open, n.turn.Book.Tariffs()}
}

// PrintAtStart is a print of that, with types left out: hubs that know the same mostly have the same.
func (n *Node) PrintAtStart(leaveOut []reflect.Type) uint64 {
	return printOf(reflect.ValueOf(n.AtStart()), leaveOut...)
}

// Open returns the agents that take tasks now.
func (n *Node) Open() (all []string) {
	for _, a := range n.fleet.All() {
		if a.Open(n.turn.Nano()) {
			all = append(all, a.ID())
		}
	}
	return all
}

// Gains is the most that a task which came then is worth now beyond its cost, and that cost, at any agent
// that takes tasks and may serve it in time; less than 0 where there is none. price is what so much of a slot
// there costs beside. It changes nothing.
func (n *Node) Gains(m bus.Task, came time.Time,
	price func(agent string, keeps time.Duration) market.Credits) (best, cost market.Credits) {
	best = -market.MaxCredits
	n.meeting.Aside(n.turn.Now(), func(own *meeting.Room, now time.Time) {
		t := &task{Request: admission.New(m.Client, m.ID, m.Content(), 0),
			Entry: queue.New(m.Client, came, time.Time{})}
		own.Read(t, &m)
		deadline, no := n.admission.Deadline(n.turn.Now(), &m)
		if t.Deadline = deadline; no != nil || own.SetTerms(t) != nil {
			return
		}
		for _, a := range n.fleet.All() {
			if !a.Open(n.turn.Nano()) || !n.Forecasts.Goes(&t.Asks, &a.Forecast) {
				continue
			}
			in, e := besides(a), n.Forecasts.At(n.turn.Nano(), &t.Asks, &a.Forecast)
			ttft := a.Forecast.Line().Later(e.First, e.Work, in)
			if a.Forecast.Half(ttft) > t.Deadline.Sub(n.turn.Now()) {
				continue
			}
			value := e.Value(t.Stated(), n.turn.Now().Sub(came)+ttft, t.Terms.Cap())
			keeps := max(a.Service().Own(), e.Prefill) + time.Duration(len(a.Runs))*e.Prefill
			if x := value - e.Cost - n.cfg.Fee - price(a.ID(), keeps); x > best {
				best, cost = x, e.Cost+n.cfg.Fee
			}
		}
	})
	return best, cost
}
