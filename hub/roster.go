package hub

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"souk/bus"
	"souk/hub/admission"
	"souk/hub/fleet"
	"souk/hub/forecast"
	"souk/hub/predict"
	"souk/hub/prefix"
	"souk/hub/quality"
	"souk/hub/round"
	"souk/hub/session"
	"souk/hub/tariff"
)

// agent joins the state that the rooms of the hub keep of one agent. It stays in the roster at least as long
// as it is sold or holds run on it.
type agent struct {
	// what rounds and quotes read of every agent stands first, and so together in memory
	forecast  *forecast.Class // nil: to be found
	fits      uint64          // of its predictor, when it was found
	predictor *predict.Means
	place     int32 // of its cache
	fleet.Agent

	slotPrices round.Slots // what rounds have learned of its slots

	sessions  session.Agent
	cache     *prefix.Cache
	prewarmed bool // it has a text of the hub's own, and was given nothing since

	learned string // the model that this is of, where it was read from a file
	rate    predict.Rate
	answers quality.Standing // how good they are
}

// newAgent is an agent of which nothing is known.
func newAgent(prior predict.Prior, caches *prefix.Index) *agent {
	a := new(agent)
	a.learnsBy(predict.NewMeans(prior))
	a.setCache(caches.New(1, 0))
	return a
}

// learnsBy has another predictor stand for the agent's than the last.
func (a *agent) learnsBy(m *predict.Means) {
	a.predictor = m
	a.Keeps(m)
}

// setCache has another cache stand for the agent's than the last.
func (a *agent) setCache(b *prefix.Cache) { a.cache, a.place = b, int32(b.Place()) }

// drop forgets an agent that has left, or one rather than it: see [fleet.Room.Forget].
func (n *Node) drop(a *agent) {
	if gone := n.fleet.Forget(&a.Agent); gone != nil {
		gone.cache.Drop()
		n.forecasts.Lines.Leave(gone.predictor)
		n.settle.Forget(gone.ID())
	}
}

// holds lists those that run on an agent, in the order of their rounds.
func (a *agent) holds(all *admission.Room[*task]) (held []*hold) {
	for _, x := range a.Runs() {
		held = append(held, all.Find(x.Client, x.Task).hold)
	}
	return held
}

// enter puts an agent into the class of those that are forecast like it.
func (a *agent) enter(all *predict.Classes) {
	all.Enter(predict.Key{Model: a.Reg().Model, Hardware: a.Seller().Class, Context: a.Reg().MaxModelLen,
		Price: a.Reg().Price}, a.predictor)
}

// reprice gives an agent the tariff that it is paid, and says whether it sells.
func (a *agent) reprice(by *tariff.Room) {
	a.Sell(by.Of(a.Seller().Owner, a.Seller().Class))
	a.forecast = nil
}

// Join says that this hub sells an agent's slots: the agent is registered, and claimed by the hub's
// leadership; or that its registration has changed. A registration that cannot be sold under is an error and
// is counted; the agent is not sold.
func (n *Node) Join(now time.Time, reg bus.Registration) error {
	n.turn.Advance(now)
	if !n.turn.Leading {
		return ErrNotLeading
	}
	err := n.cfg.Sells(&reg)
	if a := n.fleet.Find(reg.Agent); err == nil && (a == nil || !a.Joined()) && n.fleet.Full() {
		err = fmt.Errorf("%d agents are joined, the most this hub sells", n.cfg.MaxAgents)
	}
	if err != nil {
		n.stats.BadAgents++
		n.Leave(now, reg.Agent)
		return fmt.Errorf("agent %s is not sold: %w", reg.Agent, err)
	}
	a := n.fleet.Enrol(reg.Agent)
	n.fleet.Claim(&a.Agent)
	for _, h := range a.holds(n.admission) {
		n.settle.Registered(&h.Hold, &reg)
	}
	was, fresh := a.Reg(), a.Fresh(&reg)
	// an engine upgraded to another model has none of the last one's cache, or speed
	switch same := reg.Model == was.Model && reg.BlockSize == was.BlockSize; {
	case fresh && same && was.KVTokens == reg.KVTokens:
		a.cache.Again()
	case fresh || !same:
		a.cache.Drop()
		a.setCache(n.prefixes.New(reg.BlockSize, reg.KVTokens))
	case was.KVTokens != reg.KVTokens: // it was started again with other flags, beside its agentd
		a.cache.Resize(reg.KVTokens)
	}
	if reg.Model != cmp.Or(was.Model, a.learned) {
		n.forecasts.Lines.Leave(a.predictor)
		a.learnsBy(predict.NewMeans(n.cfg.Prior))
		a.forecast = nil
		a.answers.Restore(quality.Agent{})
	}
	if fresh {
		n.settle.Forget(reg.Agent)
	}
	n.fleet.Register(&a.Agent, reg)
	a.answers.Register(reg.Domains)
	a.rerate(n)
	a.sessions.Resize(reg.KVTokens, reg.BlockSize)
	a.reprice(n.tariffs)
	a.enter(n.forecasts.Lines)
	n.tariffs.Joined(a.Seller().Owner, a.Seller().Class)
	for _, h := range a.holds(n.admission) {
		n.settle.Claimed(&h.Hold)
	}
	n.queue.News()
	return nil
}

// Leave says that an agent's registration, or the claim on it, is gone. What runs there may well go on: its
// holds end by a Completion or by their own time.
func (n *Node) Leave(now time.Time, id string) {
	n.turn.Advance(now)
	if a := n.fleet.Find(id); a != nil {
		n.fleet.Leave(&a.Agent)
		n.sessions.Leave(&a.sessions)
		n.tariffs.Left(a.Seller().Owner, a.Seller().Class)
		n.drop(a)
		n.queue.News() // who waits for it may do better now
	}
}

// summarised takes an agent's word about itself.
func (n *Node) summarised(s *bus.Summary) error {
	a := n.fleet.Find(s.Agent)
	if a == nil || !a.Joined() {
		return fmt.Errorf("summary of %s, which is not sold here", s.Agent)
	}
	price := a.Reg().Price
	if err := n.fleet.Summary(&a.Agent, s); err != nil {
		return err
	}
	if s.Price.Validate() != nil {
		n.stats.BadPrices++
	} else if a.Reg().Price != price {
		a.forecast = nil
		a.enter(n.forecasts.Lines)
	}
	a.predictor.Hint(time.Duration(s.TTFTUS) * time.Microsecond)
	n.settle.HeardLate(s.Agent, s.Late)
	if n.fleet.Missed(&a.Agent, s.Held, a.cache.Heard()) {
		a.cache.Missed()
	}
	return nil
}

// reported takes an agent's word about what it holds.
func (n *Node) reported(h *bus.Holdings) error {
	a := n.fleet.Find(h.Agent)
	sold := a != nil && a.Joined()
	if !sold {
		n.fleet.TooSoon(h.Agent)
	}
	if !sold || h.Boot != a.Reg().Boot {
		return fmt.Errorf("holdings of %s (boot %d), which is not sold here", h.Agent, h.Boot)
	}
	n.fleet.Alive(&a.Agent)
	a.Engine(h.Life)
	if a.cache.Reported(h) {
		n.fleet.AskAll(&a.Agent)
	}
	return nil
}

// Hears says whether the bus is there, and agents are heard: until they are, no hold ends by its time.
// Whoever listens to us has missed our last news.
func (n *Node) Hears(now time.Time, hears bool) {
	n.turn.Advance(now)
	n.settle.Deaf()
	n.settle.Cut(!hears)
	if hears {
		n.fleet.Back()
		n.status.Soon()
	}
}

// Slept says that time has passed in which the hub did not run: its process was stopped, or starved.
func (n *Node) Slept(now time.Time) {
	n.turn.Advance(now)
	n.settle.Deaf()
	n.status.StoodStill()
}

// Absent says that nobody heard a probe of an agent. It reports whether the agent is held to be dead from now
// on.
func (n *Node) Absent(now time.Time, id string) bool {
	n.turn.Advance(now)
	a := n.fleet.Find(id)
	if a == nil {
		return false
	}
	deaths := n.fleet.Absent(&a.Agent)
	if deaths == 1 {
		n.stats.Agent(id).Dead++
	}
	if deaths > 0 {
		n.queue.News() // who waits for it may do better now
		for _, h := range a.holds(n.admission) {
			n.settle.Died(&h.Hold)
		}
	}
	return deaths == 1
}

// Learned appends what the hub has learned, for Relearn once it is sealed.
func (n *Node) Learned(to []byte) ([]byte, error) {
	var all []forecast.Learner
	for _, a := range n.fleet.All() {
		all = append(all, forecast.Learner{Learner: predict.Learner{ID: a.ID(),
			Model: cmp.Or(a.Reg().Model, a.learned), Means: a.predictor}, Answers: a.answers.Said()})
	}
	return n.forecasts.Learned(to, all)
}

// Relearn takes in what an earlier life of the hub had learned, before any agent has joined. On an error
// nothing changes.
func (n *Node) Relearn(data []byte) error {
	if n.fleet.Changes() > 0 {
		return errors.New("agents have joined already")
	}
	all, err := n.forecasts.Relearn(data)
	for _, x := range all {
		a := n.fleet.Enrol(x.ID)
		a.answers.Restore(x.Answers)
		a.learned, a.forecast = x.Model, nil
		a.learnsBy(x.Means)
	}
	return err
}

// learn teaches the predictor, and what is known of the agent's cache.
func (h *hold) learn(n *Node, c *bus.Completion) {
	t, a := h.task, h.agent
	defer func() { a.fits = 0 }() // it may be of another class by then
	if c.Outcome == bus.OutcomeFailed && c.Code == bus.CodeTimeout && h.Rec.Boot == a.Reg().Boot {
		// The engine is slower than the hold had time for. Its next holds get more time, within a bound.
		a.predictor.Learn(h.features, predict.Observation{Cut: true,
			ITL: time.Duration(c.ITLUS) * time.Microsecond})
	}
	if c.Outcome == bus.OutcomeFailed || c.Usage.Prompt <= 0 || h.Rec.Boot != a.Reg().Boot {
		return
	}
	cached := c.Usage.Cached
	if c.NoCacheReport || c.Unmetered {
		cached = -1
	}
	if h.Rec.Asserted > 0 && (cached >= 0 || c.Outcome == bus.OutcomeDone) {
		a.cache.Judge(h.Rec.Asserted, cached)
	}
	if t.Msg == nil || t.Msg.Carried() > 0 {
		return
	}
	if t.only == nil { // only now: of a prompt in hand nobody is to learn how much of it was cached
		a.Service().Computed(h.estimate.Prefill)
	}
	now := time.Duration(n.turn.Nano())
	first := n.forecasts.Learn(a.predictor, &a.rate, &t.asks, &forecast.Answered{Completion: c,
		Features: h.features, Said: h.said, Sent: now - n.turn.Now().Sub(h.Sent), Now: now,
		MaxTokens: h.Rec.MaxTokens, Cold: a.Answered(), Own: t.only != nil})
	a.Computed(h.Rec.Client, h.Rec.Task, first)
	n.settle.FirstCame(&h.Hold, first)
	a.cache.Served(h.run, t.asks.Source.Session, &t.Msg.Prompt, c.Usage.Prompt, c.Usage.Output, cached)
	a.prewarmed = a.prewarmed || t.only != nil
	h.run = nil
}
