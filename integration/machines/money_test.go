package machines

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/cmd/choices"
	"souk/hub"
	"souk/ledger"
	"souk/ledger/treasury"
	"souk/market"
)

// economy is one treasury and several hubs, as state machines, on a network that loses, repeats, delays and
// reorders whatever they say to one another, with clients that want more at each hub than lies there. Time is
// virtual.
type economy struct {
	t    *testing.T
	r    *rand.Rand
	now  time.Time
	due  agenda
	hubs []*shop
	bank *treasury.Treasury

	loss, again float64       // of messages
	fails       float64       // of answers, after a word
	delay       time.Duration // at most
	down        bool          // the treasury hears nothing

	books    map[string]*ledger.Book // fed with what is durable
	frames   map[string][]ledger.Frame
	bytes    map[string][][]byte // of these
	deposits map[string]market.Credits
	paid     map[string]market.Credits
	payouts  map[string]market.Credits // by id, asked for
	shared   map[string]market.Credits // of surplus, by client
	shares   map[string]string         // by id of the distribution
	given    map[string]string         // those that were said to be made
	came     map[string]time.Time      // requests, at the treasury
	empty    map[[2]string]time.Time   // when a hub last had nothing idle of a client's
	answers  map[string]string         // by task
	told     map[string]string
	wake     time.Time // of the treasury
	asked    int       // recalls
	refused  int       // after one
	next     int
	waiting  map[string]bool // tasks without an answer
	pledged  pledges         // with tasks
}

// shop is a hub with an agent that serves whatever it gets.
type shop struct {
	name, domain string
	node         *hub.Node
	epoch        int64
	wake         time.Time
	heard        time.Time // by the treasury
}

// moment is something that happens at a time.
type moment struct {
	at    time.Time
	order uint64
	do    func()
}

type agenda struct {
	list  []moment
	count uint64
}

func (a *agenda) Len() int { return len(a.list) }
func (a *agenda) Less(i, j int) bool {
	return cmp.Or(a.list[i].at.Compare(a.list[j].at), cmp.Compare(a.list[i].order, a.list[j].order)) < 0
}
func (a *agenda) Swap(i, j int) { a.list[i], a.list[j] = a.list[j], a.list[i] }
func (a *agenda) Push(x any)    { a.list = append(a.list, x.(moment)) }
func (a *agenda) Pop() any {
	last := a.list[len(a.list)-1]
	a.list = a.list[:len(a.list)-1]
	return last
}

func newEconomy(t *testing.T, seed uint64, hubs int, deposits map[string]market.Credits) *economy {
	e := &economy{
		t: t, r: rand.New(rand.NewPCG(seed, 9)), now: time.Unix(1_800_000_000, 0),
		delay: 5 * time.Millisecond,
		books: map[string]*ledger.Book{}, frames: map[string][]ledger.Frame{}, bytes: map[string][][]byte{},
		deposits: deposits,
		paid:     map[string]market.Credits{},
		payouts:  map[string]market.Credits{}, came: map[string]time.Time{}, empty: map[[2]string]time.Time{},
		answers: map[string]string{}, told: map[string]string{}, waiting: map[string]bool{},
		shared: map[string]market.Credits{}, shares: map[string]string{}, given: map[string]string{},
	}
	salt := byte(0)
	e.bank = treasury.New(treasury.Default(), func() [16]byte { salt++; return [16]byte{salt} })
	if err := e.bank.Begin(); err != nil {
		t.Fatal(err)
	}
	e.bank.Vouches("door", pledgeKeys)
	e.bank.Tick(e.now)
	e.settle()
	for _, c := range sorted(deposits) {
		e.bank.Handle(bus.OpDeposit, &bus.FundsRequest{ID: "d-" + c, Client: c, Amount: deposits[c]}, nil,
			true)
	}
	e.settle()
	for i := range hubs {
		name := fmt.Sprint("hub-", i)
		c := choices.Hub()
		c.Domain, c.Hub, c.Journal = fmt.Sprint("d", i), name, name
		c.Silence, c.Suspect = time.Hour, time.Hour // its agent says nothing of itself
		n, err := hub.NewNode(c, [32]byte{byte(i + 1)})
		if err != nil {
			t.Fatal(err)
		}
		h := &shop{name: name, domain: c.Domain, node: n}
		e.hubs = append(e.hubs, h)
		e.lead(h)
	}
	return e
}

func sorted[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (e *economy) lead(h *shop) {
	h.epoch++
	if err := h.node.Lead(e.now, h.epoch); err != nil {
		e.t.Fatal(err)
	}
	reg := bus.Registration{
		Agent: "a-" + h.name, Boot: 1, Model: "llama",
		Domains: []bus.DomainScore{{Domain: h.domain, Score: 0.9}}, MaxModelLen: 8192, BlockSize: 16,
		KVTokens: 100_000, Slots: 3,
		Price: market.Price{Miss: market.Credit, Hit: market.Credit, Out: 200 * market.Credit},
		State: bus.StateReady,
	}
	if err := h.node.Join(e.now, reg); err != nil {
		e.t.Fatal(err)
	}
	e.turn(h)
}

func (e *economy) at(after time.Duration, do func()) {
	e.due.count++
	heap.Push(&e.due, moment{e.now.Add(after), e.due.count, do})
}

// say sends a message over the network.
func (e *economy) say(do func()) {
	for copies := 1; copies > 0; copies-- {
		if e.r.Float64() < e.again {
			copies++
		}
		if e.r.Float64() >= e.loss {
			e.at(time.Duration(e.r.Int64N(int64(e.delay))), do)
		}
	}
}

func (e *economy) durable(journal string, f ledger.Frame) {
	b := e.books[journal]
	if b == nil {
		b = ledger.NewBook()
		e.books[journal] = b
	}
	if err := b.ApplyFrame(f); err != nil {
		e.t.Fatalf("journal %s: %v", journal, err)
	}
	e.frames[journal] = append(e.frames[journal], f)
	e.bytes[journal] = append(e.bytes[journal], ledger.AppendFrame(nil, &f))
	for i := range f.Records {
		if r := &f.Records[i]; r.Kind == ledger.KindPayout {
			e.paid[r.Transfer.Client] += r.Transfer.Amount
		} else if x := r.Transfer; r.Kind == ledger.KindDistribute && journal == ledger.Treasury {
			e.shared[x.Client] += x.Amount
			e.shares[bus.DistributeID(x.Hub, x.Number)] = fmt.Sprint(x.Amount, " to ", x.Client)
		}
	}
}

// settle does what the treasury wants.
func (e *economy) settle() {
	r := e.bank.Ready()
	if len(r.Records) > 0 {
		f, err := e.bank.Book.Seal(1, e.now.UnixNano(), r.Records)
		if err != nil {
			e.t.Fatal(err)
		}
		e.durable(ledger.Treasury, f)
	}
	stored := e.bytes[ledger.Treasury]
	for _, a := range r.Answers {
		reply := a.Reply
		if to, ok := a.To.(asker); ok {
			if to.hub != nil {
				reply.Mark = markOf(e.bank.Book, e.bank.Closed(), stored)
				reply = *asAnswered(reply, e.bytes[to.hub.name])
				e.judge(to.hub, to.op, to.req, &reply)
			}
			e.say(func() { to.hear(&reply) })
		}
	}
	for _, q := range r.Recalls {
		e.asked++
		ask := q.Ask
		for _, h := range e.hubs {
			if h.domain == q.Domain {
				e.say(func() {
					ask := ask
					ask.Inbox = "treasury"
					h.node.Step(e.now, &ask)
					e.idle() // before time frees what it reserved
					e.turn(h)
				})
			}
		}
	}
	e.wakeAt(&e.wake, r.Wake, func() { e.bank.Tick(e.now); e.settle() })
}

// wakeAt does something then, unless another time is set before.
func (e *economy) wakeAt(set *time.Time, at time.Time, do func()) {
	if *set = at; !at.IsZero() {
		e.at(max(0, at.Sub(e.now)), func() {
			if set.Equal(at) {
				*set = time.Time{}
				do()
			}
		})
	}
}

// asker says who gets an answer of the treasury.
type asker struct {
	hub  *shop // nil: a client
	op   string
	req  bus.FundsRequest
	hear func(*bus.FundsReply)
}

// ask puts a request to the treasury.
func (e *economy) ask(h *shop, op string, q bus.FundsRequest, hear func(*bus.FundsReply)) {
	e.say(func() {
		if e.down {
			return
		}
		if _, ok := e.came[q.ID]; !ok {
			e.came[q.ID] = e.now
		}
		e.bank.Tick(e.now)
		if h != nil {
			h.heard = e.now
		}
		q := asHeard(q, e.bytes[ledger.Treasury])
		e.bank.Handle(op, &q, asker{h, op, q, hear}, true)
		e.settle()
	})
}

// turn does what a hub wants, after the moment that its sync takes.
func (e *economy) turn(h *shop) {
	h.node.Tick(e.now)
	r := h.node.Ready()
	for _, f := range r.Frames {
		e.durable(h.name, f)
	}
	e.idle()
	for _, f := range r.Funds {
		epoch := h.epoch
		hear := func(m *bus.FundsReply) {
			if h.epoch == epoch {
				h.node.Step(e.now, m)
				e.turn(h)
			}
		}
		e.ask(h, f.Op, marked(f.Request, e.bytes[h.name]), hear)
		// the shell has waited for long enough; what it says may find the queue full
		e.at(2*time.Second, func() {
			if e.r.Float64() >= e.loss {
				hear(&bus.FundsReply{ID: f.Request.ID, Code: bus.CodeUnavailable})
			}
		})
	}
	for i := range r.Dispatches {
		d := r.Dispatches[i]
		agent := r.Placed[i].Agent
		yes := &bus.DispatchReply{Agent: agent, Boot: d.Boot, Hold: d.Hold}
		if h.node.Step(e.now, yes) == nil {
			e.at(time.Duration(50+e.r.IntN(3000))*time.Millisecond, func() {
				u := market.Usage{Prompt: 100, Output: 1 + e.r.IntN(40)}
				c := bus.Completion{
					Agent: agent, Boot: 1, Hold: d.Hold, Client: d.Task.Client, Task: d.Task.ID,
					Outcome: bus.OutcomeDone, Finish: "stop", Usage: u, Relayed: u.Output,
					Cost:   market.Settle(d.Settle, d.Price, d.Tariff, d.Quoted, u, d.CostCap),
					TTFTUS: 50_000, ITLUS: 10_000,
				}
				if e.fails > 0 && e.r.Float64() < e.fails {
					c.Outcome, c.Code, c.Finish, c.Cost = bus.OutcomeFailed, bus.CodeEngineFailed, "", 0
				}
				h.node.Step(e.now, &c)
				e.turn(h)
			})
		}
	}
	for _, l := range r.Messages {
		switch m := l.Body.(type) {
		case *bus.Answer:
			if m.Accepted != nil {
				e.answers[m.Accepted.Task] = "accepted"
				delete(e.waiting, m.Accepted.Task)
			} else if e.answers[m.Result.Task] == "" {
				e.answers[m.Result.Task], e.told[m.Result.Task] = string(m.Result.Code), m.Result.Message
				delete(e.waiting, m.Result.Task)
			}
		case *bus.RecallReply:
			e.say(func() {
				reply := *m
				e.bank.Tick(e.now)
				e.bank.Said(&reply)
				e.settle()
			})
		}
	}
	for _, err := range r.Faults {
		if e.books[ledger.Treasury].Closed(h.name) && strings.Contains(err.Error(), "as ended") {
			continue // it was killed before it closed its journal
		}
		e.t.Fatalf("%s: %v", h.name, err)
	}
	if len(r.Dispatches) > 0 {
		e.turn(h)
		return
	}
	e.wakeAt(&h.wake, r.Wake, func() { e.turn(h) })
}

// idle notes which hubs have nothing of a client's money that no task needs.
func (e *economy) idle() {
	for _, h := range e.hubs {
		for c := range e.deposits {
			if e.available(h, c) == 0 {
				e.empty[[2]string{h.name, c}] = e.now
			}
		}
	}
}

// available returns the money of a client at a hub that no task needs, as the hub would report it.
func (e *economy) available(h *shop, client string) market.Credits {
	return h.node.Book().Avail(client) - h.node.Money().Reserved(client)
}

// lively is how long the treasury waits for a silent hub.
const lively = 3 * bus.FundsEvery

// judge: nobody is refused for funds while idle money lies at another hub that lives, and has since it was
// asked for (I29).
func (e *economy) judge(h *shop, op string, q bus.FundsRequest, m *bus.FundsReply) {
	if e.bank.Book.LastReturn(h.name) > q.Returned {
		q.Least = q.Needs // it has given back what it had
	}
	if m.Code != bus.CodeInsufficientFunds || q.Ahead || op != bus.OpAllot {
		return
	}
	// now: more may have been granted since the answer, in the same turn
	most, _ := e.bank.Book.Prepaid(q.Client)
	for _, other := range e.hubs {
		if other != h {
			most += e.bank.Book.Allotted(q.Client, other.name)
		}
	}
	if _, said, ok := strings.Cut(m.Message, "hubs have at most "); ok {
		number, _, _ := strings.Cut(said, " ")
		if all, err := market.ParseCredits(number); err != nil || m.Prepaid+all >= q.Least {
			e.t.Fatalf("%s is refused %s, which would suffice: %s (%v)", h.name, q.Least, m.Message, err)
		}
		return // it could not suffice whatever is idle
	}
	if most < q.Least {
		return
	}
	e.refused++
	for _, other := range e.hubs {
		k := [2]string{other.name, q.Client}
		if idle := e.available(other, q.Client); other != h && idle > 0 && e.empty[k].Before(e.came[q.ID]) &&
			e.now.Sub(other.heard) < lively {
			e.t.Fatalf("%s is refused %s of %s (%s), and %s has had %s idle since before it asked at %v; "+
				"now it is %v", h.name, q.Least, q.Client, m.Message, other.name, idle, e.came[q.ID], e.now)
		}
	}
}

// run lets time pass.
func (e *economy) run(d time.Duration) {
	end := e.now.Add(d)
	for len(e.due.list) > 0 && !e.due.list[0].at.After(end) {
		ev := heap.Pop(&e.due).(moment)
		e.now = ev.at
		ev.do()
	}
	e.now = end
}

// task sends one that takes so much while it waits and runs.
func (e *economy) task(h *shop, client string, takes market.Credits, deadline time.Duration) string {
	e.next++
	id := fmt.Sprint("t", e.next)
	worth := 30 * market.Credit
	m := &bus.Task{Client: client, ID: id, Kind: bus.KindChat, Body: []byte(`{"messages":[]}`),
		MaxTokens: 7900,
		Prompt: bus.Prompt{Bytes: 400, Messages: 1, Tokens: 100,
			Prefixes: []bus.PrefixHash{{Bytes: 400, Hash: 42}}},
		Inbox: "inbox", DeadlineMS: e.now.Add(deadline).UnixMilli()}
	m.Terms.Worth, m.Terms.MaxPrice = &worth, &takes
	m.Door, m.Voucher = "door", e.pledged.voucher(client, h.name, takes)
	e.waiting[id] = true
	h.node.Step(e.now, m)
	e.turn(h)
	return id
}

// conserved: what is under way between treasury and hubs is never negative, nobody has paid more than it
// deposited, and every audit says so, at whatever moment (level 5).
func (e *economy) conserved() (underWay market.Credits) {
	e.t.Helper()
	bank := e.books[ledger.Treasury]
	audits := []*ledger.Audit{}
	for _, h := range e.hubs {
		b := e.books[h.name]
		flying := bank.Balance(ledger.Clearing(h.name)) + b.Balance(ledger.Clearing(ledger.Treasury))
		if flying < 0 || b.LastGrant(h.name) > bank.LastGrant(h.name) ||
			b.LastReturn(h.name) < bank.LastReturn(h.name) {
			e.t.Fatalf("%s under way to or from %s", flying, h.name)
		}
		underWay += flying
		audits = append(audits, e.audit(h.name))
	}
	e.pledged.cover(e.t, e.frames[ledger.Treasury])
	for c, deposit := range e.deposits {
		prepaid, _ := bank.Prepaid(c)
		have := prepaid + bank.Allotted(c, "")
		if have+e.paid[c] != deposit+e.shared[c] {
			e.t.Fatalf("%s has %s and was paid %s of %s and %s of surplus", c, have, e.paid[c], deposit,
				e.shared[c])
		}
	}
	if found := ledger.Across(e.audit(ledger.Treasury), audits); len(found) > 0 {
		e.t.Fatalf("the audit finds %v", found)
	}
	return underWay
}

// arrived: nothing stays under way; an account may go idle at just this moment.
func (e *economy) arrived() {
	e.t.Helper()
	under := e.conserved()
	for begin := e.now; under != 0 && e.now.Sub(begin) < 5*time.Second; under = e.conserved() {
		e.run(100 * time.Millisecond)
	}
	if under != 0 {
		e.t.Fatalf("%s are still under way", under)
	}
}

func (e *economy) audit(journal string) *ledger.Audit {
	a := ledger.NewAudit(journal, ledger.LevelAcross)
	for i := range e.frames[journal] {
		f := &e.frames[journal][i]
		a.Frame(f.Seq, f.Epoch, ledger.AppendFrame(nil, f))
	}
	if r := a.Finish(); r.Count > 0 {
		e.t.Fatalf("journal %s: %v", journal, r.Findings)
	}
	return a
}

// left returns everything that a client has, spent or not yet: everywhere but with agents.
func (e *economy) left(client string) market.Credits {
	sum, _ := e.books[ledger.Treasury].Prepaid(client)
	for _, h := range e.hubs {
		sum += e.books[h.name].Avail(client) + e.books[h.name].Held(client)
	}
	return sum
}

// payout asks for one until it is answered, as the command does.
func (e *economy) payout(client, id string, amount market.Credits, done func(*bus.FundsReply)) {
	e.payouts[id] = amount
	answered := false
	var ask func()
	ask = func() {
		if answered {
			return
		}
		e.ask(nil, bus.OpPayout, bus.FundsRequest{ID: id, Client: client, Amount: amount},
			func(m *bus.FundsReply) {
				if m.Code != bus.CodeAllotmentPending && m.Code != bus.CodeUnavailable && !answered {
					answered = true
					done(m)
				}
			})
		e.at(time.Second, ask)
	}
	ask()
}

// Whatever is lost, repeated, late or overtaken: no credit is lost or made, no client is refused for funds
// while idle money of it lies at another hub, and when messages pass again each is served, whichever hub it
// asks, within seconds and without asking again, with one task that takes nearly all that it has.
func TestMoneyFindsItsWay(t *testing.T) {
	seeds := 40
	if testing.Short() {
		seeds = 8
	}
	refused, served := 0, 0
	for range seeds {
		seed := rand.Uint64()
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			e := moneyFindsItsWay(t, seed)
			refused += e.refused
			for _, a := range e.answers {
				if a == "accepted" {
					served++
				}
			}
		}) {
			return
		}
	}
	if t.Logf("%d tasks were served, %d refused after a recall", served, refused); refused == 0 &&
		!testing.Short() || served < 50*seeds {
		t.Error("that proves little")
	}
}

func moneyFindsItsWay(t *testing.T, seed uint64) *economy {
	e := newEconomy(t, seed, 5,
		map[string]market.Credits{"ann": 10 * market.Credit, "bob": 4 * market.Credit,
			"rich": 5000 * market.Credit})
	clients := []string{"ann", "ann", "bob", "rich"}
	e.loss, e.again, e.delay = 0.4*e.r.Float64(), 0.3*e.r.Float64(),
		time.Duration(1+e.r.IntN(1500))*time.Millisecond
	for range 400 {
		h := e.hubs[e.r.IntN(len(e.hubs))]
		switch k := e.r.IntN(100); {
		case k < 70:
			e.task(h, clients[e.r.IntN(len(clients))], market.Credit/10+
				market.Credits(e.r.Int64N(int64(5*market.Credit))), time.Duration(1+e.r.IntN(20))*time.Second)
		case k < 73:
			h.node.Depose(e.now)
			e.turn(h)
			e.run(time.Duration(e.r.IntN(3000)) * time.Millisecond)
			e.lead(h)
		case k < 76:
			e.down = !e.down
		case k < 79:
			e.payout("ann", fmt.Sprint("p", e.next, "-", k),
				1+market.Credits(e.r.Int64N(int64(market.Credit/50))), func(*bus.FundsReply) {})
		case k < 81:
			e.run(70 * time.Second) // accounts go idle
		}
		e.run(time.Duration(e.r.ExpFloat64() * float64(300*time.Millisecond)))
		if e.r.IntN(40) == 0 {
			e.conserved()
		}
	}
	e.loss, e.again, e.delay, e.down = 0, 0, 10*time.Millisecond, false
	e.run(40 * time.Second) // repeats, and what runs ends
	for id := range e.waiting {
		t.Fatalf("task %s was never answered", id)
	}
	e.arrived()
	for _, i := range e.r.Perm(len(e.hubs)) {
		for _, c := range []string{"ann", "bob"} {
			takes := e.left(c) * 9 / 10
			asked, begin := e.asked, e.now
			id := e.task(e.hubs[i], c, takes, 20*time.Second)
			for e.answers[id] == "" && e.now.Sub(begin) < 20*time.Second {
				e.run(100 * time.Millisecond)
			}
			if e.answers[id] != "accepted" {
				t.Fatalf("%s, who has %s, asks %s for %s and is told %q %s", c, e.left(c), e.hubs[i].name,
					takes, e.answers[id], e.told[id])
			}
			if took := e.now.Sub(begin); took > 5*time.Second || e.asked-asked > 3*len(e.hubs) {
				t.Errorf("%s is served after %v and %d questions", c, took, e.asked-asked)
			}
			e.run(5 * time.Second)
		}
	}
	// More than there is is refused, and all that there is can be paid out.
	for _, c := range []string{"ann", "bob"} {
		var paid, more *bus.FundsReply
		all := e.left(c)
		e.payout(c, "more-"+c, all+1, func(m *bus.FundsReply) { more = m })
		e.run(20 * time.Second)
		e.payout(c, "all-"+c, all, func(m *bus.FundsReply) { paid = m })
		e.run(20 * time.Second)
		if more == nil || more.Code != bus.CodeInsufficientFunds || paid == nil || paid.Code != "" ||
			e.left(c) != 0 {
			t.Fatalf("%s: more %+v, all %+v, left %s of %s", c, more, paid, e.left(c), all)
		}
	}
	e.arrived()
	return e
}

// Many tasks of a client want what is left of its money, at all hubs at once, until there is none: each is
// served or told so in good time, though each hub has a part of it, and would need those of others.
func TestAllThatIsLeftIsWantedEverywhere(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	const within = 30 * time.Second
	for range 40 {
		seed := rand.Uint64()
		takes := 2 * market.Credit
		e := newEconomy(t, seed, 3,
			map[string]market.Credits{"ann": takes * market.Credits(10+seed%200) / 10})
		begun, at, left, longest := map[string]time.Time{}, map[string]*shop{}, 120, time.Duration(0)
		ask := func(h *shop) {
			id := e.task(h, "ann", takes, 10*time.Minute)
			begun[id], at[id] = e.now, h
			left--
		}
		for i := range 24 {
			ask(e.hubs[i%3])
		}
		for len(begun) > 0 && longest < within {
			e.run(20 * time.Millisecond)
			for _, id := range sorted(begun) {
				longest = max(longest, e.now.Sub(begun[id]))
				if e.answers[id] != "" {
					delete(begun, id)
					if left > 0 {
						ask(at[id])
					}
				}
			}
		}
		if longest >= within || left > 0 {
			t.Errorf("seed %d: a task is told nothing for %v; %s are left, %d tasks are to come, the others heard %v",
				seed, longest, e.left("ann"), left, e.answers)
		}
		e.conserved()
	}
}

// What a client has left buys what it pays for at every hub, though it is less than a task may cost, and all
// of it is at another hub.
func TestTheLastIsSpentAtEveryHub(t *testing.T) {
	e := newEconomy(t, 1, 3, map[string]market.Credits{"eel": market.Credit})
	for i := range 9 {
		h := e.hubs[i%3]
		id := e.task(h, "eel", 5*market.Credit, 20*time.Second)
		e.run(8 * time.Second)
		if e.answers[id] != "accepted" {
			t.Fatalf("task %d, of a client that has %s, hears of %s: %s", i, e.left("eel"), h.name,
				e.told[id])
		}
	}
	e.arrived()
}

// Nor is a task told to come again when others at its hub have ended, while money that would do is idle at
// another hub.
func TestWhatIsIdleElsewhereIsNotWaitedFor(t *testing.T) {
	seen := 0
	for seed := range uint64(30) {
		e := newEconomy(t, seed, 2, map[string]market.Credits{"eel": 4 * market.Credit})
		at, other := e.hubs[0], e.hubs[1]
		e.task(at, "eel", 5*market.Credit, 20*time.Second)
		e.run(20 * time.Millisecond)
		e.task(other, "eel", 5*market.Credit, 20*time.Second)
		for range 300 {
			e.run(10 * time.Millisecond)
			if e.books[other.name].Held("eel") == 0 && e.available(other, "eel") > 0 {
				break
			}
		}
		if e.books[at.name].Held("eel") == 0 {
			continue
		}
		seen++
		id := e.task(at, "eel", 5*market.Credit, 20*time.Second)
		if e.run(time.Second); e.answers[id] != "accepted" {
			t.Errorf("seed %d: %s %s", seed, e.answers[id], e.told[id])
		}
	}
	if seen < 5 {
		t.Errorf("it came to that %d times", seen)
	}
}
