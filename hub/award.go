package hub

import (
	"cmp"
	"slices"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// won is an award of a round: a task, its agent, and what it was quoted there.
type won struct {
	task  *task
	agent *agent
	quote quote
	hold  *hold
}

// winners lists the awards of a round.
func (n *Node) winners(r *market.Round, o *market.Outcome) []won {
	s := &n.round
	s.won = slices.Grow(s.won[:0], len(o.Awards))
	i := 0
	for slot := range o.Awards {
		aw := &o.Awards[slot]
		for r.Tasks[i].ID != aw.Task {
			i++
		}
		t, a := s.left[i], n.lookup(string(aw.Agent))
		s.won = append(s.won, won{t, a, n.quote(t, a, n.backlog(a), n.heldBy(t, a)), nil})
	}
	return s.won
}

// award records a cleared round with its holds and hands out its tasks.
func (n *Node) award(r *market.Round, o *market.Outcome) error {
	s := &n.round
	all := n.winners(r, o)
	records := make([]ledger.Record, 1, 1+len(all))
	records[0] = ledger.NewRound(n.cfg.Journal, *r, *o, n.salt())
	records[0].Round.Seen = n.expected(r, s.left)
	records[0].Round.Set = n.regimeSets(r, n.runtime.set(r))
	records[0].Round.Second, records[0].Round.Waited = n.seconds(r), waited(s.left)
	n.out.Dispatches = slices.Grow(n.out.Dispatches, len(all))
	n.out.Placed = slices.Grow(n.out.Placed, len(all))
	for slot := range all {
		w, aw := &all[slot], &o.Awards[slot]
		h := n.newHold(w.task, w.agent, &w.quote, r.Number, slot, aw)
		h.own = r.Own(*aw)
		records = append(records, n.book.NewHold(h.id, &h.rec, n.salt()))
		w.hold = h
	}
	if err := n.commit(records...); err != nil {
		return err
	}
	n.stats.round(r, o)
	for slot := range all {
		t, aw := all[slot].task, &o.Awards[slot]
		if t.only == nil {
			n.seeds.hear(t.stated().Second())
			n.plan.kept.End(n.nano, t.worth, aw.Value-aw.Cost-n.cfg.Fee)
			t.worth = -1
			w := &all[slot]
			w.agent.slotRate.Begun(n.nano, w.agent.alike, aw.Value-aw.Cost-n.cfg.Fee, w.quote.computes)
			n.regimes.watch.Priced(aw.SlotPrice, aw.Cost)
		}
		n.start(t, all[slot].hold, aw)
	}
	n.notePeaks()
	n.status.changed = true
	return nil
}

// newHold is the hold for an award.
func (n *Node) newHold(t *task, a *agent, q *quote, round uint64, slot int, aw *market.Award) *hold {
	h := &hold{
		id: ledger.HoldID(n.cfg.Journal, round, slot), agent: a,
		features: q.features, most: q.most, sent: n.now,
	}
	h.ttft, h.first = q.forecast.TTFT, a.worstFirst(t, q)
	h.watch = n.watchOf(a, h)
	h.idle, _, _ = a.predictor.Idle(q.features)
	if t.session != 0 && t.msg.Prompt.Loose != bus.LooseMedia { // pictures and sound have names alone
		h.verified = a.cache.Verified(t.session, &t.msg.Prompt)
	}
	h.timer.owner = h
	service := n.answerWithin(a, q)
	h.timeout = service + n.cfg.HoldGrace/2
	h.expires = n.now.Add(service + n.cfg.HoldGrace)
	h.rec = ledger.Hold{
		Client: t.key.client, Task: t.key.id, Attempt: t.msg.Attempt, Agent: a.id, Model: a.reg.Model,
		Round: round, Slot: slot, Kind: bus.DispatchTask,
		Amount:  market.Hold(aw.Premium, q.worst(a), min(t.terms.Cap(), t.reserved)),
		Premium: aw.Premium, Fee: n.cfg.Fee, Quoted: aw.Cost, Tariff: a.tariff, Settle: n.cfg.Settle,
		Price:  a.price,
		Prompt: q.prompt, Cached: q.features.Cached, Output: q.forecast.Output, MaxTokens: q.maxTokens,
		Expires: h.expires.UnixNano(), Boot: a.reg.Boot, Digest: t.digest,
		Asserted: a.cache.Asserted(&t.msg.Prompt, a.predictor.Tokens(t.msg.Prompt.Tokens)),
	}
	h.rec.Reader, h.rec.Token, _ = bus.ReaderOf(t.msg.Reply)
	if h.rec.Reader == h.rec.Client && h.rec.Token == h.rec.Task {
		h.rec.Reader, h.rec.Token = "", ""
	}
	return h
}

// replyOf is where the answer of a recorded hold goes.
func replyOf(rec *ledger.Hold) string {
	return bus.ReplyTo(cmp.Or(rec.Reader, rec.Client), cmp.Or(rec.Token, rec.Task))
}

// start lets an awarded task run: its hold stands in a frame of this Ready.
func (n *Node) start(t *task, h *hold, aw *market.Award) {
	n.wait(t, -1)
	n.release(t)
	t.state, t.hold, h.task = running, h, t
	if t.carried() == 0 {
		t.whole = h.rec.MaxTokens
	}
	n.holds[h.id] = h
	n.hedges.spent = max(0, n.hedges.spent-n.cfg.Hedge.Share)
	n.recount(t, h.agent)
	n.noteUse(t)
	n.takes(t, h)
	n.timers.set(&t.timer, time.Time{})
	h.award = *aw
	n.hearPlaced(h)
	n.handOut(h)
}

// handOut sends a hold's task to its agent, and waits for the reply.
func (n *Node) handOut(h *hold) {
	t := h.task
	h.kept = false
	n.timers.set(&h.timer, n.now.Add(n.cfg.DispatchTimeout))
	n.out.Dispatches = append(n.out.Dispatches, n.dispatch(t, h, &h.award))
	undelayed := t.free && t.rounds+t.refusals == 0 && h.again == 0
	n.out.Placed = append(n.out.Placed, Placed{h.agent.id, t.arrived, undelayed})
}
