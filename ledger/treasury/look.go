package treasury

import (
	"time"

	"souk/bus"
	"souk/bus/tip"
	"souk/ledger"
)

// look is a question for a balance.
type look struct {
	req   bus.FundsRequest
	to    any
	poll  *poll
	until time.Time
}

// look asks a client's hubs for the state of its money.
func (t *Treasury) look(req *bus.FundsRequest, to any) error {
	r, _ := t.newPoll(&bus.FundsRequest{Client: req.Client}, true)
	l := &look{req: *req, to: to, poll: r, until: t.now.Add(answerWithin)}
	if req.UsesDay > 0 {
		r.uses = &l.req
		return t.askUses(l)
	}
	return t.ask(l)
}

// askUses asks what a client's tasks came to, of which hubs tell thousands of sums: each client's questions
// one after another, so many a second.
func (t *Treasury) askUses(l *look) error {
	at, client := t.now, l.req.Client
	if last := t.usesAt.Peek(client); last != nil && last.Add(usesEvery).After(at) {
		at = last.Add(usesEvery)
	}
	if at.Sub(t.now) > usesWait {
		return refuse(bus.CodeTooManyTasks, "%s asks for its usage too often: at most once in %v", client, usesEvery)
	}
	t.usesAt.Put(client, client, at, 1)
	l.until, l.poll.said = at.Add(answerWithin), at.Add(-recallAgain) // which is when it is asked again
	return t.ask(l)
}

// ask asks the hubs of a question, which is answered then, or as far as it can be now.
func (t *Treasury) ask(l *look) error {
	if !t.awaits(l.poll) || len(t.looks) >= maxLooks {
		t.told(l)
		return errLater
	}
	t.polls[l.poll.id] = l.poll
	t.looks = append(t.looks, l)
	t.say(l.poll)
	return errLater
}

// told answers a request for a balance, or an order, by the hubs' answers.
func (t *Treasury) told(l *look) {
	if l.poll.order != nil {
		t.ordered(l)
		return
	}
	delete(t.polls, l.poll.id)
	reply, room := bus.FundsReply{}, mostUses
	for i := range l.poll.hubs {
		g := &l.poll.hubs[i]
		w := t.heard[g.hub]
		h := bus.HubFunds{Hub: g.hub, Domain: w.domain, HeardMS: max(0, w.at.UnixMilli()),
			Allotted: t.Book.Allotted(l.req.Client, g.hub)}
		if m := g.reply; m != nil {
			h.Avail, h.Held, h.Reserved, h.AtMS = m.Avail, m.Held, m.Reserved, max(0, g.at.UnixMilli())
			h.Uses, h.Since = m.Uses, m.Since
			for i := range h.Uses {
				room -= h.Uses[i].Size()
			}
			if l.req.UsesDay > 0 && (room < 0 || t.Book.Closed(g.hub)) { // a hub that has ended tells nobody
				h.Uses, h.Since = nil, t.now.Unix()/86400+1
			}
		}
		reply.Hubs = append(reply.Hubs, h)
	}
	reply.Hubs = reply.Hubs[:min(len(reply.Hubs), maxTold)]
	t.answer(l.to, &l.req, reply)
}

// sums tells what all clients have, and which hubs there are. Nobody is asked for it.
func (t *Treasury) sums() (r bus.FundsReply) {
	all := t.Book.Totals()
	r.Prepaid, r.Deposits = all.Prepaid, all.Deposits
	for _, hub := range t.Book.Hubs() {
		if t.Book.Closed(hub) || hub == t.cfg.Journal {
			continue
		}
		w := t.heard[hub]
		h := bus.HubFunds{Hub: hub, Domain: w.domain, HeardMS: max(0, w.at.UnixMilli()),
			Allotted: t.Book.Balance(ledger.Clearing(hub))}
		r.Allotted += h.Allotted
		if len(r.Hubs) < maxTold {
			r.Hubs = append(r.Hubs, h)
		}
	}
	return r
}

const (
	maxTold  = 1024             // hubs of one answer
	mostUses = 6 * tip.MostUses // bytes of what tasks came to at them, about
)
