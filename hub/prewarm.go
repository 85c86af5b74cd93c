package hub

import (
	"math"

	"souk/bus"
	"souk/hub/admission"
	"souk/hub/prewarm"
	"souk/market"
)

// What a hub puts on an idle agent is a task like any other, for that agent alone (task.only), in a round
// that is its alone, so that the journal proves it as any other. It is sent where nothing runs, while nobody
// waits: see package prewarm.

// noteUse counts a task that goes to an agent among those that begin as it does.
func (t *task) noteUse(n *Node) {
	if t.only != nil {
		n.prewarms.Soon()
	} else if p := &t.Msg.Prompt; t.Msg.Carried() == 0 && p.Loose != bus.LooseMedia {
		if depth, holders := n.prefixes.Deepest(p); depth > 0 {
			n.prewarms.Begins(t, p.Prefixes[depth-1].Hash, depth, holders, len(n.fleet.All()))
		}
	}
}

// prewarm puts the text that the last task began with on an idle agent, if that is expected to save more than
// it costs. It reports whether there is a task more.
func (n *Node) prewarm() bool {
	t, depth, ok := n.prewarms.Wanted(n.queue.Next() == 0)
	if !ok || t.Msg == nil || len(t.Msg.Body) == 0 {
		return false
	}
	for _, a := range n.fleet.All() {
		p := &t.Msg.Prompt // who says that it has lost what it had is not paid again
		if a.Free(n.turn.Nano()) > 0 && len(a.Runs()) == 0 && n.goes(t, a) && a.cache.Depth(p) < depth &&
			a.cache.Had(p, 0, depth) != depth && a.prewarm(n, t, depth) {
			return true
		}
	}
	return false
}

// prewarm has an agent compute the prompt of another task for an answer of one token, and the hub's own
// client pay for that; false if the uses of what they begin with save less than it costs, that client is at a
// limit, or the agent asks too much.
func (a *agent) prewarm(n *Node, of *task, depth int32) bool {
	m := n.prewarms.Copy(of.Msg, n.cfg.Prober(), a.Reg().Model)
	if n.admission.Find(m.Client, m.ID) != nil { // the client has one of that name
		return false
	}
	t := n.newTask(admission.New(m.Client, m.ID, m.Content(), 0), n.turn.Now())
	t.Until(n.turn.Now().Add(n.cfg.FundsWait))
	t.only = a
	n.read(t, &m)
	e := n.estimate(t, a, n.heldBy(t, a))
	p := &t.Msg.Prompt
	whole := t.asks.Features(&e)
	held := whole
	whole.Cached = 0
	held.Cached = int(int64(e.Prompt) * int64(p.Prefixes[depth-1].Bytes) / int64(max(1, p.Bytes)))
	card := a.Reg().Price
	money := market.Price{Miss: max(0, card.Miss-card.Hit)}.Cost(market.Usage{Prompt: held.Cached})
	if n.prewarms.Saves(money, a.predictor.First(whole)-a.predictor.First(held)) <= e.Cost+n.cfg.Fee ||
		n.judgeRoom(t, true) != nil || !a.fair(n, e.Prompt, e.MaxTokens) {
		return false
	}
	// It pays cost and fee: its round is its alone, and no slot has a price. The hold has to cover the worst.
	worth := math.Ceil(2 * float64(e.Worst+n.cfg.Fee) / max(0.01, e.Quality))
	t.Bid = admission.Fixed(market.Terms{Worth: market.Credits(min(worth, float64(market.MaxWorth))),
		Delta: 1, Patience: 1})
	need, r := n.survey(t)
	if r != nil {
		return false
	}
	n.admission.Take(t)
	n.money.Open(t.Client())
	n.prewarms.Sent(t)
	n.money.Fund(&t.money, need)
	return true
}

// fair reports whether an agent may have the money of the hub's own client for so many tokens.
func (a *agent) fair(n *Node, prompt, output int) bool {
	var others []market.Credits
	for _, b := range n.fleet.All() {
		if b.Seller().Owner != a.Seller().Owner && b.Joined() && b.Reg().Model == a.Reg().Model {
			others = append(others, market.WorstCase(b.Reg().Price, prompt, output)+b.Seller().Tariff)
		}
	}
	return prewarm.Fair(market.WorstCase(a.Reg().Price, prompt, output)+a.Seller().Tariff, others)
}

// recount has agents that a text was put on agree with the one that a task goes to on how many tokens they
// have in common. That one may have learned it of its engine, and these guess it by bytes: with a few tokens
// too many they would look dearer, and be given nothing from which to learn.
func (a *agent) recount(n *Node, t *task) {
	a.prewarmed = false
	for _, b := range n.fleet.All() {
		if b.prewarmed && b.Reg().Model == a.Reg().Model {
			b.cache.Recount(&t.Msg.Prompt, a.cache)
		}
	}
}

// takeRound gives the tasks of the next round. What the hub prewarms has one of its own, or it would have a
// part in the prices of others: these are in the one after. It goes if its agent is idle no more.
func (n *Node) takeRound(tasks []*task) []*task {
	own, ok := n.prewarms.Own()
	if ok = ok && own.Waits(); ok && len(own.only.Runs()) > 0 {
		own.notPrewarmed(n)
		ok = false
	}
	tasks = n.queue.Take(tasks)
	if !ok {
		return tasks
	}
	for _, x := range tasks {
		if x != own {
			n.queue.Again(x)
		}
	}
	return append(tasks[:0], own)
}

// own returns the task of the round at hand where that is one of the hub's own.
func (s *scratch) own() *task {
	if len(s.tasks) == 1 && s.tasks[0].only != nil {
		return s.tasks[0]
	}
	return nil
}

// notPrewarmed ends a task of the hub's own that did not begin: it waits for nothing.
func (t *task) notPrewarmed(n *Node) {
	if t != nil && t.Waits() {
		n.prewarms.Soon()
		n.end(t, n.turn.Refusal(t.Msg, bus.CodeNoRoom, 0, "its agent is not idle: no text is prewarmed"), true)
	}
}
