package account

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"souk/bus"
	"souk/bus/tip"
	"souk/hub/turn"
	"souk/ledger"
	"souk/market"
)

// Any request and any answer may be lost, so whatever is asked is asked again, under the same id, until it is
// answered or nobody needs the answer.
const (
	// noAnswer bounds the wait for an answer. It is longer than the shell needs to report that there was
	// none, so that MaxRequests also bounds the requests under way in the shell.
	noAnswer = 2*TreasuryTimeout + time.Second
	// repeatAfter is the pause before the hub asks again where no answer came.
	repeatAfter = time.Second
	// soonest is the shortest pause before the hub asks again, also after an outage of the bus.
	soonest = 100 * time.Millisecond
	// refusedAgain is the pause before the hub announces a refused return again.
	refusedAgain = time.Minute
	// comeBackMost bounds how long a treasury may tell us to wait.
	comeBackMost = 5 * time.Second
)

// MaxRequests bounds open requests to the treasury: a stopping hub has one for each client.
const MaxRequests = 256

// TreasuryTimeout bounds a request to the treasury, which syncs a journal of its own.
const TreasuryTimeout = 2 * time.Second

// request is a request to the treasury that is not answered yet.
type request struct {
	op      string
	req     bus.FundsRequest
	of      *client // whose money is asked for
	least   market.Credits
	flying  bool
	again   bool // it was asked more than once
	behind  bool // a grant came meanwhile before which one is missing
	refused bool
	why     string // it was unavailable, when it was asked last
	timer   turn.Timer
}

// desk has the requests to the treasury, of which so many are under way together.
type desk struct {
	turn     *turn.Turn
	number   uint64              // of requests
	requests map[string]*request // that are not answered yet, by id
	flying   int                 // of them, those that an answer may come to
	line     []*request          // that wait until one of those has its answer
}

// Idle reports whether no answer is waited for.
func (r *desk) Idle() bool { return r.flying == 0 }

// Asks reports whether anything is asked of the treasury, so that money may come.
func (r *desk) Asks() bool { return len(r.requests) > 0 }

// Lead begins a time of leadership. Clients are idle from now on: nobody could come while no hub led, however
// long that was.
func (r *Room) Lead() {
	r.startAllIdle()
	for _, client := range names(r.turn.Book) { // it is not known of whom earlier lives have told
		if r.turn.Book.Charged(client) > 0 {
			r.Charged(client)
		}
	}
	r.sent, r.quiet, r.judged = 0, false, false
	r.AskAllotted()
}

// Depose ends it, and drops requests under way: their answers will not come to this leadership.
func (r *Room) Depose() {
	for _, a := range r.requests {
		r.turn.Set(&a.timer, time.Time{})
	}
	clear(r.requests)
	for _, p := range r.clients {
		p.request = nil
	}
	r.flying, r.line, r.asked, r.told = 0, nil, nil, false
}

// post asks the treasury something.
func (r *Room) post(a *request) {
	a.req.Hub, a.req.Domain, a.req.Epoch = r.turn.Journal, r.turn.Domain, r.turn.Epoch
	a.timer.Due = func() { r.due(a) }
	switch a.op {
	case bus.OpAllotted, bus.OpReturn, bus.OpClose:
		// who sends it adds the checksum
		a.req.Mark = &tip.Mark{Journal: r.turn.Book.ID(), Seq: r.turn.Book.Said()}
		a.req.Unsure = r.turn.Doubt != "" || !r.judged
	}
	r.requests[a.req.ID] = a
	r.launch(a)
}

// launch sends a request, again perhaps, as soon as not too many are under way.
func (r *desk) launch(a *request) {
	if r.flying >= MaxRequests {
		r.line = append(r.line, a)
		return
	}
	if a.of != nil {
		a.req.Vouchers = slices.Clone(a.of.vouchers)
	}
	r.flying++
	a.flying = true
	r.turn.Set(&a.timer, r.turn.Now().Add(noAnswer))
	r.turn.Out.Funds = append(r.turn.Out.Funds, turn.Funds{Op: a.op, Request: a.req})
}

// land ends the wait for an answer. Another request may be sent in its place.
func (r *desk) land(a *request) {
	r.turn.Set(&a.timer, time.Time{})
	if !a.flying {
		return
	}
	a.flying = false
	r.flying--
	for len(r.line) > 0 && r.flying < MaxRequests {
		next := r.line[0]
		r.line = r.line[1:]
		if r.requests[next.req.ID] == next {
			r.launch(next)
		}
	}
}

// over drops a request.
func (r *Room) over(a *request) {
	delete(r.requests, a.req.ID)
	r.land(a)
	if r.asked == a {
		r.asked = nil
	}
	if a.of != nil {
		a.of.request = nil
	}
}

// requestLater asks again after a while.
func (r *desk) requestLater(a *request, after time.Duration) {
	r.land(a)
	r.turn.Set(&a.timer, r.turn.Now().Add(after))
}

// due asks again, or gives the answer up.
func (r *Room) due(a *request) {
	switch {
	case r.requests[a.req.ID] != a || !r.turn.Leading:
	case a.flying:
		r.unanswered(a)
	default:
		r.launch(a)
	}
}

// unanswered deals with a request that got no answer: the treasury may have heard it or not. The hub does not
// ask again for money that no task waits for. If it was granted, the next OpAllotted finds it.
func (r *Room) unanswered(a *request) {
	if a.of != nil && len(a.of.awaiting) == 0 {
		r.over(a)
		return
	}
	switch {
	case a.op == bus.OpAllotted && r.turn.Now().Before(r.turn.Back):
		r.requestLater(a, soonest)
	case a.op == bus.OpAllot && !a.again: // at once, the first time: a task waits
		a.again = true
		r.land(a)
		r.launch(a)
	default:
		r.requestLater(a, repeatAfter)
	}
}

// requestID is new for every request of this hub: the epoch is never the same again.
func (r *desk) requestID() string {
	r.number++
	return r.turn.Journal + "-" + strconv.FormatInt(r.turn.Epoch, 10) + "-" +
		strconv.FormatUint(r.number, 10)
}

// AskAllotted asks what was allotted: neither a lost reply nor a full disk may strand money.
func (r *Room) AskAllotted() {
	if r.asked != nil || !r.turn.Leading {
		return
	}
	r.asked = &request{op: bus.OpAllotted,
		req: bus.FundsRequest{ID: r.requestID(), After: r.turn.Book.LastGrant(r.turn.Journal),
			AtMS: max(0, r.turn.Now().UnixMilli()), Spent: r.spent()}}
	if m := r.treasurys(); !m.Zero() {
		r.asked.req.Known = &m
	}
	r.turn.Set(&r.again, time.Time{})
	r.post(r.asked)
}

// toldAllotted takes in what the treasury says it allotted.
func (r *Room) toldAllotted(a *request, m *bus.FundsReply) {
	next := bus.FundsEvery
	defer func() {
		if r.asked == nil {
			r.turn.Set(&r.again, r.turn.Now().Add(next))
		}
	}()
	if r.hearWord(m) {
		r.startAllIdle()
	}
	if r.turn.Doubt != "" {
		r.untold(a.req.Spent)
		if r.awaits {
			next = missedAgain
		}
		return
	}
	overtaken := m.Known != nil && a.req.Mark != nil && m.Known.Seq > a.req.Mark.Seq
	if m.Code != "" || m.Mark == nil || overtaken { // of an overtaken word the treasury takes no charges
		r.untold(a.req.Spent)
	}
	if m.Code == "" && m.Mark != nil {
		if m := a.req.Mark; m != nil && !a.req.Unsure { // so far it has kept the hub's journal
			r.quiet, r.sent = r.sent == 0 || r.sent == m.Seq, m.Seq
		}
		defer r.writeMark()
	}
	more, later := r.accept(m.Grants)
	if m.Code != "" {
		next = missedAgain
		if !r.refuses {
			r.refuses = true
			r.turn.Fault(fmt.Errorf("the treasury does not say what it allotted: %s: %s", m.Code, m.Message))
		}
		return
	}
	r.refuses = false
	if m.Ended {
		r.toldEnded()
	}
	r.tellReturns(m.Returned)
	switch {
	case more, a.behind, len(r.changed) > 0 && r.judged && m.Mark != nil:
		r.AskAllotted() // a reply holds only so many grants, and one may have come before this reply
	case later:
		next = missedAgain
		r.turn.Fault(fmt.Errorf("the treasury gave later grants than number %d, but not that one",
			r.turn.Book.LastGrant(r.turn.Journal)+1))
	default:
		for _, p := range r.poor() {
			r.requestFor(p)
		}
	}
}

// missedAgain is the pause before the treasury is asked again for its allotments, if it did not answer, or
// granted nothing although it agreed.
const missedAgain = time.Second

// accept records the grants that follow those on record, and reports whether any was new, and whether one is
// of a later number: it came before others, and is heard of again as the treasury is asked what it allotted.
func (r *Room) accept(grants []bus.Grant) (more, later bool) {
	if r.turn.Doubt != "" || r.turn.Full {
		return false, false // a nearly full disk has no room for new money; it is taken in later
	}
	var records []ledger.Record
	next := r.turn.Book.LastGrant(r.turn.Journal) + 1
	for _, g := range grants { // by number
		switch {
		case g.Hub != r.turn.Journal || g.Number < next:
		case g.Number > next:
			later = true
		default:
			records = append(records,
				ledger.NewAccept(r.turn.Journal, g.Number, g.Client, g.Amount, r.turn.Salt()))
			next++
		}
	}
	if len(records) == 0 {
		return false, later
	}
	if err := r.turn.Commit(records...); err != nil {
		r.turn.Fault(fmt.Errorf("accept grants up to %d: %w", next-1, err))
		return false, false
	}
	for i := range records {
		p := r.client(records[i].Transfer.Client)
		r.admit(p)
		r.startIdle(p)
	}
	return true, later
}

// markSoon is how soon the treasury is told of the first frame after a time without any: so a copy that lacks
// the frames of the seconds before a crash is found, too.
const markSoon = time.Second

// wrote has the treasury told of a frame soon, where it had been told all before.
func (r *Room) wrote(f *ledger.Frame) {
	if r.quiet && r.turn.Leading && r.asked == nil && f.Says() {
		r.quiet = false
		r.turn.Set(&r.again, r.turn.Now().Add(markSoon))
	}
}
