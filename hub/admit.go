package hub

import (
	"fmt"
	"slices"
	"time"

	"souk/bus"
	"souk/market"
)

// admit takes a task in, or refuses it truthfully. Money is reserved before a round is built: a winner that
// its client cannot fund would change everyone's prices.
func (n *Node) admit(m *bus.Task) error {
	if !bus.ValidID(m.Client) || !bus.ValidID(m.ID) {
		n.refuse(m, bus.CodeBadRequest, 0, "a task needs the ids of its client and of itself, not %q and %q",
			m.Client, m.ID)
		return fmt.Errorf("task %q of client %q: not ids", m.ID, m.Client)
	}
	if m.Reply == "" {
		m.Reply = bus.ReplyTo(m.Client, m.ID)
	}
	key, digest := taskKey{m.Client, m.ID}, m.Content()
	t := n.known[key]
	// a door that sends it again is no other
	if t != nil && (isLookup(m) || !slices.Contains(t.doors, m.Door)) {
		t.shared = true
	}
	if isLookup(m) {
		n.answerLookup(t, m)
		return nil
	}
	n.hearVoucher(m)
	switch {
	case t != nil && t.state != done && t.digest == digest && m.Stream && m.Reply != t.answered():
		n.refuse(m, bus.CodeDuplicate, time.Second, "task %s is in hand for another reader", m.ID)
		return nil
	case t != nil && m.Resume != nil:
		n.stats.Repeats++
		t.from(m)
		n.goOn(t, m, digest)
		return nil
	case m.Resume != nil:
		n.refuse(m, bus.CodeUnknown, 0, "hub %s knows of no task %s of %s that could go on", n.cfg.Domain,
			m.ID, m.Client)
		return nil
	case t != nil:
		n.stats.Repeats++
		t.from(m)
		n.repeat(t, m, digest)
		return nil
	}
	switch {
	case n.unsure(m):
		n.haveLooked(m, "the door was out of step when it sent the task, and another hub may have it")
		return nil
	case n.disputed(m):
		n.haveLooked(m, "another door asks for the task, and may have given it to another hub")
		return nil
	}
	n.stats.Arrived++
	if m.Prompt.Tokens <= 0 {
		n.refuse(m, bus.CodeEmptyPrompt, 0, "the prompt is empty")
		return nil
	}
	t = &task{key: key, id: market.TaskID(m.Client + "/" + m.ID), digest: digest, arrived: n.heard}
	t.timer.owner = t
	n.read(t, m)
	if r := n.judgeTime(t); r != nil {
		return n.refuseWith(m, r)
	}
	if r := n.judgeRoom(t); r != nil {
		if r.Code == bus.CodeNoRoom {
			n.regimes.watch.Came(n.nano)
			n.regimes.watch.Turned()
		}
		return n.refuseWith(m, r)
	}
	if err := n.setTerms(t); err != nil {
		return n.refuseWith(m, n.refusal(m, bus.CodeBadTerms, 0, "%v", err))
	}
	need, r := n.survey(t)
	if r != nil {
		return n.refuseWith(m, r)
	}
	n.known[key] = t
	n.come(t)
	n.hearArrived(t)
	n.openAccount(key.client)
	n.hearVoucher(m)
	t.inboxes = append(t.inboxes, m.Inbox)
	n.fund(t, need)
	return nil
}

// haveLooked has the door of a task that may be with another hub ask all of them.
func (n *Node) haveLooked(m *bus.Task, why string) {
	n.stats.Looks++
	r := n.refusal(m, bus.CodeUnavailable, time.Second, "%s: try again", why)
	n.send(m.Inbox, &bus.Answer{Result: r, Lookup: &bus.LastStatus{Epoch: n.epoch, Seq: n.status.seq}})
}

// read makes a request the task's own, and fills in what it leaves to the hub.
func (n *Node) read(t *task, m *bus.Task) {
	t.msg = m
	m.Token, m.LastStatus = "", nil // Reply says it; and it was judged
	n.prefixes.Resolve(&m.Prompt)
	t.media = m.Prompt.Loose == bus.LooseMedia
	t.from(m)
	n.unquote(t)
	if m.Session != "" {
		t.session = bus.SessionKey(m.Client, m.Session)
	}
	if m.Model == "auto" {
		m.Model = ""
	}
	t.open = m.MaxTokens <= 0
}

// refuseWith answers a request that was not admitted.
func (n *Node) refuseWith(m *bus.Task, r *bus.Result) error {
	count(n.stats.Tasks, r.Code)
	n.send(m.Inbox, &bus.Answer{Result: r})
	return nil
}

// judgeTime sets the deadline: a task whose first token comes after it more often than not gets no slot. An
// answer that has begun is not cut off there, or a client could have it for nothing by a well chosen
// deadline; it can cancel.
func (n *Node) judgeTime(t *task) *bus.Result {
	if t.msg.DeadlineMS == 0 {
		t.deadline = n.now.Add(n.cfg.Deadline)
		return nil
	}
	t.deadline = time.UnixMilli(t.msg.DeadlineMS)
	switch {
	case !t.deadline.After(n.now):
		return n.refusal(t.msg, bus.CodePastDeadline, 0, "the deadline passed %v ago",
			n.now.Sub(t.deadline).Round(time.Millisecond))
	case t.deadline.After(n.now.Add(n.cfg.MaxDeadline)):
		return n.refusal(t.msg, bus.CodeBadTerms, 0,
			"deadline_ms: more than %v ahead, the furthest this hub takes", n.cfg.MaxDeadline)
	}
	return nil
}

// judgeRoom keeps to the hub's limits.
func (n *Node) judgeRoom(t *task) *bus.Result {
	p := n.accounts[t.key.client]
	if r := n.judgeHub(t, p); r != nil || p == nil {
		return r
	}
	if p.tasks() >= n.cfg.waitingPerClient() && !n.passing(t, p) {
		return n.refusal(t.msg, bus.CodeTooManyTasks, time.Second,
			"%d tasks of client %s wait for its money or a slot, the most that may wait here "+
				"(max_waiting_per_client)",
			p.tasks(), t.key.client)
	}
	return nil
}

// judgeHub says whether the hub takes any task now, of a client with such an account.
func (n *Node) judgeHub(t *task, p *account) *bus.Result {
	why, again := n.refuses()
	switch {
	case n.draining:
		return n.refusal(t.msg, bus.CodeDraining, again, "%s; try again", why)
	case why != "":
		return n.refusal(t.msg, bus.CodeUnavailable, again, "%s", why)
	case n.spare() <= 0 && !n.room.squeezes(p.tasks()):
		return n.refusal(t.msg, bus.CodeNoRoom, time.Second,
			"%d tasks wait and %d are open: the queue is full", n.waiting, n.open)
	}
	return nil
}

// passing reports whether t would hardly wait: no round has left a task of its client waiting, and there is a
// free slot for it and for all that the next rounds take before it. Many that come at once to as many free
// slots do not fill the room.
func (n *Node) passing(t *task, p *account) bool {
	if n.batch.AnyLeft(func(l *task) bool { return l.key.client == p.client }) {
		return false
	}
	free := 0
	for _, a := range n.roster {
		if n.usable(t, a) {
			free += a.free(n)
		}
	}
	return n.batch.Len()+len(p.awaiting) < free
}

// setTerms fills in the hub's defaults; see [Terms]. Who says neither what a task is worth nor what it may
// cost pays at most what its hold has room for.
func (n *Node) setTerms(t *task) error {
	best, card := n.prospects(t)
	t.asUsual = n.usual()
	t.usual = n.cfg.Terms.Of(card, t.asUsual)
	t.usual.MaxPrice = market.MaxWorth
	t.terms = t.usual
	if w := t.msg.Terms.Worth; w != nil && *w != 0 {
		t.terms.Worth, t.terms.Patience, t.terms.MaxPrice = *w, n.cfg.Terms.Patience(), 0
	}
	if x := t.msg.Terms.Delta; x != nil && *x != 0 {
		t.terms.Delta = *x
	}
	if ms := t.msg.Terms.PatienceMS; ms != nil && *ms != 0 {
		t.terms.Patience = time.Duration(*ms) * time.Millisecond
	}
	if c := t.msg.Terms.MaxPrice; c != nil {
		t.terms.MaxPrice = *c
	}
	err := t.terms.Validate()
	t.stake = t.terms.Worth
	t.terms = t.terms.Bounded(best)
	// What there is to pay with says nothing of what the task is worth: with its worth lowered to the last of
	// a purse it could wait for no slot at all. But a round cuts its value by that, and so what a second
	// costs.
	for _, most := range []market.Credits{t.msg.Voucher.Most(), t.most} {
		if most > 0 && most < t.terms.Cap() {
			t.terms.MaxPrice = most
		}
	}
	t.second = t.terms.Bounded(best).Second()
	return err
}

// usual is what a task usually costs here; before one was paid, what one would that is as long as those of a
// status.
func (n *Node) usual() market.Credits {
	if c := n.book.Usual(); c > 0 {
		return c
	}
	least := market.Credits(-1)
	for _, a := range n.roster {
		c := a.price.Cost(market.Usage{Prompt: typical.Prompt, Output: typical.MaxTokens}) + a.tariff +
			n.cfg.Fee
		if a.joined && (least < 0 || c < least) {
			least = c
		}
	}
	return max(0, least)
}

// agree gives tasks that wait the terms of those that come now, where what is usual has changed: a second
// costs all of them the same.
func (n *Node) agree(tasks []*task) {
	usual := n.usual()
	for _, t := range tasks {
		if t.asUsual != usual && t.only == nil {
			_ = n.setTerms(t) // what was said of terms is as good as before
		}
	}
}

// prospects are the greatest quality that an agent which may serve a task is expected to have, and what the
// cheapest of them would ask for it with nothing cached and an answer as long as is expected, fee included.
func (n *Node) prospects(t *task) (best float64, card market.Credits) {
	card = -1
	var last *kind
	for _, a := range n.roster {
		if !a.joined || t.msg.Model != "" && t.msg.Model != a.model {
			continue
		}
		best = max(best, a.quality(t.msg.Domain))
		if last != nil && a.kind == last { // which is one of its card, too
			continue
		}
		last = a.kind
		usage := market.Usage{Prompt: a.line().Tokens(t.msg.Prompt.Tokens),
			Output: n.length(t, a)}
		if c := a.price.Cost(usage) + a.tariff + n.cfg.Fee; card < 0 || c < card {
			card = c
		}
	}
	return best, max(0, card)
}

// survey looks at every agent that could ever serve t: what the dearest outcome takes, or why there is none.
func (n *Node) survey(t *task) (need market.Credits, r *bus.Result) {
	m, could, timely := t.msg, reach{}, 0
	best, short, prompt := market.Credits(-1), market.Credits(0), false
	worst, least := market.MaxCredits, market.MaxCredits
	n.kinds.visits++
	p, s := &m.Prompt, &n.round
	s.depths = n.prefixes.Depths(s.depths, p.Prefixes)
	for _, a := range n.roster {
		if !could.serves(t, a) {
			continue
		}
		held := a.expectAt(p, s.depths[a.place])
		if n.kind(a).seen(n.kinds.visits, held) {
			continue // it has nothing to add
		}
		q := n.firstQuoted(t, a, held)
		if !a.takes(q.prompt) {
			continue
		}
		could.fitting++
		if n.now.Add(a.predictor.Half(q.forecast.TTFT)).After(t.deadline) {
			continue
		}
		timely++
		value := q.within(t.terms.Cap())
		w := value - q.cost - n.cfg.Fee
		if w < 0 {
			if do := n.enough(t, &q); do > 0 && (short == 0 || do < short) {
				short, prompt = do, q.floor+n.cfg.Fee == do
			}
		}
		if w >= 0 {
			best = max(best, w)
			dearest := q.worst(a)
			need = max(need, market.Reserve(dearest, value, q.cost, t.terms.Cap()))
			worst = min(worst, market.Reserve(dearest, q.cost, q.cost, t.terms.Cap()))
			least = min(least, max(q.floor, q.cost)+n.cfg.Fee)
		}
	}
	if r := n.outOfReach(t, &could); r != nil {
		return 0, r
	}
	switch {
	case timely == 0:
		return 0, n.refusal(m, bus.CodeNotWorthIt, 0,
			"no agent is expected to begin an answer before the deadline, even with a free slot")
	case best < 0 && short > 0 && !prompt:
		return 0, n.refusal(m, bus.CodeNotWorthIt, 0,
			"max_price %s is below what it is expected to cost, %s or more: offer at least that",
			money(t.terms.Cap()), money(short))
	case best < 0 && short > 0:
		return 0, n.refusal(m, bus.CodeNotWorthIt, 0,
			"max_price %s does not cover the prompt, whose bytes may be so many tokens that it costs %s: "+
				"offer at least that",
			money(t.terms.Cap()), money(short))
	case best < 0:
		return 0, n.refusal(m, bus.CodeNotWorthIt, 0,
			"at worth %s, delta %v, patience %v and max_price %s no agent's value reaches its cost, even "+
				"with a free slot: offer more",
			money(t.terms.Worth), t.terms.Delta, t.terms.Patience, money(t.terms.Cap()))
	}
	t.worst, t.least, t.surplus = worst, least, best
	return need, nil
}

// enough is the least max_price by which a task would have what it is quoted; 0 where none does.
func (n *Node) enough(t *task, q *quote) market.Credits {
	best, _ := n.prospects(t)
	terms := t.terms
	terms.Worth = t.stake
	least := terms.Least(market.Quote{TTFT: q.forecast.TTFT, Cost: q.cost, Quality: q.quality},
		q.cost+n.cfg.Fee, best)
	if least == 0 {
		return 0
	}
	return max(least, q.floor+n.cfg.Fee)
}

// reach counts the agents that a task could ever go to.
type reach struct{ joined, parsing, serving, reading, fitting, longest int }

// serves counts an agent, and reports whether t may be given to it, slots and the length of its prompt aside.
func (r *reach) serves(t *task, a *agent) bool {
	if !a.joined || t.failed(a) {
		return false
	}
	r.joined++
	if t.parses && !a.parses {
		return false
	}
	r.parsing++
	if t.msg.Model != "" && t.msg.Model != a.model {
		return false
	}
	r.serving++
	if !a.reads(t) {
		return false
	}
	r.reading++
	r.longest = max(r.longest, a.context)
	return true
}

// outOfReach says why a task cannot go to any of them; nil if it can.
func (n *Node) outOfReach(t *task, r *reach) *bus.Result {
	m := t.msg
	switch {
	case r.joined == 0 && len(t.failedAt) > 0:
		return n.refusal(m, bus.CodeAgentFailed, 0, "no other agent is with hub %s", n.cfg.Domain)
	case r.joined > 0 && r.parsing == 0:
		return n.refusal(m, bus.CodeAgentFailed, 0,
			"no other agent of hub %s reads the tool calls and the reasoning of an answer that goes on: "+
				"its vLLM server wants --enable-scale-out", n.cfg.Domain)
	case r.joined == 0:
		return n.refusal(m, bus.CodeNoRoom, time.Second, "no agent is with hub %s right now", n.cfg.Domain)
	case r.serving == 0 && len(t.failedAt) > 0:
		return n.refusal(m, bus.CodeAgentFailed, 0, "no other agent of hub %s serves model %q",
			n.cfg.Domain, m.Model)
	case r.serving == 0:
		return n.refusal(m, bus.CodeUnknownModel, 0, "no agent of hub %s serves model %q",
			n.cfg.Domain, m.Model)
	case r.reading == 0:
		return n.refusal(m, bus.CodeUnsupportedField, 0,
			"messages: no agent of hub %s that could take them reads pictures or sound: send text, or ask for a "+
				"model that does", n.cfg.Domain)
	case r.fitting == 0:
		return n.refusal(m, bus.CodePromptTooLong, 0,
			"the prompt has about %d tokens; the longest context here has %d", m.Prompt.Tokens, r.longest)
	}
	return nil
}
