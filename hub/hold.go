package hub

import (
	"time"

	"souk/bus"
	"souk/hub/admission"
	"souk/hub/estimate"
	"souk/hub/forecast"
	"souk/hub/policy"
	"souk/hub/predict"
	"souk/hub/prefix"
	"souk/hub/settle"
)

// hold is a hold of package settle, and what was expected of its task and its agent.
type hold struct {
	settle.Hold
	task     *task
	agent    *agent
	features predict.Features
	said     predict.Forecast // when it was dispatched
	ttft     time.Duration    // expected
	run      *prefix.Run      // of it, in what its agent is believed to hold

	estimate estimate.Estimate // when it was awarded; of none where it is known from the journal alone
}

// expects notes what a hold's agent is expected to do with its task now. It returns the latest that its first
// token is quoted to come, and within which time it comes nearly always: where too few were seen, at worst.
func (n *meeting) expects(h *hold) (e estimate.Estimate, first, within time.Duration) {
	t, a := h.task, h.agent
	e = n.estimate(t, a, n.heldBy(t, a))
	in := a.Backlog(n.turn.Nano())
	h.features, h.ttft = t.asks.Features(&e), a.later(&e, in)
	first = forecast.WorstFirst(a.predictor, &t.asks, &e, in)
	within, known := a.predictor.Watch(h.ttft)
	if !known {
		within = first
	}
	return e, first, within
}

// takes has an agent take a hold's task: it is behind what that has in hand, among its tasks, and in what it
// is believed to hold.
func (n *Node) takes(t *task, h *hold) {
	a, f := h.agent, &h.features
	f.InFlight, f.Load = len(a.Runs()), a.Load(n.turn.Nano())
	work, ok := a.rate.Takes(f.Counted - f.Cached)
	if !ok {
		work = a.predictor.Line().Work(f.Counted-f.Cached, f.Cached)
	}
	h.said = a.predictor.Forecast(*f)
	a.Begin(h.Rec.Client, h.Rec.Task, n.turn.Now()) // though it was sent before, if it is taken up again
	a.Computes(n.turn.Nano(), f.Counted, f.Cached, work, h.said.TTFT, h.Rec.Output,
		n.forecasts.ITL(a.predictor.Line()))
	if a.Joined() {
		n.sessions.Award(&t.place, &a.sessions, h.Rec.Prompt+h.Rec.Output)
	}
	h.run = a.cache.Sent(&t.Msg.Prompt, h.Rec.Prompt, h.Rec.Output, n.turn.In(h.ttft))
}

// holding is the hub as package settle sees it: see [settle.Hub].
type holding struct{ *Node }

func (x holding) of(h *settle.Hold) *hold { return x.admission.Find(h.Rec.Client, h.Rec.Task).hold }

func (x holding) Agent(h *settle.Hold) settle.Agent {
	a := x.of(h).agent
	return settle.Agent{Known: a.Reg().Agent != "", Boot: a.Reg().Boot, Joined: a.Joined(), Dead: a.Dead(),
		Silent: x.fleet.Silent(&a.Agent)}
}

func (x holding) Spoke(s *settle.Hold, m bus.Message) {
	h := x.of(s)
	x.fleet.Alive(&h.agent.Agent)
	switch m := m.(type) {
	case *bus.Completion:
		h.learn(x.Node, m)
	case *bus.DispatchReply:
		if m.Code == bus.CodeDraining {
			h.agent.Unready()
		}
	}
}

func (x holding) Avoid(s *settle.Hold, e settle.Event) {
	a := x.of(s).agent
	if e == settle.NoReply {
		x.stats.Agent(a.ID()).Unanswered++
	}
	x.fleet.Avoid(&a.Agent)
}

func (x holding) Answer(s *settle.Hold, a *bus.Answer) bool {
	h := x.of(s)
	if a.Accepted != nil {
		h.agent.Accepts()
	}
	return x.admission.Tell(&h.task.Request, a)
}

func (x holding) Refuse(m *bus.Task, code bus.Code, retry time.Duration, why string) {
	x.admission.Refuse(m, code, retry, "%s", why)
}

func (x holding) Others(s *settle.Hold) (largest, free int) {
	h := x.of(s)
	for _, a := range x.fleet.All() {
		if a.Joined() {
			largest = max(largest, a.Reg().Slots)
		}
		if a != h.agent && x.settle.Lateness(a.ID()).Late == 0 && x.goes(h.task, a) {
			free += a.Free(x.turn.Nano())
		}
	}
	return largest, free
}

func (x holding) Wait(s *settle.Hold, elsewhere bool) func() {
	h := x.of(s)
	t := h.task
	need, bid := t.money.Need(), t.Bid
	var no *bus.Result
	if elsewhere {
		need, no = x.survey(t)
	}
	if no != nil { // its client may have more by now
		t.Bound(0)
		x.setTerms(t)
		need, no = x.survey(t)
	}
	then := t.Bid
	t.Bid = bid
	if no != nil {
		return nil
	}
	return func() {
		t.Bid = then
		t.hold = nil
		if h.Next != nil { // who asked for the rest waits, too: the task goes elsewhere anyway
			t.Wait(h.Next.Inbox)
		}
		t.hear(x.Node, nil, x.policies.Again)
		x.money.Fund(&t.money, need)
		x.queue.News()
	}
}

// Ended teaches by an ended hold, and frees its agent's slot, which the task had unless its agent never took
// it.
func (x holding) Ended(s *settle.Hold, how settle.Ending) {
	h := x.of(s)
	a, ran := h.agent, x.turn.Now().Sub(h.Sent)
	stats := x.stats.Agent(a.ID())
	switch how.Event {
	case settle.Refuses, settle.Rejects:
		stats.Refused++
	case settle.Failed, settle.Unsaid, settle.Unfit:
		stats.Failed++
	case settle.Expired:
		stats.Expired++
	}
	switch c := how.Capture; {
	case how.Event == "": // it was heard when it ended
	case c == nil:
		admission.Count(x.stats.Voids, how.Reason)
		h.task.hear(x.Node, h.agent, x.policies.Failed)
	default:
		if c.Claim != nil {
			stats.Differing++
		}
		x.money.Charged(h.Rec.Client)
		h.task.hear(x.Node, h.agent, func(now time.Time, t *policy.Turn) {
			x.policies.Served(now, t, h.Believed(how.Account))
		})
		h.noteServed(x.Node, how.Account)
		x.stats.Paid(stats, &h.Rec, how.Account, c.Cost)
		if t := h.task; t.Msg != nil && t.only == nil && h.Rec.Boot == a.Reg().Boot {
			t.Domain = a.answers.Served(t.Msg.Domain, t.Client(), float64(c.Cost), how.Account)
			a.rerate(x.Node)
		}
	}
	if h.task.only == nil && how.Had {
		x.regimes.Ended(ran)
		a.Service().Ended(h.estimate.Own, ran)
	}
	x.plan.shares.Ended(x.turn.Nano(), h.Rec.Client, ran)
	a.cache.Ended(h.run)
	a.End(h.Rec.Client, h.Rec.Task)
	x.drop(a)
}

func (x holding) Done(s *settle.Hold, r *bus.Result, tell bool) {
	x.end(x.of(s).task, r, tell)
	x.queue.News()
}
