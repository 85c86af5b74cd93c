// Package treasury keeps clients' prepaid money and allots it to hubs, so that the path of a task touches its
// hub's journal alone and no client is ever charged more than it deposited, over all hubs.
package treasury

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"souk/bus"
	"souk/bus/bounded"
	"souk/ledger"
	"souk/market"
)

// Ready lists what a Treasury wants done, in this order.
type Ready struct {
	Records []ledger.Record // make durable first, as one frame
	Answers []Answer        // then send
	Recalls []Recall        // and ask hubs; each answer is for Said
	Settle  ledger.Settled  // and remember, if it is not AsItWas
	Wake    time.Time       // Tick then, if nothing arrives before; zero: no need
}

// Answer is a reply and whom it is for: what Handle was called with.
type Answer struct {
	To    any
	Reply bus.FundsReply
}

// Treasury is the treasury's state: its book, and what it remembers of requests. A pure state machine: not
// for use by several goroutines at once.
type Treasury struct {
	cfg    Config
	Past   *ledger.History      // until Restore
	Book   *ledger.Book         // for reading
	asked  map[string]bus.Grant // by id of the allot request, while the grant is remembered
	grants map[string][]bus.Grant
	early  map[string]map[uint64]early // by hub and number
	own    journal
	leads  map[string]led            // by domain, as the registry had it last
	keys   map[string]*bus.VouchKeys // of doors
	heard  map[string]word           // what each hub said of itself last
	ready  Ready
	salt   func() [16]byte

	now   time.Time // never falls
	since time.Time // when it began to listen
	last  time.Time // a word of any hub that speaks regularly
	room  bool      // the disk has some

	waitlists map[string]*waitlist                      // of clients whose money is looked for at hubs
	looks     []*look                                   // questions for balances that wait for hubs
	polls     map[string]*poll                          // of questions to hubs under way, by id
	counted   uint64                                    // polls so far
	usesAt    *bounded.Cache[string, string, time.Time] // when each client's usage was last asked for
	budgets   budgets
	richer    []string // clients that money was moved to, whose pending requests are still to be looked at
}

// New returns a treasury without money. salt gives 16 random bytes for each record.
func New(cfg Config, salt func() [16]byte) *Treasury {
	past := NewHistory(cfg)
	return &Treasury{
		cfg: cfg, Past: past, Book: past.Book, salt: salt,
		asked: map[string]bus.Grant{}, grants: map[string][]bus.Grant{},
		early: map[string]map[uint64]early{}, leads: map[string]led{},
		keys: map[string]*bus.VouchKeys{}, heard: map[string]word{}, room: true,
		own:       journal{settled: true},
		waitlists: map[string]*waitlist{}, polls: map[string]*poll{},
		budgets: budgets{jobs: map[string]*job{}, short: map[string]map[string]bool{},
			spent: map[[2]string]market.Credits{}, settled: map[string]bool{}},
		usesAt: bounded.New[string, string, time.Time](maxUses, 0),
	}
}

// NewHistory returns the history for replaying a treasury's journal.
func NewHistory(cfg Config) *ledger.History {
	return ledger.NewHistory(ledger.HistoryLimits{Grants: cfg.Grants})
}

// Restore takes over what was replayed. It comes before the first request.
func (t *Treasury) Restore() error {
	if o := t.Book.Journal(); o.Journal != "" &&
		(o.Role != ledger.RoleTreasury || o.Journal != t.cfg.Journal) {
		return fmt.Errorf("this is the journal of %s %q, not of treasury %q", o.Role, o.Journal,
			t.cfg.Journal)
	} else if o.Journal != "" && o.Currency != t.cfg.Currency {
		return fmt.Errorf("treasury: currency: this journal counts in %s for good, and not in %s", o.Currency,
			t.cfg.Currency)
	}
	for hub, grants := range t.Past.Grants {
		for _, g := range grants {
			t.remember(bus.Grant{Number: g.Number, Client: g.Client, Hub: hub,
				Amount: g.Amount}, g.Note)
		}
	}
	t.Past = nil
	return nil
}

// Begin writes the journal's first record if there is none yet.
func (t *Treasury) Begin() error {
	if t.Book.Journal().Journal != "" {
		return nil
	}
	r := ledger.NewOpen(t.cfg.Journal, ledger.RoleTreasury, "", t.salt())
	r.Open.Currency = t.cfg.Currency
	return t.apply(r)
}

// Ready returns what is to be done since the last call.
func (t *Treasury) Ready() Ready {
	for len(t.richer) > 0 {
		client := t.richer[0]
		t.richer = t.richer[1:]
		t.came(client)
	}
	r := t.ready
	t.ready = Ready{}
	r.Wake = t.wake()
	return r
}

// Tick lets time pass. It is due before a message of that time is handled, and whenever Ready says so.
func (t *Treasury) Tick(now time.Time) {
	if t.since.IsZero() {
		t.since = now
	}
	t.jump(now)
	if setBack := t.doubt(now); setBack || now.After(t.now) {
		t.now = now
	}
	t.lookOn()
}

// Handle takes a request in. to comes back with the answer. room is false while the disk is nearly full: then
// no money is taken in or allotted, since it might never be written down.
func (t *Treasury) Handle(op string, req *bus.FundsRequest, to any, room bool) {
	t.room = room
	err := t.handle(op, req, to)
	if err == errLater {
		return
	}
	t.reply(op, req, to, err)
}

// reply answers a request by its outcome.
func (t *Treasury) reply(op string, req *bus.FundsRequest, to any, err error) {
	reply := bus.FundsReply{}
	switch {
	case err != nil:
		reply = refusal(err)
	case op == bus.OpAllot:
		reply.Grants = []bus.Grant{t.asked[req.ID]}
	case op == bus.OpAllotted:
		reply.Grants, reply.Returned = t.after(req.Hub, req.After), t.Book.LastReturn(req.Hub)
		reply.Ended = t.Book.Closed(req.Hub)
	case op == bus.OpSums:
		reply = t.sums()
	case op == bus.OpBudget:
		req = &bus.FundsRequest{ID: req.ID, Client: req.To}
	}
	if op == bus.OpAllotted {
		if known, _ := t.Book.Marked(req.Hub); !known.Zero() {
			reply.Known = &known
		}
		reply.Lost = t.Book.WrittenOff(req.Hub)
		reply.Contradicted = t.own.denied && t.denies(req) == ""
	}
	t.answer(to, req, reply)
}

// refusal is the answer where there is an error.
func refusal(err error) (reply bus.FundsReply) {
	reply.Code, reply.Message, reply.Unmade = bus.CodeOf(err), bus.MessageOf(err), err == errFull
	if reply.Code == bus.CodeAllotmentPending {
		reply.RetryMS = askAgain.Milliseconds()
	}
	return reply
}

func (t *Treasury) answer(to any, req *bus.FundsRequest, reply bus.FundsReply) {
	if to == nobody {
		return
	}
	reply.ID, reply.Client, reply.Journal = req.ID, req.Client, t.Book.ID()
	if req.Client != "" {
		reply.Prepaid, _ = t.Book.Prepaid(req.Client)
		reply.Allotted = t.Book.Allotted(req.Client, "")
	}
	t.ready.Answers = append(t.ready.Answers, Answer{to, reply})
}

// errFull refuses what would be new while the disk is nearly full.
var errFull = &bus.Error{Code: bus.CodeUnavailable,
	Message: "the treasury's disk is nearly full: nothing is taken in or allotted until there is room"}

// made reports whether an operation is known under its id, with this content or another: then there is
// nothing to write down.
func (t *Treasury) made(op string, req *bus.FundsRequest) bool {
	switch op {
	case bus.OpAllot:
		_, ok := t.asked[req.ID]
		return ok
	case bus.OpBudget:
		a, ok := t.Book.Allowance(req.To)
		return ok && a.Of == req.Client && a.Every == req.Every && a.Amount == req.Amount
	}
	return t.Book.Made(op + "/" + req.ID)
}

// errLater: the answer comes with a later request.
var errLater = errors.New("later")

// asksAsHub reports whether it is a hub that asks for such a thing.
func asksAsHub(op string) bool {
	switch op {
	case bus.OpAllot, bus.OpReturn, bus.OpAllotted, bus.OpClose:
		return true
	}
	return false
}

func refuse(code bus.Code, format string, args ...any) error {
	return &bus.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

func (t *Treasury) handle(op string, req *bus.FundsRequest, to any) error {
	switch op {
	case bus.OpDeposit, bus.OpPayout, bus.OpMove, bus.OpBudget, bus.OpAllot, bus.OpReturn, bus.OpBalance:
		if err := bus.CheckID("client", req.Client); err != nil {
			return refuse(bus.CodeBadRequest, "%v", err)
		}
	case bus.OpAllotted, bus.OpDistribute, bus.OpRemit, bus.OpRefund, bus.OpMonth, bus.OpClose,
		bus.OpWriteOff, bus.OpSums:
	default:
		return refuse(bus.CodeBadRequest, "unknown operation %.40q: use one of %s", op, strings.Join(
			[]string{bus.OpDeposit, bus.OpPayout, bus.OpMove, bus.OpBudget, bus.OpBalance, bus.OpAllot,
				bus.OpReturn, bus.OpAllotted, bus.OpDistribute, bus.OpRemit, bus.OpRefund, bus.OpMonth,
				bus.OpClose, bus.OpWriteOff, bus.OpSums}, ", "))
	}
	switch op {
	case bus.OpDeposit, bus.OpPayout, bus.OpMove, bus.OpAllot, bus.OpReturn:
		if req.Amount <= 0 || req.Amount > market.MaxCredits {
			return refuse(bus.CodeBadRequest, "amount is %s: want more than 0 and at most %s credits",
				req.Amount, market.MaxCredits)
		}
		if !ledger.ValidOp(req.ID) {
			return refuse(bus.CodeBadRequest,
				"id: %.80q is not an operation's id: use 1 to 128 visible characters but '/', new for "+
					"every operation and the same when one is repeated", req.ID)
		}
	}
	if asksAsHub(op) {
		if err := t.checkHub(req); err != nil {
			return err
		}
	}
	if op == bus.OpAllotted {
		t.hearClock(req.Hub, req.AtMS)
		if err := t.judge(req); err != nil {
			return err
		}
	}
	if why := t.own.closed; why != "" {
		return refuse(bus.CodeUnavailable, "%s", bus.Clip(why, bus.MaxText))
	}
	if asksAsHub(op) {
		if err := t.denied(req.Hub); err != nil {
			return err
		}
	}
	if !t.room && !t.made(op, req) &&
		slices.Contains([]string{bus.OpDeposit, bus.OpAllot, bus.OpPayout, bus.OpMove, bus.OpBudget}, op) {
		if t.waitlists[req.Client].find(op, req) != nil { // it is made yet, once there is room
			return refuse(bus.CodeUnavailable, "%s", errFull.Message)
		}
		return errFull
	}
	if err := t.needsSecond(op, req); err != nil {
		return err
	}
	switch op {
	case bus.OpDeposit:
		err := t.apply(ledger.NewDeposit(req.ID, req.Client, req.Amount, t.said(req, false), t.salt()))
		t.came(req.Client)
		return t.given(req.Client, err)
	case bus.OpPayout, bus.OpMove:
		return t.payout(op, req, to)
	case bus.OpBudget:
		return t.budget(req)
	case bus.OpAllot:
		return t.allot(req, to)
	case bus.OpReturn:
		err := t.giveBack(req, to)
		t.note(op, req)
		return err
	case bus.OpAllotted:
		t.note(op, req)
		return t.canTell(req)
	case bus.OpDistribute, bus.OpRemit, bus.OpRefund:
		return t.order(op, req, to)
	case bus.OpMonth:
		return t.closeMonth(req, to)
	case bus.OpClose:
		return t.close(req)
	case bus.OpWriteOff:
		return t.writeOff(req, to)
	case bus.OpSums:
		return nil
	}
	if err := t.known(req.Client); err != nil || !req.Hubs {
		return err
	}
	return t.look(req, to)
}

// checkHub judges who asks. A hub that was deposed must not take money that its successor will not know of.
func (t *Treasury) checkHub(req *bus.FundsRequest) error {
	if !ledger.ValidID(req.Hub) || req.Hub == t.cfg.Journal {
		return refuse(bus.CodeBadRequest, "hub: %.80q is not the name of a hub's journal", req.Hub)
	}
	if seen := t.epochOf(req); req.Epoch < seen {
		return refuse(bus.CodeStaleEpoch, "epoch %d of hub %s is over: epoch %d leads", req.Epoch, req.Hub,
			seen)
	}
	if _, heard := t.heard[req.Hub]; !heard {
		if err := t.admit(req.Hub); err != nil {
			return err
		}
	}
	t.hear(req.Hub, req.Domain)
	if t.Book.WrittenOff(req.Hub) {
		return refuse(bus.CodeBadRequest, "the journal of hub %s was written off, and clients have back "+
			"what they had "+
			"there: nothing of it is taken in any more; start this hub with a journal of another name",
			req.Hub)
	}
	return nil
}

// admit makes place for a hub that was not heard of since the start. Any name may ask, so names without
// dealings give way; one that money was granted to stays.
func (t *Treasury) admit(hub string) error {
	if t.Book.Knows(hub) {
		return nil
	}
	if t.Book.Dealings()-t.Book.EndedHubs() >= t.cfg.MaxHubs {
		return refuse(bus.CodeUnavailable, "hub %s is one more than the %d that this treasury serves", hub,
			t.cfg.MaxHubs)
	}
	if len(t.heard) >= 2*t.cfg.MaxHubs {
		maps.DeleteFunc(t.heard, func(hub string, _ word) bool { return !t.Book.Knows(hub) })
	}
	return nil
}

// led is a domain's leader: the journal that it names, and the epoch.
type led struct {
	hub   string
	epoch int64
}

// Leads takes in which hub leads a domain, and in which epoch, by the registry. No other number is
// remembered: one that a request names might be a mistake, and would make the hub stale for ever.
func (t *Treasury) Leads(hub, domain string, epoch int64) {
	was, known := t.leads[domain]
	if ledger.ValidID(hub) && epoch >= was.epoch && (known || len(t.leads) < t.cfg.MaxHubs) {
		t.leads[domain] = led{hub, epoch}
	}
}

// epochOf is the epoch that the registry names for a request's hub: in the domain that it speaks for, as
// another domain's may name it, too. One that speaks for none yet may lead any.
func (t *Treasury) epochOf(req *bus.FundsRequest) (epoch int64) {
	if l := t.leads[req.Domain]; l.hub == req.Hub {
		return l.epoch
	}
	for _, l := range t.leads {
		switch {
		case l.hub != req.Hub:
		case l.epoch == req.Epoch:
			return l.epoch
		case epoch == 0 || l.epoch < epoch:
			epoch = l.epoch
		}
	}
	return epoch
}

// Doubts reports whether a request comes of a later epoch of its hub than the registry is known to have
// named.
func (t *Treasury) Doubts(op string, req *bus.FundsRequest) bool {
	return asksAsHub(op) && req.Epoch > t.epochOf(req)
}

// Doubted refuses a request of an epoch that the registry does not name.
func (t *Treasury) Doubted(op string, req *bus.FundsRequest, to any) {
	if op == bus.OpWriteOff {
		t.answer(to, req, refusal(refuse(bus.CodeUnavailable, "the registry does not say which hubs lead, "+
			"and one that does is not written off: ask again")))
		return
	}
	t.answer(to, req, bus.FundsReply{Code: bus.CodeUnavailable, Message: fmt.Sprintf(
		"the registry does not name epoch %d as that of hub %.80s: a hub asks again once it leads its domain",
		req.Epoch, req.Hub)})
}

// apply books a record and keeps it for the next frame. The same operation again is no error and changes
// nothing.
func (t *Treasury) apply(r ledger.Record) error {
	err := t.Book.Apply(&r)
	switch {
	case err == nil:
		t.ready.Records = append(t.ready.Records, r)
		return nil
	case err == ledger.ErrRepeat:
		return nil
	case errors.Is(err, ledger.ErrConflict):
		return &bus.Error{Code: bus.CodeIDConflict, Message: "another operation has this id: " + ledger.Plain(err)}
	case errors.Is(err, ledger.ErrFunds):
		return &bus.Error{Code: bus.CodeInsufficientFunds, Message: ledger.Plain(err)}
	}
	return &bus.Error{Code: bus.CodeBadRequest, Message: ledger.Plain(err)}
}
