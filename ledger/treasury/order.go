package treasury

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"souk/bus"
	"souk/bus/tip"
	"souk/ledger"
	"souk/market"
)

// order has a hub record an operator's order: surplus leaves, what an agent has earned is paid, or a client
// gets back what it paid. The hub records it first, then the treasury, both under one number: asked again it
// is made once, and where a step was missed, that one is made up for. Without an amount the answer says what
// there is.
func (t *Treasury) order(op string, req *bus.FundsRequest, to any) error {
	if req.Amount < 0 || req.Amount > market.MaxCredits {
		return refuse(bus.CodeBadRequest, "amount is %s: want at most %s credits", req.Amount,
			market.MaxCredits)
	}
	o := tip.Ordered{Kind: op, Amount: req.Amount, Order: t.said(req, true)}
	o.Order.Agent, o.Order.Receipt, o.Order.From = "", "", ""
	o.Order.Shares, o.Order.Capture = nil, nil
	var err error
	var question, done bool
	hub := req.Hub
	switch op {
	case bus.OpDistribute:
		question, done, err = t.distribute(req, &o)
	case bus.OpRemit:
		question, done, err = t.remit(req, &o)
	default:
		hub, done, err = t.refund(req, &o)
	}
	if err != nil {
		return err
	}
	if done {
		t.answer(to, req, bus.FundsReply{Number: o.Number, Order: &o})
		return errLater
	}
	if len(t.looks) >= maxLooks {
		return refuse(bus.CodeUnavailable, "%d questions to hubs wait for their answers: ask again with the "+
			"same id", len(t.looks))
	}
	t.counted++
	r := &poll{id: strconv.FormatUint(t.counted, 10), client: cmp.Or(o.Order.Agent, hub), look: true,
		order: &o}
	for _, name := range t.Book.Hubs() {
		if name == hub || hub == "" && !t.Book.Closed(name) {
			r.hubs = append(r.hubs, target{hub: name})
		}
	}
	if !question {
		o.Number = t.Book.LastOrder(hub).Number + 1
	}
	return t.ask(&look{req: *req, to: to, poll: r, until: t.now.Add(answerWithin)})
}

// said returns a copy of what an operator says of an amount, with the bound above which a second one must
// sign it; nil if there is nothing, unless it is needed.
func (t *Treasury) said(req *bus.FundsRequest, needed bool) *tip.Order {
	if req.Order == nil && !needed && t.cfg.SecondAbove == 0 {
		return nil
	}
	o := tip.Order{}
	if req.Order != nil {
		o = *req.Order
	}
	o.Above, o.Rule, o.Closed = t.cfg.SecondAbove, "", t.Book.ClosedMonth()
	return &o
}

// needsSecond refuses what a second operator is to sign, and has not; the book judges a signature.
func (t *Treasury) needsSecond(op string, req *bus.FundsRequest) error {
	above, signed := t.cfg.SecondAbove, req.Order != nil && req.Order.Signature != ""
	if above == 0 || req.Amount <= above || signed || t.made(op, req) ||
		!slices.Contains([]string{bus.OpDeposit, bus.OpPayout, bus.OpMove, bus.OpRemit, bus.OpRefund,
			bus.OpDistribute}, op) {
		return nil
	}
	return refuse(bus.CodeBadRequest, "a second operator signs what is above %s: give the command with "+
		"--approval FILE, which writes the order down, have another operator sign it (souk approve FILE), and "+
		"give the command again", above)
}

// dealt refuses orders to a hub that never had anything, or has ended.
func (t *Treasury) dealt(hub string) error {
	switch {
	case !t.Book.Knows(hub):
		return refuse(bus.CodeBadRequest, "hub: the treasury never dealt with a hub %.80q: it has another "+
			"name, which is that of its journal, or nobody has had money there yet", hub)
	case t.Book.WrittenOff(hub):
		return refuse(bus.CodeBadRequest, "hub %s has ended: its journal was written off, and its surplus "+
			"and what it owed agents are lost", hub)
	case t.Book.Closed(hub):
		return refuse(bus.CodeBadRequest, "hub %s has ended: its surplus has left, and nothing of it is "+
			"paid out any more",
			hub)
	}
	return nil
}

// distribute judges a distribution of surplus; done says that it was made before.
func (t *Treasury) distribute(req *bus.FundsRequest, o *tip.Ordered) (question, done bool, err error) {
	no := func(format string, args ...any) (bool, bool, error) {
		return false, false, refuse(bus.CodeBadRequest, format, args...)
	}
	hub, rule := req.Hub, cmp.Or(t.cfg.Surplus, tip.Kept)
	if !t.Book.Knows(hub) {
		return false, false, t.dealt(hub)
	}
	o.Client, o.Order.Rule = req.Client, rule
	if question = req.Amount == 0 && !req.Sure; question {
		return true, false, t.dealt(hub)
	}
	switch {
	case rule != tip.Kept && (req.Amount > 0 || req.Client != ""):
		return no("the surplus of hubs is shared out among %s, by the treasury's configuration, and nobody "+
			"names an amount or a client: souk distribute %s --yes", rule, hub)
	case rule == tip.Kept && req.Amount == 0:
		return no("the surplus of hubs is kept, by the treasury's configuration: name the amount that is " +
			"taken out")
	}
	if req.Client != "" {
		if err := t.known(req.Client); err != nil {
			return false, false, err
		}
		if _, ok := t.Book.Allowance(req.Client); ok {
			return no("client %s has a budget, and gets nothing beside it", req.Client)
		}
	}
	last := t.Book.LastOrder(hub)
	n, ok := numberOf(req, bus.DistributeID)
	switch {
	case !ok || n > last.Number+1:
		return no("id: %.80q: want %s, for the hub's next order", req.ID, bus.DistributeID(hub,
			last.Number+1))
	case n == last.Number && last.Kind == o.Kind && last.Order != nil && last.Order.Rule == rule &&
		rule != tip.Kept:
		*o = last
		return false, true, nil
	case n <= last.Number:
		o.Number = n
		return false, true, t.apply(t.Book.NewOrder(hub, *o, t.salt()))
	}
	return false, false, t.dealt(hub)
}

// remit judges a remittance; done says that it was made before.
func (t *Treasury) remit(req *bus.FundsRequest, o *tip.Ordered) (question, done bool, err error) {
	if req.Order != nil {
		o.Order.Agent = req.Order.Agent
	}
	if err := bus.CheckID("agent", o.Order.Agent); err != nil {
		return false, false, refuse(bus.CodeBadRequest, "%v", err)
	}
	if req.Amount == 0 {
		if req.Hub == "" {
			return true, false, nil
		}
		return true, false, t.dealt(req.Hub)
	}
	if done, err := t.before(req.Hub, o); done || err != nil {
		return false, done, err
	}
	return false, false, t.dealt(req.Hub)
}

// refund judges a refund; done says that it was made before.
func (t *Treasury) refund(req *bus.FundsRequest, o *tip.Ordered) (hub string, done bool, err error) {
	if req.Order != nil {
		o.Order.Receipt, o.Order.From = req.Order.Receipt, req.Order.From
	}
	hub, _, _, ok := ledger.ParseHoldID(o.Order.Receipt)
	switch {
	case !ok:
		return "", false, refuse(bus.CodeBadRequest, "receipt: %.80q is none: want JOURNAL/ROUND/SLOT, as a "+
			"receipt says", o.Order.Receipt)
	case o.Order.From != tip.FromAgent && o.Order.From != tip.FromSurplus:
		return "", false, refuse(bus.CodeBadRequest, "from: %.80q pays no refund: want agent or surplus",
			o.Order.From)
	case req.Amount == 0:
		return "", false, refuse(bus.CodeBadRequest, "amount is 0: a refund is above 0")
	}
	o.Order.Month = "" // that of the payment
	if done, err := t.before(req.Hub, o); done || err != nil {
		return hub, done, err
	}
	return hub, false, t.dealt(hub)
}

// before finds the order that has a reference already, and judges whether it is the same, at a hub or, for
// "", at any.
func (t *Treasury) before(at string, o *tip.Ordered) (done bool, err error) {
	ref := o.Order.Ref
	if !ledger.ValidRef(ref) {
		return false, refuse(bus.CodeBadRequest, "ref: %.80q is no reference: use 1 to 128 visible "+
			"characters, new for each %s and the same when it is repeated", ref, o.Kind)
	}
	old, hub, ok := t.Book.Ordered(o.Kind, ref)
	if !ok {
		return false, nil
	}
	if !sameOrder(&old, o) || at != "" && at != hub {
		return false, refuse(bus.CodeIDConflict, "reference %s is that of another %s: of %s %s", ref, o.Kind,
			old.Amount,
			concerns(&old, hub))
	}
	*o = old
	return true, nil
}

// concerns says in words whom an order was for.
func concerns(o *tip.Ordered, hub string) string {
	switch {
	case o.Order == nil || o.Kind == bus.OpDistribute:
		return fmt.Sprintf("of the surplus of hub %s to %q", hub, o.Client)
	case o.Kind == bus.OpRefund:
		return fmt.Sprintf("of receipt %s from %s", o.Order.Receipt, o.Order.From)
	}
	return fmt.Sprintf("to agent %s at hub %s", o.Order.Agent, hub)
}

// sameOrder reports whether an order that was made is what is asked for.
func sameOrder(old, o *tip.Ordered) bool {
	if old.Kind != o.Kind || old.Amount != o.Amount && o.Order.Rule != tip.ByAgents &&
		o.Order.Rule != tip.ByClients {
		return false
	}
	if o.Kind == bus.OpDistribute {
		return old.Client == o.Client
	}
	return old.Order.Agent == cmp.Or(o.Order.Agent, old.Order.Agent) &&
		old.Order.Receipt == o.Order.Receipt &&
		old.Order.From == o.Order.From && (o.Kind == bus.OpRefund || old.Order.Month == o.Order.Month)
}

// takeIn records a hub's last order, if the treasury lacks that one alone; even one that nobody asks for now.
func (t *Treasury) takeIn(hub string, m *bus.RecallReply) error {
	n := t.Book.LastOrder(hub).Number + 1
	if m == nil || m.Last == nil || m.Next != n+1 || m.Last.Number != n {
		return nil
	}
	r := t.Book.NewOrder(hub, *m.Last, t.salt())
	err := t.apply(r)
	if err == nil {
		for _, l := range r.Legs {
			if client, ok := ledger.PrepaidOf(l.Account); ok {
				t.richer = append(t.richer, client)
			}
		}
	}
	return err
}

// ordered answers an order, or a question for one, by the hubs' answers.
func (t *Treasury) ordered(l *look) {
	delete(t.polls, l.poll.id)
	var err error
	if t.own.closed != "" {
		err = refuse(bus.CodeUnavailable, "%s", bus.Clip(t.own.closed, bus.MaxText))
	}
	for i := range l.poll.hubs {
		if err == nil {
			err = t.takeIn(l.poll.hubs[i].hub, l.poll.hubs[i].reply)
		}
	}
	o := l.poll.order
	switch {
	case err != nil:
	case o.Number == 0:
		t.answer(l.to, &l.req, t.there(l.poll))
		return
	default:
		err = t.judgeOrder(l.poll.hubs[0].hub, o, l.poll.hubs[0].reply)
	}
	if err != nil {
		t.answer(l.to, &l.req, refusal(err))
		return
	}
	reply := bus.FundsReply{Number: o.Number, Order: o}
	if m := l.poll.hubs[0].reply; m != nil && o.Kind == bus.OpDistribute {
		reply.Surplus = m.There
	}
	t.answer(l.to, &l.req, reply)
}

// judgeOrder says what became of an order; it is nil if it was made, as o says then.
func (t *Treasury) judgeOrder(hub string, o *tip.Ordered, m *bus.RecallReply) error {
	last := t.Book.LastOrder(hub)
	if o.Kind != bus.OpDistribute {
		if done, err := t.before(hub, o); done || err != nil {
			return err
		}
	}
	switch {
	case last.Number >= o.Number && o.Kind == bus.OpDistribute && last.Number == o.Number && sameOrder(&last,
		o):
		*o = last
		return nil
	case last.Number > o.Number && o.Kind == bus.OpDistribute: // as somebody else asked for it, too
		return t.apply(t.Book.NewOrder(hub, *o, t.salt()))
	case last.Number >= o.Number && o.Kind == bus.OpDistribute:
		return refuse(bus.CodeIDConflict, "order %d of hub %s is a %s of %s %s, and was made", last.Number,
			hub, last.Kind,
			last.Amount, concerns(&last, hub))
	case last.Number >= o.Number:
		return refuse(bus.CodeUnavailable, "another order to hub %s came first: ask again with the same "+
			"reference", hub)
	case m == nil:
		return refuse(bus.CodeUnavailable, "hub %s does not answer: ask again with the same id", hub)
	case m.Next != o.Number:
		return behind(hub, m.Next, o.Number-1)
	case o.Kind == bus.OpDistribute && o.Amount > m.There:
		return refuse(bus.CodeInsufficientFunds, "hub %s has a surplus of %s: no more than that can leave",
			hub, m.There)
	case o.Kind == bus.OpRemit && o.Amount > m.There:
		return refuse(bus.CodeInsufficientFunds, "hub %s owes agent %s %s: no more than that can be remitted",
			hub, o.Order.Agent, m.There)
	case o.Kind == bus.OpRefund && m.There > 0 && o.Amount > m.There:
		return refuse(bus.CodeInsufficientFunds, "%s is left of what was paid for %s: no more than that can "+
			"be refunded", m.There, o.Order.Receipt)
	case m.Why != "":
		return refuse(bus.CodeBadRequest, "hub %s: %s", hub, m.Why)
	}
	return refuse(bus.CodeUnavailable, "hub %s records nothing now: its journal lacks its end", hub)
}

// behind refuses orders where hub and treasury do not have the same.
func behind(hub string, next, has uint64) error {
	return refuse(bus.CodeBadRequest, "hub %s would make order %d next, and the treasury has taken in %d: "+
		"one of their journals lacks its end; bring the newer copy back", hub, next, has)
}

// there answers a question for what there is.
func (t *Treasury) there(r *poll) (reply bus.FundsReply) {
	if r.order.Kind == bus.OpDistribute {
		m, hub := r.hubs[0].reply, r.hubs[0].hub
		last := t.Book.LastOrder(hub).Number
		if m == nil {
			return refusal(refuse(bus.CodeUnavailable, "hub %s does not answer: ask again with the same id",
				hub))
		} else if m.Next != last+1 {
			return refusal(behind(hub, m.Next, last))
		}
		return bus.FundsReply{Number: last + 1, Surplus: m.There, Back: m.Ripe,
			Message: r.order.Order.Rule}
	}
	for i := range r.hubs {
		h := bus.HubFunds{Hub: r.hubs[i].hub, Domain: t.heard[r.hubs[i].hub].domain}
		if m := r.hubs[i].reply; m != nil {
			h.Owed, h.AtMS = m.There, max(1, r.hubs[i].at.UnixMilli())
		}
		reply.Hubs = append(reply.Hubs, h)
	}
	reply.Hubs = reply.Hubs[:min(len(reply.Hubs), maxTold)]
	return reply
}
