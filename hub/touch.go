package hub

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"souk/bus"
	"souk/hub/seat"
	"souk/ledger"
	"souk/market"
)

// A touch has an agent use again what its engine holds of a session, by a prompt of the same tokens and an
// answer of one, so that something else is dropped first: see package seat. Where no client asked for it, the
// hub pays, from the client that also pays for seeds (Config.Prober), at the agent's card, for what the agent
// says that it computed. Where that client has no money nothing is touched. What a client has asked for, that
// client pays: see Node.prefetch.
//
// All touches of an agent within a second that the hub pays for are paid from one hold. It is made like any
// other, in a round: one of posted prices with a single task, whose value is its cost, and a single agent. So
// nobody's bid is in it, there is no premium and no fee, and the journal proves it as it proves every round.
// It ends by what the agent has answered until a little after that second: the sum of it, or nothing. A hub
// that starts again knows of no touch, and its predecessor's holds are void.

const (
	tabTime = time.Second // for which one hold is made
	// most touches on one of them, and how long their answers are waited for after its time
	tabTouches, tabGrace = 256, 2 * time.Second
	// of an agent's blocks, those that a hold covers if none of them is found
	tabShare = 0.6

	// what a touch takes: a step of the engine, and the last block. It waits for others meanwhile, and keeps
	// nobody waiting for so long.
	touchTakes, touchTokens = time.Millisecond, 16
)

// touched are the touches that are not settled.
type touched struct {
	tabs map[string]*tab // by hold
	made uint64          // touches
	old  oldTabs         // of the life before
}

// tab is what an agent's touches of one second come to, or the one that a client asked for.
type tab struct {
	id     string
	rec    ledger.Hold
	agent  *agent
	until  int64                // by Node.nano: from then on there are no more
	over   int64                // and nothing is waited for
	sent   map[string]sentTouch // not answered, by the ids of their tasks
	touch  int                  // how many were sent
	worst  market.Credits       // of all of them
	used   market.Usage         // of those that were answered
	ended  int                  // how many these are
	timer  timer
	asked  bool // by the client that pays
	closed bool
}

type sentTouch struct {
	session        uint64
	tokens, blocks int
	held           int // blocks that were thought to be there
	warm           bool
}

// heldHere is how many holds are open that the hub is to end: those of the life before while it leads.
func (n *Node) heldHere() int {
	open := len(n.holds) + len(n.touched.tabs)
	if n.leading {
		open += len(n.touched.old.holds)
	}
	return open
}

// touches reports whether an agent uses again what it is told to.
func (a *agent) touches() bool { return slices.Contains(a.reg.Features, bus.Touches) }

// touch has an agent use again what a task would push out of its cache, as far as that is worth it: while
// nobody else waits for the agent.
func (n *Node) touch(t *task, h *hold, need int) {
	s, a := n.seats.table, h.agent
	if !n.cfg.Seats.Touches || !a.touches() || n.full || n.doubt != "" || n.draining ||
		!s.MayTouch(n.clock(), a.seats) {
		return
	}
	for _, other := range n.crowd.everybody {
		if other != t && other.state == waiting && other.home == a {
			return
		}
	}
	r := n.incoming(t, a, need, h.rec.Cached)
	if all := s.Touches(n.clock(), a.seats, &r); len(all) > 0 {
		n.sendTouches(a, all)
	}
}

// incoming is what a task would push out of an agent's cache.
func (n *Node) incoming(t *task, a *agent, need, cached int) seat.Incoming {
	size := max(1, a.reg.BlockSize)
	fresh := max(0, need-cached/size)
	takes := touchTakes + a.prefill(touchTokens+1, 0)
	return seat.Incoming{
		New: fresh, Must: max(0, fresh-a.belief.Room()/size), Block: a.prefill(size+1, 0),
		Pinned: a.touching, Touch: takes,
		Doubt: max(0, (a.reg.KVTokens/20-a.belief.Room())/size),
		Idle: func(yield func(uint64, int) bool) {
			a.belief.Idle(func(key uint64, tokens int) bool {
				return a.touchesNow[key] || yield(key, tokens/size)
			})
		},
	}
}

// sendTouches dispatches touches, as far as the hold of this second goes, and says how many.
func (n *Node) sendTouches(a *agent, all []seat.Touch) (sent int) {
	x, size := a.tab, max(1, a.reg.BlockSize)
	if x == nil || x.closed || n.nano >= x.until || x.rec.Price != a.price || x.rec.Boot != a.reg.Boot {
		if !n.fair(a, all[0].Blocks*size+1, 1) {
			n.stats.Touched.TooDear += int64(len(all))
			return sent
		}
		if x = n.openTab(a, all); x == nil {
			n.stats.Touched.Unfunded += int64(len(all))
			return sent
		}
	}
	for _, one := range all {
		if !n.sendTouch(x, &one) {
			break
		}
		sent++
	}
	return sent
}

// sendTouch dispatches one, if the hold goes so far.
func (n *Node) sendTouch(x *tab, one *seat.Touch) bool {
	a := x.agent
	tokens := one.Blocks * max(1, a.reg.BlockSize)
	worst := x.worst + market.WorstCase(x.rec.Price, tokens+1, 1)
	if x.touch == tabTouches || worst > x.rec.Amount {
		return false
	}
	x.worst, x.touch = worst, x.touch+1
	n.touched.made++
	id := fmt.Sprintf("touch-%d-%d", n.epoch, n.touched.made)
	held := one.Blocks
	if one.Warm || x.asked {
		held = min(held, one.Held)
	}
	x.sent[id] = sentTouch{one.Key, tokens, one.Blocks, held, one.Warm}
	a.touching += one.Blocks
	if a.touchesNow == nil {
		a.touchesNow = map[uint64]bool{}
	}
	a.touchesNow[one.Key] = true
	n.stats.Touches++
	n.out.Touches = append(n.out.Touches, Touch{a.id, bus.Dispatch{
		Kind: bus.DispatchPrefetch, Domain: n.cfg.Domain, Epoch: n.epoch, Journal: n.cfg.Journal,
		Round: x.rec.Round, Hold: x.id, Boot: x.rec.Boot, Fence: a.reg.Fence,
		Task: bus.Task{Client: x.rec.Client, ID: id}, Model: x.rec.Model, MaxTokens: 1,
		Price:  x.rec.Price,
		Settle: x.rec.Settle, Quoted: x.rec.Quoted, CostCap: x.rec.Amount,
		TimeoutMS: tabGrace.Milliseconds(), Session: one.Key, Tokens: tokens,
	}})
	return true
}

// prefetch has an agent use again what it holds of a session that its client said comes next. Who asked for
// it pays, from a hold of its own: the agent's card for what the agent says that it computed, at most for all
// of it, without a premium or a fee, and nothing if the agent did not answer, or gave it up for a task. What
// a client has no money for is not made.
func (n *Node) prefetch(a *agent, client string, one seat.Touch) bool {
	size := max(1, a.reg.BlockSize)
	tokens := one.Blocks * size
	most := market.WorstCase(a.price, tokens+1, 1)
	switch {
	case client == "" || a.touchesNow[one.Key]:
		return false
	case !n.fair(a, tokens+1, 1):
		n.stats.Asked.TooDear++
		return false
	case n.spare(client) < most:
		n.stats.Asked.Unfunded++
		return false
	}
	x := n.holdTouches(a, client, "next", most,
		market.Usage{Prompt: tokens + 1, Cached: tokens, Output: 1}, 0)
	if x == nil {
		return false
	}
	x.asked, one.Held = true, a.belief.Session(one.Key)/size
	if !n.sendTouch(x, &one) {
		return false
	}
	n.stats.Asked.Sent++
	return true
}

// openTab holds money for an agent's touches of the next second, the first of which these are; nil if the
// client that pays for them has none.
func (n *Node) openTab(a *agent, first []seat.Touch) *tab {
	client, size := n.cfg.Prober(), max(1, a.reg.BlockSize)
	share := int(tabShare * float64(a.reg.KVTokens))
	most := market.WorstCase(a.price, share+tabTouches, tabTouches)
	amount := min(most, n.spare(client))
	expected, worst := market.Usage{}, market.Credits(0)
	for _, one := range first {
		tokens := one.Blocks * size
		next := worst + market.WorstCase(a.price, tokens+1, 1)
		if next > amount {
			break
		}
		worst = next
		expected.Prompt, expected.Cached = expected.Prompt+tokens+1, expected.Cached+tokens
		expected.Output++
	}
	n.fundTouches(client, most, market.WorstCase(a.price, first[0].Blocks*size+1, 1))
	if amount <= 0 || expected.Output == 0 {
		return nil
	}
	x := n.holdTouches(a, client, "touches", amount, expected, tabTime)
	if x != nil {
		a.tab = x
	}
	return x
}

// holdTouches holds so much of a client's money for touches of an agent, as long as they may be added; nil if
// that could not be recorded.
func (n *Node) holdTouches(a *agent, client, name string, amount market.Credits, expected market.Usage,
	lasts time.Duration) *tab {
	last, prev := n.book.LastRound()
	id := fmt.Sprintf("%s-%d-%d", name, n.epoch, n.touched.made)
	quoted := a.price.Cost(expected)
	r := market.Round{Domain: n.cfg.Domain, Number: last + 1, Prev: prev,
		Rule: market.Rule{Pricing: market.PricingPosted, Settle: market.SettleMetered,
			Clarke: market.ClarkeClient},
		Tasks:  []market.Task{{ID: market.TaskID(client + "/" + id), Client: client}},
		Agents: []market.Supply{{Agent: market.AgentID(a.id), Tiers: []market.Tier{{Slots: 1}}}},
		Edges:  []market.Edge{{Value: quoted, Cost: quoted}}}
	o, err := market.Clear(r)
	if err == nil {
		err = market.Check(r, o)
	}
	expires := n.now.Add(lasts + tabGrace + n.cfg.HoldGrace)
	x := &tab{agent: a, id: ledger.HoldID(n.cfg.Journal, r.Number, 0), until: n.at(lasts),
		over: n.at(lasts + tabGrace), sent: map[string]sentTouch{},
		rec: ledger.Hold{Client: client, Task: id, Agent: a.id, Model: a.reg.Model, Round: r.Number,
			Kind: bus.DispatchPrefetch, Amount: amount, Quoted: quoted, Settle: r.Rule.Settle, Price: a.price,
			Prompt: expected.Prompt, Cached: expected.Cached, Output: expected.Output, MaxTokens: tabTouches,
			Expires: expires.UnixNano(), Boot: a.reg.Boot}}
	if err == nil {
		err = n.commit(ledger.NewRound(n.cfg.Journal, r, o, n.salt()),
			n.book.NewHold(x.id, &x.rec, n.salt()))
	}
	if err != nil {
		n.fault(fmt.Errorf("hold for touches of agent %s: %w", a.id, err))
		return nil
	}
	x.timer.owner = x
	n.touched.tabs[x.id] = x
	n.timers.set(&x.timer, n.now.Add(cmp.Or(lasts, tabGrace)))
	return x
}

// fundTouches asks the treasury for money in time, if little is left: what several holds of so much take, and
// at least so much.
func (n *Node) fundTouches(client string, most, least market.Credits) {
	p := n.purse(client)
	p.largest = max(p.largest, most)
	if p.request == nil && !n.treasury.gap && n.spare(client) < times(most, lowWaterHolds) &&
		!n.now.Before(p.notAhead) {
		n.allot(p, times(most, chunkHolds), least, 0)
	}
}

// touchEnded takes an agent's account of a touch.
func (n *Node) touchEnded(x *tab, c *bus.Completion) error {
	a := x.agent
	t, ok := x.sent[c.Task]
	if !ok || c.Agent != a.id || c.Boot != x.rec.Boot {
		return fmt.Errorf("completion of %s, boot %d, of touch %s on hold %s, which has none such", c.Agent,
			c.Boot, c.Task, c.Hold)
	}
	delete(x.sent, c.Task)
	delete(a.touchesNow, t.session)
	a.speaks(n)
	s := &n.stats.Touched
	switch {
	case c.Outcome != bus.OutcomeDone:
		s.Refused++
		a.touching = max(0, a.touching-t.blocks)
		if c.Code == bus.CodeAnswerGone && a.seats != nil { // it knows the text no more
			n.seats.table.Lost(a.seats, t.session)
		}
	default:
		used := market.Usage{Prompt: min(max(0, c.Usage.Prompt), t.tokens+1), Output: 1}
		used.Cached = min(max(0, c.Usage.Cached), used.Prompt)
		x.used.Prompt, x.used.Cached = x.used.Prompt+used.Prompt, x.used.Cached+used.Cached
		x.used.Output++
		x.ended++
		switch found := n.found(a, t, used.Cached); {
		case !found:
			s.Missed++
		case !t.warm:
			s.Found++
		}
	}
	if len(x.sent) == 0 && n.nano >= x.until {
		n.settleTab(x)
	}
	return nil
}

// found notes that an agent has used again so many tokens of a session, and reports whether these are as
// many as were meant. Of a text that is computed ahead that is the prompt of the turn before: who has lost
// it, or says so each time to be paid for it again, is asked no more for a while, as after any touch. Clients
// may say of a text that it comes next that the agent is not believed to hold any more: it is not blamed for
// that.
func (n *Node) found(a *agent, t sentTouch, tokens int) bool {
	n.runtime.host.Touched(n.now, a.id, t.session, t.tokens, tokens)
	size := max(1, a.reg.BlockSize)
	a.touching = max(0, a.touching-t.blocks)
	want := t.blocks
	if t.warm {
		want = t.held
	}
	found := tokens >= (want-2)*size
	if a.seats == nil {
		return found
	}
	switch {
	case t.held == 0: // where nothing was thought to be there, it says nothing of the agent
	case t.warm:
		n.seats.table.Judge(n.clock(), a.seats, t.held, tokens/size)
	default:
		n.seats.table.Touched(n.clock(), a.seats, t.session, t.held, tokens/size)
	}
	if tokens > 0 {
		a.belief.Used(t.session)
	}
	return found
}

// due implements timed: the second is over, or there is no more to wait for.
func (x *tab) due(n *Node) {
	if len(x.sent) > 0 && n.nano < x.over {
		n.timers.set(&x.timer, n.now.Add(time.Duration(x.over-n.nano)))
		return
	}
	n.settleTab(x)
}

// settleTab pays an agent for what it has answered of a second's touches.
func (n *Node) settleTab(x *tab) {
	a := x.agent
	end := ledger.NewVoid(n.cfg.Journal, x.rec, string(bus.CodeTimeout), n.salt())
	cost := market.Credits(0)
	if x.ended > 0 {
		cost = market.SettleTariff(x.rec.Settle, x.rec.Price, 0, x.rec.Quoted, x.used, x.rec.Amount)
		end = ledger.NewCapture(n.cfg.Journal, x.rec, ledger.Capture{Outcome: bus.OutcomeDone, Cost: cost,
			Usage: x.used}, n.salt())
	}
	if err := n.commit(end); err != nil {
		n.fault(fmt.Errorf("end of hold %s, for touches, which is tried again: %w", x.id, err))
		n.timers.set(&x.timer, n.now.Add(endAgain))
		return
	}
	if cost > 0 {
		n.charged(x.rec.Client)
	}
	for _, t := range x.sent {
		delete(a.touchesNow, t.session)
		a.touching = max(0, a.touching-t.blocks)
	}
	n.stats.Touched.Unanswered += int64(len(x.sent))
	if x.asked {
		n.stats.Asked.Cost += cost
	} else {
		n.stats.Touched.Cost += cost
	}
	x.closed = true
	delete(n.touched.tabs, x.id)
	if n.timers.set(&x.timer, time.Time{}); a.tab == x {
		a.tab = nil
	}
	p := n.purse(x.rec.Client)
	n.letIn(p)
	n.startIdle(p)
}

// endAgain is how soon the end of a hold is tried again that could not be recorded.
const endAgain = time.Second

// oldTabs are the holds for touches of the life before that are not void yet.
type oldTabs struct {
	holds []ledger.Hold
	timer timer
}

// due implements timed.
func (o *oldTabs) due(n *Node) {
	if n.leading {
		n.voidTabs()
	}
}

// voidTabs ends the holds for touches of the life before: nobody knows what came of them. What cannot be
// recorded now is tried again.
func (n *Node) voidTabs() {
	o := &n.touched.old
	left := o.holds[:0]
	for _, h := range o.holds {
		if err := n.commit(ledger.NewVoid(n.cfg.Journal, h, string(bus.CodeTimeout), n.salt())); err != nil {
			n.fault(fmt.Errorf("void of hold %d/%d, for touches, which is tried again: %w", h.Round, h.Slot, err))
			left = append(left, h)
		}
	}
	if o.holds = left; len(left) > 0 {
		n.timers.set(&o.timer, n.now.Add(endAgain))
	}
}
