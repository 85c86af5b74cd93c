package hub

import (
	"time"

	"souk/bus"
	"souk/hub/account"
	"souk/hub/settle"
	"souk/hub/status"
	"souk/market"
)

// Money returns the accounts of clients at this hub, with the treasury's word on them.
func (n *Node) Money() *account.Room { return n.money }

// payers are the tasks, as package account sees them: see [account.Tasks].
type payers struct{ *Node }

func (p payers) of(t *account.Task) *task { return p.admission.Find(t.Client, t.ID) }
func (p payers) Cleared()                 { p.settle.Deaf() }
func (p payers) Ended()                   { p.Close(p.turn.Now()) }
func (p payers) Doubted() {
	p.refuseWaiting(bus.CodeUnavailable, p.turn.Doubt, status.AgainStale)
}

func (p payers) Refused(m *account.Task, code bus.Code, retry time.Duration, why string) {
	t := p.of(m)
	p.end(t, p.turn.Refusal(t.Msg, code, retry, "%s", why), true)
}

func (p payers) Bounded(m *account.Task, most market.Credits) market.Credits {
	t := p.of(m)
	t.Bound(most)
	p.setTerms(t) // what was said of terms is as good as before
	return t.Cap()
}

// Funded lets a task wait for a slot.
func (n payers) Funded(m *account.Task) {
	t := n.of(m)
	if t.only == nil && t.Moves == 0 && t.Refusals == 0 {
		n.regimes.Came(n.turn.Nano())
	}
	free := !t.money.Waited() && n.queue.Waiting() < n.fleet.Free(n.queue.Waiting()+1)
	beat := time.Duration(0)
	if t.Moves > 0 {
		beat = settle.BeatEvery // its reader waits for chunks
	}
	n.queue.Add(t, free, beat)
	n.queue.Lasts(t, t.Lasts())
	for {
		last, why := n.queue.Excess(n.fleet.Slots(), n.admission.Open())
		if last == nil {
			return
		}
		n.end(last, n.turn.Refusal(last.Msg, bus.CodeNoRoom, time.Second, "%s", why), true)
	}
}
