package hub

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"souk/bus"
	runtimepolicy "souk/bus/policy"
	"souk/hub/fleet"
	"souk/hub/forecast"
	"souk/hub/meeting"
	"souk/hub/policy"
	"souk/hub/predict"
	"souk/hub/queue"
	"souk/hub/regime"
	"souk/hub/settle"
	"souk/hub/status"
	"souk/ledger"
	"souk/market"
)

// Tests drive a Node by Step, Tick and Ready, from package hub_test. What follows is all that they see of it,
// or change in it, beside that.

const (
	Again       = queue.Soon
	AskAgain    = fleet.AskAgain
	DiskFull    = status.DiskFull
	HearsWithin = fleet.HearsWithin
)

var Typical = forecast.Typical

func Money(c market.Credits) string        { return c.String() + " credits" }
func Millis(d time.Duration) float64       { return meeting.Millis(d) }
func Nearly(d time.Duration) time.Duration { return fleet.Nearly(d) }

// Due counts the tasks that the next round is to look at.
func (n *Node) Due() int { return n.Queue.Next() }

// Wake has everybody who waits looked at again.
func (n *Node) Wake() { n.Queue.News() }

// FreeSlots counts the slots that a task might have now.
func (n *Node) FreeSlots() int { return n.fleet.Free(1 << 20) }

// Doubts has the Node's journal not be the newest, for a reason; "": it is.
func (n *Node) Doubts(why string) { n.turn.Doubt = why }

// Known names the agents that the Node knows anything of.
func (n *Node) Known() (ids []string) {
	for _, a := range n.fleet.All() {
		ids = append(ids, a.ID())
	}
	return ids
}

// UseGold has judges' words count for an agent's quality, or not.
func (n *Node) UseGold(agent string, use bool) {
	n.Forecasts.Judging.Gold = use
	if n.Forecasts.Judged(&n.fleet.Find(agent).Forecast, "", nil) {
		n.Queue.News()
	}
}

// Quality returns how good an agent's answers are expected to be where nothing is said of their domain.
func (n *Node) Quality(agent string) float64 {
	return n.Forecasts.Of(&n.fleet.Find(agent).Forecast).Quality("")
}

// Judge has the quality of every agent judged once more, and returns what comes of it.
func (n *Node) Judge() (all []float64) {
	for _, a := range n.fleet.All() {
		said := a.Forecast.Answers.Said
		for _, domain := range slices.Sorted(maps.Keys(said)) {
			d := said[domain]
			d.Paid("ann", 1)
			d.Say("ann", 1)
			d.Judge(0.5)
			all = append(all, d.Q(0.7, true, true))
		}
	}
	return all
}

// SetRegime has tolls be those of a regime from now on.
func (n *Node) SetRegime(p regime.Params) {
	n.regimes = regime.New(&n.turn, n.cfg.Regimes, p, n.cfg.Parts.Toll)
}

// Regime is how full the domain is.
func (n *Node) Regime() regime.State { return n.regimes.State() }

// Holds names the holds that are under way at an agent.
func (n *Node) HoldsAt(agent string) (ids []string) {
	for _, h := range n.holds(n.fleet.Find(agent)) {
		ids = append(ids, h.ID)
	}
	return ids
}

// Slots returns how many slots an agent said that it has.
func (n *Node) Slots(agent string) int { return n.fleet.Find(agent).Reg().Slots }

// Fair reports whether an agent's card is one that the hub spends its own money at.
func (n *Node) Fair(agent string, prompt, output int) bool {
	return n.meeting.Fair(n.fleet.Find(agent), prompt, output)
}

// Classes counts the classes of agents.
func (n *Node) Classes() int { return n.Forecasts.Lines.Len() }

// Teach has the forecast of an agent learn from an answer.
func (n *Node) Teach(agent string, f predict.Features, o predict.Observation) {
	n.fleet.Find(agent).Forecast.Learn(f, o)
}

// Forecast returns what is expected of an answer at an agent that has nothing else in hand.
func (n *Node) Forecast(agent string, f predict.Features) predict.Forecast {
	return n.fleet.Find(agent).Forecast.Forecast(f)
}

// Rules reports whether what an agent says it holds is all that it is believed to hold, and whether it is
// believed to hold more for saying so.
func (n *Node) Rules(agent string) (rules, speaks bool) {
	c := n.fleet.Find(agent).Forecast.Cache
	return c.Rules(), c.Speaks()
}

// hold finds an open hold.
func (n *Node) hold(id string) *hold {
	for _, a := range n.fleet.All() {
		for _, h := range n.holds(a) {
			if h.ID == id {
				return h
			}
		}
	}
	return nil
}

// Held returns what the hold of a dispatch was made by.
func (n *Node) Held(hold string) (f predict.Features, ttft time.Duration, rec ledger.Hold) {
	h := n.hold(hold)
	return h.Expected.Features, h.Expected.TTFT, h.Rec
}

// Accepted reports whether an agent has accepted a dispatch.
func (n *Node) Accepted(hold string) bool { return n.hold(hold).State == settle.Accepted }

// Stands says how a dispatch stands in its agent's queue and learning.
func (n *Node) Stands(hold string) string {
	h := n.hold(hold)
	return fmt.Sprintf("%d in the queue, %d under way, run %v; %+v, %v, %v", h.Agent.Load(0).Waiting,
		len(h.Agent.Runs), h.Expected.Run != nil, h.Expected.Features, h.Expected.TTFT, h.First)
}

// Knows reports whether the Node knows a task.
func (n *Node) Knows(client, id string) bool { return n.admission.Find(client, id) != nil }

// Planned reports whether a task waits, and whether it is planned for a seat to come.
func (n *Node) Planned(client, id string) (waits, planned bool) {
	t := n.admission.Find(client, id)
	return t != nil && t.Waits, t != nil && t.Planned != ""
}

// Terms returns the terms that a task was given.
func (n *Node) Terms(client, id string) market.Terms { return n.admission.Find(client, id).Terms }

// Late counts the holds that an agent's last word named as late.
func (n *Node) Late(agent string) int { return n.settle.Late(agent) }

// SetPolicy puts a policy in the place of that which asks for it by name.
func (n *Node) SetPolicy(hook policy.Hook, name string, p runtimepolicy.Policy) {
	n.Policies.Put(hook, name, p)
}

// Second returns what a second of an agent's time is worth in tolls.
func (n *Node) Second(agent string) market.Credits {
	a := n.fleet.Find(agent)
	return a.Forecast.Second(a.Reg().Price)
}

// Observe has the regime be judged, if it is due.
func (n *Node) Observe() { n.regimes.Observe(n.fleet.Taking, waiters{n}.watched) }

// Slowdown returns the mean of what the regime goes by.
func (n *Node) Slowdown() float64 { return n.regimes.Mean() }

// Unserved has tasks end that are in all like one that waits, and have them read after a while.
type Unserved struct {
	n *Node
	t *task
}

// Unserved finds the task; nil if it does not wait.
func (n *Node) Unserved(client, id string) *Unserved {
	if t := n.admission.Find(client, id); t != nil && t.Waits {
		return &Unserved{n, t}
	}
	return nil
}

// End has one of them end.
func (u *Unserved) End(code bus.Code) {
	if code == bus.CodeNoRoom || code == bus.CodeNotWorthIt {
		u.n.regimes.Unserved(u.n.turn.Now().Sub(u.t.Arrived),
			func() (time.Duration, bool) { return u.n.meeting.Blocked(u.t) })
	}
}

// Blocked reports whether it is kept waiting by others.
func (u *Unserved) Blocked() bool {
	_, blocked := u.n.meeting.Blocked(u.t)
	return blocked
}

// Later lets time pass by itself.
func (u *Unserved) Later(d time.Duration) { u.n.turn.Advance(u.n.turn.Now().Add(d)) }

// Served has a task served at once.
func (u *Unserved) Served() { u.n.regimes.Served(0, time.Millisecond, time.Millisecond) }

// Gone takes the one that waits out of what is read.
func (u *Unserved) Gone() { u.n.Queue.Remove(u.t) }

// RefuseWaiting has everybody who waits be refused.
func (n *Node) RefuseWaiting() { n.refuseWaiting(bus.CodeUnavailable, "away", time.Second) }

// MostOfOne returns how many tasks of one client wait, at most.
func (n *Node) MostOfOne() int { return n.Queue.Busiest() }

// LastRound counts the tasks that the last round looked at.
func (n *Node) LastRound() int { return len(n.meeting.Tasks) }

// Whole returns the last round before it was pruned.
func (n *Node) Whole() *market.Round { return &n.meeting.Plan.Whole }

// Sets begins a round, and returns the bits and tolls that policies set in it.
func (n *Node) Sets() []ledger.Set {
	rounds{n}.collect()
	n.meeting.Meet()
	n.meeting.Judge(n.Policies)
	return slices.Clone(n.Policies.Sets())
}

// Advance sets the Node's clock, and does nothing that is due.
func (n *Node) Advance(now time.Time) { n.turn.Advance(now) }

// InQueue counts the tasks whose prompts an agent has in hand, as far as the Node counts.
func (n *Node) InQueue(agent string) int { return n.fleet.Find(agent).Load(0).Waiting }

// Order names the tasks that the next round is to look at, the first first.
func (n *Node) Order() (ids []string) {
	for t := range n.Queue.All {
		if t.Due() {
			ids = append(ids, string(t.Name))
		}
	}
	return ids
}

// Worthwhile says of each pair of task and agent that the last round looked at whether the task is worth its
// cost there.
func (n *Node) Worthwhile() map[string]bool {
	all := map[string]bool{}
	for i := range n.meeting.Waiters {
		for _, o := range n.meeting.Waiters[i].Offers {
			all[string(n.meeting.Tasks[i].Name)+">"+n.meeting.Agents[o.Agent].ID()] = o.Bare() >= n.cfg.Fee
		}
	}
	return all
}

// Pairs begins a round, and returns how many pairs of task and agent it looks at, and the first that is
// charged by another quote than its own.
func (n *Node) Pairs() (pairs int, wrong error) {
	rounds{n}.collect()
	n.meeting.Meet()
	for i, x := range n.meeting.Tasks {
		for _, o := range n.meeting.Waiters[i].Offers {
			a := n.meeting.Agents[o.Agent]
			e := n.Forecasts.At(n.turn.Nano(), &x.Asks, &a.Forecast)
			ttft := a.Forecast.Line().Later(e.First, e.Work, besides(a))
			if *o.Estimate != e || o.Half != a.Forecast.Half(ttft) {
				wrong = fmt.Errorf("what %s is charged at %s is made of another's quote", x.Name, a.ID())
			}
			pairs++
		}
	}
	return pairs, wrong
}

// Never tells of a task that was never placed.
type Never struct {
	Refusals, Rounds int
	Short            bool
}

// Unplaced returns what such a task is told.
func (n *Node) Unplaced(m *bus.Task, x Never) string {
	t := n.untaken(m)
	t.Refusals, t.Short = x.Refusals, x.Short
	for range x.Rounds {
		t.Rounds++
	}
	return waiters{n}.unplaced(t)
}

// Unwritable has nothing be recorded any more, until mend is called.
func (n *Node) Unwritable() (mend func()) {
	along := n.turn.Along
	n.turn.Along = func([]ledger.Record) []ledger.Record { return make([]ledger.Record, 1) } // which is none
	return func() { n.turn.Along = along }
}

// Asks takes what the Node asks the treasury next, as Ready would.
func (n *Node) Asks() (f Funds, ok bool) {
	if ok = len(n.turn.Out.Funds) > 0; ok {
		f, n.turn.Out.Funds = n.turn.Out.Funds[0], n.turn.Out.Funds[1:]
	}
	return f, ok
}

// Clear holds a round, and says nothing of it.
func (n *Node) Clear() {
	for _, h := range (rounds{n}).clear() {
		n.settle.Begin(&h.Hold)
	}
}

// Again has everybody who waits be in the next round.
func (n *Node) Again() { n.Queue.Wake() }

// Replay takes in one stored frame of the hub's own journal, from the first, before Restore.
func (n *Node) Replay(f ledger.Frame) error {
	return n.Past.Apply(f.Seq, f.Epoch, ledger.AppendFrame(nil, &f))
}
