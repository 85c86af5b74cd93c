package treasury

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"souk/bus"
	"souk/market"
)

// Before a client is refused for want of funds, every other hub that was granted some of its money is asked
// to give back what it neither holds nor has reserved. Nothing is ever taken by timeout: a hub that does not
// answer keeps what it has, and who asked is told to come back, as long as that hub lives.
//
// Claims of one client are looked at one after another, so that two hubs that want the same money do not take
// it from each other in turn: each round of questions is for one claim, whose own hub is not asked.

const (
	// recallEvery is the least time between two rounds for one client: however hubs compete, each hears at
	// most so many questions, and money goes back and forth no more often.
	recallEvery = 500 * time.Millisecond
	// recallAgain is how soon a hub that has not done as asked is asked again.
	recallAgain = 500 * time.Millisecond
	// answerWithin is how long a request waits for hubs before whoever sent it is told to come back; hubs
	// wait two seconds for an answer.
	answerWithin = time.Second
	// askAgain is how soon it is to come back.
	askAgain = 250 * time.Millisecond
	// claimFor is how long a claim keeps its place without coming back.
	claimFor = 5 * time.Second
	// lively is how long a hub that says nothing is still waited for.
	lively = 3 * bus.FundsEvery

	maxClients = 1024 // with claims at a time
	maxClaims  = 64   // of one client
	maxLooks   = 256  // questions for balances that wait for hubs
	maxNamed   = 4    // hubs in a refusal's message
)

// Recall is a question to the hub of a domain.
type Recall struct {
	Domain string
	Ask    bus.Recall
}

// word is what a hub said of itself last.
type word struct {
	at     time.Time
	domain string // empty: it hears no questions
	clock  clock
}

// claims are those of one client, first come first.
type claims struct {
	client string
	queue  []*claim
	round  *round    // for the first that is not judged
	began  time.Time // of the last round
}

// claim is a request that there is not enough money for.
type claim struct {
	op      string
	req     bus.FundsRequest
	to      any
	waits   bool      // for an answer; else it was told to come back
	since   time.Time // waits
	asked   time.Time // when it last came
	verdict error     // when it comes back
}

// round is one question to several hubs.
type round struct {
	id, client string
	look       bool
	exact      bool        // what hubs returned must have come, too
	share      *bus.Recall // for a distribution: what it says beside who is asked
	hubs       []target
	said       time.Time // last
}

type target struct {
	hub     string
	granted uint64 // the number that it must have taken in
	reply   *bus.RecallReply
	at      time.Time // of it
}

// look is a question for a balance.
type look struct {
	req   bus.FundsRequest
	to    any
	round *round
	until time.Time
}

// claim lets a request wait for money that hubs may give back.
func (t *Treasury) claim(op string, req *bus.FundsRequest, to any) error {
	c := t.claims[req.Client]
	if c == nil {
		if len(t.claims) >= maxClients {
			return refuse(bus.CodeAllotmentPending,
				"money of %d clients is being looked for at hubs: ask again", len(t.claims))
		}
		c = &claims{client: req.Client}
		t.claims[req.Client] = c
	}
	q := c.find(op, req)
	switch {
	case q == nil && len(c.queue) >= maxClaims:
		return refuse(bus.CodeAllotmentPending, "%d requests for money of client %s wait: ask again",
			len(c.queue), req.Client)
	case q == nil:
		q = &claim{op: op, req: *req}
		c.queue = append(c.queue, q)
	case q.req.Hub != req.Hub || q.req.To != req.To:
		return refuse(bus.CodeIDConflict, "id %s was that of hub %q, or a move to client %q", req.ID, q.req.Hub,
			q.req.To)
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
	q.req, q.to, q.waits, q.asked = *req, to, true, t.now
	t.advance(c)
	return errLater
}

func (c *claims) find(op string, req *bus.FundsRequest) *claim {
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

// remove takes a claim out of the queue; the round that was for it is over.
func (t *Treasury) remove(c *claims, q *claim) {
	if q == c.first() {
		t.endRound(c)
	}
	c.queue = slices.DeleteFunc(c.queue, func(other *claim) bool { return other == q })
}

func (c *claims) first() *claim {
	for _, q := range c.queue {
		if q.verdict == nil {
			return q
		}
	}
	return nil
}

func (t *Treasury) endRound(c *claims) {
	if c.round != nil {
		delete(t.rounds, c.round.id)
		c.round = nil
	}
}

// came says that there is more of a client's money.
func (t *Treasury) came(client string) {
	if c := t.claims[client]; c != nil {
		t.advance(c)
	}
	t.share(client)
}

// advance does for a client's claims what can be done now.
func (t *Treasury) advance(c *claims) {
	for q := c.first(); q != nil; q = c.first() {
		if !q.waits && t.now.Sub(q.asked) >= claimFor {
			t.remove(c, q)
			continue
		}
		if done, err := t.fulfil(q, len(c.queue) > 1); done || err != nil {
			t.settle(c, q, err)
			continue
		}
		if c.round == nil && !c.began.IsZero() && t.now.Sub(c.began) < recallEvery {
			break
		}
		if c.round == nil {
			r, most := t.newRound(&q.req, false)
			if prepaid, _ := t.book.Prepaid(c.client); prepaid+most < need(&q.req) || !t.awaits(r) {
				if q.waits {
					t.settle(c, q, t.insufficient(&q.req, t.names(r)))
				} else {
					t.remove(c, q) // when it comes back this is looked at again: there may be more by then
				}
				continue
			}
			c.round, c.began = r, t.now
			t.rounds[r.id] = r
		}
		if !t.awaits(c.round) {
			t.settle(c, q, t.insufficient(&q.req, t.names(c.round)))
			continue
		}
		t.say(c.round)
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
	c.queue = slices.DeleteFunc(c.queue, func(q *claim) bool {
		return q.verdict != nil &&
			t.now.Sub(q.asked) >= claimFor
	})
	if len(c.queue) == 0 && t.now.Sub(c.began) >= recallEvery {
		t.endRound(c)
		delete(t.claims, c.client)
	}
}

// settle ends a claim by its answer; one that was told to come back hears it then.
func (t *Treasury) settle(c *claims, q *claim, err error) {
	if q.waits || err == nil {
		t.remove(c, q)
	} else {
		t.endRound(c)
		q.verdict = err
	}
	if q.waits {
		t.reply(q.op, &q.req, q.to, err)
	}
}

// fulfil does what a claim asks for, if there is the money now.
func (t *Treasury) fulfil(q *claim, others bool) (bool, error) {
	if prepaid, _ := t.book.Prepaid(q.req.Client); !t.room || need(&q.req) > prepaid {
		return false, nil
	}
	if q.op == bus.OpAllot {
		return t.grant(&q.req, others)
	}
	return true, t.pay(q.op, &q.req)
}

// newRound makes a question to every hub, but the asking one, that was granted more of a client's money than
// it returned, and says how much that is together. What was spent is part of it.
func (t *Treasury) newRound(req *bus.FundsRequest, look bool) (*round, market.Credits) {
	t.counted++
	r := &round{id: strconv.FormatUint(t.counted, 10), client: req.Client, look: look}
	most := market.Credits(0)
	for _, hub := range t.book.Hubs() {
		switch has := t.book.Allotted(req.Client, hub); {
		case has <= 0 || hub == req.Hub:
		case t.book.Closed(hub): // it gives everything back, and the rest was spent
			r.hubs = append(r.hubs, target{hub: hub, granted: t.book.LastGrant(hub), at: t.now,
				reply: &bus.RecallReply{Accepted: t.book.LastGrant(hub), Returned: t.book.LastReturn(hub)}})
		default:
			r.hubs = append(r.hubs, target{hub: hub, granted: t.book.LastGrant(hub)})
			most += has // part of what was deposited
		}
	}
	return r, most
}

// granted notes that a hub was granted more while a round is under way for q: what it does not need of that
// is asked for, too.
func (r *round) granted(q *claim, hub string, number uint64) {
	i := slices.IndexFunc(r.hubs, func(g target) bool { return g.hub == hub })
	switch {
	case q != nil && q.req.Hub == hub:
	case i < 0:
		r.hubs = append(r.hubs, target{hub: hub, granted: number})
	default:
		r.hubs[i].granted = number
	}
}

// alive reports whether an answer of a hub may still come.
func (t *Treasury) alive(hub string) bool {
	w, ok := t.heard[hub]
	if ok && w.domain == "" {
		return false
	}
	last := t.since // we may not have heard it yet, or were deaf
	if w.at.After(last) {
		last = w.at
	}
	return t.now.Sub(last) < lively
}

// hear notes that a hub spoke. If no hub that speaks regularly was heard for so long that each should have
// been, the treasury itself was deaf, and the silence of every other hub begins now.
func (t *Treasury) hear(hub, domain string) {
	if domain != "" {
		if t.now.Sub(t.last) > 2*bus.FundsEvery {
			t.since = t.now
		}
		t.last = t.now
	}
	t.heard[hub] = word{t.now, domain, t.heard[hub].clock}
}

// done reports whether a hub did as asked, and what it gave back has come.
func (t *Treasury) done(r *round, g *target) bool {
	return g.reply != nil && (r.look || g.reply.Accepted >= g.granted) &&
		(r.look && !r.exact || t.book.LastReturn(g.hub) >= g.reply.Returned)
}

// awaits reports whether a round waits for a hub that lives.
func (t *Treasury) awaits(r *round) bool {
	return slices.ContainsFunc(r.hubs, func(g target) bool { return !t.done(r, &g) && t.alive(g.hub) })
}

// say asks, or asks again, the hubs that have not done as asked.
func (t *Treasury) say(r *round) {
	if !r.said.IsZero() && t.now.Sub(r.said) < recallAgain {
		return
	}
	r.said = t.now
	for i := range r.hubs {
		g := &r.hubs[i]
		if domain := t.heard[g.hub].domain; domain != "" && !t.done(r, g) {
			ask := bus.Recall{ID: r.id, Hub: g.hub, Client: r.client, Granted: g.granted, Look: r.look}
			if r.share != nil {
				ask.Number, ask.Amount, ask.Payee = r.share.Number, r.share.Amount, r.share.Payee
			}
			t.ready.Recalls = append(t.ready.Recalls, Recall{domain, ask})
		}
	}
}

// Said takes a hub's answer in. Hub is who answers, as the subject has it.
func (t *Treasury) Said(m *bus.RecallReply) {
	r := t.rounds[m.ID]
	if r == nil || r.client != m.Client {
		return
	}
	for i := range r.hubs {
		if g := &r.hubs[i]; g.hub == m.Hub &&
			(g.reply == nil || m.Returned >= g.reply.Returned && m.Accepted >= g.reply.Accepted) {
			g.reply, g.at = m, t.now
		}
	}
	if r.look {
		t.lookOn()
	} else {
		t.came(m.Client)
	}
}

// lookOn goes on with everything that waits for hubs.
func (t *Treasury) lookOn() {
	for _, client := range slices.Sorted(maps.Keys(t.claims)) {
		t.advance(t.claims[client])
	}
	t.looks = slices.DeleteFunc(t.looks, func(l *look) bool {
		if t.awaits(l.round) && t.now.Before(l.until) {
			t.say(l.round)
			return false
		}
		t.told(l)
		return true
	})
	t.tend()
}

// wake is when there is next something to do.
func (t *Treasury) wake() (at time.Time) {
	soon := func(other time.Time) {
		if at.IsZero() || other.Before(at) {
			at = other
		}
	}
	if !t.early.next.IsZero() {
		soon(t.early.next)
	}
	for _, c := range t.claims {
		switch {
		case c.round != nil:
			soon(c.round.said.Add(recallAgain))
		case c.first() != nil || len(c.queue) == 0:
			soon(c.began.Add(recallEvery))
		}
		for _, q := range c.queue {
			if q.waits {
				soon(q.since.Add(answerWithin))
			} else {
				soon(q.asked.Add(claimFor))
			}
		}
	}
	for _, l := range t.looks {
		soon(l.until)
		soon(l.round.said.Add(recallAgain))
	}
	t.tendWake(soon)
	if !at.IsZero() && !at.After(t.now) {
		at = t.now.Add(time.Millisecond)
	}
	return at
}

// insufficient says how much of a client's money is left, what is needed, and what hubs have.
func (t *Treasury) insufficient(req *bus.FundsRequest, hubs string) error {
	prepaid, _ := t.book.Prepaid(req.Client)
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

// names says what the hubs of a round keep, what they may have if they need not be asked, and which of them
// do not answer.
func (t *Treasury) names(r *round) string {
	var s []string
	unasked := market.Credits(0)
	for i := range r.hubs {
		switch g := &r.hubs[i]; {
		case !t.done(r, g) && t.alive(g.hub):
			unasked += t.book.Allotted(r.client, g.hub) // and it would not suffice
		case !t.done(r, g):
			s = append(s, fmt.Sprintf("hub %s, which has at most %s, does not answer", g.hub,
				t.book.Allotted(r.client, g.hub)))
		case g.reply.Held+g.reply.Reserved > 0:
			s = append(s, fmt.Sprintf("hub %s needs %s for tasks that run and %s for tasks that wait", g.hub,
				g.reply.Held, g.reply.Reserved))
		}
	}
	if more := len(s) - maxNamed; more > 0 {
		s = append(s[:maxNamed], fmt.Sprintf("and %d more hubs", more))
	}
	if unasked > 0 {
		s = append(s, fmt.Sprintf("hubs have at most %s of it, what was spent there included", unasked))
	}
	if len(s) == 0 {
		return ""
	}
	return "; " + strings.Join(s, "; ")
}

// look asks a client's hubs what they have of its money.
func (t *Treasury) look(req *bus.FundsRequest, to any) error {
	r, _ := t.newRound(&bus.FundsRequest{Client: req.Client}, true)
	l := &look{req: *req, to: to, round: r, until: t.now.Add(answerWithin)}
	if !t.awaits(r) || len(t.looks) >= maxLooks {
		t.told(l)
		return errLater
	}
	t.rounds[r.id] = r
	t.looks = append(t.looks, l)
	t.say(r)
	return errLater
}

// told answers a question for a balance, or for a distribution, by what the hubs said.
func (t *Treasury) told(l *look) {
	if l.round.share != nil {
		t.distributed(l)
		return
	}
	delete(t.rounds, l.round.id)
	reply := bus.FundsReply{}
	for i := range l.round.hubs {
		g := &l.round.hubs[i]
		h := bus.HubFunds{Hub: g.hub, Domain: t.heard[g.hub].domain,
			Allotted: t.book.Allotted(l.req.Client, g.hub)}
		if w, ok := t.heard[g.hub]; ok {
			h.HeardMS = max(0, w.at.UnixMilli())
		}
		if m := g.reply; m != nil {
			h.Avail, h.Held, h.Reserved, h.AtMS = m.Avail, m.Held, m.Reserved, max(0, g.at.UnixMilli())
		}
		reply.Hubs = append(reply.Hubs, h)
	}
	slices.SortFunc(reply.Hubs, func(a, b bus.HubFunds) int { return cmp.Compare(a.Hub, b.Hub) })
	reply.Hubs = reply.Hubs[:min(len(reply.Hubs), maxTold)]
	t.answer(l.to, &l.req, reply)
}

// maxTold bounds the hubs of one answer.
const maxTold = 1024

// Stop answers whoever still waits for hubs: it is to ask again.
func (t *Treasury) Stop() {
	for _, client := range slices.Sorted(maps.Keys(t.claims)) {
		for _, q := range t.claims[client].queue {
			if q.waits {
				t.reply(q.op, &q.req, q.to,
					refuse(bus.CodeUnavailable, "the treasury is stopping: ask again with the same id"))
			}
		}
	}
	for _, l := range t.looks {
		t.told(l)
	}
	clear(t.claims)
	clear(t.rounds)
	t.looks = nil
}
