package hub

import (
	"fmt"
	"time"

	"souk/bus"
)

// holds lists those that run on an agent, in the order of their rounds.
func (n *Node) holds(a *agent) (held []*hold) {
	for _, x := range a.Runs {
		held = append(held, n.admission.Find(x.Client, x.Task).Hold)
	}
	return held
}

// Join says that this hub sells an agent's slots: the agent is registered, and claimed by the hub's
// leadership; or that its registration has changed. A registration that cannot be sold under is an error and
// is counted; the agent is not sold.
func (n *Node) Join(now time.Time, reg bus.Registration) error {
	n.turn.Advance(now)
	if !n.turn.Leading {
		return ErrNotLeading
	}
	err := n.cfg.Sells(&reg)
	if a := n.fleet.Find(reg.Agent); err == nil && (a == nil || !a.Joined()) && n.fleet.Full() {
		err = fmt.Errorf("%d agents are joined, the most this hub sells", n.cfg.MaxAgents)
	}
	if err != nil {
		n.Leave(now, reg.Agent)
		return fmt.Errorf("agent %s is not sold: %w", reg.Agent, err)
	}
	a := n.fleet.Enrol(reg.Agent)
	n.fleet.Claim(&a.Agent)
	for _, h := range n.holds(a) {
		n.settle.Registered(&h.Hold, &reg)
	}
	was, fresh := *a.Reg(), a.Fresh(&reg)
	if fresh {
		n.settle.Forget(reg.Agent)
	}
	n.fleet.Register(&a.Agent, reg)
	n.Forecasts.Register(&a.Forecast, &was, fresh)
	a.Reprice(n.tariffs)
	n.tariffs.Joined(a.Seller().Owner, a.Seller().Class)
	n.Queue.News()
	return nil
}

// Leave says that a registration, or the claim on it, is gone. What runs there may well go on to its end.
func (n *Node) Leave(now time.Time, id string) {
	n.turn.Advance(now)
	if a := n.fleet.Find(id); a != nil {
		n.fleet.Leave(&a.Agent)
		n.tariffs.Left(a.Seller().Owner, a.Seller().Class)
		n.Queue.News() // who waits for it may do better now
	}
}

// summarised takes an agent's word about itself.
func (n *Node) summarised(s *bus.Summary) error {
	a := n.fleet.Find(s.Agent)
	if a == nil || !a.Joined() {
		return fmt.Errorf("summary of %s, which is not sold here", s.Agent)
	}
	price := a.Reg().Price
	if err := n.fleet.Summary(&a.Agent, s); err != nil {
		return err
	}
	if a.Reg().Price != price {
		n.Forecasts.Priced(&a.Forecast)
	}
	n.settle.HeardLate(s.Agent, s.Late)
	return nil
}

// reported takes an agent's word about what it holds.
func (n *Node) reported(h *bus.Holdings) error {
	a := n.fleet.Find(h.Agent)
	sold := a != nil && a.Joined()
	if !sold {
		n.fleet.TooSoon(h.Agent)
	}
	if !sold || h.Boot != a.Reg().Boot {
		return fmt.Errorf("holdings of %s (boot %d), which is not sold here", h.Agent, h.Boot)
	}
	n.fleet.Alive(&a.Agent)
	a.Engine(h.Life)
	if a.Forecast.Cache.Reported(h) {
		n.fleet.AskAll(&a.Agent)
	}
	return nil
}

// Hears says whether the bus is there, and agents are heard: until they are, no hold ends by its time.
// Whoever listens to us has missed our last news.
func (n *Node) Hears(now time.Time, hears bool) {
	n.turn.Advance(now)
	n.settle.Deaf()
	n.settle.Cut(!hears)
	if hears {
		n.fleet.Back()
		n.status.Soon()
	}
}

// Slept says that time has passed in which the hub did not run: its process was stopped, or starved.
func (n *Node) Slept(now time.Time) {
	n.turn.Advance(now)
	n.settle.Deaf()
	n.status.StoodStill()
}

// Absent says that nobody heard a probe of an agent, and reports whether that is held to be dead from now on.
func (n *Node) Absent(now time.Time, id string) bool {
	n.turn.Advance(now)
	a := n.fleet.Find(id)
	if a == nil {
		return false
	}
	deaths := n.fleet.Absent(&a.Agent)
	if deaths == 1 {
		n.stats.Agent(id).Dead++
	}
	if deaths > 0 {
		n.Queue.News() // who waits for it may do better now
		for _, h := range n.holds(a) {
			n.settle.Died(&h.Hold)
		}
	}
	return deaths == 1
}
