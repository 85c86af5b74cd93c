package hub

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"souk/bus"
	"souk/hub/estimate"
	"souk/hub/policy"
	"souk/hub/round"
	"souk/ledger"
	"souk/market"
)

// rounds is the hub as it holds rounds: it has no state of its own.
type rounds struct{ *Node }

// clear holds a round of all that wait, and returns the holds of its awards, which are on record: they are to
// begin. Who is given no slot waits for news.
func (n rounds) clear() (begin []*hold) {
	s := n.meeting
	out := n.collect()
	s.Meet()
	// the regime and policies judge whatever may meet, before any bid is read
	last, prev := n.turn.Book.LastRound()
	n.regimes.Charge(last+1, prev, &s.From, s.Waiters, func(o *estimate.Offer) market.Credits {
		return s.Sheet.Classes[o.Agent].Cost(o.Prompt, 0, o.Output) - o.Cost // what its cache has saved
	})
	s.Judge(n.Policies)
	whys := s.Build()
	// of one task of the hub's own nobody learns what slots are worth
	var own *task
	if len(s.Tasks) == 1 && s.Tasks[0].Own() {
		own = s.Tasks[0]
	}
	c, err := s.Plan.Clear(own == nil, out, n.cfg.Batch.MaxBatch, n.Limit())
	if c.Round.Rule.Instead != "" {
		n.stats.Stopped++
	}
	for i, x := range whys {
		if t := s.Tasks[i]; x.Planned > 0 {
			t.Planned, t.Worth = s.Agents[x.Planned-1].ID(), cmp.Or(t.Worth, x.Weight)
		}
	}
	if err == nil && len(c.Outcome.Awards) > 0 {
		begin, err = n.award(c)
	}
	if err != nil {
		n.turn.Fault(fmt.Errorf("round %d is not awarded: %w", c.Round.Number, err))
	}
	n.fleet.Overcommit(s.Spread.Of()) // by what runs now
	n.leaves(whys)
	n.notPrewarmed(own)
	return begin
}

// collect takes the tasks that wait and the agents that are open; so many more wait. What the hub prewarms
// has a round of its own, or it would have a part in the prices of others: these are in the one after.
func (n rounds) collect() int {
	if !n.rest {
		n.Queue.Wake()
	}
	own := n.prewarms.Own()
	if own != nil && own.Waits && len(n.fleet.Find(own.Asks.Only.ID()).Runs) > 0 {
		n.notPrewarmed(own)
	}
	n.meeting.Open()
	tasks := n.Queue.Take(n.meeting.Tasks[:0])
	if own != nil && own.Waits {
		for _, t := range tasks {
			if t != own {
				n.Queue.Again(t)
			}
		}
		tasks = append(tasks[:0], own)
	}
	out := n.meeting.Take(tasks)
	for _, t := range out { // a round of their own follows
		n.Queue.Again(t)
	}
	n.rest = len(out) > 0
	return len(out)
}

// leaves has tasks without a slot wait for news, and refuses those worth less than they cost everywhere.
func (n rounds) leaves(whys []round.Why) {
	s, idle, free := n.meeting, false, n.fleet.Free(1) > 0 // idle: somebody waits beside a slot that is free
	isFree := func(o estimate.Offer) bool { return s.Agents[o.Agent].Free(n.turn.Nano()) > 0 }
	for i, t := range s.Tasks {
		best, beside := whys[i].Best, free && slices.ContainsFunc(s.Waiters[i].Offers, isFree)
		if t.Barred && t.Waits { // it may have them in a moment, although nothing else happens
			best = s.Best(t, false)
			beside = beside || best != nil && isFree(*best)
		}
		switch {
		case !t.Waits:
			continue
		// who is alone is outpriced by nobody, and what has begun to be answered goes on
		case n.worthless(t, best, whys[i].Outpriced && len(s.Tasks) > 1 && t.Msg.Resume == nil):
			continue
		case whys[i].Beyond: // a round of its own follows
			n.rest = true
			n.Queue.Again(t)
		default:
			idle = idle || beside
		}
		if best != nil {
			t.Rounds++
		}
	}
	if idle {
		n.Queue.Beside()
	}
	for _, t := range s.Tasks {
		if t.Hold != nil {
			n.money.Admit(t.Client) // its hold may be less than was reserved
		}
	}
}

// outpricedFor is how long a slot costs more than a task would have of it until the task is told. A price
// falls by half with each second in which nobody wants more of a slot, so this one is no moment's.
const outpricedFor = 2 * time.Second

// worthless refuses a task that is worth less than it costs at every agent, or that was outpriced for so long
// (see [round.Why]), whether or not its client would wait on: it would be served when it is worth little, and
// its caller has not asked elsewhere. best is where it lacks least of those that take tasks now, if any does.
// Else it notes how long the task may wait.
func (n rounds) worthless(t *task, best *estimate.Offer, outpriced bool) bool {
	gain, any := n.meeting.Gain(t, best)
	now := n.turn.Now()
	if !outpriced || t.Own() {
		t.Outpriced = time.Time{}
	} else if t.Outpriced.IsZero() {
		t.Outpriced = now
	}
	lasts := !t.Outpriced.IsZero() && now.Sub(t.Outpriced) >= outpricedFor
	switch {
	case !any:
		return false
	case gain >= 0 && !lasts:
		n.Queue.Lasts(t, t.Stated().Lasts(gain, t.Waited(now)))
		return false
	}
	n.meeting.Kept.End(n.turn.Nano(), t.Worth, 0)
	worth := "less than it costs at each agent that may take tasks again"
	if t.Rounds > 0 {
		n.meeting.Refuse(t)
	}
	if best != nil {
		why := "no agent would do better"
		if gain >= 0 {
			why = "for " + outpricedFor.String() + " others would have had more of a slot, at each agent"
		}
		worth = fmt.Sprintf("%s credits and costs %s credits at %s, and %s", best.Value, best.Cost+n.cfg.Fee,
			n.meeting.Agents[best.Agent].ID(), why)
	}
	// it was worth its cost when it came
	n.refuse(t, bus.CodeNotWorthIt, time.Second,
		"after %v of waiting it is worth %s: offer more, or more patience", t.Waited(now).Round(time.Millisecond),
		worth)
	return true
}

// award records a cleared round with its holds, and has their agents take its tasks.
func (n rounds) award(c *round.Cleared) (all []*hold, err error) {
	s, awards := n.meeting, c.Outcome.Awards
	records := append(make([]ledger.Record, 0, 1+len(awards)), s.Record(c))
	records[0].Round.Set = policy.Named(c.Round, n.Policies.Sets(), n.regimes.Sets())
	for slot, waiter := range s.Plan.Apply(c) {
		h := s.NewHold(s.Tasks[waiter], c.Round, slot, &awards[slot])
		all, records = append(all, h), append(records, n.turn.Book.NewHold(h.ID, &h.Rec, n.turn.Salt()))
	}
	if err := n.turn.Commit(records...); err != nil {
		return nil, err
	}
	n.stats.Rounds++
	n.stats.Awards += int64(len(all))
	for slot, h := range all {
		t, aw := h.Whose, &awards[slot]
		n.Queue.Remove(t) // it runs, as its hold stands in a frame of this Ready
		n.money.Release(t.Client, t.ID)
		t.Hold = h
		n.Forecasts.Recount(&h.Agent.Forecast, &t.Msg.Prompt)
		if t.Own() {
			n.prewarms.Soon()
		} else {
			n.prewarms.Served(t.Stated().Second(0))
			p := &t.Msg.Prompt
			depth, holders := n.Forecasts.Prefixes.Deepest(p)
			if depth > 0 && t.Msg.Carried() == 0 && p.Loose != bus.LooseMedia {
				n.prewarms.Begins(t, p.Prefixes[depth-1].Hash, depth, holders, len(n.fleet.All()))
			}
			s.Kept.End(n.turn.Nano(), t.Worth, aw.Value-aw.Cost-n.cfg.Fee)
			t.Worth = -1
			s.Spread.Learn(t.Second(0))
		}
		n.takes(h)
		n.hear(t, h.Agent, func(now time.Time, x *policy.Turn) {
			n.Policies.Placed(now, x,
				market.Usage{Prompt: h.Rec.Prompt, Cached: h.Rec.Cached, Output: h.Rec.Output})
		})
		h.Watch = n.settle.WatchFor(h.Watch)
	}
	n.tariffs.Placed()
	n.turn.Changed = true
	return all, nil
}

// takes has an agent take a hold's task: it is among its tasks, and in what it is believed to hold.
func (n *Node) takes(h *hold) {
	a, t, now, x := h.Agent, h.Whose, n.turn.Nano(), &h.Expected
	work, ttft := n.Forecasts.Sends(now, &t.Asks, &a.Forecast, x, &h.Rec, a.Load(now))
	// though it was sent before, if it is taken up again
	a.Begin(h.Rec.Client, h.Rec.Task, n.turn.Now(), h.Expires.Sub(h.Sent)-x.Queued)
	a.Computes(now, x.Features.Counted, work, ttft)
}

// prewarm puts the text that the last task began with on an idle agent, if that is expected to save more than
// it costs, and the hub's own client pays for that. It reports whether there is a task more.
func (n rounds) prewarm() bool {
	of, depth, ok := n.prewarms.Wanted(n.Queue.Next() == 0)
	if !ok || of.Msg == nil || len(of.Msg.Body) == 0 {
		return false
	}
	t, need := n.meeting.Prewarms(of, depth, n.prewarms, bus.ProberOf(n.cfg.Domain), func(t *task) bool {
		// that client may have one of its name, or be at a limit
		return n.admission.Find(t.Client, t.ID) == nil && requests{n.Node}.judgeRoom(t, true) == nil
	})
	if t != nil {
		n.admission.Take(t)
		n.money.Open(t.Client, t.ID)
		n.prewarms.Sent(t)
		n.money.Fund(t.Client, t.ID, need)
	}
	return t != nil
}

// notPrewarmed ends a task of the hub's own that did not begin: it waits for nothing.
func (n rounds) notPrewarmed(t *task) {
	if t != nil && t.Waits {
		n.prewarms.Soon()
		n.refuse(t, bus.CodeNoRoom, 0, "its agent is not idle: no text is prewarmed")
	}
}
