// Package account keeps clients' money at one hub: what is available, what is reserved for tasks that wait,
// what the treasury has granted and is asked for, what goes back to it, and how far its journal and the hub's
// own are known to each other. It also ends a hub, as that is to give everything back.
//
// A [Room] is a machine without I/O or clock: it runs on the hub's [turn.Turn]. Of a task it knows client and
// id, from [Room.Open] to [Room.End], and what it needs. What becomes of that it tells the hub's [Tasks].
package account

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"souk/bus"
	"souk/hub/estimate"
	"souk/hub/turn"
	"souk/ledger"
	"souk/market"
)

// idleAccounts bounds the accounts kept for clients without open tasks.
const idleAccounts = 4096

// Times configures how long a client's money is waited for, and kept.
type Times struct {
	FundsWait time.Duration `yaml:"funds_wait"` // a task waits so long for its client's allotment
	// most of a client's money goes back that had no open task for so long: longer than the pauses of a
	// dialogue, so that its turns do not wait for the treasury
	AccountIdle time.Duration `yaml:"account_idle"`
}

// Tasks is the hub whose tasks are paid for. It is called while the room is in the midst of something, and
// may call it again.
type Tasks interface {
	// Funded tells that so much is reserved for a task. waited: its money was not there at once.
	Funded(client, id string, reserved market.Credits, waited bool)
	// Refused tells that there is no money for a task, and when it may come again. The hub ends the task.
	Refused(client, id string, code bus.Code, retry time.Duration, why string)
	// Bounded lowers the most that a task may cost, and returns the sum to reserve for it then.
	Bounded(client, id string, most market.Credits) market.Credits
	// Doubted tells that the journal is not the newest ([turn.State.Doubt]), and Cleared that it is.
	Doubted()
	Cleared()
	// Ended tells that the treasury counts the hub as ended, so that it closes.
	Ended()
}

// task is the money of one task that is open.
//
//	state     means                            ends
//	new       needs money                      awaiting or reserved: Fund
//	awaiting  waits for its client's money     reserved: there is enough, by a grant or as others end
//	                                           gone: the treasury refuses, or time is up
//	reserved  has what it needs set aside      new: Release, as a hold has taken what it needed
//	gone      has ended: End, from any state
type task struct {
	id       string
	need     estimate.Need
	reserved market.Credits
	awaits   bool       // it is among those of its client that wait for money
	sought   bool       // it asks for just what is enough, which other hubs may have
	timer    turn.Timer // while it awaits money
}

// Room is the money of a hub's clients.
type Room struct {
	turn    *turn.Turn
	times   Times
	tasks   Tasks
	clients map[string]*client
	marks
	desk

	asked   *request          // what was allotted: under way
	again   turn.Timer        // for the next such question
	refuses bool              // the treasury refused to list its allotments, and that was logged
	returns []ledger.Transfer // not yet known to be taken in, by number
	told    bool              // in this leadership the treasury has said which returns it has

	ended    bool   // the treasury counts the hub as ended
	closing  bool   // the hub ends: see Close
	notEnded string // why the treasury has not ended it
}

// client is a client's money at this hub, beyond what the book says.
type client struct {
	name     string
	open     map[string]*task  // by id
	reserved market.Credits    // for tasks that wait: not yet held
	largest  market.Credits    // reserve of late, the measure of chunks
	vouchers []bus.DoorVoucher // what doors vouched for, the latest last
	awaiting []*task           // wait for money, first come first
	request  *request          // under way
	notAhead time.Time         // the hub does not ask ahead before
	pending  time.Time         // when the treasury last said that hubs are giving money back
	idle     turn.Timer
}

// nobody is a client that has nothing here.
var nobody client

// New returns the room of a hub. From now on each frame carries its mark of the treasury's journal.
func New(t *turn.Turn, at Times, tasks Tasks) *Room {
	r := &Room{turn: t, times: at, tasks: tasks, clients: map[string]*client{},
		desk:  desk{turn: t, requests: map[string]*request{}},
		marks: marks{turn: t, tasks: tasks, among: map[string]bool{}}}
	t.Along, t.Wrote = r.withMark, r.wrote
	r.again.Due = r.AskAllotted
	return r
}

// Restore takes the returns of the journal. The treasury will say which of them it has, see tellReturns. It
// takes returns in order, so one that it never hears of would hold up all that follow.
func (r *Room) Restore(returns []ledger.Transfer) { r.returns = slices.Clone(returns) }

func (r *Room) client(name string) *client {
	p := r.clients[name]
	if p == nil {
		p = &client{name: name, open: map[string]*task{}}
		p.idle.Due = func() { r.idled(p) }
		r.clients[name] = p
	}
	return p
}

// poor lists the clients with tasks that await money.
func (r *Room) poor() (all []*client) {
	for _, p := range r.clients {
		if len(p.awaiting) > 0 {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *client) int { return cmp.Compare(a.name, b.name) })
	return all
}

// names lists all clients that ever had money here.
func names(book *ledger.Book) (all []string) {
	for _, b := range book.Balances("client:*:avail") {
		all = append(all, strings.TrimSuffix(strings.TrimPrefix(b.Account, "client:"), ":avail"))
	}
	return all
}

// Open takes in a task of a client, and End ends it. What it leaves may be enough for another.
func (r *Room) Open(name, id string) { r.client(name).open[id] = &task{id: id} }

func (r *Room) End(name, id string) {
	p := r.clients[name]
	if t := p.open[id]; t.awaits {
		r.drop(p, t)
	}
	r.Release(name, id)
	r.admit(p)
	delete(p.open, id)
	r.startIdle(p)
}

// Need returns what an open task needs, as of its reservation; Needs sets it, before anything is reserved.
func (r *Room) Need(name, id string) estimate.Need        { return r.clients[name].open[id].need }
func (r *Room) Needs(name, id string, need estimate.Need) { r.clients[name].open[id].need = need }

// drop has a task await money no more.
func (r *Room) drop(p *client, t *task) {
	i := slices.Index(p.awaiting, t)
	p.awaiting = slices.Delete(p.awaiting, i, i+1)
	t.awaits = false
	r.turn.Set(&t.timer, time.Time{})
}

// Release frees the sum reserved for a task that ends, or has a hold.
func (r *Room) Release(name, id string) {
	p := r.clients[name]
	t := p.open[id]
	p.reserved, t.reserved = p.reserved-t.reserved, 0
}

// idleEvery is the pause between so many clients as go idle together: they may be many.
const (
	idleTogether = 64
	idleEvery    = 50 * time.Millisecond
)

// startAllIdle begins that time for all clients without open tasks that have money here.
func (r *Room) startAllIdle() {
	at, count := r.turn.Now().Add(r.times.AccountIdle), 0
	for _, name := range names(r.turn.Book) {
		if r.turn.Book.Avail(name) > 0 && len(r.client(name).open) == 0 {
			r.turn.Set(&r.client(name).idle, at.Add(time.Duration(count/idleTogether)*idleEvery))
			count++
		}
	}
}

// startIdle begins the time after which an idle client's money goes back. An account without money is kept
// only while there are few.
func (r *Room) startIdle(p *client) {
	switch {
	case len(p.open) > 0:
	case r.turn.Book.Avail(p.name) > 0:
		r.turn.Set(&p.idle, r.turn.Now().Add(r.times.AccountIdle))
	case len(r.clients) > idleAccounts && p.request == nil:
		r.turn.Set(&p.idle, time.Time{})
		delete(r.clients, p.name)
	}
}

// idled returns a client's money above low water, as the client had no open task for so long: it is of more
// use at other hubs. If such accounts are many, all of it goes back, and the account is forgotten.
func (r *Room) idled(p *client) {
	many := len(r.clients) > idleAccounts
	if len(p.open) > 0 || r.clients[p.name] != p {
		return
	}
	if r.turn.Leading && r.turn.Doubt == "" {
		keep := times(p.largest, lowWaterHolds)
		if many {
			keep = 0
		}
		r.returnAbove(keep, p.name)
	}
	if many && p.request == nil {
		delete(r.clients, p.name)
	}
}

// available returns how much of a client's money may still be reserved.
func (r *Room) available(name string) market.Credits {
	return r.turn.Book.Avail(name) - r.Reserved(name)
}

// Reserved returns the sum of a client's money reserved for tasks that wait: it is not held yet.
func (r *Room) Reserved(name string) market.Credits {
	return cmp.Or(r.clients[name], &nobody).reserved
}

// Awaiting counts the tasks of a client that wait for money.
func (r *Room) Awaiting(name string) int {
	return len(cmp.Or(r.clients[name], &nobody).awaiting)
}

// RefuseAwaiting refuses every task that awaits money.
func (r *Room) RefuseAwaiting(code bus.Code, retry time.Duration, why string) {
	for _, p := range r.poor() {
		r.refuseAll(p, code, retry, why)
	}
}

func (r *Room) refuseAll(p *client, code bus.Code, retry time.Duration, why string) {
	for len(p.awaiting) > 0 {
		r.tasks.Refused(p.name, p.awaiting[0].id, code, retry, why)
	}
}

// Vouched keeps a door's voucher for a task, where the client has tasks here. The treasury grants no more
// than doors have vouched for, so the last vouchers go with each request. The hub bounds its own estimate of
// a task's price by the voucher, too: so a task never needs more than is vouched for.
func (r *Room) Vouched(m *bus.Task) {
	p, v := r.clients[m.Client], m.Voucher
	if p == nil || v.Total() <= 0 {
		return
	}
	i := slices.IndexFunc(p.vouchers, func(o bus.DoorVoucher) bool {
		return o.Door == m.Door && o.Voucher.Line() == v.Line()
	})
	if i >= 0 { // what was said last comes last
		if v.Total() < p.vouchers[i].Voucher.Total() {
			v = p.vouchers[i].Voucher
		}
		p.vouchers = slices.Delete(p.vouchers, i, i+1)
	}
	p.vouchers = append(p.vouchers, bus.DoorVoucher{Door: m.Door, Voucher: slices.Clone(v)})
	p.vouchers = slices.Delete(p.vouchers, 0, max(0, len(p.vouchers)-bus.MaxVouchers))
}

// money says an amount for people.
func money(c market.Credits) string { return c.String() + " credits" }
