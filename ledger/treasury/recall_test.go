package treasury

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// bank is a treasury with a clock, and what its hubs were asked.
type bank struct {
	*office
	now    time.Time
	asked  []Recall
	heard  map[string][]bus.FundsReply // by request id
	wake   time.Time
	rounds int
}

func newBank(t testing.TB) *bank {
	b := &bank{office: open(t), now: time.Unix(1_800_000_000, 0).Add(time.Minute),
		heard: map[string][]bus.FundsReply{}}
	b.tr.Tick(b.now)
	return b
}

// put handles a request and keeps all answers that came.
func (b *bank) put(op string, req bus.FundsRequest) {
	b.tr.Tick(b.now)
	b.tr.Handle(op, vouched(op, &req), nil, true)
	b.take()
}

func (b *bank) take() {
	r := b.tr.Ready()
	b.asked, b.wake = append(b.asked, r.Recalls...), r.Wake
	if len(r.Records) > 0 {
		f, err := b.tr.Book.Seal(1, b.now.UnixNano(), r.Records)
		if err != nil {
			b.t.Fatal(err)
		}
		b.frames = append(b.frames, f)
	}
	for _, a := range r.Answers {
		if err := a.Reply.Validate(); err != nil {
			b.t.Fatalf("%+v: %v", a.Reply, err)
		}
		b.heard[a.Reply.ID] = append(b.heard[a.Reply.ID], a.Reply)
	}
}

// pass lets time pass, waking as the treasury wants.
func (b *bank) pass(d time.Duration) {
	end := b.now.Add(d)
	for !b.wake.IsZero() && !b.wake.After(end) {
		if b.wake.After(b.now) {
			b.now = b.wake
		}
		b.tr.Tick(b.now)
		b.take()
	}
	b.now = end
	b.tr.Tick(b.now)
	b.take()
}

// alive is a hub's regular word.
func (b *bank) alive(hub string) {
	b.put(bus.OpAllotted, bus.FundsRequest{ID: "alive", Hub: hub, Domain: "of-" + hub,
		After: b.tr.Book.LastGrant(hub)})
}

// last is the last answer to a request: its code, or "granted 7", or "" for none.
func (b *bank) last(id string) string {
	all := b.heard[id]
	if len(all) == 0 {
		return ""
	}
	switch r := all[len(all)-1]; {
	case r.Code != "":
		return string(r.Code)
	case len(r.Grants) == 1:
		return fmt.Sprint("granted ", int64(r.Grants[0].Amount))
	default:
		return "done"
	}
}

func (b *bank) want(id, answer string) {
	b.t.Helper()
	if got := b.last(id); got != answer {
		b.t.Fatalf("answer to %s: %q, want %q; all: %+v", id, got, answer, b.heard[id])
	}
}

// answer sends the answer of a hub that has kept so much to the last question.
func (b *bank) answer(hub string, kept market.Credits) {
	for i := len(b.asked) - 1; i >= 0; i-- {
		if q := b.asked[i]; q.Ask.Hub == hub {
			b.tr.Said(&bus.RecallReply{ID: q.Ask.ID, Hub: hub, Client: q.Ask.Client, Held: kept,
				Accepted: q.Ask.Granted, Returned: b.tr.Book.LastReturn(hub)})
			b.take()
			return
		}
	}
	b.t.Fatalf("hub %s was not asked", hub)
}

func (b *bank) giveBack(hub string, amount market.Credits) {
	b.put(bus.OpReturn, bus.FundsRequest{ID: bus.ReturnID(hub, b.tr.Book.LastReturn(hub)+1), Client: "ann",
		Hub: hub, Domain: "of-" + hub, Amount: amount})
}

// spread leaves ann's money with hubs alone.
func spread(b *bank, each market.Credits, hubs ...string) {
	b.put(bus.OpDeposit, bus.FundsRequest{ID: "d", Client: "ann", Amount: each * market.Credits(len(hubs))})
	for _, h := range hubs {
		b.alive(h)
		b.put(bus.OpAllot, bus.FundsRequest{ID: "first-" + h, Client: "ann", Hub: h, Domain: "of-" + h,
			Amount: each, Least: each})
		b.want("first-"+h, fmt.Sprint("granted ", int64(each)))
	}
	b.asked = nil
}

func TestARecallServesWhoAsks(t *testing.T) {
	b := newBank(t)
	spread(b, 50, "g", "h")
	b.alive("k")
	b.put(bus.OpAllot, bus.FundsRequest{ID: "need", Client: "ann", Hub: "k", Amount: 80, Least: 60})
	b.want("need", "")
	if len(b.asked) != 2 || b.asked[0].Domain != "of-g" || b.asked[1].Ask.Client != "ann" {
		t.Fatalf("asked %+v", b.asked)
	}
	b.giveBack("g", 45)
	b.answer("g", 5)
	b.want("need", "")
	b.giveBack("h", 20)
	b.want("need", "granted 60")
	if b.answer("h", 30); len(b.tr.polls) != 0 {
		t.Error("a poll is left")
	}
	// The same request again gets the same grant, and the hub that gave is asked no more.
	n := len(b.asked)
	b.put(bus.OpAllot, bus.FundsRequest{ID: "need", Client: "ann", Hub: "k", Amount: 80, Least: 60})
	b.want("need", "granted 60")
	if b.pass(time.Minute); len(b.asked) != n || len(b.tr.waitlists) != 0 {
		t.Errorf("%d more questions, %d pending", len(b.asked)-n, len(b.tr.waitlists))
	}
}

// A hub that does not answer is waited for as long as it lives. Until then nobody is told that there is no
// money.
func TestFundsAreInsufficientOnlyAfterTheHubsThatLiveHaveAnswered(t *testing.T) {
	b := newBank(t)
	spread(b, 50, "g", "h")
	ask := bus.FundsRequest{ID: "need", Client: "ann", Hub: "k", Domain: "of-k", Amount: 80, Least: 60}
	for range 40 {
		b.put(bus.OpAllot, ask)
		b.alive("h")
		b.answer("g", 50)
		b.pass(askAgain)
	}
	b.want("need", "allotment_pending")
	if r := b.heard["need"][0]; r.RetryMS <= 0 {
		t.Error("it is not told when to come back")
	}
	if n := len(b.asked); n > 2*22 {
		t.Errorf("%d questions in 10 s", n)
	}
	for range 80 {
		b.put(bus.OpAllot, ask)
		b.pass(askAgain) // h says nothing any more
	}
	b.want("need", "insufficient_funds")
	all := b.heard["need"]
	if m := all[len(all)-1].Message; !strings.Contains(m,
		"hub h, which has at most 0.00000005, does not answer") {
		t.Errorf("%s", m)
	}
	if got := b.tr.Book.Allotted("ann", "h"); got != 50 {
		t.Errorf("h has %d: something was taken by timeout", got)
	}
}

// A hub that was granted money and has not taken it in has not answered.
func TestAGrantUnderWayIsWaitedFor(t *testing.T) {
	b := newBank(t)
	spread(b, 50, "g")
	b.put(bus.OpAllot, bus.FundsRequest{ID: "need", Client: "ann", Hub: "k", Domain: "of-k", Amount: 50,
		Least: 50})
	q := b.asked[0].Ask
	if q.Granted != 1 {
		t.Fatalf("asked %+v", q)
	}
	b.tr.Said(&bus.RecallReply{ID: q.ID, Hub: "g", Client: "ann"})
	b.take()
	b.want("need", "")
	b.pass(recallAgain)
	// its return is under way
	b.tr.Said(&bus.RecallReply{ID: q.ID, Hub: "g", Client: "ann", Accepted: 1, Returned: 1})
	b.take()
	b.want("need", "")
	b.giveBack("g", 50)
	b.want("need", "granted 50")
}

// Who is granted something while others are asked is asked, too, for what it turns out not to need.
func TestWhatIsGrantedInAPollIsPartOfIt(t *testing.T) {
	b := newBank(t)
	spread(b, 50, "g")
	b.put(bus.OpAllot, bus.FundsRequest{ID: "need", Client: "ann", Hub: "k", Domain: "of-k", Amount: 50,
		Least: 50})
	b.giveBack("g", 30)
	b.put(bus.OpAllot, bus.FundsRequest{ID: "other", Client: "ann", Hub: "h", Domain: "of-h", Amount: 25,
		Least: 25})
	b.want("other", "granted 25")
	b.answer("g", 0)
	b.giveBack("g", 20)
	b.want("need", "")
	b.pass(recallAgain)
	b.giveBack("h", 25)
	b.want("need", "granted 50")
}

// Money that does not exist is not looked for, nor is money that is asked for ahead of need, nor at hubs that
// hear no questions.
func TestNothingIsRecalledInVain(t *testing.T) {
	b := newBank(t)
	spread(b, 50, "g", "h")
	b.put(bus.OpAllot, bus.FundsRequest{ID: "much", Client: "ann", Hub: "k", Domain: "of-k", Amount: 101,
		Least: 101})
	b.want("much", "insufficient_funds")
	b.put(bus.OpAllot, bus.FundsRequest{ID: "ahead", Client: "ann", Hub: "k", Domain: "of-k", Amount: 20,
		Least: 10, Ahead: true})
	b.want("ahead", "insufficient_funds")
	b.put(bus.OpAllotted, bus.FundsRequest{ID: "x", Hub: "g", After: 1})
	b.put(bus.OpAllotted, bus.FundsRequest{ID: "x", Hub: "h", After: 1})
	b.put(bus.OpAllot, bus.FundsRequest{ID: "old", Client: "ann", Hub: "k", Domain: "of-k", Amount: 20,
		Least: 20})
	b.want("old", "insufficient_funds")
	if len(b.asked) != 0 {
		t.Errorf("asked %+v", b.asked)
	}
}

// A treasury that has just started does not know which hubs live: it waits for their word before it says that
// there is no money.
func TestATreasuryThatHasJustStartedWaitsForItsHubs(t *testing.T) {
	b := newBank(t)
	spread(b, 50, "g")
	tr := b.replayed(0)
	b.tr = tr
	b.tr.Tick(b.now)
	ask := bus.FundsRequest{ID: "need", Client: "ann", Hub: "k", Domain: "of-k", Amount: 50, Least: 50}
	b.put(bus.OpAllot, ask)
	b.pass(2 * time.Second)
	b.want("need", "allotment_pending")
	b.alive("g")
	b.put(bus.OpAllot, ask)
	b.pass(recallAgain)
	b.giveBack("g", 50)
	b.want("need", "granted 50")
}

// However two hubs compete for one client's money, each hears a bounded number of questions.
func TestTwoHubsDoNotPlayPingPong(t *testing.T) {
	b := newBank(t)
	spread(b, 60, "g") // enough for one task, and then for the other
	at := "g"
	const seconds = 30
	for i := range seconds * 50 {
		want := []string{"h", "g"}[i%2]
		if want != at {
			b.put(bus.OpAllot,
				bus.FundsRequest{ID: fmt.Sprint("need-", want, b.tr.Book.LastGrant(want)), Client: "ann",
					Hub: want, Domain: "of-" + want, Amount: 60, Least: 60})
		}
		if len(b.asked) > b.rounds {
			b.rounds = len(b.asked)
			b.giveBack(at, 60)
			if b.tr.Book.Allotted("ann", want) != 60 {
				t.Fatalf("%s has %d", want, b.tr.Book.Allotted("ann", want))
			}
			at = want
		}
		b.pass(time.Second / 50)
	}
	if len(b.asked) < seconds || len(b.asked) > 2*seconds+1 {
		t.Errorf("%d questions in %d s", len(b.asked), seconds)
	}
}

func TestAPayoutRecallsFirst(t *testing.T) {
	b := newBank(t)
	spread(b, 50, "g", "h")
	pay := bus.FundsRequest{ID: "p", Client: "ann", Amount: 70}
	b.put(bus.OpPayout, pay)
	b.want("p", "")
	b.pass(answerWithin)
	b.want("p", "allotment_pending")
	b.giveBack("g", 50)
	b.giveBack("h", 40)
	b.put(bus.OpPayout, pay)
	b.want("p", "done")
	b.put(bus.OpPayout, pay) // once
	b.want("p", "done")
	if left, _ := b.tr.Book.Prepaid("ann"); left != 20 {
		t.Errorf("%d are left, want 20", left)
	}
	b.put(bus.OpPayout, bus.FundsRequest{ID: "p", Client: "ann", Amount: 71})
	b.want("p", "id_conflict")
	b.put(bus.OpPayout, bus.FundsRequest{ID: "q", Client: "ann", Amount: 25})
	b.pass(recallEvery)
	b.answer("h", 10)
	b.want("q", "insufficient_funds")
	if m := b.heard["q"][0].Message; !strings.Contains(m, "hub h needs 0.00000001 for tasks that run") {
		t.Errorf("%s", m)
	}
}

func TestABalanceAsksTheHubs(t *testing.T) {
	b := newBank(t)
	spread(b, 50, "g", "h")
	b.put(bus.OpBalance, bus.FundsRequest{ID: "b", Client: "ann", Hubs: true})
	b.want("b", "")
	if len(b.asked) != 2 || !b.asked[0].Ask.Look {
		t.Fatalf("asked %+v", b.asked)
	}
	b.tr.Said(&bus.RecallReply{ID: b.asked[0].Ask.ID, Hub: "g", Client: "ann", Avail: 30, Held: 15,
		Reserved: 10})
	b.pass(answerWithin)
	r := b.heard["b"][0]
	if len(r.Hubs) != 2 || r.Hubs[0].Avail != 30 || r.Hubs[0].Held != 15 || r.Hubs[0].Reserved != 10 ||
		r.Hubs[0].AtMS == 0 || r.Hubs[0].Domain != "of-g" ||
		r.Hubs[1].AtMS != 0 || r.Hubs[1].HeardMS == 0 || r.Hubs[1].Allotted != 50 {
		t.Errorf("%+v", r.Hubs)
	}
	if len(b.tr.looks) != 0 || len(b.tr.polls) != 0 {
		t.Error("the question is still under way")
	}
	b.put(bus.OpBalance, bus.FundsRequest{ID: "plain", Client: "ann"})
	b.want("plain", "done")
	b.put(bus.OpBalance, bus.FundsRequest{ID: "who", Client: "nobody", Hubs: true})
	b.want("who", "unknown_client")
}

// Of what tasks came to hubs tell thousands of sums: however often a client asks, each hears of it some ten
// times a second, and nobody else waits for that.
func TestUsageIsAskedForSoOften(t *testing.T) {
	b := newBank(t)
	spread(b, 50, "g")
	b.put(bus.OpDeposit, bus.FundsRequest{ID: "d-bob", Client: "bob", Amount: 10})
	b.put(bus.OpAllot, bus.FundsRequest{ID: "f", Client: "bob", Hub: "g", Domain: "of-g", Amount: 10,
		Least: 10})
	b.asked = nil
	ask := func(client, id string) {
		b.put(bus.OpBalance, bus.FundsRequest{ID: id, Client: client, Hubs: true, UsesDay: 1})
	}
	refused := 0
	for i := range 1000 {
		id := fmt.Sprint("b", i)
		ask("ann", id)
		b.pass(time.Millisecond)
		if r := b.heard[id]; len(r) == 1 && r[0].Code == bus.CodeTooManyTasks {
			refused++
		}
		for _, a := range b.asked[max(0, len(b.asked)-1):] {
			b.tr.Said(&bus.RecallReply{ID: a.Ask.ID, Hub: "g", Client: a.Ask.Client})
		}
	}
	if n := len(b.asked); n < 10 || n > 12 || refused < 980 || len(b.tr.looks) > 6 {
		t.Errorf("asked a thousand times in a second: the hub %d times, %d refused, %d wait", n, refused,
			len(b.tr.looks))
	}
	n := len(b.asked)
	ask("bob", "of bob")
	if len(b.asked) != n+1 || b.asked[n].Ask.Client != "bob" {
		t.Errorf("another's question waits: %+v", b.asked[n:])
	}
	b.pass(time.Second)
	ask("ann", "later")
	if last := b.asked[len(b.asked)-1]; last.Ask.Client != "ann" || last.Ask.UsesDay != 1 {
		t.Errorf("a second later: %+v", last)
	}
}

// Who waits is told when the treasury stops, and what waits is bounded whoever asks.
func TestWhatWaitsIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	b := newBank(t)
	spread(b, 50, "g")
	for i := range 3 * maxPending {
		b.put(bus.OpAllot, bus.FundsRequest{ID: fmt.Sprint("n", i), Client: "ann", Hub: fmt.Sprint("k", i),
			Amount: 50, Least: 50})
	}
	for i := range 2 * maxLooks {
		b.put(bus.OpBalance, bus.FundsRequest{ID: fmt.Sprint("b", i), Client: "ann", Hubs: true})
	}
	if n := len(b.tr.waitlists["ann"].queue); n != maxPending || len(b.tr.looks) != maxLooks {
		t.Errorf("%d pending, %d looks", n, len(b.tr.looks))
	}
	b.want(fmt.Sprint("n", maxPending), "allotment_pending")
	b.tr.Stop()
	b.take()
	b.want("n0", "unavailable")
	b.want("b0", "done")
	b = newBank(t)
	for i := range maxClients + 10 {
		c := fmt.Sprint("c", i)
		b.put(bus.OpDeposit, bus.FundsRequest{ID: "d" + c, Client: c, Amount: 10})
		b.alive("g")
		b.put(bus.OpAllot, bus.FundsRequest{ID: "f" + c, Client: c, Hub: "g", Domain: "of-g", Amount: 10,
			Least: 10})
		b.put(bus.OpAllot, bus.FundsRequest{ID: "n" + c, Client: c, Hub: "h", Amount: 10, Least: 10})
	}
	if len(b.tr.waitlists) != maxClients {
		t.Errorf("pending requests of %d clients", len(b.tr.waitlists))
	}
	for range 40 {
		b.pass(time.Second)
	}
	if len(b.tr.waitlists) != 0 || len(b.tr.polls) != 0 || !b.wake.IsZero() {
		t.Errorf("%d pending, %d polls are left, it wakes at %v", len(b.tr.waitlists), len(b.tr.polls), b.wake)
	}
}

// Three hubs have a part each of what each of them wants the most of: two give their parts back for the
// first, and what is left is not granted to them in parts again, which others would then want back, without
// end.
func TestPartsAreNotGrantedInTurn(t *testing.T) {
	for _, again := range []bool{false, true} {
		b := newBank(t)
		spread(b, 50, "g", "h", "k")
		ask := func(hub string) {
			b.put(bus.OpAllot, bus.FundsRequest{ID: "need-" + hub, Client: "ann", Hub: hub,
				Domain: "of-" + hub, Amount: 400, Least: 30, Needs: 80})
		}
		for _, hub := range []string{"g", "h", "k"} {
			ask(hub)
		}
		if again { // they were told to come back, and say what they said
			b.pass(answerWithin)
			for _, hub := range []string{"h", "k"} {
				b.giveBack(hub, 50)
				ask(hub)
			}
		} else {
			b.giveBack("h", 50)
			b.giveBack("k", 50)
		}
		b.answer("h", 0)
		b.answer("k", 0)
		b.pass(recallEvery)
		if again {
			ask("g")
		}
		b.want("need-g", "granted 30")
		for range 4 {
			b.pass(recallEvery)
			for i := len(b.asked) - 1; i >= 0 && b.asked[i].Ask.Hub != "g"; i-- {
				b.asked = b.asked[:i]
			}
			if len(b.asked) > 0 {
				b.answer("g", 80)
			}
			for _, hub := range []string{"h", "k"} {
				if b.last("need-"+hub) == string(bus.CodeAllotmentPending) {
					ask(hub)
				}
			}
		}
		b.want("need-h", string(bus.CodeInsufficientFunds))
		b.want("need-k", string(bus.CodeInsufficientFunds))
		if left, _ := b.tr.Book.Prepaid("ann"); left != 70 {
			t.Errorf("%d are left, want 70", int64(left))
		}
	}
}

// What a hub gave back before it reckoned what it needs is not missing twice, however late it comes.
func TestAReturnBeforeARequest(t *testing.T) {
	b := newBank(t)
	spread(b, 60, "g", "h")
	b.put(bus.OpAllot, bus.FundsRequest{ID: "need", Client: "ann", Hub: "g", Domain: "of-g",
		Amount: 60, Least: 60, Needs: 80, Returned: 1})
	b.giveBack("g", 30)
	b.giveBack("h", 40)
	b.want("need", "granted 60")
}
