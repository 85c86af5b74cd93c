package treasury

import (
	"slices"
	"time"

	"souk/bus"
)

// waitlist holds the pending requests of one client, first come first.
type waitlist struct {
	client string
	queue  []*pending
	poll   *poll     // for the first that is not judged
	began  time.Time // of the last poll
}

// pending is a request that there is not enough money for.
type pending struct {
	op      string
	req     bus.FundsRequest
	to      any
	waits   bool      // for an answer; else it was told to come back
	since   time.Time // waits
	asked   time.Time // when it last came
	verdict error     // when it comes back
	gave    bool      // its hub gave some back since
}

// set takes a request as it came. Its least amount allows for the client's money that its hub had then: once
// that has been given back it needs the whole. If it were granted only the least, the hub would ask anew for
// what another request has taken by then, and so on between them.
func (q *pending) set(req *bus.FundsRequest) {
	q.req = *req
	if q.gave {
		q.req.Least = max(req.Least, req.Needs)
		q.req.Amount = max(req.Amount, q.req.Least)
	}
}

// gave notes that a hub has given some of a client's money back, by its return of that number.
func (c *waitlist) gave(hub string, number uint64) {
	if c == nil {
		return
	}
	for _, q := range c.queue {
		if q.op == bus.OpAllot && q.req.Hub == hub && number > q.req.Returned {
			q.gave = true
			q.set(&q.req)
		}
	}
}

// enqueue lets a request wait for money that hubs may give back.
func (t *Treasury) enqueue(op string, req *bus.FundsRequest, to any) error {
	c := t.waitlists[req.Client]
	if c == nil {
		if len(t.waitlists) >= maxClients {
			return refuse(bus.CodeAllotmentPending,
				"money of %d clients is being looked for at hubs: ask again", len(t.waitlists))
		}
		c = &waitlist{client: req.Client}
		t.waitlists[req.Client] = c
	}
	q := c.find(op, req)
	switch {
	case q == nil && len(c.queue) >= maxPending:
		return refuse(bus.CodeAllotmentPending, "%d requests for money of client %s wait: ask again",
			len(c.queue), req.Client)
	case q == nil:
		q = &pending{op: op, req: *req}
		c.queue = append(c.queue, q)
	case q.req.Hub != req.Hub || q.req.To != req.To:
		return refuse(bus.CodeIDConflict, "id %s was that of hub %q, or a move to client %q", req.ID, q.req.Hub,
			q.req.To)
	// what a hub or a budget lacks changes while it waits; what an operator wants is another operation
	case (op == bus.OpPayout || op == bus.OpMove) && q.req.Amount != req.Amount:
		return refuse(bus.CodeIDConflict, "id %s is that of a %s of %s, which waits for hubs", req.ID, op,
			q.req.Amount)
	case q.verdict != nil:
		done, err := t.fulfil(q, len(c.queue) > 1)
		if !done && err == nil {
			err = q.verdict
		}
		t.remove(c, q)
		return err
	}
	if !q.waits {
		q.since = t.now
	}
	q.set(req)
	q.to, q.waits, q.asked = to, true, t.now
	t.advance(c)
	return errLater
}

func (c *waitlist) find(op string, req *bus.FundsRequest) *pending {
	if c == nil {
		return nil
	}
	for _, q := range c.queue {
		if q.op == op && q.req.ID == req.ID {
			return q
		}
	}
	return nil
}

// remove takes a request off the waitlist; the poll that was for it is over.
func (t *Treasury) remove(c *waitlist, q *pending) {
	if q == c.first() {
		t.endPoll(c)
	}
	c.queue = slices.DeleteFunc(c.queue, func(other *pending) bool { return other == q })
}

func (c *waitlist) first() *pending {
	for _, q := range c.queue {
		if q.verdict == nil {
			return q
		}
	}
	return nil
}

func (t *Treasury) endPoll(c *waitlist) {
	if c.poll != nil {
		delete(t.polls, c.poll.id)
		c.poll = nil
	}
}

// came notes that there is more of a client's money.
func (t *Treasury) came(client string) {
	if c := t.waitlists[client]; c != nil {
		t.advance(c)
	}
	t.share(client)
}

// advance fulfils a client's pending requests as far as it can now.
func (t *Treasury) advance(c *waitlist) {
	for q := c.first(); q != nil; q = c.first() {
		if !q.waits && t.now.Sub(q.asked) >= pendingFor {
			t.remove(c, q)
			continue
		}
		if done, err := t.fulfil(q, len(c.queue) > 1); done || err != nil {
			t.settle(c, q, err)
			continue
		}
		if c.poll == nil && !c.began.IsZero() && t.now.Sub(c.began) < recallEvery {
			break
		}
		if c.poll == nil {
			r, most := t.newPoll(&q.req, false)
			if prepaid, _ := t.Book.Prepaid(c.client); prepaid+most < need(&q.req) || !t.awaits(r) {
				if q.waits {
					t.settle(c, q, t.insufficient(&q.req, t.names(r)))
				} else {
					t.remove(c, q) // when it comes back this is looked at again: there may be more by then
				}
				continue
			}
			c.poll, c.began = r, t.now
			t.polls[r.id] = r
		}
		if !t.awaits(c.poll) {
			t.settle(c, q, t.insufficient(&q.req, t.names(c.poll)))
			continue
		}
		t.say(c.poll)
		break
	}
	for _, q := range c.queue {
		if q.waits && t.now.Sub(q.since) >= answerWithin {
			t.reply(q.op, &q.req, q.to,
				refuse(bus.CodeAllotmentPending,
					"hubs are asked to give back what they have of client %s's money: ask again with the "+
						"same id", c.client))
			q.waits = false
		}
	}
	c.queue = slices.DeleteFunc(c.queue, func(q *pending) bool {
		return q.verdict != nil &&
			t.now.Sub(q.asked) >= pendingFor
	})
	if len(c.queue) == 0 && t.now.Sub(c.began) >= recallEvery {
		t.endPoll(c)
		delete(t.waitlists, c.client)
	}
}

// settle ends a pending request by its answer; one that was told to come back hears it then.
func (t *Treasury) settle(c *waitlist, q *pending, err error) {
	if q.waits || err == nil {
		t.remove(c, q)
	} else {
		t.endPoll(c)
		q.verdict = err
	}
	if q.waits {
		t.reply(q.op, &q.req, q.to, err)
	}
}

// fulfil carries out a pending request, if there is the money now.
func (t *Treasury) fulfil(q *pending, others bool) (bool, error) {
	if prepaid, _ := t.Book.Prepaid(q.req.Client); !t.room || t.own.closed != "" || need(&q.req) > prepaid {
		return false, nil
	}
	if q.op == bus.OpAllot {
		return t.grant(&q.req, others)
	}
	return true, t.pay(q.op, &q.req)
}

// insufficient says how much of a client's money is left, what is needed, and what hubs have.
func (t *Treasury) insufficient(req *bus.FundsRequest, hubs string) error {
	prepaid, _ := t.Book.Prepaid(req.Client)
	who := "hub " + req.Hub + " needs"
	switch {
	case req.To != "":
		who = "the move takes"
	case req.Hub == "":
		who = "the payout takes"
	}
	return refuse(bus.CodeInsufficientFunds, "client %s has %s credits left with the treasury%s; %s %s%s",
		req.Client, prepaid, t.ofBudget(req.Client), who, need(req), hubs)
}
