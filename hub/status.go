package hub

import (
	"cmp"
	"slices"
	"time"

	"souk/bus"
	"souk/hub/predict"
)

// typical is the task whose TTFT a status names, so that hubs can be compared.
var typical = predict.Features{Prompt: 500, MaxTokens: 256}

// statusState says when the next status is due.
type statusState struct {
	changed bool
	last    time.Time
	next    time.Time
	seq     uint64
	said    []saying // some of late, oldest first
	stood   uint64   // a door's word of a status before this one is of before the hub stood still
}

// saying is when a status was said.
type saying struct {
	seq uint64
	at  time.Time
}

// A door that has stopped for a while, in whatever moment, does not know that its task's reader has asked
// another door meanwhile, which may have placed the task elsewhere. Its own clock may have stopped, too; but
// it names the last status of this hub that it had heard when it took the task, or asked all hubs for it.
const (
	// unheard is how long ago the status after that one may have been said. It has reached the door soon
	// after, so that with what lies between two statuses the door's word is at most so old. Readers ask
	// another door after three heartbeats, six seconds, at the earliest.
	unheard = 3 * time.Second
	// of so many statuses a second one is remembered
	sayEvery = 250 * time.Millisecond
)

// unsure reports whether a task that a door places here may be with another hub by now. A door that says
// nothing of what it heard has a task for which its reader cannot ask another.
func (n *Node) unsure(m *bus.Task) bool {
	h := m.LastStatus
	if h == nil || h.Epoch != n.epoch {
		return h != nil
	}
	i := n.status.known(n.heard)
	return h.Seq < n.status.stood || i >= 0 && h.Seq < n.status.said[i].seq
}

// stoodStill notes that the hub did not run for a while, and so said nothing that a door could have missed:
// what comes now may have waited all that time, in which the hub may have been taken for gone, and the task
// be placed elsewhere. The next number stands for a status of now.
func (s *statusState) stoodStill() {
	s.seq++
	s.stood = s.seq
}

// known is the last status that was said longer ago than unheard, among those that are remembered; -1: none.
func (s *statusState) known(now time.Time) int {
	i := 0
	for i < len(s.said) && now.Sub(s.said[i].at) > unheard {
		i++
	}
	return i - 1
}

// say notes when a status is said.
func (s *statusState) say(now time.Time) {
	if n := len(s.said); n > 0 && now.Sub(s.said[n-1].at) < sayEvery {
		return
	}
	s.said = append(slices.Delete(s.said, 0, max(0, s.known(now))), saying{s.seq, now})
}

// backEvery is how often a hub says its status while it settles after an outage of the bus: whoever came back
// after it has missed the first, and believes it gone until it hears one.
const backEvery = 100 * time.Millisecond

// justBack reports whether others may still be on their way back from an outage of the bus.
func (n *Node) justBack() bool { return !n.reached.IsZero() && n.now.Sub(n.reached) < n.cfg.Settling }

// report puts a status into the output: on change, at most every StatusLeast, and at least every StatusEvery.
func (n *Node) report() {
	s := &n.status
	every := n.cfg.StatusEvery
	if n.justBack() {
		every = min(every, max(backEvery, n.cfg.StatusLeast))
	}
	due := s.last.Add(every)
	if s.changed {
		due = s.last.Add(n.cfg.StatusLeast)
	}
	if n.now.Before(due) {
		s.next = due
		return
	}
	s.seq++
	s.last, s.changed = n.now, false
	s.say(n.now)
	s.next = n.now.Add(every)
	n.out.Status = n.Status()
}

// Refuses is why the hub takes no task, whoever sends it; "": it does.
func (n *Node) Refuses() string {
	why, _ := n.refuses()
	return why
}

// refuses is that, and when it may be worth asking again.
func (n *Node) refuses() (why string, again time.Duration) {
	switch {
	case n.draining:
		return "the hub is stopping", againSoon
	case n.doubt != "":
		if n.marks.awaits {
			return n.doubt, againSoon
		}
		return n.doubt, againStale
	case n.full:
		return diskFull, againFull
	}
	return "", 0
}

const (
	againSoon  = time.Second      // another hub leads then
	againFull  = 10 * time.Second // somebody has made room on a disk
	againStale = time.Minute
)

// Status is what the hub says of itself to anyone.
func (n *Node) Status() *bus.Status {
	s := &bus.Status{
		Domain: n.cfg.Domain, Labels: n.cfg.Labels, General: n.cfg.General, Epoch: n.epoch, Seq: n.status.seq,
		Waiting: n.waiting, Regime: n.Regime().String(),
		Hedged: n.stats.Hedged, HedgedFalse: n.stats.HedgedFalse,
	}
	closed, again := n.refuses()
	s.Closed, s.ClosedMS = closed, again.Milliseconds()
	if n.leading && closed == "" {
		s.Room = max(0, n.spare())
		if s.Room == 0 && n.room.squeezes(0) {
			s.Room = 1
		}
	}
	for _, p := range n.runtime.host.States(n.now) {
		s.Policies = append(s.Policies, bus.PolicyStatus{Hook: p.Hook, Policy: p.Policy,
			OffMS: max(0, p.Off.Sub(n.now).Milliseconds()), Why: bus.Clip(p.Why, bus.MaxText)})
	}
	if n.cfg.Sessions.Admit {
		s.Sessions = &bus.SessionStatus{Places: n.sessions.table.Places(), Waiting: n.sessions.waiting}
		for _, a := range n.roster {
			if used, room := a.sessions.Blocks(); a.joined {
				s.Sessions.Used, s.Sessions.Blocks = s.Sessions.Used+used, s.Sessions.Blocks+room
			}
		}
	}
	var line predict.Line
	var ttft int64 // of an agent that is forecast by it
	for _, a := range n.roster {
		if !a.joined {
			continue
		}
		free := a.free(n)
		if by := a.predictor.Line(); s.Agents == 0 || by != line {
			line, ttft = by, a.predictor.First(typical).Microseconds()
		}
		s.Agents++
		s.Slots += a.slots
		s.Free += free
		s.MaxPromptTokens = max(s.MaxPromptTokens, a.reg.MaxModelLen)
		i, ok := slices.BinarySearchFunc(s.Models, a.reg.Model,
			func(m bus.ModelStatus, model string) int { return cmp.Compare(m.Model, model) })
		quality := a.rated[0]
		if !ok {
			s.Models = slices.Insert(s.Models, i,
				bus.ModelStatus{Model: a.reg.Model, Price: a.price, TTFTUS: ttft, SlotPrice: a.slotPrice,
					Cards: bus.Cards{Least: a.price, Most: a.price}})
		}
		m := &s.Models[i]
		m.Agents++
		m.Free += free
		if quality > m.Quality || !ok {
			m.Quality, m.Heard = quality, nil
			for _, h := range a.heard(0) {
				m.Heard = append(m.Heard, bus.Heard{Source: h.Source, Weight: h.Weight, Mean: min(1, h.Mean)})
			}
		}
		m.TTFTUS = min(m.TTFTUS, ttft)
		m.SlotPrice = min(m.SlotPrice, a.slotPrice)
		m.MaxModelLen = max(m.MaxModelLen, a.reg.MaxModelLen)
		m.Cards = m.Cards.With(bus.Cards{Least: a.price, Most: a.price})
		if a.price.Miss+a.price.Out < m.Price.Miss+m.Price.Out {
			m.Price = a.price
		}
	}
	return s
}
