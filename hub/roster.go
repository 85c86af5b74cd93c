package hub

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"souk/bus"
	"souk/hub/predict"
	"souk/hub/prefix"
	"souk/hub/quality"
	"souk/hub/round"
	"souk/hub/session"
	"souk/market"
)

// agent is what the hub knows of one agent. It stays in the roster at least as long as it is joined or holds
// run on it.
type agent struct {
	// what rounds and quotes read of every agent stands first, and so together in memory
	joined      bool  // registered, and claimed by this hub
	sells       bool  // its owner won the epoch of its class, where there are epochs
	ready       bool  // by its last summary
	listed      bool  // as ready, by its registration
	parses      bool  // its engine lends its parsers, by its features
	text        bool  // its engine reads text alone, by its features
	place       int32 // of its cache
	silentFrom  int64 // by Node.nano: when its last summary is too old
	avoidUntil  int64 // by Node.nano: before then it gets no tasks
	slots, sold int   // it has, and of these count in Node.slots
	stuck       int   // of these, by the agent's count where it was higher than the hub's own for a while

	holds     []*hold // under way, in the order of their rounds: the hub's own count is the load
	kind      *kind   // nil: to be found
	along     predict.Line
	alongAt   uint64 // Fits of the predictor, when it said that
	predictor *predict.Means

	model      string           // as it is registered, and in the memory of all agents of that model
	context    int              // tokens of the longest prompt and answer; 0: it does not say
	alike      *round.Class     // agents of its class
	slotRate   round.Rate       // what its slots cost
	slotPrice  market.Credits   // of a task as long as most, as of the last round
	seatPrices []market.Credits // of its seats, in the last plan

	queue    predict.Queue
	sessions session.Agent
	cache    *prefix.Cache
	sown     bool // it has a text of the hub's own, and was given nothing since
	id       string
	reg      bus.Registration

	seq   uint64
	said  time.Time // when its last summary came; zero: none has since it joined
	price market.Price

	owner, class string
	tariff       market.Credits // due for a task beside its cost

	excess      int // of the agent's count over the hub's own
	excessSince time.Time

	refusals int
	timer    timer // the end of avoid
	watch    lookout

	learned   string // the model that this is of, where it was read from a file
	life      uint64 // of its engine in this boot, as it says
	restarted bool   // nothing was answered since
	lateness  lateness
	askFrom   int64  // by Node.nano: before then it is not asked again what it holds
	missed    uint64 // of its words on what it holds: the last, where a summary told of it first; 0: none
	missedAt  int64  // by Node.nano: when it did
	rate      predict.Rate
	answers   quality.Agent // what was said of them
	rated     []float64     // how good they are expected to be, by registered domain
	scores    string        // the registered ones, and these
}

func (n *Node) find(id string) (int, bool) {
	return slices.BinarySearchFunc(n.roster, id,
		func(a *agent, id string) int { return cmp.Compare(a.id, id) })
}

func (n *Node) lookup(id string) *agent {
	if i, ok := n.find(id); ok {
		return n.roster[i]
	}
	return nil
}

// enrol returns the agent of an id, new if need be.
func (n *Node) enrol(id string) *agent {
	i, ok := n.find(id)
	if !ok {
		a := &agent{id: id, predictor: predict.NewMeans(n.cfg.Prior)}
		a.setCache(n.prefixes.New(1, 0))
		a.timer.owner, a.watch.agent = a, a
		a.watch.timer.owner = &a.watch
		n.roster = slices.Insert(n.roster, i, a)
	}
	return n.roster[i]
}

// setCache has another cache stand for the agent's than the last.
func (a *agent) setCache(b *prefix.Cache) { a.cache, a.place = b, int32(b.Place()) }

// modelName is the name of a model in the memory of the agents that have it: where all names are one, who
// compares many of them reads it once.
func (n *Node) modelName(model string) string {
	for _, a := range n.roster {
		if a.model == model {
			return a.model
		}
	}
	return model
}

// drop forgets an agent that has left and on which nothing runs, if there are many such agents. The others
// are kept: one that comes back, after a lost lease say, is known already. Rather than it, one is forgotten
// that an earlier life of the hub knew, and that has not come since.
func (n *Node) drop(a *agent) {
	if a.joined || len(a.holds) > 0 || len(n.roster) <= 2*n.cfg.MaxAgents {
		return
	}
	for _, b := range n.roster {
		if b.reg.Agent == "" && len(b.holds) == 0 {
			a = b
			break
		}
	}
	if i, ok := n.find(a.id); ok {
		n.roster = slices.Delete(n.roster, i, i+1)
		a.cache.Drop()
	}
	n.classes.Leave(a.predictor)
	n.timers.set(&a.timer, time.Time{})
	n.timers.set(&a.watch.timer, time.Time{})
}

// classify puts an agent into the class of those that are forecast like it.
func (n *Node) classify(a *agent) {
	n.classes.Enter(predict.Key{
		Model: a.reg.Model, Hardware: a.class, Context: a.reg.MaxModelLen, Price: a.price,
	}, a.predictor)
}

// Join says that this hub sells an agent's slots: the agent is registered, and claimed by the hub's
// leadership; or that its registration has changed. A registration that cannot be sold under is an error and
// is counted; the agent is not sold.
func (n *Node) Join(now time.Time, reg bus.Registration) error {
	n.advance(now)
	if !n.leading {
		return ErrNotLeading
	}
	err := reg.Validate()
	if err == nil {
		err = reg.Price.Validate()
	}
	if err == nil && reg.Slots < 1 {
		err = fmt.Errorf("no slots")
	}
	if err == nil && !n.cfg.Serves(reg.Domains[0].Domain) {
		err = fmt.Errorf("its first domain is %s, not served here", reg.Domains[0].Domain)
	}
	if a := n.lookup(reg.Agent); err == nil && (a == nil || !a.joined) && n.joined() >= n.cfg.MaxAgents {
		err = fmt.Errorf("%d agents are joined, the most this hub sells", n.cfg.MaxAgents)
	}
	if err != nil {
		n.stats.BadAgents++
		n.leave(reg.Agent)
		return fmt.Errorf("agent %s is not sold: %w", reg.Agent, err)
	}
	a := n.enrol(reg.Agent)
	if !a.joined { // another hub sold it meanwhile: what its next summary counts is believed
		a.said = time.Time{}
	}
	a.joined = true
	n.restarted(a, &reg)
	fresh := a.reg.Agent == "" || reg.Boot != a.reg.Boot
	// an engine upgraded to another model has none of the last one's cache, or speed
	switch same := reg.Model == a.reg.Model && reg.BlockSize == a.reg.BlockSize; {
	case fresh && same && a.reg.KVTokens == reg.KVTokens:
		a.cache.Again()
	case fresh || !same:
		a.cache.Drop()
		a.setCache(n.prefixes.New(reg.BlockSize, reg.KVTokens))
	case a.reg.KVTokens != reg.KVTokens: // it was started again with other flags, beside its agentd
		a.cache.Resize(reg.KVTokens)
	}
	if reg.Model != cmp.Or(a.reg.Model, a.learned) {
		n.classes.Leave(a.predictor)
		a.predictor, a.answers = predict.NewMeans(n.cfg.Prior), quality.Agent{}
		a.along = predict.Line{}
	}
	if fresh {
		a.life, a.restarted = 0, a.reg.Agent != ""
		a.seq, a.said, a.ready, a.refusals, a.avoidUntil = 0, time.Time{}, true, 0, 0
		a.excess, a.stuck = 0, 0
		a.lateness = lateness{}
	}
	a.reg, a.price, a.slots = reg, reg.Price, reg.Slots
	n.sized(a, a.slots)
	a.listed, a.model, a.context = reg.State == bus.StateReady, n.modelName(reg.Model), reg.MaxModelLen
	a.parses, a.text = slices.Contains(reg.Features, bus.Parsers), slices.Contains(reg.Features, bus.Text)
	a.silentFrom = n.at(n.cfg.Silence)
	a.rated = nil // by what it is registered for now
	n.rate(a)
	a.sessions.Resize(reg.KVTokens / max(1, reg.BlockSize))
	n.tariff(a)
	n.classify(a)
	n.callFor(a)
	n.listen(a)
	if n.early[reg.Agent] {
		delete(n.early, reg.Agent)
		n.askAll(a)
	}
	n.handKept(a)
	n.news()
	return nil
}

func (n *Node) joined() (count int) {
	for _, a := range n.roster {
		if a.joined {
			count++
		}
	}
	return count
}

// Leave says that an agent's registration, or the claim on it, is gone. What runs there may well go on: its
// holds end by a Completion or by their own time.
func (n *Node) Leave(now time.Time, id string) {
	n.advance(now)
	n.leave(id)
}

func (n *Node) leave(id string) {
	if a := n.lookup(id); a != nil {
		a.joined = false
		n.sized(a, 0)
		n.sessions.table.Leave(&a.sessions)
		n.lostOwner(a)
		n.drop(a)
		n.news() // who waits for it may do better now
	}
}

// restarted ends what ran on an agent's earlier process. A new registration can only follow the end of the
// old lease, so that process is dead. It may have written down completions before: while the registration
// names its boot as a former one, its holds wait for them. So do those of boots that the node's directory did
// not have, as where it was made anew or is a copy: whoever has the other may send them. The boot stands in
// the hold's record, so a hub that was started again knows it, too.
func (n *Node) restarted(a *agent, reg *bus.Registration) {
	for _, h := range slices.Clone(a.holds) {
		elsewhere := len(reg.Lives) > 0 && !slices.Contains(reg.Lives, h.rec.Boot)
		if h.rec.Boot != reg.Boot && !slices.Contains(reg.Former, h.rec.Boot) && !elsewhere {
			n.void(h, bus.CodeAgentFailed, bus.CodeAgentFailed, "the agent was restarted")
		}
	}
}

// summarised takes an agent's word about itself.
func (n *Node) summarised(s *bus.Summary) error {
	a := n.lookup(s.Agent)
	if a == nil || !a.joined {
		return fmt.Errorf("summary of %s, which is not sold here", s.Agent)
	}
	if s.Boot != a.reg.Boot || !bus.Later(a.seq, a.said, s.Seq, n.now) {
		return fmt.Errorf("summary %d of %s (boot %d) is old", s.Seq, s.Agent, s.Boot)
	}
	before, price, open := a.free(n), a.price, a.open(n)
	a.alive(n)
	first := a.said.IsZero()
	a.seq, a.said, a.silentFrom = s.Seq, n.now, n.at(n.cfg.Silence)
	a.ready = s.State == bus.StateReady
	if s.Slots > 0 {
		a.slots = s.Slots // for later rounds
		n.sized(a, a.slots)
	}
	if err := s.Price.Validate(); err != nil {
		n.stats.BadPrices++
	} else if s.Price != price {
		a.price, a.kind = s.Price, nil // for later rounds: a hold carries the card it was made with
		n.classify(a)
	}
	a.predictor.Hint(time.Duration(s.TTFTUS) * time.Microsecond)
	a.correct(n.now, s.InFlight, n.cfg.Settling, first)
	a.queue.Said(n.nano, n.nano-int64(hearsWithin), s.Prefills, s.Ahead)
	n.heardLate(a, s.Late)
	n.missedWord(a, s.Held)
	switch after := a.free(n); {
	case after > before, open && !a.open(n), after > 0 && a.price != price:
		n.news()
	case after != before:
		n.status.changed = true
	}
	return nil
}

// askAgain is how long an agent is not asked again to say what it holds.
const askAgain = 5 * time.Second

// told takes an agent's word about what it holds.
func (n *Node) reported(h *bus.Holdings) error {
	a := n.lookup(h.Agent)
	if a == nil || !a.joined || h.Boot != a.reg.Boot {
		if a == nil || !a.joined {
			n.tooSoon(h.Agent)
		}
		return fmt.Errorf("holdings of %s (boot %d), which is not sold here", h.Agent, h.Boot)
	}
	a.alive(n)
	if h.Life > a.life {
		a.life, a.restarted = h.Life, a.restarted || a.life > 0
	}
	if a.cache.Reported(h) {
		n.askAll(a)
	}
	return nil
}

// missedWord asks an agent to say again what it holds, if it has said something that has not been heard: held
// is the number of that, by a summary. What is lost on its way and followed by nothing would be missed for a
// minute otherwise. A summary may overtake what was said before it, so a later one has to say so, too.
func (n *Node) missedWord(a *agent, held uint64) {
	switch heard := a.cache.Heard(); {
	case held <= heard:
		a.missed = 0
	case a.missed <= heard:
		a.missed, a.missedAt = held, n.nano
	case n.nano-a.missedAt >= int64(hearsWithin):
		a.cache.Missed()
		n.askAll(a)
	}
}

// askAll asks an agent to say again all that it holds, unless it has just been asked.
func (n *Node) askAll(a *agent) {
	if n.nano >= a.askFrom {
		a.askFrom = n.at(askAgain)
		n.send(bus.ControlSubject(a.id, n.cfg.Domain), &bus.HoldControl{Holdings: true})
	}
}

// tooSoon notes that an agent has said what it holds and is not sold here. A claim is seen by its agent as
// soon as by the hub that made it, so what the agent says then may come before [Node.Join].
func (n *Node) tooSoon(id string) {
	if len(n.early) < n.cfg.MaxAgents {
		n.early[id] = true
	}
}

// correct compares the agent's count of running tasks with the hub's. A summary is a little old, so a higher
// count is believed only once it has lasted: the agent runs something that the hub has given up. The first
// summary is believed at once: what it counts more was handed out by another hub.
func (a *agent) correct(now time.Time, running int, settling time.Duration, first bool) {
	excess := running - len(a.holds)
	switch {
	case excess <= 0:
		a.excess, a.stuck = 0, 0
	case a.excess == 0:
		a.excess, a.excessSince = excess, now
		if first {
			a.stuck = excess
		}
	default:
		a.excess = min(a.excess, excess)
		a.stuck = min(a.stuck, a.excess)
		if now.Sub(a.excessSince) >= settling {
			a.stuck = a.excess
		}
	}
}

// free is how many tasks the agent can be given now.
func (a *agent) free(n *Node) int {
	if !a.open(n) {
		return 0
	}
	return a.idle()
}

// idle is how many slots an agent has that nothing runs in.
func (a *agent) idle() int { return max(0, a.slots-len(a.holds)-a.stuck) }

// freeSlots counts the free slots of all agents, as far as the count is below most.
func (n *Node) freeSlots(most int) (free int) {
	for _, a := range n.roster {
		if free >= most {
			return most
		}
		free += a.free(n)
	}
	return min(free, most)
}

// avoid leaves an agent alone for a while that refused a dispatch or did not answer it, longer each time.
// What is heard of while it is left alone was dispatched before, and says nothing new.
func (n *Node) avoid(a *agent) {
	if n.nano < a.avoidUntil {
		return
	}
	wait := n.cfg.AvoidLeast << min(a.refusals, 20)
	if wait > n.cfg.AvoidMost || wait <= 0 {
		wait = n.cfg.AvoidMost
	}
	a.refusals++
	a.avoidUntil = n.at(wait)
	n.timers.set(&a.timer, n.now.Add(wait))
}

// due implements timed: the agent may be tried again.
func (a *agent) due(n *Node) { n.news() }

// fits reports whether a prompt leaves room for an answer in the agent's context.
func (a *agent) fits(t *task) bool {
	return a.takes(a.expect(t).tokens + t.carried())
}

// takes reports it of a prompt that is expected to have so many tokens.
func (a *agent) takes(prompt int) bool { return a.context == 0 || prompt < a.context }
