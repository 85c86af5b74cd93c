package account

import (
	"cmp"
	"fmt"
	"time"

	"souk/bus"
	"souk/hub/estimate"
	"souk/hub/turn"
	"souk/market"
)

// Sizes of allotments, counted in a client's largest holds. chunkHolds are asked for at once. Below
// lowWaterHolds the hub asks for more before a task needs it.
const (
	chunkHolds    = 8
	lowWaterHolds = 4
)

// aheadAgain is how long the hub does not ask ahead for a client after the treasury had none of its money to
// spare, or has called some of it back.
const aheadAgain = 5 * time.Second

// Fund reserves what a task needs, or has it await funds while more is asked for.
func (r *Room) Fund(name, id string, need estimate.Need) {
	p := r.clients[name]
	t := p.open[id]
	p.largest = max(need.Wanted, p.largest-p.largest/8)
	t.need = need
	if len(p.awaiting) == 0 && need.Wanted <= r.available(p.name) {
		r.reserve(p, t, false)
		if p.request == nil && r.available(p.name) < times(p.largest, lowWaterHolds) &&
			!r.turn.Now().Before(p.notAhead) && p.largest > 0 { // asks before a task needs it
			r.allot(p, times(p.largest, chunkHolds), p.largest, 0)
		}
		return
	}
	t.awaits = true
	p.awaiting = append(p.awaiting, t)
	t.timer.Due = func() { r.overdue(p, t) }
	r.turn.Set(&t.timer, turn.Earlier(need.Until, r.turn.Now().Add(r.times.FundsWait)))
	r.requestFor(p)
}

// reserve sets aside what a task needs.
func (r *Room) reserve(p *client, t *task, waited bool) {
	t.reserved, t.sought = t.need.Wanted, false
	p.reserved += t.reserved
	r.tasks.Funded(p.name, t.id, t.reserved, waited)
}

// overdue refuses a task that has waited for its money for long, unless what is here will do, or other hubs
// are giving some back.
func (r *Room) overdue(p *client, t *task) {
	switch now := r.turn.Now(); {
	case !now.Before(t.need.Until):
		r.tasks.Refused(p.name, t.id, bus.CodePastDeadline, 0,
			"the deadline passed while the client's money was on its way")
	case p.request != nil && !p.pending.IsZero() && now.Sub(p.pending) < noAnswer+comeBackMost:
		r.turn.Set(&t.timer, turn.Earlier(t.need.Until, now.Add(r.times.FundsWait)))
	case !r.lowerHere(p, t):
		why := "the treasury has not yet said whether " + p.name + " has the money"
		if p.request != nil && p.request.why != "" {
			why = "the treasury said: " + p.request.why
		}
		r.tasks.Refused(p.name, t.id, bus.CodeAllotmentPending, time.Second, why+": try again")
	}
}

// requestFor asks the treasury for what the first task that awaits funds lacks, and more, so that the next
// need not wait.
func (r *Room) requestFor(p *client) {
	r.admit(p)
	if p.request != nil || len(p.awaiting) == 0 {
		return
	}
	needs := p.awaiting[0].need.Wanted
	least := needs - r.available(p.name)
	r.allot(p, max(least, times(p.largest, chunkHolds)), least, needs)
}

// times multiplies within what an amount may be.
func times(c market.Credits, k int64) market.Credits {
	v, ok := c.Mul(k)
	if !ok {
		return market.MaxCredits
	}
	return min(v, market.MaxCredits)
}

// allot asks for a client's money. least is missing for a task that needs so much; 0: none waits for it.
func (r *Room) allot(p *client, amount, least, needs market.Credits) {
	p.request = &request{op: bus.OpAllot, of: p, least: least,
		req: bus.FundsRequest{ID: r.requestID(), Client: p.name, Amount: amount, Least: least, Needs: needs,
			Returned: r.turn.Book.LastReturn(r.turn.Journal), Ahead: needs == 0}}
	r.post(p.request)
}

// Answered takes the treasury's answer. Grants are accepted in the order of their numbers, each once.
func (r *Room) Answered(m *bus.FundsReply) error {
	a := r.requests[m.ID]
	if a == nil {
		return fmt.Errorf("no request %s to the treasury is under way", m.ID)
	}
	old := !isSilence(m) && r.outOfDate(m.Epoch)
	if a.why = ""; old || m.Code == bus.CodeUnavailable || r.isForeign(m) {
		if !old {
			a.why = m.Message
			if m.Contradicted {
				r.takenBack(m.Message)
			}
			r.putOff(m.Message)
		}
		r.land(a)
		r.unanswered(a)
		return nil
	}
	if !r.hearMark(a, m) {
		r.AskAllotted()
	}
	switch a.op {
	case bus.OpReturn:
		r.returned(a, m)
	case bus.OpAllotted:
		r.over(a)
		r.toldAllotted(a, m)
	case bus.OpClose:
		r.treasuryEnded(a, m)
	default:
		r.allotted(a, m)
	}
	return nil
}

// Admit lets those of a client's tasks that can be funded now wait for a slot, first come first.
func (r *Room) Admit(name string) { r.admit(cmp.Or(r.clients[name], &nobody)) }

func (r *Room) admit(p *client) {
	for len(p.awaiting) > 0 && p.awaiting[0].need.Wanted <= r.available(p.name) {
		t := p.awaiting[0]
		if t.sought { // it asked for little, and there may be more
			r.within(p, t, t.share(r.available(p.name), len(p.awaiting)))
		}
		r.drop(p, t)
		r.reserve(p, t, true)
	}
}

// allotted takes the answer to a request for a client's money, and admits or refuses the tasks that await it.
func (r *Room) allotted(a *request, m *bus.FundsReply) {
	more, later := r.accept(m.Grants)
	if later {
		if r.asked != nil { // which may be answered without it
			r.asked.behind = true
		}
		defer r.AskAllotted()
	}
	p := a.of
	if m.Code == bus.CodeAllotmentPending && !a.req.Ahead && len(p.awaiting) > 0 {
		// Other hubs are giving back what they have. Whoever awaits funds waits for it, and we ask again.
		p.pending = r.turn.Now()
		r.requestLater(a, min(max(time.Duration(m.RetryMS)*time.Millisecond, soonest), comeBackMost))
		r.admit(p)
		return
	}
	r.over(a)
	r.admit(p)
	switch m.Code {
	case "":
		if !more && !later {
			// The treasury said yes and gave nothing. To ask at once would be a loop as fast as the bus.
			r.turn.Set(&r.again, r.turn.Now().Add(missedAgain))
			return
		}
	case bus.CodeUnknownClient, bus.CodeInsufficientFunds, bus.CodeAllotmentPending:
		p.notAhead = r.turn.Now().Add(aheadAgain)
		if a.req.Ahead && m.Code != bus.CodeUnknownClient {
			break // for money ahead of need no hub is asked to give back: for one that waits it is, next
		}
		var poor []*task
		for _, t := range p.awaiting {
			if m.Code == bus.CodeUnknownClient || t.need.Wanted-r.available(p.name) >= a.least {
				poor = append(poor, t)
			}
		}
		for _, t := range poor {
			if !r.lower(t, p, m, len(poor)) {
				r.broke(t, p, m)
			}
		}
		r.admit(p)
	default:
		p.notAhead = r.turn.Now().Add(aheadAgain)
		why := fmt.Sprintf("the treasury said %s: %s", m.Code, m.Message)
		r.refuseAll(p, bus.CodeAllotmentPending, time.Second, why)
		return
	}
	if !later {
		r.requestFor(p)
	}
}

// lower has a task that may cost more than its client can spend pay at most what is free, if that is enough
// for some agent: nearly every answer costs a small part of what it may cost. Else nobody could spend the
// last of a balance, or a small budget. A task whose answer need not be cut, once the others here have ended,
// waits for these: no bid says which of the two it is. Where too little is known of, the treasury is asked
// for just what is enough: it calls no money back from other hubs where more is asked for than they have. It
// reports whether the task may still be served.
func (r *Room) lower(t *task, p *client, m *bus.FundsReply, among int) bool {
	free, all := total(max(0, r.available(p.name)), m.Prepaid), r.all(p, m)
	if m.Code != bus.CodeInsufficientFunds || t.need.Wanted <= free || t.need.Fixed {
		return false
	}
	if t.need.Worst > free && t.need.Worst <= all {
		return r.seek(p, t, t.need.Worst, m)
	}
	return r.within(p, t, t.share(free, among)) || all < t.need.Least && r.seek(p, t, t.need.Least, m)
}

// seek lowers a task, once, to a sum that would do and that other hubs may have.
func (r *Room) seek(p *client, t *task, most market.Credits, m *bus.FundsReply) bool {
	if t.sought || m.Allotted == 0 {
		return false
	}
	t.sought = true
	return r.within(p, t, most)
}

// lowerHere has a task pay at most what is free of its client's money at this hub, as the treasury says
// nothing, if its answer need not be cut for that. It reports whether the task waits for a slot now.
func (r *Room) lowerHere(p *client, t *task) bool {
	available := r.available(p.name)
	if t.need.Fixed || t.need.Worst > available || !r.within(p, t, t.share(available, len(p.awaiting))) {
		return false
	}
	r.drop(p, t)
	r.reserve(p, t, true)
	r.admit(p)
	return true
}

// share returns a task's part of the free money, among so many tasks that came at once: enough that its
// answer need not be cut, if there is so much.
func (t *task) share(free market.Credits, among int) market.Credits {
	return min(free, max(t.need.Worst, free/market.Credits(among)))
}

// within lowers the most that a task may cost, and the sum to reserve for it. It reports whether some agent
// would serve it for that, as agents stood when it came; else nothing changes.
func (r *Room) within(p *client, t *task, most market.Credits) bool {
	if most <= 0 || most < t.need.Least {
		return false
	}
	t.need.Wanted = r.tasks.Bounded(p.name, t.id, most)
	return true
}

// all returns a client's money once none of its tasks here holds any: at the hub, and at the treasury.
func (r *Room) all(p *client, m *bus.FundsReply) market.Credits {
	return total(max(0, r.available(p.name)), r.turn.Book.Held(p.name), p.reserved, m.Prepaid)
}

// total adds up within what an amount may be.
func total(list ...market.Credits) (sum market.Credits) {
	for _, c := range list {
		var ok bool
		if sum, ok = sum.Add(max(0, c)); !ok {
			return market.MaxCredits
		}
	}
	return min(sum, market.MaxCredits)
}

// broke refuses a task that its client cannot pay for. Where the holds of its other tasks here would do, once
// they end, the task may come again then.
func (r *Room) broke(t *task, p *client, m *bus.FundsReply) {
	if m.Code == bus.CodeUnknownClient {
		r.tasks.Refused(p.name, t.id, m.Code, 0, "the treasury knows no client "+p.name+": make a deposit first")
		return
	}
	all, least := r.all(p, m), t.need.Least
	if t.need.Worst <= all {
		least = t.need.Worst
	}
	code, retry, why := m.Code, time.Duration(0), fmt.Sprintf("client %s lacks %s for this task: ", p.name,
		money(max(1, least-all)))
	if held := r.turn.Book.Held(p.name) + p.reserved; min(t.need.Wanted, least) <= all && held > 0 {
		code, retry = bus.CodeAllotmentPending, time.Second
		why = fmt.Sprintf("client %s has less than the %s free that this task needs, while others of its tasks "+
			"run: come again when these have ended, ", p.name, money(least))
	}
	r.tasks.Refused(p.name, t.id, code, retry, why+"deposit more (souk fund "+p.name+" AMOUNT), or, where "+
		"that is the budget of a key, wait until it is filled up; its balance says what it has where")
}
