package tariff

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"souk/bus"
	"souk/hub/turn"
	"souk/ledger"
	"souk/market"
)

// The hub calls for sealed asks, records the seals, calls for the asks themselves once that is durable, and
// records what the epoch came to (market.Epoch). Until then the tariff of the epoch before holds. What is in
// force is in the book alone, so that a restarted hub goes on with it.

// sale is a class's next epoch on its way.
type sale struct {
	class   string
	timer   turn.Timer // begin, or go on without those who have not answered
	began   time.Time
	phase   phase
	epoch   market.Epoch
	called  []answer // by agent, sorted
	missing int      // answers to the last call
	peak    int      // most tasks at once on the class's agents since the last seal
}

type phase uint8

const (
	resting phase = iota
	sealing
	opening
)

// answer is the answer of an agent that was called.
type answer struct {
	agent          string
	sealed, opened bool
	seal           market.Sealed
	ask            market.Ask
}

// gather is how long the first agent of a class waits for others to join before asks are called for.
const gather = 200 * time.Millisecond

// due goes on with an epoch whose time has come.
func (r *Room) due(s *sale) {
	switch {
	case !r.sells():
		s.phase = resting
	case r.turn.Full: // there is no room to record it
		s.phase = resting
		r.turn.Set(&s.timer, r.turn.Now().Add(r.epoch))
	case s.phase == resting:
		r.begin(s)
	case s.phase == sealing:
		r.seal(s)
	case s.phase == opening:
		for i := range s.called {
			if s.called[i].opened {
				s.epoch.Opened = append(s.epoch.Opened, s.called[i].ask)
			}
		}
		r.record(s.epoch)
		r.rest(s)
	}
}

// begin calls for sealed asks.
func (r *Room) begin(s *sale) {
	s.called = s.called[:0]
	for a := range r.of(s.class) {
		s.called = append(s.called, answer{agent: a.ID})
	}
	if len(s.called) == 0 {
		return // the next to join calls
	}
	s.phase, s.began = sealing, r.turn.Now()
	s.epoch = r.turn.Book.NextEpoch(s.class, market.ClassUse{})
	r.call(s)
}

// call asks the agents for their seals, or those that have sealed for their asks.
func (r *Room) call(s *sale) {
	s.missing = 0
	for i := range s.called {
		if x := &s.called[i]; x.sealed || s.phase == sealing {
			r.turn.Send(bus.CallSubject(x.agent, r.turn.Domain), &bus.Call{Agent: x.agent, Class: s.class,
				Epoch: s.epoch.Number, Lead: r.turn.Epoch, Open: s.phase == opening})
			s.missing++
		}
	}
	r.turn.Set(&s.timer, r.turn.Now().Add(sealWait))
}

// Asked takes an agent's answer to a call. One that comes late, or twice, or that fits no seal means nothing.
func (r *Room) Asked(m *bus.Ask) error {
	s, i, owner := r.sales[m.Class], -1, ""
	for a := range r.of(m.Class) {
		if a.ID == m.Agent && s != nil && s.phase != resting && s.epoch.Number == m.Epoch {
			i, owner = s.find(m.Agent), a.Owner
		}
	}
	if i < 0 {
		return fmt.Errorf("ask of %s for epoch %d of %s, which was not called for", m.Agent, m.Epoch, m.Class)
	}
	switch x := &s.called[i]; {
	case s.phase == sealing && len(m.Seal) == len(x.seal.Seal) && !x.sealed:
		x.sealed, x.seal = true, market.Sealed{Owner: owner, Seal: [32]byte(m.Seal)}
	case s.phase == opening && len(m.Nonce) == len(x.ask.Nonce) && x.sealed && !x.opened:
		x.ask = market.Ask{Owner: x.seal.Owner, Amount: m.Amount, Nonce: [16]byte(m.Nonce)}
		if m.Amount > market.MaxWorth || x.ask.Seal(s.class, s.epoch.Number) != x.seal.Seal {
			return fmt.Errorf("ask of %s for epoch %d of %s fits no seal", m.Agent, m.Epoch, m.Class)
		}
		x.opened = true
	default:
		return fmt.Errorf("ask of %s for epoch %d of %s: it was said before, or not sealed",
			m.Agent, m.Epoch, m.Class)
	}
	if s.missing--; s.missing == 0 {
		r.due(s)
	}
	return nil
}

// find is which of those that were called an agent is; -1: none.
func (s *sale) find(agent string) int {
	return slices.IndexFunc(s.called, func(x answer) bool { return x.agent == agent })
}

// seal records the seals and calls for the asks.
func (r *Room) seal(s *sale) {
	use := r.use(s)
	s.epoch = r.turn.Book.NextEpoch(s.class, use)
	s.epoch.Ceiling = r.rule.ceiling(s.class)
	for i := range s.called {
		if s.called[i].sealed {
			s.epoch.Seals = append(s.epoch.Seals, s.called[i].seal)
		}
	}
	if len(s.epoch.Seals) == 0 || !r.commit(ledger.NewSeal(r.turn.Journal, s.epoch, use, r.turn.Salt())) {
		r.rest(s)
		return
	}
	s.phase, s.peak = opening, 0
	r.call(s)
}

// rest waits for the next epoch: the usual time, or less where an owner is in none.
func (r *Room) rest(s *sale) {
	s.phase = resting
	r.turn.Set(&s.timer, s.began.Add(r.epoch))
	for a := range r.of(s.class) {
		if s.find(a.ID) < 0 {
			r.Joined(a.Owner, a.Class)
		}
	}
}

// record clears an epoch and makes its tariff the one in force.
func (r *Room) record(e market.Epoch) {
	t, err := e.Clear()
	if err != nil {
		r.turn.Fault(err)
	} else if r.commit(ledger.NewTariff(r.turn.Journal, e, t, r.turn.Salt())) {
		r.repriced()
	}
}

func (r *Room) commit(rec ledger.Record) bool {
	err := r.turn.Commit(rec)
	if err != nil {
		r.turn.Fault(fmt.Errorf("%s %s: %w", rec.Kind, rec.ID, err))
	}
	return err == nil
}

// use returns a class's load since its last epoch; zero before the first.
func (r *Room) use(s *sale) (use market.ClassUse) {
	_, t, ok := r.turn.Book.Epoch(s.class)
	if !ok {
		return use
	}
	slots := map[string]int{}
	for a := range r.of(s.class) {
		if in(t, a.Owner) {
			slots[a.Owner] += a.Slots
		}
	}
	for _, owner := range slices.Sorted(maps.Keys(slots)) {
		use.Slots = append(use.Slots, slots[owner])
	}
	use.Peak = s.peak
	return use
}
