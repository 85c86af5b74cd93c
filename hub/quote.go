package hub

import (
	"slices"

	"souk/bus"
	"souk/hub/predict"
	"souk/market"
)

// quote is what a task is expected to need, cost and be worth on an agent.
type quote struct {
	features  predict.Features
	cached    int // tokens that the agent is believed to hold already
	forecast  predict.Forecast
	prompt    int // expected tokens
	maxTokens int // what the engine is told, within its context
	value     market.Credits
	cost      market.Credits
	worst     market.Credits
}

// quote prices t on a. idle asks as if nothing else ran there.
func (n *Node) quote(t *task, a *agent, idle bool) quote {
	q := quote{prompt: a.predictor.Tokens(t.msg.Prompt.Tokens) + t.carried(), maxTokens: t.msg.MaxTokens}
	bound := promptBound(q.prompt)
	if most := a.reg.MaxModelLen; most > 0 {
		// An engine refuses a request whose prompt and max_tokens together exceed its context; the margin is
		// for the estimate's error.
		q.maxTokens = max(1, min(q.maxTokens, most-q.prompt-q.prompt/16-16))
		bound = min(bound, most)
	}
	cached := 0
	if t.session != 0 {
		cached = a.belief.Overlap(t.session, t.msg.Prompt, q.prompt)
	}
	q.cached = cached
	cached = t.among(cached, q.prompt)
	q.features = predict.Features{
		Prompt: t.msg.Prompt.Tokens + t.carried(), Cached: cached, MaxTokens: q.maxTokens, Turn: t.msg.Turn,
		InFlight: len(a.holds), Slots: a.slots,
	}
	if idle {
		q.features.InFlight = 0
	}
	q.forecast = a.predictor.Forecast(q.features)
	q.cost = a.price.Cost(market.Usage{Prompt: q.prompt, Cached: cached, Output: q.forecast.Output}) + a.tariff
	q.worst = max(q.cost, market.WorstCase(a.price, bound, q.maxTokens)+a.tariff)
	q.value = t.terms.Value(market.Quote{TTFT: q.forecast.TTFT, Cost: q.cost, Quality: a.quality(t.msg.Domain)})
	return q
}

// promptBound is how many tokens a prompt may turn out to have: the count is an estimate until an engine has
// made it, and the hold has to cover it.
func promptBound(tokens int) int { return tokens + tokens/4 + 64 }

// visit is where a session was last.
type visit struct{ role, agent string }

// usable reports whether t may be given to a, slots aside.
func (n *Node) usable(t *task, a *agent) bool {
	return (t.msg.Model == "" || t.msg.Model == a.reg.Model) && a.fits(t) && !slices.Contains(t.failedAt, a.id) && a.reads(t)
}

// reads reports whether a's engine can tell how t goes on: from its beginning any can.
func (a *agent) reads(t *task) bool { return !t.parses || slices.Contains(a.reg.Features, bus.Parsers) }

// dispatch is the message that hands t to the agent of h.
func (n *Node) dispatch(t *task, h *hold, aw *market.Award) bus.Dispatch {
	d := bus.Dispatch{
		Kind: bus.DispatchTask, Domain: n.cfg.Domain, Epoch: n.epoch, Journal: n.cfg.Journal, Round: h.rec.Round, Hold: h.id,
		Boot: h.rec.Boot, Fence: h.agent.reg.Fence, Tier: aw.Tier, Task: *t.msg, Model: h.rec.Model, MaxTokens: h.rec.MaxTokens, Price: h.rec.Price,
		Premium: aw.Premium, SlotPrice: aw.SlotPrice, Toll: aw.Toll, Congestion: h.congestion, Fee: h.rec.Fee, Settle: h.rec.Settle,
		Quoted: aw.Cost, Tariff: h.rec.Tariff, CostCap: h.rec.Amount - h.rec.Premium, TimeoutMS: min(max(1, h.timeout.Milliseconds()), bus.MaxPatient),
	}
	d.Task.Inbox, d.Earlier = "", t.earlier
	if t.carried() > 0 {
		d.Whole = t.whole
	}
	if v, ok := n.visits.get(t.session); ok && t.session != 0 {
		d.PrevRole, d.PrevAgent = v.role, v.agent
	}
	return d
}
