package hub

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"souk/bus"
	"souk/bus/tip"
	"souk/market"
)

// Any request and any answer may be lost, so whatever is asked is asked again, under the same id, until it is
// answered or nobody needs the answer.
const (
	// noAnswer is how long the hub waits for an answer. That is longer than the shell needs to say that there
	// was none, so that MaxRequests bounds what is under way in the shell, too.
	noAnswer = 2*TreasuryTimeout + time.Second
	// repeatAfter is how soon the hub asks again where there was none.
	repeatAfter = time.Second
	// refusedAgain is how soon the hub tells again of a return that was refused.
	refusedAgain = time.Minute
	// comeBackMost bounds how long a treasury may tell us to wait.
	comeBackMost = 5 * time.Second
)

// MaxRequests bounds requests to the treasury that are under way together: a stopping hub has one for each
// client.
const MaxRequests = 256

// TreasuryTimeout is how long a request to the treasury may take: it syncs a journal of its own.
const TreasuryTimeout = 2 * time.Second

// treasury is the state of the hub's dealings with the treasury.
type treasury struct {
	number   uint64
	epoch    int64                // of its leadership, the highest heard
	stale    int64                // the last that was below it
	requests map[string]*request  // by id
	flying   int                  // of them, those that an answer may come to
	line     []*request           // requests that wait until one of those has its answer
	missed   *request             // OpAllotted, under way
	pending  map[uint64]bus.Grant // came before the grant of a lower number
	returns  []giveBack           // not yet known to be taken in, by number
	told     bool                 // in this leadership the treasury has said which of them it has
	again    timer                // for the next question what was allotted
	sweep    sweep
	ended    bool // it counts the hub as ended
	gap      bool // a grant is missing, also at the treasury: the hub asks for no more
	refuses  bool // it would not say what it allotted, and that was logged
}

// request is a request to the treasury that is not answered yet.
type request struct {
	op      string
	req     bus.FundsRequest
	client  string
	least   market.Credits
	number  uint64 // of a return
	ahead   bool   // no task waits for it
	flying  bool
	again   bool // it was asked more than once
	behind  bool // it was first asked when a grant was missing before one that had come
	refused bool
	why     string // it was unavailable, when it was asked last
	timer   timer
}

func newTreasury() treasury {
	return treasury{requests: map[string]*request{}, pending: map[uint64]bus.Grant{}}
}

// idle reports whether no answer is waited for.
func (t *treasury) idle() bool { return t.flying == 0 }

// forgetRequests drops requests under way: their answers will not come to this leadership.
func (n *Node) forgetRequests() {
	t := &n.treasury
	for _, a := range t.requests {
		n.timers.set(&a.timer, time.Time{})
	}
	clear(t.requests)
	clear(t.pending)
	for _, p := range n.accounts {
		p.request = nil
	}
	t.flying, t.line, t.missed, t.gap, t.told = 0, nil, nil, false, false
	t.sweep.stop()
}

// post asks the treasury something.
func (n *Node) post(a *request) {
	a.req.Hub, a.req.Domain, a.req.Epoch = n.cfg.Journal, n.cfg.Domain, n.epoch
	a.timer.owner = a
	switch a.op {
	case bus.OpAllotted, bus.OpReturn, bus.OpClose:
		a.req.Mark = &tip.Mark{Journal: n.book.ID(), Seq: n.book.Said()} // who sends it adds the checksum
		a.req.Unsure = n.doubt != "" || !n.marks.judged
	}
	n.treasury.requests[a.req.ID] = a
	n.launch(a)
}

// launch sends a request, again perhaps, as soon as not too many are under way.
func (n *Node) launch(a *request) {
	t := &n.treasury
	if t.flying >= MaxRequests {
		t.line = append(t.line, a)
		return
	}
	if p := n.accounts[a.client]; p != nil && a.op == bus.OpAllot {
		a.req.Vouchers = slices.Clone(p.vouchers)
	}
	t.flying++
	a.flying = true
	n.timers.set(&a.timer, n.now.Add(noAnswer))
	n.out.Funds = append(n.out.Funds, Funds{a.op, a.req})
}

// land notes that the hub does not wait for the answer any more. Another request may take its place.
func (n *Node) land(a *request) {
	t := &n.treasury
	n.timers.set(&a.timer, time.Time{})
	if !a.flying {
		return
	}
	a.flying = false
	t.flying--
	for len(t.line) > 0 && t.flying < MaxRequests {
		next := t.line[0]
		t.line = t.line[1:]
		if t.requests[next.req.ID] == next {
			n.launch(next)
		}
	}
}

// over drops a request.
func (n *Node) over(a *request) {
	delete(n.treasury.requests, a.req.ID)
	n.land(a)
	if n.treasury.missed == a {
		n.treasury.missed = nil
	}
	if p := n.accounts[a.client]; p != nil && p.request == a {
		p.request = nil
	}
}

// requestLater asks again after a while.
func (n *Node) requestLater(a *request, after time.Duration) {
	n.land(a)
	n.timers.set(&a.timer, n.now.Add(after))
}

// due implements timed: there was no answer, or it is time to ask again.
func (a *request) due(n *Node) {
	switch {
	case n.treasury.requests[a.req.ID] != a || !n.leading:
	case a.flying:
		n.unanswered(a)
	default:
		n.launch(a)
	}
}

// unanswered deals with a request that got no answer: the treasury may have heard it or not. The hub does not
// ask again for money that no task waits for. If it was granted, the next OpAllotted finds it.
func (n *Node) unanswered(a *request) {
	if p := n.accounts[a.client]; a.op == bus.OpAllot && (p == nil || len(p.awaiting) == 0) {
		n.over(a)
		return
	}
	switch {
	case a.op == bus.OpAllotted && n.justBack():
		n.requestLater(a, backEvery)
	case a.op == bus.OpAllot && !a.again: // at once, the first time: a task waits
		a.again = true
		n.land(a)
		n.launch(a)
	default:
		n.requestLater(a, repeatAfter)
	}
}

// isSilence reports whether a reply is the shell's, to say that none came.
func isSilence(m *bus.FundsReply) bool { return m.Code == bus.CodeUnavailable && m.Epoch == 0 }

// outOfDate reports whether what a treasury says is of an earlier leadership than one that has spoken: it
// does not know yet that another was elected, and what it says may be undone.
func (n *Node) outOfDate(epoch int64) bool {
	t := &n.treasury
	if epoch >= t.epoch {
		t.epoch = epoch
		return false
	}
	n.stats.OldTreasury++
	if epoch != t.stale {
		t.stale = epoch
		n.fault(fmt.Errorf("a treasury of epoch %d speaks, and one of epoch %d has spoken: nothing is "+
			"taken from it. Another has led since, or etcd was made anew or restored to an older revision "+
			"(deploy/runbook.md: etcd)", epoch, t.epoch))
	}
	return true
}

// requestID is new for every request of this hub: the epoch is never the same again.
func (n *Node) requestID() string {
	n.treasury.number++
	return n.cfg.Journal + "-" + strconv.FormatInt(n.epoch, 10) + "-" +
		strconv.FormatUint(n.treasury.number, 10)
}
