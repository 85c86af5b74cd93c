package hub

import (
	"fmt"
	"time"

	"souk/bus"
	"souk/hub/admission"
	"souk/hub/report"
	"souk/hub/status"
	"souk/ledger"
)

// Restore makes of what was replayed what the hub knows of it: before the first Step.
func (n *Node) Restore() error {
	h := n.Past
	if h == nil {
		return nil
	}
	n.Past = nil
	// A task that was under way comes back: its agent may still be serving it. What its client sent is in no
	// journal, so it is answered `unknown` until the hold ends, or whoever has the task sends it again.
	replay := func(p *ledger.Past) {
		n.turn.Replay(p.Held)
		x, state := n.settle.Replayed(p)
		rec, a := &x.Rec, n.fleet.Enrol(x.Rec.Agent)
		t := n.meeting.NewTask(admission.New(rec.Client, rec.Task, rec.Digest, rec.Attempt), n.turn.Now())
		t.Deadline = x.Deadline
		if old := n.admission.Find(rec.Client, rec.Task); old != nil {
			state.Whole = old.Whole
		}
		t.Task, x.Task = state, &t.Task
		t.Hold = &hold{Hold: x, Whose: t, Agent: a}
		t.To(t.Reply)
		n.admission.Take(t)
		n.money.Open(rec.Client, rec.Task)
		a.Begin(rec.Client, rec.Task, x.Sent, time.Unix(0, rec.Expires).Sub(x.Sent))
		n.settle.Found(&t.Hold.Hold)
	}
	for p, known := range h.Ended() {
		if known {
			replay(p)
			n.turn.Replay(p.Ended)
		}
		n.settle.Past(p)
	}
	open, err := h.Open()
	if err != nil {
		return err
	}
	for i := range open {
		replay(&open[i])
	}
	n.money.Restore(h.Returns)
	if seq, _, last := n.turn.Book.Last(); seq > 0 {
		n.turn.Replay(last)
		n.meeting.Kept.Resume(last, n.turn.Book.Rates().Lost)
	}
	return nil
}

// Lead begins a time of leadership. The first frame of an empty journal is written.
func (n *Node) Lead(now time.Time, epoch int64) error {
	if err := n.Restore(); err != nil {
		return err
	}
	n.turn.Advance(now)
	if _, last, _ := n.turn.Book.Last(); epoch < last {
		return fmt.Errorf("hub %s: epoch %d is below %d, the last in its journal: another has led since, "+
			"or etcd was made anew or restored to an older revision (deploy/runbook.md: etcd)",
			n.cfg.Hub, epoch, last)
	}
	if n.turn.Epoch == 0 {
		n.admission.Recount()
		n.stats, n.turn.Faults = report.New(), 0 // what was replayed was counted when it happened
	}
	n.settle.Deaf()
	n.turn.Epoch, n.turn.Leading, n.turn.Draining = epoch, true, n.money.Closing()
	n.settle.Cut(false)
	if n.turn.Book.Journal().Journal == "" {
		if err := n.turn.Commit(ledger.NewOpen(n.cfg.Journal, ledger.RoleHub, n.cfg.Domain,
			n.turn.Salt())); err != nil {
			n.turn.Leading = false
			return err
		}
	}
	n.tariffs.Lead()
	n.fleet.Lead()
	n.status.Soon()
	n.money.Lead()
	return nil
}

// Depose ends it: what waits is sent away, what runs goes on. From now on nothing is recorded but the ends
// of the hub's own holds, which nobody else can end.
func (n *Node) Depose(now time.Time) {
	n.turn.Advance(now)
	if !n.turn.Leading {
		return
	}
	n.refuseWaiting(bus.CodeUnavailable, "the hub lost its leadership; try again", status.AgainSoon)
	n.fleet.Depose()
	n.turn.Leading = false
	n.settle.Cut(false) // who does not lead does not look after the bus
	n.settle.Deaf()
	n.money.Depose()
}

// Drain takes no more tasks and refuses those that wait; what runs is settled as ever. Idle tells the end.
func (n *Node) Drain(now time.Time) {
	n.turn.Advance(now)
	if n.turn.Leading && !n.turn.Draining {
		n.turn.Draining = true
		n.turn.Changed = true
		n.refuseWaiting(bus.CodeDraining, "the hub is stopping; try again", status.AgainSoon)
	}
}

// Retire hands unspent allotments back to the treasury; for a hub that has drained. What a journal has that
// may be an older copy may be spent.
func (n *Node) Retire(now time.Time) {
	n.turn.Advance(now)
	if n.turn.Leading && n.turn.Draining && n.turn.Doubt == "" {
		n.money.ReturnAll()
	}
}

// Close ends the hub, step by step as time passes: see [account.Room.Close].
func (n *Node) Close(now time.Time) {
	n.Drain(now)
	n.money.Close()
}

// Idle reports whether nothing runs and nothing is asked of the treasury.
func (n *Node) Idle() bool { return n.turn.Book.OpenCount() == 0 && n.money.Idle() }

// refuseWaiting refuses every task that holds no money yet. Those without their money come first: what
// another leaves would fund them.
func (n *Node) refuseWaiting(code bus.Code, why string, again time.Duration) {
	n.money.RefuseAwaiting(code, again, why)
	for t := range n.Queue.All {
		n.refuse(t, code, again, "%s", why)
	}
}

// Holding reports whether the next Step or Ready may want new money written down, a hold or an allotment,
// or lately could not: then Room has to be told first.
func (n *Node) Holding() bool {
	return n.turn.Full || n.Queue.Next() > 0 || n.money.Asks()
}

// Room says whether the journal has room for new holds. Without it tasks are refused and those that wait
// are sent away; what runs is settled.
func (n *Node) Room(has bool) {
	if n.turn.Full == !has || !n.turn.Leading {
		return
	}
	n.turn.Full = !has
	n.turn.Changed = true
	if has {
		n.money.AskAllotted()
		return
	}
	n.refuseWaiting(bus.CodeUnavailable, status.DiskFull, status.AgainFull)
}

// Configure applies the domain's settings from the registry to every later round; what is left out of them,
// or all of it when m is nil, is as the hub's own file says. Rounds and holds that exist keep the rules in
// their records. Settings that cannot be applied change nothing.
func (n *Node) Configure(now time.Time, m *bus.MarketConfig) error {
	s, err := n.file.Overlay(m)
	if err != nil {
		return err
	}
	n.turn.Advance(now)
	n.cfg.Batch, n.cfg.Rule = s.Batch, s.Rule
	n.Queue.Set(s.Batch)
	n.tariffs.Set(s.Rule)
	return nil
}
