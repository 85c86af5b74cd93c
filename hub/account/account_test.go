package account

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/tip"
	"souk/hub/estimate"
	"souk/hub/turn"
	"souk/ledger"
	"souk/market"
)

var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

const journal = "hub-math"

// hub is a hub of which there is only the room of money, and the treasury that it asks.
type hub struct {
	t     *testing.T
	turn  turn.Turn
	room  *Room
	tasks map[string]string          // the clients of those that are open, by id
	said  []string                   // what became of tasks, in words
	asked []turn.Funds               // not answered yet
	back  map[string]ledger.Transfer // returns that the treasury was told of
}

func newHub(t *testing.T) *hub {
	h := &hub{t: t, turn: turn.New(journal, "math", ledger.NewBook(), [32]byte{1}),
		tasks: map[string]string{}, back: map[string]ledger.Transfer{}}
	h.room = New(&h.turn, Times{AccountIdle: time.Minute, FundsWait: 3 * time.Second}, h)
	h.turn.Advance(start)
	h.turn.State = turn.State{Epoch: 7, Leading: true}
	h.must(h.turn.Commit(ledger.NewOpen(journal, ledger.RoleHub, "math", h.turn.Salt())))
	h.room.Lead()
	h.take()
	h.answer(bus.OpAllotted, bus.FundsReply{Epoch: 1})
	return h
}

// Funded implements Tasks.
func (h *hub) Funded(client, id string, reserved market.Credits, waited bool) {
	h.said = append(h.said, fmt.Sprintf("%s funded with %d", id, reserved))
}

// Refused implements Tasks.
func (h *hub) Refused(client, id string, code bus.Code, retry time.Duration, why string) {
	h.said = append(h.said, fmt.Sprintf("%s %s %v: %s", id, code, retry, why))
	h.end(id)
}

// Bounded implements Tasks.
func (h *hub) Bounded(client, id string, most market.Credits) market.Credits { return most }

func (h *hub) Doubted() { h.said = append(h.said, "doubted") }
func (h *hub) Cleared() { h.said = append(h.said, "cleared") }
func (h *hub) Ended()   { h.room.Close() }

func (h *hub) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// take takes what the room wants done.
func (h *hub) take() turn.Ready {
	out := h.turn.Take()
	for _, f := range out.Funds {
		if m := f.Request.Mark; m != nil {
			m.Sum = tip.Sum{1} // which who sends it adds
		}
		h.must(f.Request.Validate())
		if f.Op == bus.OpReturn {
			h.back[f.Request.ID] = ledger.Transfer{Client: f.Request.Client, Amount: f.Request.Amount}
		}
	}
	h.asked = append(h.asked, out.Funds...)
	for _, err := range out.Faults {
		h.said = append(h.said, "fault: "+err.Error())
	}
	return out
}

// pass lets time pass.
func (h *hub) pass(d time.Duration) {
	h.turn.Advance(h.turn.Now().Add(d))
	h.turn.Ring()
	h.room.CloseOn()
	h.take()
}

// task opens a task that wants so much, and least of that, and no more than worst.
func (h *hub) task(client, id string, wanted, worst, least market.Credits) {
	h.tasks[id] = client
	h.room.Open(client, id)
	until := h.turn.Now().Add(10 * time.Second)
	h.room.Fund(client, id, estimate.Need{Wanted: wanted, Worst: worst, Least: least, Until: until})
	h.take()
}

func (h *hub) end(id string) {
	client := h.tasks[id]
	delete(h.tasks, id)
	h.room.End(client, id)
	h.take()
}

// last is the last request of a kind that has no answer.
func (h *hub) last(op string) *bus.FundsRequest {
	h.t.Helper()
	for i := len(h.asked) - 1; i >= 0; i-- {
		if h.asked[i].Op == op {
			return &h.asked[i].Request
		}
	}
	h.t.Fatalf("no %s is asked, of %+v", op, h.asked)
	return nil
}

// answer answers that request.
func (h *hub) answer(op string, m bus.FundsReply) {
	h.t.Helper()
	m.ID = h.last(op).ID
	h.asked = slices.DeleteFunc(h.asked, func(f turn.Funds) bool { return f.Request.ID == m.ID })
	h.must(h.room.Answered(&m))
	h.take()
}

// grant answers a request for a client's money.
func (h *hub) grant(amount market.Credits, more ...func(*bus.FundsReply)) {
	h.t.Helper()
	m := bus.FundsReply{Epoch: 1}
	if q := h.last(bus.OpAllot); amount > 0 {
		m.Grants = []bus.Grant{{Number: h.turn.Book.LastGrant(journal) + 1, Client: q.Client, Hub: journal,
			Amount: amount}}
	}
	for _, f := range more {
		f(&m)
	}
	h.answer(bus.OpAllot, m)
}

// refuse answers it with a code, and what the treasury has.
func (h *hub) refuse(code bus.Code, prepaid, allotted market.Credits) {
	h.t.Helper()
	h.answer(bus.OpAllot, bus.FundsReply{Epoch: 1, Code: code, Prepaid: prepaid, Allotted: allotted})
}

// sound checks that the room's counts are those of its tasks.
func (h *hub) sound() {
	h.t.Helper()
	reserved, open, awaits := map[string]market.Credits{}, map[string]int{}, map[string]int{}
	for id, client := range h.tasks {
		t := h.room.clients[client].open[id]
		reserved[client] += t.reserved
		open[client]++
		if t.awaits {
			awaits[client]++
		}
		if t.awaits == (t.reserved > 0) || t.awaits != t.timer.IsSet() {
			h.t.Fatalf("task %s has %d reserved, and waits for money %v", id, t.reserved, t.awaits)
		}
	}
	for name, p := range h.room.clients {
		if p.reserved != reserved[name] || len(p.open) != open[name] || len(p.awaiting) != awaits[name] ||
			h.room.available(name) < 0 {
			h.t.Fatalf("%s has %d tasks (%d), %d of them without money (%d), %d reserved (%d), %d beside that", name,
				len(p.open), open[name], len(p.awaiting), awaits[name], p.reserved, reserved[name],
				h.room.available(name))
		}
	}
}

// The states of a task's money, and what ends each: see [task].
func TestStatesOfATasksMoney(t *testing.T) {
	pending := func(m *bus.FundsReply) { m.Code, m.RetryMS = bus.CodeAllotmentPending, 1000 }
	for name, c := range map[string]struct {
		events func(h *hub)
		want   string
	}{
		"what is granted funds it":                     {func(h *hub) { h.grant(50) }, "t funded with 50"},
		"so does a part of that, once there is enough": {func(h *hub) { h.grant(20); h.grant(30) }, "t funded with 50"},
		"the treasury knows no such client": {func(h *hub) { h.refuse(bus.CodeUnknownClient, 0, 0) },
			"t unknown_client 0s: the treasury knows no client ann: make a deposit first"},
		"there is too little": {func(h *hub) { h.refuse(bus.CodeInsufficientFunds, 9, 0) },
			"t insufficient_funds 0s: client ann lacks 0.000000001 credits for this task: deposit more (souk fund ann " +
				"AMOUNT), or, where that is the budget of a key, wait until it is filled up; its balance says what it " +
				"has where"},
		"there is enough for an answer that is not cut": {func(h *hub) {
			h.refuse(bus.CodeInsufficientFunds, 40, 0)
			h.grant(40)
		}, "t funded with 40"},
		"other hubs have it, so it asks for just enough, once": {func(h *hub) {
			h.refuse(bus.CodeInsufficientFunds, 0, 100)
			if q := h.last(bus.OpAllot); q.Needs != 10 {
				h.t.Errorf("asked for %+v, want what is just enough", q)
			}
			h.refuse(bus.CodeInsufficientFunds, 0, 100)
			h.said = []string{h.said[0][:22]}
		}, "t insufficient_funds 0s"[:22]},
		"other hubs give it back, and it waits for that": {func(h *hub) {
			h.grant(0, pending)
			h.pass(time.Second)
			h.grant(0, pending)
			h.pass(3 * time.Second)
			if len(h.said) > 0 {
				h.t.Error(h.said)
			}
			h.grant(50)
		}, "t funded with 50"},
		"until its time is over": {func(h *hub) {
			for range 12 {
				h.grant(0, pending)
				h.pass(time.Second)
				if len(h.said) > 0 {
					return
				}
			}
		}, "t past_deadline 0s: the deadline passed while the client's money was on its way"},
		"the treasury says nothing": {func(h *hub) { h.pass(3 * time.Second) },
			"t allotment_pending 1s: the treasury has not yet said whether ann has the money: try again"},
		"the bus says why": {func(h *hub) {
			h.answer(bus.OpAllot, bus.FundsReply{Code: bus.CodeUnavailable, Message: "nobody listens"})
			h.pass(3 * time.Second)
		}, "t allotment_pending 1s: the treasury said: nobody listens: try again"},
		"the treasury says what nobody knows": {func(h *hub) {
			h.answer(bus.OpAllot, bus.FundsReply{Epoch: 1, Code: bus.CodeBadRequest, Message: "what?"})
		}, "t allotment_pending 1s: the treasury said bad_request: what?"},
		"another ends, and leaves enough": {func(h *hub) {
			h.grant(60)
			h.task("ann", "u", 30, 20, 10)
			h.end("t")
		}, "t funded with 50; u funded with 30"},
		"an answer that need not be cut waits for another that ends": {func(h *hub) {
			h.grant(60)
			h.task("ann", "u", 60, 20, 5)
			h.refuse(bus.CodeInsufficientFunds, 0, 100)
			if q := h.last(bus.OpAllot); q.Needs != 20 {
				h.t.Errorf("asked for %+v, want what is enough for the answer", q)
			}
			h.end("t")
		}, "t funded with 50; u funded with 60"},
		"it ends while it waits": {func(h *hub) { h.end("t") }, ""},
		"a hold takes what is reserved": {func(h *hub) {
			h.grant(50)
			h.room.Release("ann", "t")
			if h.room.Reserved("ann") != 0 || h.room.Need("ann", "t").Wanted != 50 {
				h.t.Error("something is reserved beside the hold")
			}
			h.room.Fund("ann", "t", estimate.Need{Wanted: 50}) // and its agent refused it
		}, "t funded with 50; t funded with 50"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			if h.task("ann", "t", 50, 20, 10); h.room.Awaiting("ann") != 1 {
				t.Fatal("a task without money does not wait for it")
			}
			c.events(h)
			h.sound()
			if got := strings.Join(h.said, "; "); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			for id := range h.tasks {
				h.end(id)
			}
			if h.sound(); h.room.Reserved("ann") != 0 || h.room.Awaiting("ann") != 0 {
				t.Error("something is left of tasks that have ended")
			}
		})
	}
}

// Whatever a treasury answers, or does not, whenever, no task is forgotten, none is funded with what is not
// there, and of what was granted nothing is lost.
func TestMoneyUnderRandomEvents(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		h := newHub(t)
		made, granted := 0, map[string]market.Credits{}
		for range 300 {
			switch r.IntN(6) {
			case 0, 1:
				worst := 1 + market.Credits(r.IntN(50))
				made++
				h.task([]string{"ann", "bob"}[r.IntN(2)], fmt.Sprint("t", made),
					worst+market.Credits(r.IntN(50)), worst, 1+market.Credits(r.IntN(int(worst))))
			case 2:
				for id := range h.tasks { // any
					h.end(id)
					break
				}
			case 3:
				h.pass(time.Duration(r.IntN(4000)) * time.Millisecond)
			default:
				if len(h.asked) == 0 {
					break
				}
				f := h.asked[r.IntN(len(h.asked))]
				m := bus.FundsReply{ID: f.Request.ID, Epoch: 1, Prepaid: market.Credits(r.IntN(100))}
				switch k := r.IntN(8); {
				case k == 0:
					m.Epoch, m.Code = 0, bus.CodeUnavailable
				case f.Op != bus.OpAllot:
				case k < 4:
					m.Code = []bus.Code{bus.CodeInsufficientFunds, bus.CodeAllotmentPending,
						bus.CodeUnknownClient}[k-1]
					m.Allotted = market.Credits(r.IntN(2))
				default:
					amount := f.Request.Least + market.Credits(r.IntN(50))
					granted[f.Request.Client] += amount
					m.Grants = []bus.Grant{{Number: h.turn.Book.LastGrant(journal) + 1,
						Client: f.Request.Client, Hub: journal, Amount: amount}}
				}
				h.asked = slices.DeleteFunc(h.asked,
					func(o turn.Funds) bool { return o.Request.ID == f.Request.ID })
				if err := h.room.Answered(&m); err != nil && len(m.Grants) > 0 {
					granted[f.Request.Client] -= m.Grants[0].Amount // nobody asks for it any more
				}
				h.take()
			}
			h.sound()
		}
		h.pass(time.Hour)
		for id, client := range h.tasks {
			if h.room.clients[client].open[id].awaits {
				t.Fatalf("%s waits for money for ever", id)
			}
		}
		for _, x := range h.room.returns {
			h.back[bus.ReturnID(journal, x.Number)] = x
		}
		for client, amount := range granted {
			here, back := h.turn.Book.Avail(client), market.Credits(0)
			for _, x := range h.back {
				if x.Client == client {
					back += x.Amount
				}
			}
			if here+back != amount {
				t.Fatalf("of %d that %s was granted %d are here and %d went back", amount, client, here, back)
			}
		}
	}
}

// Of more clients than the hub keeps accounts for, it forgets those that are idle, and strands no money of
// them.
func TestManyIdleAccounts(t *testing.T) {
	h := newHub(t)
	const clients = idleAccounts + 200
	for i := range clients {
		name := fmt.Sprint("c", i)
		h.task(name, "t", 5, 5, 5)
		h.grant(9)
		h.end("t")
	}
	h.pass(time.Minute + time.Second)
	h.pass(time.Second)
	if n := len(h.room.clients); n > idleAccounts {
		t.Errorf("%d accounts are kept", n)
	}
	for i := range clients {
		if name := fmt.Sprint("c", i); h.room.clients[name] == nil && h.turn.Book.Avail(name) != 0 {
			t.Fatalf("%s has %v here and no account", name, h.turn.Book.Avail(name))
		}
	}
}

// A hub that was down for longer than clients may be idle keeps their money when it comes back: each has the
// usual time to come again, and needs no treasury for that.
func TestMoneyStaysAfterALongStop(t *testing.T) {
	h := newHub(t)
	h.task("ann", "t1", 10, 10, 10)
	h.grant(80)
	h.end("t1")
	h.room.Depose()
	h.turn.Leading = false
	h.turn.Advance(h.turn.Now().Add(time.Hour))
	h.turn.Leading = true
	h.room.Lead()
	h.take()
	h.answer(bus.OpAllotted, bus.FundsReply{Epoch: 1})
	h.pass(0)
	if got := h.turn.Book.Avail("ann"); got != 80 {
		t.Fatalf("of 80 there are %v at once", got)
	}
	h.pass(time.Minute)
	if got := h.turn.Book.Avail("ann"); got != 40 {
		t.Fatalf("after a minute without a task %v are left, and not what four tasks need", got)
	}
}

// A request ahead of need that finds nothing refuses nobody: for the task that needs it money is recalled.
func TestARefusalAheadOfNeedRefusesNobody(t *testing.T) {
	h := newHub(t)
	h.task("ann", "t1", 10, 10, 10)
	h.grant(15)
	h.pass(aheadAgain)
	h.task("ann", "t2", 5, 5, 5) // which leaves nothing, so more is asked for
	if q := h.last(bus.OpAllot); !q.Ahead {
		t.Fatalf("asked %+v", q)
	}
	h.task("ann", "t3", 10, 10, 10)
	h.refuse(bus.CodeInsufficientFunds, 0, 0)
	if q := h.last(bus.OpAllot); q.Ahead || q.Needs != 10 || h.room.Awaiting("ann") != 1 {
		t.Errorf("asked %+v, want what t3 needs; %v", q, h.said)
	}
}

// A treasury that is away is asked by a bounded number of requests, however many wait.
func TestRequestsUnderWayAreBounded(t *testing.T) {
	h := newHub(t)
	for i := range 2000 {
		h.task(fmt.Sprint("c", i), fmt.Sprint("t", i), 5, 5, 5)
	}
	for range 600 {
		h.pass(100 * time.Millisecond)
		if n := h.room.flying; n > MaxRequests {
			t.Fatalf("%d requests are under way", n)
		}
	}
	if n := len(h.asked); n > MaxRequests*60 {
		t.Errorf("%d requests in a minute", n)
	}
	if n := len(h.room.requests); n > MaxRequests+1 || len(h.tasks) > 0 {
		t.Errorf("%d requests are kept, and %d tasks wait", n, len(h.tasks))
	}
}

// What has come since a hub asked to be ended does not get lost in its journal.
func TestAJournalWithMoneyIsNotClosed(t *testing.T) {
	for _, comes := range []bool{false, true} {
		h := newHub(t)
		h.room.Close()
		h.pass(0)
		h.last(bus.OpClose)
		if comes {
			h.room.accept([]bus.Grant{{Number: 1, Client: "ann", Hub: journal, Amount: 5}})
		}
		h.answer(bus.OpClose, bus.FundsReply{Epoch: 1})
		if h.turn.Closed() == comes {
			t.Errorf("money comes %v: the journal is closed %v", comes, h.turn.Closed())
		}
	}
}

// Of a word that another has overtaken the treasury takes in no charges: they are told again.
func TestChargesAreToldAgain(t *testing.T) {
	for _, overtaken := range []bool{false, true} {
		h := newHub(t)
		mark := &tip.Mark{Journal: tip.Sum{9}, Seq: 3, Sum: tip.Sum{1}}
		h.pass(bus.FundsEvery)
		h.answer(bus.OpAllotted, bus.FundsReply{Epoch: 1, Mark: mark, Journal: mark.Journal})
		h.room.Charged("ann")
		h.pass(bus.FundsEvery)
		q := h.last(bus.OpAllotted)
		if len(q.Spent) != 1 || q.Spent[0].Client != "ann" {
			t.Fatalf("told %+v, want ann's charges", q)
		}
		m := bus.FundsReply{Epoch: 1, Mark: mark, Journal: mark.Journal, Here: tip.Sum{1},
			Known: &tip.Mark{Journal: q.Mark.Journal, Seq: q.Mark.Seq, Sum: tip.Sum{1}}}
		if overtaken { // by what was told of a later frame
			h.must(h.turn.Commit(ledger.NewAccept(journal, 1, "ann", 5, h.turn.Salt())))
			m.Known.Seq++
		}
		h.answer(bus.OpAllotted, m)
		tells := func(f turn.Funds) bool { return len(f.Request.Spent) > 0 }
		got := slices.Contains(h.room.changed, "ann") || slices.ContainsFunc(h.asked, tells)
		if got != overtaken {
			t.Errorf("overtaken %v: told again %v, of %+v", overtaken, got, h.asked)
		}
	}
}

// A hub shows the treasury the last that each door vouched for in each of its lines, whatever order tasks
// came in, and no more of them than a request may have.
func TestAHubShowsWhatDoorsVouchFor(t *testing.T) {
	h := newHub(t)
	voucher := func(door string, line uint64, total market.Credits) {
		h.room.Vouched(&bus.Task{Client: "ann", Door: door, Voucher: bus.NewVoucher(
			make([]byte, bus.VouchKeyBytes), door, "ann", journal, line, total, market.Credit)})
	}
	voucher("d0", 1, 5) // of whom nothing is known here
	h.task("ann", "t", 5, 5, 5)
	voucher("d1", 4, 30)
	voucher("d1", 4, 20) // overtaken
	voucher("d1", 5, 10) // of its next line
	voucher("d2", 4, 40)
	voucher("d1", 4, 50)
	shows := func() string {
		var s []string
		h.answer(bus.OpAllot, bus.FundsReply{Code: bus.CodeUnavailable}) // it asks once more
		h.pass(repeatAfter)
		for _, v := range h.last(bus.OpAllot).Vouchers {
			s = append(s, fmt.Sprintf("%s/%d %d", v.Door, v.Voucher.Line(), int64(v.Voucher.Total())))
		}
		return strings.Join(s, ", ")
	}
	if got, want := shows(), "d1/5 10, d2/4 40, d1/4 50"; got != want {
		t.Errorf("it shows %s, want %s", got, want)
	}
	for i := range 2 * bus.MaxVouchers {
		voucher(fmt.Sprint("pod-", i), 1, 1)
	}
	if got := strings.Split(shows(), ", "); len(got) != bus.MaxVouchers ||
		got[0] != fmt.Sprintf("pod-%d/1 1", bus.MaxVouchers) {
		t.Errorf("it shows %v", got)
	}
}
