package hub

import (
	"time"

	"souk/bus"
	"souk/hub/account"
	"souk/hub/admission"
	"souk/hub/estimate"
	"souk/hub/forecast"
	"souk/hub/predict"
	"souk/hub/queue"
	"souk/market"
)

// admit takes a task in, or refuses it truthfully. Money is reserved before a round is built: a winner that
// its client cannot fund would change everyone's prices. It came then, perhaps a little before now.
func (n *Node) admit(m *bus.Task, came time.Time) error {
	t, what, err := n.admission.Come(m, n.status.Last(), n.status.Unsure(m.LastStatus, came))
	if what == admission.Answered {
		return err
	}
	if n.money.Vouched(m); what == admission.Repeats {
		n.again(t, m)
		return nil
	}
	t = n.newTask(admission.New(m.Client, m.ID, m.Content(), 0), came)
	t.Before(n.admission.Waited(&t.Request))
	n.read(t, m)
	r := n.judge(&n.meeting, t, true)
	if r != nil && r.Code == bus.CodeNoRoom {
		n.regimes.Came(n.turn.Nano())
		n.regimes.Turned()
	}
	var need estimate.Need
	if r == nil {
		need, r = n.survey(t)
	}
	if r != nil {
		n.admission.Answer(m, r)
		return nil
	}
	n.sessions.Come(&t.place, t.Client(), t.asks.Source.Session)
	t.hear(n, nil, n.policies.Arrived)
	n.take(t, m, need)
	return nil
}

// newTask is a task of which nothing is known yet but its request, and since when it may wait.
func (n *meeting) newTask(q admission.Request, arrived time.Time) *task {
	return &task{Request: q, money: account.Task{Client: q.Client(), ID: q.ID()},
		Entry: queue.New(q.Client(), arrived, n.turn.Now().Add(n.cfg.Deadline))}
}

// take counts a task in that is admitted, and has what it needs reserved.
func (n *Node) take(t *task, m *bus.Task, need estimate.Need) {
	n.admission.Take(t)
	n.money.Open(t.Client())
	n.money.Vouched(m)
	t.Wait(m.Inbox)
	n.money.Fund(&t.money, need)
}

// read makes a request the task's own, and fills in what it leaves to the hub.
func (n *meeting) read(t *task, m *bus.Task) {
	m.Token, m.LastStatus = "", nil // Reply says it; and it was judged
	n.prefixes.Resolve(&m.Prompt)
	t.From(m)
	if m.Model == "auto" {
		m.Model = ""
	}
	t.asks = forecast.Task{Prompt: &m.Prompt, Carried: m.Carried(), MaxTokens: max(0, m.MaxTokens),
		Model: m.Model, Domain: m.Domain, Media: m.Prompt.Loose == bus.LooseMedia,
		Parses: t.asks.Parses, Usual: t.asks.Usual,
		Source: predict.Source{Client: t.Client(), Role: m.Role, Domain: m.Domain, Kind: m.Kind,
			Session: bus.SessionKey(m.Client, m.Session), Prompt: m.Prompt.Tokens, Turn: m.Turn,
			Most: m.MaxTokens}}
}

// judge says why a task that meets agents at x is not admitted; own: its client's limit counts, too.
func (n *Node) judge(x *meeting, t *task, own bool) *bus.Result {
	deadline, no := n.admission.Deadline(x.turn.Now(), t.Msg)
	if t.Until(deadline); no == nil {
		no = n.judgeRoom(t, own)
	}
	if no == nil {
		no = x.setTerms(t)
	}
	return no
}

// judgeRoom keeps to the hub's limits. That of a task's client does not count if the task would hardly wait:
// no round has left one of its client, and a slot is free for it and for all that rounds take before it.
func (n *Node) judgeRoom(t *task, own bool) *bus.Result {
	awaits := n.money.Awaiting(t.Client())
	l := admission.Load{Waiting: n.queue.Waiting(), Has: n.queue.Of(t.Client()) + awaits}
	l.Closed, l.Again = n.Refuses()
	l.Full = n.queue.Spare(n.fleet.Slots(), n.admission.Open()) <= 0 && !n.queue.Squeezes(l.Has)
	if own && l.Has >= n.cfg.WaitingPerClient() {
		free := 0
		for _, a := range n.fleet.All() {
			if n.goes(t, a) {
				free += a.Free(n.turn.Nano())
			}
		}
		l.TooMany = n.queue.Left(t.Client()) || n.queue.Next()+awaits >= free
	}
	return n.admission.Judge(t.Msg, l)
}

// usual returns the usual cost of a task here; before one was paid, what one would that is as long as those
// of a status.
func (n *meeting) usual() market.Credits {
	if c := n.turn.Book.Usual(); c > 0 {
		return c
	}
	least := market.Credits(-1)
	for _, a := range n.fleet.All() {
		c := a.Reg().Price.Cost(market.Usage{Prompt: typical.Prompt, Output: typical.MaxTokens}) +
			a.Seller().Tariff + n.cfg.Fee
		if a.Joined() && (least < 0 || c < least) {
			least = c
		}
	}
	return max(0, least)
}

// agree gives tasks that wait the terms of those that come now: see [admission.Bid.Stale].
func (n *meeting) agree(tasks []*task) {
	usual := n.usual()
	for _, t := range tasks {
		if t.Stale(usual, n.fleet.Changes()) && t.only == nil {
			n.setTerms(t) // what was said of terms is as good as before
		}
	}
}

// setTerms gives a task its terms, by what agents have for one that comes now, its answer as long as is
// expected: see [admission.Terms].
func (n *meeting) setTerms(t *task) *bus.Result {
	x := admission.Reference{Card: -1, Usual: n.usual(), Joins: n.fleet.Changes()}
	var last *forecast.Class
	for _, a := range n.fleet.All() {
		if !a.Joined() || t.Msg.Model != "" && t.Msg.Model != a.Reg().Model {
			continue
		}
		of := n.class(a)
		if of == last {
			continue
		}
		last = of
		x.Best = max(x.Best, of.Quality(t.asks.Domain))
		tokens, answer := of.Line.Tokens(t.asks.Prompt.Tokens), n.forecasts.Answer(n.turn.Nano(), &t.asks, of)
		if c := of.Cost(tokens, 0, answer) + n.cfg.Fee; x.Card < 0 || c < x.Card {
			x.Card = c
		}
	}
	x.Card = max(0, x.Card)
	t.asks.Usual = x.Usual
	if err := t.Set(&n.cfg.Terms, t.Msg, x); err != nil {
		return n.turn.Refusal(t.Msg, bus.CodeBadTerms, 0, "%v", err)
	}
	return nil
}

// survey looks at every agent that could ever serve t: what the dearest outcome takes, or why there is none.
func (n *meeting) survey(t *task) (estimate.Need, *bus.Result) {
	x := admission.NewSurvey(&t.Bid, n.cfg.Fee, len(t.FailedAt) > 0)
	n.reach(t, &x, func(a *agent, e *estimate.Estimate) {
		ttft := a.later(e, estimate.Delay{})
		if !n.turn.Now().Add(a.predictor.Half(ttft)).After(t.Deadline()) {
			x.Offers(e, ttft)
		}
	})
	need, no := x.Verdict(&n.turn, t.Msg)
	need.Fixed, need.Until = t.only != nil, t.Deadline()
	return need, no
}
