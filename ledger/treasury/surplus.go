package treasury

import (
	"maps"
	"slices"
	"strconv"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// distribute lets surplus of a hub leave, to a client or to the outside. The hub records it first, then the
// treasury, both under one number: asked again it is made once, and where a step was missed, that one is made
// up for. Without an amount the answer says which number comes next, and what surplus there is.
func (t *Treasury) distribute(req *bus.FundsRequest, to any) error {
	if !t.book.Knows(req.Hub) {
		return refuse(bus.CodeBadRequest, "hub: the treasury never dealt with a hub %.80q: it has another "+
			"name, which is that of its journal, or nobody has had money there yet", req.Hub)
	}
	if req.Amount < 0 || req.Amount > market.MaxCredits {
		return refuse(bus.CodeBadRequest, "amount is %s: want at most %s credits", req.Amount,
			market.MaxCredits)
	}
	last, _, _ := t.book.LastDistribute(req.Hub)
	if req.Amount > 0 {
		if req.Client != "" {
			if err := t.known(req.Client); err != nil {
				return err
			}
			if _, ok := t.book.Allowance(req.Client); ok {
				return refuse(bus.CodeBadRequest, "client %s has a budget, and gets nothing beside it", req.Client)
			}
		}
		switch n, ok := numberOf(req, bus.DistributeID); {
		case !ok || n > last+1:
			return refuse(bus.CodeBadRequest, "id: %.80q: want %s, for the hub's next distribution", req.ID,
				bus.DistributeID(req.Hub, last+1))
		case n <= last:
			return t.apply(ledger.NewDistribute(req.Hub, n, req.Client, req.Amount, "", true, t.salt()))
		}
	}
	if t.book.Closed(req.Hub) {
		why := "its surplus has left"
		if t.book.WrittenOff(req.Hub) {
			why = "its journal was written off, and its surplus is lost"
		}
		return refuse(bus.CodeBadRequest, "hub %s has ended: %s", req.Hub, why)
	}
	if len(t.looks) >= maxLooks {
		return refuse(bus.CodeUnavailable, "%d questions to hubs wait for their answers: ask again with the "+
			"same id", len(t.looks))
	}
	t.counted++
	r := &poll{id: strconv.FormatUint(t.counted, 10), client: req.Hub, look: true,
		hubs:  []target{{hub: req.Hub}},
		share: &bus.Recall{Number: last + 1, Amount: req.Amount, Payee: req.Client}}
	return t.ask(&look{req: *req, to: to, poll: r, until: t.now.Add(answerWithin)})
}

// distributed answers a distribution by its hub's answer. It takes in the hub's record, even if that is
// another distribution, of which the treasury had not heard.
func (t *Treasury) distributed(l *look) {
	var err error
	hub, made := l.req.Hub, l.poll.share.Number
	last, _, _ := t.book.LastDistribute(hub)
	n, reply := last+1, bus.FundsReply{Number: last + 1}
	switch m := l.poll.hubs[0].reply; {
	case t.own.closed != "":
		err = refuse(bus.CodeUnavailable, "%s", bus.Clip(t.own.closed, bus.MaxText))
	case l.req.Amount > 0 && made <= last: // as somebody else asked for it, too
		reply.Number = made
		err = t.apply(ledger.NewDistribute(hub, made, l.req.Client, l.req.Amount, "", true, t.salt()))
	case m == nil:
		err = refuse(bus.CodeUnavailable, "hub %s does not answer: ask again with the same id", hub)
	case m.Next == n+1:
		reply.Surplus = m.Surplus
		err = t.apply(ledger.NewDistribute(hub, n, m.Payee, m.Amount, "", true, t.salt()))
		if err == nil && l.req.Amount == 0 {
			reply.Number = m.Next
		} else if err == nil && (m.Payee != l.req.Client || m.Amount != l.req.Amount) {
			err = refuse(bus.CodeIDConflict, "distribution %d of hub %s is of %s to %q, and was made", n, hub,
				m.Amount, m.Payee)
		}
	case m.Next != n:
		err = refuse(bus.CodeBadRequest,
			"hub %s would make distribution %d next, and the treasury has taken in %d: one of their "+
				"journals lacks its end; bring the newer copy back", hub, m.Next, n-1)
	case l.req.Amount == 0:
		reply.Surplus = m.Surplus
	case l.req.Amount > m.Surplus:
		err = refuse(bus.CodeInsufficientFunds, "hub %s has a surplus of %s: no more than that can leave",
			hub, m.Surplus)
	default:
		err = refuse(bus.CodeUnavailable, "hub %s records nothing now: its journal lacks its end", hub)
	}
	if err != nil {
		reply = refusal(err)
	}
	delete(t.polls, l.poll.id)
	t.answer(l.to, &l.req, reply)
}

// close ends a hub whose journal holds nothing of anyone's, as far as the two of them know the same: nothing
// is granted to it from then on, so it can close its journal.
func (t *Treasury) close(req *bus.FundsRequest) error {
	distributed, _, _ := t.book.LastDistribute(req.Hub)
	for _, x := range []struct {
		what      string
		hub, here uint64
	}{{"grant", req.After, t.book.LastGrant(req.Hub)}, {"return", req.Returned, t.book.LastReturn(req.Hub)},
		{"distribution", req.Distributed, distributed}} {
		if x.hub != x.here {
			return refuse(bus.CodeBadRequest, "the last %s of hub %s is number %d in its journal and %d in "+
				"the treasury's", x.what, req.Hub, x.hub, x.here)
		}
	}
	t.dropPending(req.Hub)
	if !t.book.Knows(req.Hub) { // it never had anything
		return nil
	}
	return t.apply(ledger.NewClose(req.Hub, t.salt()))
}

// dropPending forgets the pending requests of a hub that ends: money that came for them would belong to
// nobody.
func (t *Treasury) dropPending(hub string) {
	delete(t.early, hub)
	for _, client := range slices.Sorted(maps.Keys(t.waitlists)) {
		c := t.waitlists[client]
		for _, q := range slices.Clone(c.queue) {
			if q.op != bus.OpAllot || q.req.Hub != hub {
				continue
			}
			if t.remove(c, q); q.waits {
				t.reply(q.op, &q.req, q.to, refuse(bus.CodeBadRequest, "hub %s has ended", hub))
			}
		}
	}
}
