package hub

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// Under pricing tariff the owners of a class's agents compete for each epoch: the hub calls for sealed asks,
// records the seals, calls for the asks themselves once that is durable, and records what the epoch came to
// (market.Epoch). Until then the tariff of the epoch before holds. What is in force is in the book alone, so
// that a restarted hub goes on with it.

// sale is a class's next epoch on its way.
type sale struct {
	class  string
	timer  timer // begin, or go on without those who have not answered
	began  time.Time
	phase  phase
	number uint64
	called []string // agents, sorted
	epoch  market.Epoch
	said   map[string]market.Sealed // by agent
	opened map[string]market.Ask
	peak   int // most tasks at once on the class's agents since the last seal
}

type phase uint8

const (
	resting phase = iota
	sealing
	opening
)

// gather is how long the first agent of a class waits for others to join before asks are called for.
const gather = 200 * time.Millisecond

// callFor sees to it that an agent's class has an epoch to come, and soon where the agent's owner is in none.
func (n *Node) callFor(a *agent) {
	if n.cfg.Pricing != market.PricingTariff || !a.joined || !n.leading {
		return
	}
	s := n.sales[a.class]
	if s == nil {
		if len(n.sales) >= bus.MaxClasses {
			return // as ever: an agent whose class has no epoch sells nothing
		}
		s = &sale{class: a.class}
		s.timer.owner = s
		n.sales[a.class] = s
	}
	if s.phase != resting {
		return // whoever comes now waits for the next one; see rest
	}
	at := later(n.now.Add(gather), s.began.Add(n.cfg.EpochLeast))
	if _, t, ok := n.book.Epoch(a.class); ok && in(t, a.owner) {
		at = later(at, s.began.Add(n.cfg.Epoch))
		if s.began.IsZero() { // cleared by an earlier leadership
			at = n.now.Add(n.cfg.Epoch)
		}
	}
	if s.timer.place == 0 || at.Before(s.timer.at) {
		n.timers.set(&s.timer, at)
	}
}

// in reports whether an owner's asks counted in an epoch.
func in(t market.Tariff, owner string) bool {
	return slices.Contains(t.Winners, owner) || slices.Contains(t.Standby, owner)
}

// due implements timed.
func (s *sale) due(n *Node) {
	switch {
	case n.cfg.Pricing != market.PricingTariff || n.draining || !n.leading:
		s.phase = resting
		return
	case n.full: // there is no room to record it
		s.phase = resting
		n.timers.set(&s.timer, n.now.Add(n.cfg.Epoch))
		return
	}
	switch s.phase {
	case resting:
		s.begin(n)
	case sealing:
		s.seal(n)
	case opening:
		s.clear(n)
	}
}

// begin calls for sealed asks.
func (s *sale) begin(n *Node) {
	s.called, s.said, s.opened = s.called[:0], map[string]market.Sealed{}, map[string]market.Ask{}
	for _, a := range n.roster {
		if a.joined && a.class == s.class {
			s.called = append(s.called, a.id)
		}
	}
	if len(s.called) == 0 {
		return // the next to join calls
	}
	s.phase, s.began, s.number = sealing, n.now, n.book.NextEpoch(s.class, market.ClassUse{}).Number
	s.call(n, false)
}

func (s *sale) call(n *Node, open bool) {
	for _, id := range s.called {
		if _, ok := s.said[id]; ok || !open {
			n.send(bus.CallSubject(id, n.cfg.Domain),
				&bus.Call{Agent: id, Class: s.class, Epoch: s.number, Lead: n.epoch, Open: open})
		}
	}
	n.timers.set(&s.timer, n.now.Add(n.cfg.SealWait))
}

// asked takes an agent's answer to a call. One that comes late, or twice, or that fits no seal means nothing.
func (n *Node) asked(m *bus.Ask) error {
	a, s := n.lookup(m.Agent), n.sales[m.Class]
	if a == nil || !a.joined || s == nil || a.class != m.Class || s.phase == resting || s.number != m.Epoch ||
		!slices.Contains(s.called, m.Agent) {
		return fmt.Errorf("ask of %s for epoch %d of %s, which was not called for", m.Agent, m.Epoch, m.Class)
	}
	sealed, ok := s.said[m.Agent]
	switch {
	case s.phase == sealing && len(m.Seal) == len(sealed.Seal) && !ok:
		s.said[m.Agent] = market.Sealed{Owner: a.owner, Seal: [32]byte(m.Seal)}
		if len(s.said) == len(s.called) {
			s.seal(n)
		}
		return nil
	case s.phase == opening && len(m.Nonce) == 16 && ok:
		ask := market.Ask{Owner: sealed.Owner, Amount: m.Amount, Nonce: [16]byte(m.Nonce)}
		if ask.Amount > market.MaxWorth || ask.Seal(s.class, s.number) != sealed.Seal {
			return fmt.Errorf("ask of %s for epoch %d of %s fits no seal", m.Agent, m.Epoch, m.Class)
		}
		s.opened[m.Agent] = ask
		if len(s.opened) == len(s.said) {
			s.clear(n)
		}
		return nil
	}
	return fmt.Errorf("ask of %s for epoch %d of %s: it was said before, or not sealed",
		m.Agent, m.Epoch, m.Class)
}

// seal records the seals and calls for the asks.
func (s *sale) seal(n *Node) {
	use := n.use(s.class, s.peak)
	s.epoch = n.book.NextEpoch(s.class, use)
	s.epoch.Ceiling = n.cfg.ceiling(s.class)
	for _, id := range s.called {
		if sealed, ok := s.said[id]; ok {
			s.epoch.Seals = append(s.epoch.Seals, sealed)
		}
	}
	if len(s.epoch.Seals) == 0 {
		s.rest(n)
		return
	}
	if err := n.commit(ledger.NewSeal(n.cfg.Journal, s.epoch, use, n.salt())); err != nil {
		n.fault(fmt.Errorf("epoch %d of %s: %w", s.number, s.class, err))
		s.rest(n)
		return
	}
	s.phase, s.peak = opening, 0
	s.call(n, true)
}

// clear records what the epoch came to.
func (s *sale) clear(n *Node) {
	for _, id := range s.called {
		if ask, ok := s.opened[id]; ok {
			s.epoch.Opened = append(s.epoch.Opened, ask)
		}
	}
	n.record(s.epoch)
	s.rest(n)
}

// rest waits for the next epoch: the usual time, or less where an owner is in none.
func (s *sale) rest(n *Node) {
	s.phase = resting
	n.timers.set(&s.timer, s.began.Add(n.cfg.Epoch))
	for _, a := range n.roster {
		if a.class == s.class && !slices.Contains(s.called, a.id) {
			n.callFor(a)
		}
	}
}

// record clears an epoch and makes its tariff the one in force.
func (n *Node) record(e market.Epoch) {
	t, err := e.Clear()
	if err == nil {
		err = n.commit(ledger.NewTariff(n.cfg.Journal, e, t, n.salt()))
	}
	if err != nil {
		n.fault(fmt.Errorf("epoch %d of %s: %w", e.Number, e.Class, err))
		return
	}
	n.tariffs()
	n.news()
}

// lostOwner clears an epoch again when a winner's last agent has left and somebody stands by for it.
func (n *Node) lostOwner(a *agent) {
	if n.cfg.Pricing != market.PricingTariff || !n.leading || n.full || n.draining {
		return
	}
	e, t, ok := n.book.Epoch(a.class)
	if !ok || len(t.Standby) == 0 || !slices.Contains(t.Winners, a.owner) {
		return
	}
	for _, b := range n.roster {
		if b.joined && b.class == a.class && b.owner == a.owner {
			return
		}
	}
	if n.book.NextEpoch(a.class, market.ClassUse{}).Number > e.Number+1 {
		return // the next epoch is sealed already
	}
	n.record(e.Without(a.owner))
}

// use is how a class went since its last epoch.
func (n *Node) use(class string, peak int) (use market.ClassUse) {
	_, t, ok := n.book.Epoch(class)
	if !ok {
		return use
	}
	slots := map[string]int{}
	for _, a := range n.roster {
		if a.joined && a.class == class && in(t, a.owner) {
			slots[a.owner] += a.slots
		}
	}
	for _, owner := range slices.Sorted(maps.Keys(slots)) {
		use.Slots = append(use.Slots, slots[owner])
	}
	use.Peak = peak
	return use
}

// notePeaks counts what runs on every class's agents.
func (n *Node) notePeaks() {
	if n.cfg.Pricing != market.PricingTariff {
		return
	}
	running := map[*sale]int{}
	for _, a := range n.roster {
		if s := n.sales[a.class]; s != nil {
			running[s] += len(a.holds)
			s.peak = max(s.peak, running[s])
		}
	}
}
