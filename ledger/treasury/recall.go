package treasury

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"souk/bus"
	"souk/bus/tip"
	"souk/market"
)

// Before a client is refused for want of funds, every other hub that was granted some of its money is asked
// to give back what it neither holds nor has reserved. Nothing is ever taken by timeout: a hub that does not
// answer keeps what it has, and who asked is told to come back, as long as that hub lives.
//
// Pending requests of one client are looked at one after another, so that two hubs that want the same money
// do not take it from each other in turn: each poll is for one of them, whose own hub is not asked.

const (
	// recallEvery is the least time between two polls for one client: however hubs compete, each hears at
	// most so many questions, and money goes back and forth no more often.
	recallEvery = 500 * time.Millisecond
	// recallAgain is the pause before a hub that has not returned the money is asked again.
	recallAgain = 500 * time.Millisecond
	// answerWithin bounds how long a request waits for hubs before its sender is told to come back; hubs wait
	// two seconds for an answer.
	answerWithin = time.Second
	// askAgain is the pause before the sender is to come back.
	askAgain = 250 * time.Millisecond
	// pendingFor is how long a pending request keeps its place without coming back.
	pendingFor = 5 * time.Second
	// lively is how long a silent hub is still waited for.
	lively = 3 * bus.FundsEvery

	maxClients = 1024 // with pending requests at a time
	maxPending = 64   // of one client
	maxLooks   = 256  // questions for balances that wait for hubs
	maxNamed   = 4    // hubs in a refusal's message

	usesEvery = 100 * time.Millisecond // between two questions for a client's usage
	usesWait  = 500 * time.Millisecond // for which one waits; more are refused
	maxUses   = 1024                   // clients that are remembered for it
)

// Recall is a question to the hub of a domain.
type Recall struct {
	Domain string
	Ask    bus.Recall
}

// word is a hub's last message about itself.
type word struct {
	at     time.Time
	domain string // empty: it hears no questions
	clock  clock
	spoken spoken
}

// poll is one question to several hubs.
type poll struct {
	id, client string
	look       bool
	uses       *bus.FundsRequest // nil, or what it asks of what tasks came to
	exact      bool              // what hubs returned must have come, too
	order      *tip.Ordered      // that the hub is to make; without a number: that it is asked about
	hubs       []target
	said       time.Time // last
}

type target struct {
	hub     string
	granted uint64 // the number that it must have taken in
	reply   *bus.RecallReply
	at      time.Time // of it
}

// newPoll makes a question to every hub, but the asking one, that was granted more of a client's money than
// it returned, and returns the sum of that, money spent included.
func (t *Treasury) newPoll(req *bus.FundsRequest, look bool) (*poll, market.Credits) {
	t.counted++
	r := &poll{id: strconv.FormatUint(t.counted, 10), client: req.Client, look: look}
	most := market.Credits(0)
	for _, hub := range t.Book.Hubs() {
		switch has := t.Book.Allotted(req.Client, hub); {
		case has <= 0 || hub == req.Hub:
		case t.Book.Closed(hub): // it gives everything back, and the rest was spent
			r.hubs = append(r.hubs, target{hub: hub, granted: t.Book.LastGrant(hub), at: t.now,
				reply: &bus.RecallReply{Accepted: t.Book.LastGrant(hub), Returned: t.Book.LastReturn(hub)}})
		default:
			r.hubs = append(r.hubs, target{hub: hub, granted: t.Book.LastGrant(hub)})
			most += has // part of what was deposited
		}
	}
	return r, most
}

// granted notes that a hub was granted more while a poll is under way for q: the hub is asked for the part
// that it does not need, too.
func (r *poll) granted(q *pending, hub string, number uint64) {
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
	w := t.heard[hub]
	w.at, w.domain = t.now, domain
	t.heard[hub] = w
}

// done reports whether a hub did as asked, and its return has come.
func (t *Treasury) done(r *poll, g *target) bool {
	return g.reply != nil && (r.look || g.reply.Accepted >= g.granted) &&
		(r.look && !r.exact || t.Book.LastReturn(g.hub) >= g.reply.Returned)
}

// awaits reports whether a poll waits for a hub that lives.
func (t *Treasury) awaits(r *poll) bool {
	return slices.ContainsFunc(r.hubs, func(g target) bool { return !t.done(r, &g) && t.alive(g.hub) })
}

// say asks, or asks again, the hubs that have not done as asked.
func (t *Treasury) say(r *poll) {
	if !r.said.IsZero() && t.now.Sub(r.said) < recallAgain {
		return
	}
	r.said = t.now
	for i := range r.hubs {
		g := &r.hubs[i]
		if domain := t.heard[g.hub].domain; domain != "" && !t.done(r, g) {
			ask := bus.Recall{ID: r.id, Hub: g.hub, Client: r.client, Granted: g.granted, Look: r.look}
			if r.uses != nil {
				ask.UsesDay, ask.UsesKey = r.uses.UsesDay, r.uses.UsesKey
			}
			ask.Order = r.order
			t.ready.Recalls = append(t.ready.Recalls, Recall{domain, ask})
		}
	}
}

// Said takes a hub's answer in. hub is the sender by the subject.
func (t *Treasury) Said(m *bus.RecallReply) {
	r := t.polls[m.ID]
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
	for _, client := range slices.Sorted(maps.Keys(t.waitlists)) {
		t.advance(t.waitlists[client])
	}
	t.looks = slices.DeleteFunc(t.looks, func(l *look) bool {
		if t.awaits(l.poll) && t.now.Before(l.until) {
			t.say(l.poll)
			return false
		}
		t.told(l)
		return true
	})
	t.runJobs()
}

// wake returns when there is work next.
func (t *Treasury) wake() (at time.Time) {
	soon := func(other time.Time) { at = bus.Sooner(at, other) }
	for _, c := range t.waitlists {
		switch {
		case c.poll != nil:
			soon(c.poll.said.Add(recallAgain))
		case c.first() != nil || len(c.queue) == 0:
			soon(c.began.Add(recallEvery))
		}
		for _, q := range c.queue {
			if q.waits {
				soon(q.since.Add(answerWithin))
			} else {
				soon(q.asked.Add(pendingFor))
			}
		}
	}
	for _, l := range t.looks {
		soon(l.until)
		soon(l.poll.said.Add(recallAgain))
	}
	t.jobsWake(soon)
	if !at.IsZero() && !at.After(t.now) {
		at = t.now.Add(time.Millisecond)
	}
	return at
}

// names lists the hubs of a poll with the money that they keep, or may have where they need not be asked, and
// those that do not answer.
func (t *Treasury) names(r *poll) string {
	var s []string
	unasked := market.Credits(0)
	for i := range r.hubs {
		switch g := &r.hubs[i]; {
		case !t.done(r, g) && t.alive(g.hub):
			unasked += t.Book.Allotted(r.client, g.hub) // and it would not suffice
		case !t.done(r, g):
			s = append(s, fmt.Sprintf("hub %s, which has at most %s, does not answer", g.hub,
				t.Book.Allotted(r.client, g.hub)))
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

// Stop answers whoever still waits for hubs: it is to ask again.
func (t *Treasury) Stop() {
	for _, client := range slices.Sorted(maps.Keys(t.waitlists)) {
		for _, q := range t.waitlists[client].queue {
			if q.waits {
				t.reply(q.op, &q.req, q.to,
					refuse(bus.CodeUnavailable, "the treasury is stopping: ask again with the same id"))
			}
		}
	}
	for _, l := range t.looks {
		t.told(l)
	}
	t.Depose()
}

// Depose forgets polls and the requests that wait for them, as another may lead; their senders ask again.
// When it leads anew it has heard nobody yet, and budgets are looked at again.
func (t *Treasury) Depose() {
	clear(t.early)
	clear(t.waitlists)
	clear(t.polls)
	clear(t.budgets.jobs)
	t.looks, t.budgets.at, t.since = nil, time.Time{}, time.Time{}
}
