package hub

import (
	"time"

	"souk/bus"
	"souk/hub/policy"
	"souk/hub/round"
	"souk/hub/settle"
	"souk/ledger"
	"souk/market"
)

// award records a cleared round with its holds and hands out its tasks.
func (n *Node) award(c *round.Cleared) error {
	s, r, o := &n.round, c.Round, &c.Outcome
	records := make([]ledger.Record, 1, 1+len(o.Awards))
	records[0] = ledger.NewRound(n.cfg.Journal, *r, *o, n.turn.Salt())
	rec := records[0].Round
	rec.Seen = c.Seen(n.turn.Nano(), s.waiters, s.expected)
	rec.Waited = c.Waited(s.waiters, func(k int32) string { return s.tasks[k].Planned })
	rec.Set, rec.Ground = policy.Named(r, n.policies.Sets(), n.regimes.Sets()), c.Ground
	all := make([]*hold, 0, len(o.Awards))
	for slot, waiter := range s.plan.Apply(c) {
		h := n.newHold(s.tasks[waiter], r, slot, &o.Awards[slot])
		all, records = append(all, h), append(records, n.turn.Book.NewHold(h.ID, &h.Rec, n.turn.Salt()))
	}
	if err := n.turn.Commit(records...); err != nil {
		return err
	}
	n.stats.Rounds++
	n.stats.Awards += int64(len(all))
	for slot, h := range all {
		t, aw := h.task, &o.Awards[slot]
		if t.only == nil {
			n.prewarms.Served(t.Stated().Second(0))
			n.plan.kept.End(n.turn.Nano(), t.Worth, aw.Value-aw.Cost-n.cfg.Fee)
			t.Worth = -1
		}
		n.queue.Remove(t) // it runs, as its hold stands in a frame of this Ready
		n.money.Release(&t.money)
		t.hold = h
		h.agent.recount(n, t)
		t.noteUse(n)
		n.takes(t, h)
		t.hear(n, h.agent, func(now time.Time, x *policy.Turn) {
			n.policies.Placed(now, x,
				market.Usage{Prompt: h.Rec.Prompt, Cached: h.Rec.Cached, Output: h.Rec.Output})
		})
		h.Watch = n.settle.WatchFor(h.Rec.Agent, h.Watch)
		n.settle.Begin(&h.Hold)
	}
	n.tariffs.Placed()
	n.turn.Changed = true
	return nil
}

// newHold is the hold for an award.
func (n *meeting) newHold(t *task, r *market.Round, slot int, aw *market.Award) *hold {
	a := n.fleet.Find(string(aw.Agent))
	h := &hold{
		Hold: settle.Hold{ID: ledger.HoldID(n.cfg.Journal, r.Number, slot), Task: &t.Task, Msg: t.Msg,
			Deadline: t.Deadline(), Unread: t.only != nil, Sent: n.turn.Now()},
		task: t, agent: a,
	}
	e, first, within := n.expects(h)
	service := n.fleet.Within(&a.Agent, e.Prompt, e.MaxTokens)
	h.estimate, h.Most, h.Expires = e, e.Most, h.Sent.Add(service+n.cfg.HoldGrace)
	h.Terms = settle.Terms{Timeout: service + n.cfg.HoldGrace/2, First: first, Watch: within, Award: *aw,
		Own: r.Own(*aw)}
	if x := &t.asks; x.Source.Session != 0 && !x.Media { // pictures and sound have names alone
		h.Verified = a.cache.Verified(x.Source.Session, x.Prompt)
	}
	h.Rec = ledger.Hold{
		Client: t.Client(), Task: t.ID(), Attempt: t.Msg.Attempt, Agent: a.ID(), Model: a.Reg().Model,
		Round: r.Number, Slot: slot, Kind: bus.DispatchTask,
		Amount:  market.Hold(aw.Premium, e.Worst, min(t.Cap(), t.money.Reserved())),
		Premium: aw.Premium, Fee: n.cfg.Fee, Quoted: aw.Cost, Tariff: a.Seller().Tariff, Settle: n.cfg.Settle,
		Price:  a.Reg().Price,
		Prompt: e.Prompt, Cached: e.Cached, Output: e.Output, MaxTokens: e.MaxTokens,
		Expires: h.Expires.UnixNano(), Boot: a.Reg().Boot, Digest: t.Digest(),
		Asserted: a.cache.Asserted(&t.Msg.Prompt, a.predictor.Tokens(t.Msg.Prompt.Tokens)),
	}
	h.Rec.Reader, h.Rec.Token, _ = bus.ReaderOf(t.Msg.Reply)
	if h.Rec.Reader == h.Rec.Client && h.Rec.Token == h.Rec.Task {
		h.Rec.Reader, h.Rec.Token = "", ""
	}
	return h
}

func (x holding) HandOut(s *settle.Hold, d *bus.Dispatch) Placed {
	h := x.of(s)
	t := h.task
	most, _ := x.class(h.agent).Bound(&t.asks)
	d.Fence, d.PromptMost = h.agent.Reg().Fence, h.Covers(most)
	d.Open = t.asks.Open() && t.Msg.Carried() == 0
	return Placed{Agent: h.agent.ID(), Arrived: t.Arrived(),
		Free: t.AtOnce() && t.Refusals+t.Moves == 0}
}
