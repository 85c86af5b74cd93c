package hub

import (
	"slices"
	"sort"
	"time"

	"souk/bus"
	"souk/hub/predict"
	"souk/market"
)

// brief is what rounds read of a quote, whatever the agent has in hand.
type brief struct {
	work     float64       // thousand tokens to compute
	computes time.Duration // these
	first    time.Duration // to the first token where nothing is in hand, by the line alone
	cost     market.Credits
	floor    market.Credits // what the prompt and the first token may cost: no hold has less room
	quality  float64
	prompt   int // expected tokens
	output   int
}

// quote is what a task is expected to need, cost and be worth on an agent.
type quote struct {
	brief
	forecast predict.Forecast

	value     market.Credits
	maxTokens int              // what the engine is told, within its context
	bound     market.Credits   // what it may cost, where no max_tokens is named; 0: no bound
	most      int              // prompt tokens that the worst case covers
	features  predict.Features // but for the load
	delay     backlog          // of what is in hand
}

// quote prices t on a, where so much of its prompt is held and there is so much in hand. What it reads of the
// agent otherwise is its [kind].
func (n *Node) quote(t *task, a *agent, in backlog, held held) quote {
	q := n.idleQuote(t, a, held)
	q.beside(t, a, in)
	return q
}

// idleQuote is what it is quoted where nothing is in hand: of the forecast the time to the first token and
// the length of the answer, and no value.
func (n *Node) idleQuote(t *task, a *agent, held held) quote {
	q := quote{brief: brief{prompt: held.tokens + t.carried()}, maxTokens: t.msg.MaxTokens}
	if t.open {
		q.maxTokens = openContext
	}
	most, least := a.promptBound(t)
	if context := a.context; context > 0 {
		// An engine refuses a request whose prompt and max_tokens together exceed its context; the margin is
		// for the estimate's error.
		q.maxTokens = max(1, min(q.maxTokens, context-q.prompt-q.prompt/16-16))
	}
	q.features = predict.Features{
		Prompt: t.msg.Prompt.Tokens + t.carried(), Counted: q.prompt, Cached: held.cached,
		MaxTokens: q.maxTokens, Open: t.open, Answer: n.length(t, a),
	}
	q.first, q.work, q.output = a.predictor.Idle(q.features)
	q.computes = a.predictor.Work(q.prompt-held.cached, held.cached)
	q.forecast.TTFT, q.forecast.Output = q.first, q.output
	q.cost = a.price.Cost(market.Usage{Prompt: q.prompt, Cached: held.cached, Output: q.output}) + a.tariff
	q.most = most
	if n.cfg.Settle != market.SettleQuoted { // which pays the quote, whatever the prompt turns out to be
		q.floor = market.WorstCase(a.price, least, min(1, q.maxTokens)) + a.tariff
	}
	if t.open {
		card := a.price.Cost(market.Usage{Prompt: q.prompt, Output: q.output}) + a.tariff
		q.bound = cards(max(card, t.asUsual), n.cfg.Terms.Hold)
	}
	q.quality = a.quality(t.msg.Domain)
	return q
}

// openContext is how many tokens a prompt and its answer have at an agent that does not say.
const openContext = 1 << 17

// worst is the most that it can cost on an agent that it was quoted on: where no max_tokens is named, what
// one task may take of a purse.
func (q *quote) worst(a *agent) market.Credits {
	worst := market.WorstCase(a.price, q.most, q.maxTokens) + a.tariff
	if q.bound > 0 {
		worst = min(worst, q.bound)
	}
	return max(q.cost, q.floor, worst)
}

// beside makes it what it is beside what the agent has in hand.
func (q *quote) beside(t *task, a *agent, in backlog) {
	q.delay = in
	q.forecast = a.predictor.Timed(q.first, q.work, q.output, in)
	q.forecast.ITL = a.predictor.Token(q.features.Load)
	q.value = t.stated().Value(market.Quote{TTFT: q.forecast.TTFT, Cost: q.cost, Quality: q.quality})
}

// noted is what a task keeps of a quote while it waits: on an agent of a kind, as its forecast stood, that
// holds so much of the prompt, and has nothing in hand. What an agent has in hand changes all the time, and
// changes nothing of a quote but the time to the first token and what that is worth. It is kept short: rounds
// of hundreds of tasks read many of them, from memory that no cache holds.
type noted struct {
	kind   *kind
	fits   uint64
	held   held
	until  int64 // so long nobody asks anew how many tokens answers have: see length
	answer int
	brief  brief
}

// quotesKept bounds the quotes that a task keeps, some 4 KB. One that falls on the place of another takes it:
// then the other is made again when asked for.
const quotesKept = 32

// noted is what t is quoted on a where nothing is in hand, and a is believed to hold so much of its prompt.
// It is good until the next.
func (n *Node) noted(t *task, a *agent, held held) *brief {
	k, fits := n.kind(a), a.predictor.Fits()
	q := n.notes(t).of(k, held)
	same := q.kind == k && q.fits == fits && q.held == held
	if same && q.until == t.length.until && n.nano < q.until {
		return &q.brief
	}
	if !same || q.answer != n.length(t, a) {
		x := n.idleQuote(t, a, held)
		*q = noted{k, fits, held, 0, x.features.Answer, x.brief}
	}
	q.until = t.length.good()
	return &q.brief
}

// of is where a quote is kept.
func (k *notes) of(kind *kind, held held) *noted {
	return &k.quotes[uint(kind.id+5*held.cached>>4)%quotesKept]
}

// firstQuoted is what a task that has come is quoted where nothing is in hand, but for the time between
// tokens and the range of its first, and keeps what rounds will read of that.
func (n *Node) firstQuoted(t *task, a *agent, held held) quote {
	k, q := n.kind(a), n.idleQuote(t, a, held)
	*n.notes(t).of(k, held) = noted{k, a.predictor.Fits(), held, t.length.good(), q.features.Answer,
		q.brief}
	q.forecast.TTFT = a.predictor.Later(q.first, q.work, backlog{})
	q.value = t.stated().Value(market.Quote{TTFT: q.forecast.TTFT, Cost: q.cost, Quality: q.quality})
	return q
}

// quoted is what t is quoted on a while it has so much in hand.
func (n *Node) quoted(t *task, a *agent, in backlog) quote { return n.quote(t, a, in, a.expect(t)) }

// held is how many tokens a prompt is expected to have on an agent, and how many of them it is believed to
// hold.
type held struct{ tokens, cached int }

func (a *agent) expect(t *task) held { return a.expectAt(&t.msg.Prompt, a.cache.Depth(&t.msg.Prompt)) }

// expectAt says it of a prompt of which it is believed to hold so many prefixes.
func (a *agent) expectAt(p *bus.Prompt, depth int32) (h held) {
	if h.tokens = a.line().Tokens(p.Tokens); depth > 0 {
		h.tokens, h.cached = a.cache.ExpectAt(p, depth, h.tokens)
	}
	return h
}

// within is the value, lowered where no more than most can be held. A premium is at most value less cost, so
// the rest of the hold still covers the quote, and the prompt however long it turns out to be.
func (q *quote) within(most market.Credits) market.Credits { return min(q.value, q.room(most)) }

// room is the most value that fits in what is held.
func (q *brief) room(most market.Credits) market.Credits { return most - max(0, q.floor-q.cost) }

// saves is the cost that what the agent holds of a prompt avoids, where a task costs so much.
func (a *agent) saves(prompt, output int, cost market.Credits) market.Credits {
	return a.price.Cost(market.Usage{Prompt: prompt, Output: output}) - cost
}

// promptBound is the most tokens that t's prompt can come to on a, and how many of them a hold must have room
// for. A hold has room for the most where the client's money allows. The two differ where the bytes of a
// prompt do not bound its tokens: the engine's template writes tools as long as it likes, and only the
// context bounds pictures. There the agent's engine counts the tokens before it computes.
func (a *agent) promptBound(t *task) (most, least int) {
	template, measured := &bus.Assumed, false
	if a.reg.Template != nil {
		template, measured = a.reg.Template, true
	}
	p := &t.msg.Prompt
	least, bounded := template.Bound(p)
	guess := a.predictor.Tokens(p.Tokens)
	guess += guess/4 + 64
	most = least
	switch {
	case p.Text == 0: // an earlier door read it, and estimated its tokens alone
		most, least = bus.MaxTokens, guess
	case p.Loose == bus.LooseMedia:
		most, least = bus.MaxTokens, bus.MaxTokens
	case !measured:
		most = bus.MaxTokens
	case !bounded:
		most, least = bus.MaxTokens, min(least, guess)
	case p.Tools > 0:
		least = min(least, guess)
	}
	context := a.context
	if context == 0 {
		context = max(guess, openContext)
	}
	return min(most+t.carried(), context), min(least+t.carried(), context)
}

// covered is how many tokens of t's prompt a hold has room for, beside the first token of the answer.
func (n *Node) covered(t *task, h *hold) int {
	most, _ := h.agent.promptBound(t)
	return h.covers(most)
}

// covers is how many of so many tokens of a prompt the hold has room for.
func (h *hold) covers(most int) int {
	if h.rec.Settle == market.SettleQuoted {
		return most
	}
	room := h.rec.Amount - h.rec.Premium - h.rec.Tariff
	if market.WorstCase(h.rec.Price, most, 1) <= room { // as nearly always
		return most
	}
	short := sort.Search(most, func(k int) bool { return market.WorstCase(h.rec.Price, k+1, 1) > room })
	return short // the first that does not fit is one more
}

// worstFirst is how long the first token of an answer may take: several times what is expected, for a queue
// or another's long prompt. It assumes that nothing is cached, as the client may know that what is inferred
// is wrong. It assumes the most tokens for a picture, as nobody knows how many it has before it was computed.
// Where enough of about that length were seen it is what one in a thousand takes, if that is less.
func (a *agent) worstFirst(t *task, q *quote) time.Duration {
	f := q.features
	f.Cached = 0
	if t.msg.Prompt.Loose == bus.LooseMedia {
		f.Prompt, f.Counted = max(f.Prompt, q.most), 0
	}
	first, work, _ := a.predictor.Idle(f)
	cold := a.predictor.Later(first, work, q.delay)
	worst := 4 * cold
	if seen, known := a.predictor.LatestFirst(cold); known {
		worst = min(worst, seen)
	}
	return 2*time.Second + worst
}

// usable reports whether t may be given to a, slots aside.
func (n *Node) usable(t *task, a *agent) bool { return a.suits(t) && a.fits(t) }

// failed reports whether an agent has failed the task. Who looks at many agents reads no ids as long as none
// has.
func (t *task) failed(a *agent) bool { return len(t.failedAt) > 0 && slices.Contains(t.failedAt, a.id) }

// suits reports whether t may be given to a, slots and the length of its prompt aside.
func (a *agent) suits(t *task) bool {
	return (t.msg.Model == "" || t.msg.Model == a.model) && !t.failed(a) &&
		a.reads(t) && (t.only == nil || t.only == a)
}

// reads reports whether a's engine reads what t is made of, and can tell how it goes on: from its beginning
// any can.
func (a *agent) reads(t *task) bool {
	return (a.parses || !t.parses) && !(a.text && t.media)
}

// dispatch is the message that hands t to the agent of h.
func (n *Node) dispatch(t *task, h *hold, aw *market.Award) bus.Dispatch {
	d := bus.Dispatch{
		Kind: bus.DispatchTask, Domain: n.cfg.Domain, Epoch: n.epoch, Journal: n.cfg.Journal,
		Round: h.rec.Round, Hold: h.id,
		Boot: h.rec.Boot, Fence: h.agent.reg.Fence, Task: *t.msg, Model: h.rec.Model,
		MaxTokens: h.rec.MaxTokens, Price: h.rec.Price,
		Premium: aw.Premium, SlotPrice: aw.SlotPrice, Toll: aw.Toll, Own: h.own,
		Fee:    h.rec.Fee,
		Settle: h.rec.Settle,
		Quoted: aw.Cost, Tariff: h.rec.Tariff, CostCap: h.rec.Amount - h.rec.Premium,
		TimeoutMS: min(max(1, h.timeout.Milliseconds()), bus.MaxPatient),
	}
	d.PromptMost, d.Cached, d.FirstMS = n.covered(t, h), h.verified, min(h.first.Milliseconds(), d.TimeoutMS)
	d.WatchMS = min(h.watch.Milliseconds(), d.TimeoutMS)
	d.Asserted = h.rec.Asserted
	d.Open = t.open && t.carried() == 0
	d.Task.Inbox, d.Task.Voucher, d.Earlier = "", nil, t.earlier
	if t.carried() > 0 {
		d.Whole = t.whole
	}
	return d
}
