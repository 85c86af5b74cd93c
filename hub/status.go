package hub

import (
	"time"

	"souk/bus"
	"souk/hub/predict"
	"souk/hub/quality"
	"souk/hub/status"
	"souk/market"
)

// typical is the task whose TTFT a status names, so that hubs can be compared.
var typical = predict.Features{Prompt: 500, MaxTokens: 256}

// Refuses is why the hub takes no task, whoever sends it ("": it does), and when it may be worth asking
// again.
func (n *Node) Refuses() (why string, again time.Duration) {
	_, waits := n.money.Doubt()
	return n.status.Closed(waits)
}

// Status returns the hub's public word about itself.
func (n *Node) Status() *bus.Status {
	s := &bus.Status{
		Domain: n.cfg.Domain, Labels: n.cfg.Labels, General: n.cfg.General, Epoch: n.turn.Epoch,
		Seq: n.status.Last().Seq, Waiting: n.queue.Waiting(), Regime: n.regimes.State().String(),
		Hedged: n.settle.Counts().Hedged, HedgedFalse: n.settle.Counts().HedgedFalse,
	}
	closed, again := n.Refuses()
	s.Closed, s.ClosedMS = closed, again.Milliseconds()
	if n.turn.Leading && closed == "" {
		s.Room = max(0, n.queue.Spare(n.fleet.Slots(), n.admission.Open()))
		if s.Room == 0 && n.queue.Squeezes(0) {
			s.Room = 1
		}
	}
	for _, p := range n.policies.States(n.turn.Now()) {
		s.Policies = append(s.Policies, bus.PolicyStatus{Hook: p.Hook, Policy: p.Policy,
			OffMS: max(0, p.Off.Sub(n.turn.Now()).Milliseconds()), Why: bus.Clip(p.Why, bus.MaxText)})
	}
	if n.cfg.Sessions.Admit {
		s.Sessions = &bus.SessionStatus{Places: n.sessions.Places(), Waiting: n.sessions.Waiting()}
	}
	var line predict.Line
	var ttft int64 // of an agent that is forecast by it
	for _, a := range n.fleet.All() {
		if !a.Joined() {
			continue
		}
		if s.Sessions != nil {
			used, room := a.sessions.Blocks()
			s.Sessions.Used, s.Sessions.Blocks = s.Sessions.Used+used, s.Sessions.Blocks+room
		}
		if by := a.predictor.Line(); s.Agents == 0 || by != line {
			line, ttft = by, a.predictor.First(typical).Microseconds()
		}
		at := n.turn.Nano() / int64(time.Millisecond)
		rate := n.turn.Book.Rates().Of(market.AgentID(a.ID()), at)
		rated, _ := a.answers.Rated()
		status.Add(s, a.Reg().Slots, bus.ModelStatus{Model: a.Reg().Model, Agents: 1,
			Free: a.Free(n.turn.Nano()), Quality: rated[0], Price: a.Reg().Price, TTFTUS: ttft,
			// of one that is kept as long as most
			SlotPrice:   market.PerSecond(rate.PriceAt(at), a.Service().Mean()),
			MaxModelLen: a.Reg().MaxModelLen, Cards: bus.Cards{Least: a.Reg().Price, Most: a.Reg().Price}},
			func() (all []bus.Heard) {
				for _, h := range a.answers.Heard(0) {
					all = append(all, bus.Heard{Source: h.Source, Weight: h.Weight, Mean: min(1, h.Mean)})
				}
				return all
			})
	}
	return s
}

// Stats is a copy of the counts.
func (n *Node) Stats() Stats {
	s := n.stats.Copy(func(agent string) []quality.Scored {
		if a := n.fleet.Find(agent); a != nil {
			return a.answers.Scored()
		}
		return nil
	})
	s.Faults, s.OldTreasury = n.turn.Faults, n.money.OldWords()
	s.Tally, s.Counts = n.admission.Tally(), n.settle.Counts()
	s.Open, s.Waiting = n.admission.Open(), n.queue.Waiting()
	s.Holds, _ = n.settle.Kept()
	s.Policies = n.policies.States(n.turn.Now())
	s.Owed = n.policies.Owed(func(yield func(client string) bool) {
		for t := range n.queue.All {
			if t.only == nil && !yield(t.Client()) {
				return
			}
		}
	})
	s.Trees, s.Regime = n.forecasts.Trees(), n.regimes.Stats()
	return s
}
