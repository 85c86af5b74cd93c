package treasury

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// A client with a budget has its money filled up to an amount at the beginning of each period: so between two
// such moments it spends at most that much, over all hubs. What it has left counts: the treasury asks the
// hubs what they have of it first, and takes nothing for spent that they do not say. What the client whose
// money it is cannot give at once follows in the same period as soon as it has it. A budget that has ended
// gives back what is left, as hubs return it.

const (
	maxBudgets = 1 << 16 // that a treasury ever had
	maxJobs    = 256     // questions to hubs for budgets at a time
	// hubPatience is how long a budget is not filled up because a hub does not report its part. After that
	// the hub's last report counts; without one, all that it was given.
	hubPatience = 10 * time.Minute
	// jobsEvery is how often budgets that lack something are checked again.
	jobsEvery = time.Minute
	// farAhead is the jump of the clock that is not believed at once, and believeAfter when it is believed
	// after all. A period that was filled by a clock that is years ahead stays filled, and those before it,
	// too.
	farAhead     = 31 * 24 * time.Hour
	believeAfter = time.Hour
	// restAgain is how often hubs are asked again for the rest of a budget that has ended.
	restAgain = 5 * time.Second
)

// budgets is a Treasury's state for filling budgets.
type budgets struct {
	at      time.Time // when all of them are looked at next; zero: now
	jobs    map[string]*job
	short   map[string]map[string]bool   // clients that wait for more money of one, by that one
	spent   map[[2]string]market.Credits // by client and hub: what was spent there at least
	settled map[string]bool              // ended, and nothing is left anywhere
	wall    time.Time                    // what the clock said last
	doubted time.Time                    // since when it is far ahead; zero: it is not

	ahead    time.Duration // the clock is, of those of most hubs
	compared time.Time     // when that was looked at last; zero: no hub has spoken
	told     bool          // some hub says what its clock says
	leapt    time.Time     // when the clock leapt forward last, or it began
}

// job fills up one client's budget, or fetches its rest.
type job struct {
	client string
	poll   *poll
	since  time.Time
	after  time.Time // nothing is done before
}

// nobody stands for the receiver of the answer where the treasury itself has asked.
var nobody = new(struct{ _ byte })

// budget sets or ends how much of one client's money another may have.
func (t *Treasury) budget(req *bus.FundsRequest) error {
	if err := bus.CheckID("to", req.To); err != nil {
		return refuse(bus.CodeBadRequest, "%v", err)
	}
	if err := t.known(req.Client); err != nil {
		return err
	}
	u := ledger.Budget{Client: req.To, Of: req.Client, Every: req.Every, Number: 1, Amount: req.Amount}
	has, ok := t.Book.Allowance(req.To)
	_, rich := t.Book.Prepaid(req.To)
	of, within := t.Book.Allowance(req.Client)
	switch {
	case !slices.Contains([]string{"", ledger.EveryDay, ledger.EveryWeek, ledger.EveryMonth}, req.Every):
		return refuse(bus.CodeBadRequest, "every: %.40q is no period: say day, week or month, or leave it out "+
			"for a budget that is given once", req.Every)
	case within:
		return refuse(bus.CodeBadRequest, "client %s has a budget of %s's money itself: make one of %s's",
			req.Client, of.Of, of.Of)
	case rich && !ok:
		return refuse(bus.CodeBadRequest, "to: client %s has had money of its own: a budget is for a new client",
			req.To)
	case ok:
		if u.Number = has.Number + 1; u.Amount == 0 {
			u.Every = has.Every
		}
		if u.Of == has.Of && u.Every == has.Every && u.Amount == has.Amount {
			return nil
		}
	case req.Amount == 0:
		return refuse(bus.CodeUnknownClient, "client %s has never had a budget", req.To)
	case len(t.Book.Budgeted()) >= maxBudgets:
		return refuse(bus.CodeUnavailable, "%d budgets are more than this treasury keeps", maxBudgets)
	}
	if err := t.apply(ledger.NewBudget(u, t.salt())); err != nil {
		return err
	}
	t.endJob(req.To)
	t.begin(req.To)
	return nil
}

// given explains why money cannot be paid to a client with a budget: it gets only its budget.
func (t *Treasury) given(client string, err error) error {
	a, ok := t.Book.Allowance(client)
	if !ok || bus.CodeOf(err) != bus.CodeBadRequest {
		return err
	}
	return refuse(bus.CodeBadRequest, "client %s has a budget of %s's money, and is given nothing else: pay in "+
		"for %s, or make it a larger budget", client, a.Of, a.Of)
}

// ofBudget explains whose money a client with a budget spends, and when it gets more.
func (t *Treasury) ofBudget(client string) string {
	a, ok := t.Book.Allowance(client)
	next := ledger.NextPeriod(a.Every, t.today())
	switch {
	case !ok:
		return ""
	case a.Ended:
		return ", whose budget of " + a.Of + "'s money has ended"
	case a.Due > 0:
		return ", a budget of " + a.Of + "'s money, who lacks " + a.Due.String() + " credits for it"
	case next.IsZero():
		return ", a budget of " + a.Of + "'s money, given once"
	}
	return ", a budget of " + a.Of + "'s money, filled up again on " + next.Format(time.DateOnly)
}

// runJobs carries out what is due for all budgets.
func (t *Treasury) runJobs() {
	if !t.room || t.own.closed != "" {
		return
	}
	if !t.now.Before(t.budgets.at) {
		t.budgets.at = time.Time{}
		for _, client := range t.Book.Budgeted() {
			t.begin(client)
		}
	}
	for _, client := range slices.Sorted(maps.Keys(t.budgets.jobs)) {
		t.run(t.budgets.jobs[client])
	}
}

// doubt checks whether the clock is far ahead of its last time, of this process or in the journal, or was set
// back.
func (t *Treasury) doubt(now time.Time) (setBack bool) {
	w := &t.budgets
	last := w.wall
	if seq, _, at := t.Book.Last(); last.IsZero() && seq > 0 {
		last = time.Unix(0, at)
	}
	w.wall = now.Round(0)
	switch {
	case last.IsZero():
	case w.wall.Sub(last) > farAhead:
		w.doubted = now
	case last.Sub(w.wall) > believeAfter:
		w.doubted, w.at = time.Time{}, time.Time{} // all budgets are looked at again
		return true
	}
	return false
}

// believes reports whether periods may be filled by the clock.
func (t *Treasury) believes() bool {
	w := &t.budgets
	if !w.doubted.IsZero() && t.now.Sub(w.doubted) >= believeAfter {
		w.doubted = time.Time{}
	}
	return w.doubted.IsZero()
}

// soon has all budgets looked at again by then.
func (t *Treasury) soon(at time.Time) { t.budgets.at = bus.Sooner(t.budgets.at, at) }

// begin carries out, or begins, what is due for one budget.
func (t *Treasury) begin(client string) {
	a, _ := t.Book.Allowance(client)
	period := ledger.PeriodAt(a.Every, t.today())
	switch {
	case t.budgets.jobs[client] != nil:
		return
	case a.Ended:
		t.backs(client)
		if t.budgets.settled[client] || t.Book.Allotted(client, "") == 0 {
			return
		}
	case a.Period >= period:
		t.soon(t.nextPeriod(a.Every))
		if a.Due > 0 {
			t.makeUp(client)
			t.askFor(client)
			t.soon(t.now.Add(jobsEvery))
		}
		return
	case a.Period > 0 && !t.believes():
		t.soon(t.now.Add(jobsEvery))
		return
	}
	if len(t.budgets.jobs) >= maxJobs {
		t.soon(t.now.Add(recallEvery))
		return
	}
	t.run(t.newJob(client, !a.Ended))
}

// newJob begins a job in place of the one there was.
func (t *Treasury) newJob(client string, look bool) *job {
	t.endJob(client)
	r, _ := t.newPoll(&bus.FundsRequest{Client: client}, look)
	r.exact = true
	e := &job{client: client, poll: r, since: t.now}
	t.polls[r.id], t.budgets.jobs[client] = r, e
	return e
}

func (t *Treasury) endJob(client string) {
	if e := t.budgets.jobs[client]; e != nil {
		delete(t.polls, e.poll.id)
		delete(t.budgets.jobs, client)
	}
}

// run goes on with a job.
func (t *Treasury) run(e *job) {
	if t.now.Before(e.after) {
		return
	}
	a, _ := t.Book.Allowance(e.client)
	t.say(e.poll)
	left := false
	for i := range e.poll.hubs {
		g := &e.poll.hubs[i]
		done := t.done(e.poll, g)
		if done {
			t.tell(e.client, g)
		}
		left = left || !done || g.reply.Avail > 0 || g.reply.Held > 0
		if !done && (t.alive(g.hub) || t.now.Sub(e.since) < hubPatience) {
			return
		}
	}
	switch {
	case !a.Ended && a.Period > 0 && t.unheard():
		e.after = t.now.Add(bus.FundsEvery)
	case !a.Ended:
		t.endJob(e.client)
		t.fill(&a)
	case left: // tasks that run there will leave a rest, or what it said is not all
		t.newJob(e.client, false).after = t.now.Add(restAgain)
	default:
		t.endJob(e.client)
		t.budgets.settled[e.client] = true
	}
}

// tell notes the least that a client has spent at a hub, by the hub's report of the rest.
func (t *Treasury) tell(client string, g *target) {
	spent, m := t.Book.Allotted(client, g.hub), g.reply
	if m.Avail > spent || m.Held > spent-m.Avail {
		return // it was never given that much
	}
	spent -= m.Avail + m.Held
	list := t.grants[g.hub]
	if m.Accepted < t.Book.LastGrant(g.hub) && (len(list) == 0 || list[0].Number > m.Accepted+1) {
		return // what it has not taken in yet is not known any more
	}
	for i := len(list) - 1; i >= 0 && list[i].Number > m.Accepted; i-- {
		if list[i].Client == client {
			spent -= list[i].Amount
		}
	}
	k := [2]string{client, g.hub}
	t.budgets.spent[k] = max(t.budgets.spent[k], spent)
}

// fill fills a budget up for a new period, as far as there is the money.
func (t *Treasury) fill(a *ledger.Allowance) {
	rest, _ := t.Book.Prepaid(a.Client)
	for _, hub := range t.Book.Hubs() {
		rest += max(0, t.Book.Allotted(a.Client, hub)-t.budgets.spent[[2]string{a.Client, hub}])
	}
	prepaid, _ := t.Book.Prepaid(a.Of)
	amount := min(prepaid, max(0, a.Amount-rest))
	period := ledger.PeriodAt(a.Every, t.today())
	if t.apply(ledger.NewAllowance(a.Of, a.Client, period, 1, amount, rest, t.salt())) != nil {
		t.soon(t.now.Add(jobsEvery))
		return
	}
	t.richer = append(t.richer, a.Client)
	t.begin(a.Client)
}

// makeUp moves the money still due for a period, as far as there is any now.
func (t *Treasury) makeUp(client string) {
	a, _ := t.Book.Allowance(client)
	prepaid, _ := t.Book.Prepaid(a.Of)
	if amount := min(a.Due, prepaid); amount > 0 {
		r := ledger.NewAllowance(a.Of, client, a.Period, a.Parts+1, amount, 0, t.salt())
		if t.apply(r) == nil {
			t.richer = append(t.richer, client)
			a.Due -= amount
		}
	}
	switch short := t.budgets.short[a.Of]; {
	case a.Due == 0:
		delete(short, client)
	case short == nil:
		t.budgets.short[a.Of] = map[string]bool{client: true}
	default:
		short[client] = true
	}
}

// askFor asks hubs for the money that a budget lacks.
func (t *Treasury) askFor(client string) {
	a, _ := t.Book.Allowance(client)
	if a.Due == 0 {
		return
	}
	req := &bus.FundsRequest{ID: client + "/" + strconv.FormatUint(a.Period, 10), Client: a.Of, To: client,
		Amount: a.Due}
	if err := t.enqueue(bus.OpBudget, req, nobody); err != nil && err != errLater {
		t.soon(t.now.Add(jobsEvery))
	}
}

// backs gives back the treasury's rest of a budget that has ended.
func (t *Treasury) backs(client string) {
	a, _ := t.Book.Allowance(client)
	if rest, _ := t.Book.Prepaid(client); rest > 0 &&
		t.apply(ledger.NewRest(client, a.Of, a.Backs+1, rest, t.salt())) == nil {
		t.richer = append(t.richer, a.Of)
	}
}

// share lets budgets have their part of money that came to a client.
func (t *Treasury) share(client string) {
	if t.own.closed != "" {
		return
	}
	if a, ok := t.Book.Allowance(client); ok && a.Ended {
		t.backs(client)
	}
	for _, to := range slices.Sorted(maps.Keys(t.budgets.short[client])) {
		if a, _ := t.Book.Allowance(to); a.Ended || a.Period != ledger.PeriodAt(a.Every, t.today()) {
			delete(t.budgets.short[client], to)
		} else {
			t.makeUp(to)
		}
	}
}

// jobsWake calls soon with the time at which budgets need work next.
func (t *Treasury) jobsWake(soon func(time.Time)) {
	if !t.room || t.own.closed != "" {
		return // the next request says when there is some
	}
	soon(t.budgets.at)
	for _, e := range t.budgets.jobs {
		at := e.poll.said.Add(recallAgain)
		if e.after.After(at) {
			at = e.after
		}
		soon(at)
	}
}
