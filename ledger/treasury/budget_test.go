package treasury

import (
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// A move is made once under its id. What it takes and the treasury has not is looked for at hubs first, and
// whoever waits for the money that it brings gets it.
func TestAMoveFindsItsMoney(t *testing.T) {
	b := newBank(t)
	move := func(id, from, to string, amount int) {
		b.put(bus.OpMove, bus.FundsRequest{ID: id, Client: from, To: to, Amount: credits(amount)})
	}
	b.put(bus.OpDeposit, bus.FundsRequest{ID: "d", Client: "ann", Amount: 100})
	b.put(bus.OpDeposit, bus.FundsRequest{ID: "e", Client: "bob", Amount: 1})
	for range 2 {
		move("m1", "ann", "bob", 40)
		if got := b.last("m1"); got != "done" {
			t.Fatalf("the move: %q", got)
		}
	}
	move("m1", "ann", "bob", 41)
	if got := b.last("m1"); got != string(bus.CodeIDConflict) {
		t.Errorf("another amount under its id: %q", got)
	}
	move("m1", "ann", "eve", 40)
	if got := b.last("m1"); got != string(bus.CodeIDConflict) {
		t.Errorf("another payee under its id: %q", got)
	}
	for id, to := range map[string]string{"x1": "", "x2": "ann"} {
		move(id, "ann", to, 1)
		if got := b.last(id); got != string(bus.CodeBadRequest) {
			t.Errorf("a move to %q: %q", to, got)
		}
	}
	move("m2", "eve", "bob", 1)
	if got := b.last("m2"); got != string(bus.CodeUnknownClient) {
		t.Errorf("a move of nobody's: %q", got)
	}

	b.alive("h")
	b.put(bus.OpAllot, bus.FundsRequest{ID: "a", Client: "ann", Hub: "h", Domain: "of-h", Amount: 60,
		Least: 60})
	b.put(bus.OpPayout, bus.FundsRequest{ID: "p", Client: "eve", Amount: 5})
	b.put(bus.OpDeposit, bus.FundsRequest{ID: "f", Client: "eve", Amount: 1})
	b.put(bus.OpPayout, bus.FundsRequest{ID: "p2", Client: "eve", Amount: 5})
	if got := b.last("p2"); got != string(bus.CodeInsufficientFunds) {
		t.Errorf("a payout of what is not there: %q", got)
	}
	move("m3", "ann", "eve", 25)
	if got := b.last("m3"); got != "" || len(b.asked) == 0 {
		t.Fatalf("a move of money that a hub has: %q, %d questions", got, len(b.asked))
	}
	b.put(bus.OpReturn, bus.FundsRequest{ID: bus.ReturnID("h", 1), Client: "ann", Hub: "h", Amount: 30})
	if got := b.last("m3"); got != "done" {
		t.Errorf("once the hub has returned it: %q", got)
	}
	b.reopen()
	for client, want := range map[string]int{"ann": 5, "bob": 41, "eve": 26} {
		if got, _ := b.tr.Book.Prepaid(client); got != credits(want) {
			t.Errorf("%s has %d, want %d", client, got, want)
		}
	}
}

// Two moves that wait for each other's money are each made once, as soon as there is any.
func TestMovesThatWaitForEachOther(t *testing.T) {
	b := newBank(t)
	for _, c := range []string{"ann", "bob"} {
		b.put(bus.OpDeposit, bus.FundsRequest{ID: "d-" + c, Client: c, Amount: 20})
		b.alive("h-" + c)
		b.put(bus.OpAllot, bus.FundsRequest{ID: "a-" + c, Client: c, Hub: "h-" + c, Domain: "of-h-" + c,
			Amount: 20,
			Least:  20})
	}
	b.put(bus.OpMove, bus.FundsRequest{ID: "m-ann", Client: "ann", To: "bob", Amount: 10})
	b.put(bus.OpMove, bus.FundsRequest{ID: "m-bob", Client: "bob", To: "ann", Amount: 10})
	b.put(bus.OpReturn, bus.FundsRequest{ID: bus.ReturnID("h-ann", 1), Client: "ann", Hub: "h-ann",
		Amount: 10})
	for _, id := range []string{"m-ann", "m-bob"} {
		if n := len(b.heard[id]); n != 1 || b.last(id) != "done" {
			t.Errorf("%s: %d answers, the last %q", id, n, b.last(id))
		}
	}
	moves := 0
	for _, f := range b.frames {
		for _, r := range f.Records {
			if r.Kind == ledger.KindMove {
				moves++
			}
		}
	}
	if moves != 2 {
		t.Errorf("%d moves were made", moves)
	}
}

func credits(n int) market.Credits { return market.Credits(n) }

// allowance tells the treasury of a budget.
func (b *bank) allowance(of, to, every string, amount int) {
	b.put(bus.OpBudget, bus.FundsRequest{ID: "b-" + to, Client: of, To: to, Every: every,
		Amount: credits(amount)})
}

// aBudget gives ann 1000 in the morning of a day, of which ann-k may spend 100 a day.
func (b *bank) aBudget() {
	b.at("2027-02-01T10:00:00Z")
	b.put(bus.OpDeposit, bus.FundsRequest{ID: "d", Client: "ann", Amount: 1000})
	b.allowance("ann", "ann-k", ledger.EveryDay, 100)
}

// lend allots 70 of ann-k's money to the hub h.
func (b *bank) lend() {
	b.alive("h")
	b.put(bus.OpAllot, bus.FundsRequest{ID: "a", Client: "ann-k", Hub: "h", Domain: "of-h", Amount: 70,
		Least: 70})
}

// at sets the clock.
func (b *bank) at(text string) {
	b.t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		b.t.Fatal(err)
	}
	b.pass(at.Sub(b.now))
}

func (b *bank) has(want map[string]int) {
	b.t.Helper()
	for client, want := range want {
		if got, _ := b.tr.Book.Prepaid(client); got != credits(want) {
			b.t.Errorf("%s: %s has %d with the treasury, want %d", b.now.UTC().Format(time.RFC3339), client,
				got, want)
		}
	}
}

// again restarts the treasury.
func (b *bank) again() {
	b.reopen()
	b.tr.Tick(b.now)
	b.take()
}

// replies answers every question that waits as a hub that has so much.
func (b *bank) replies(hub string, avail, held int) {
	for _, q := range b.asked {
		if q.Ask.Hub == hub {
			b.tr.Tick(b.now)
			b.tr.Said(&bus.RecallReply{ID: q.Ask.ID, Hub: hub, Client: q.Ask.Client, Avail: credits(avail),
				Held: credits(held), Accepted: b.tr.Book.LastGrant(hub), Returned: b.tr.Book.LastReturn(hub)})
		}
	}
	b.asked = nil
	b.take()
}

// A budget is filled up once a period, however often the treasury is started again; what is left counts.
func TestABudgetIsFilledUpOnceAPeriod(t *testing.T) {
	b := newBank(t)
	b.aBudget()
	if got := b.heard["b-ann-k"]; len(got) != 1 || got[0].Client != "ann-k" || got[0].Prepaid != 100 {
		t.Fatalf("the budget is answered by %+v", got)
	}
	b.allowance("ann", "ann-o", "", 10)
	b.allowance("ann", "ann-k", ledger.EveryDay, 100) // the same again
	b.has(map[string]int{"ann": 890, "ann-k": 100, "ann-o": 10})
	b.lend()
	b.has(map[string]int{"ann-k": 30})
	for range 3 {
		b.again()
		b.alive("h")
		b.pass(time.Hour)
	}
	b.has(map[string]int{"ann": 890, "ann-k": 30})

	// 45 of the 70 were spent, 20 are held.
	b.at("2027-02-01T23:59:59Z")
	b.alive("h")
	b.asked = nil
	b.at("2027-02-02T00:00:00Z")
	if len(b.asked) != 1 || !b.asked[0].Ask.Look || b.asked[0].Ask.Client != "ann-k" {
		t.Fatalf("the hub was asked %+v", b.asked)
	}
	b.has(map[string]int{"ann-k": 30})
	b.replies("h", 5, 20)
	b.has(map[string]int{"ann": 845, "ann-k": 75, "ann-o": 10})
	for range 3 {
		b.again()
		b.alive("h")
		b.pass(time.Hour)
	}
	b.has(map[string]int{"ann": 845, "ann-k": 75, "ann-o": 10})

	// A treasury that was away for days makes up for none of them.
	b.now = b.now.AddDate(0, 0, 5)
	b.again()
	b.alive("h")
	b.pass(time.Second)
	b.replies("h", 0, 0)
	b.has(map[string]int{"ann": 820, "ann-k": 100, "ann-o": 10})
	b.audited()
}

// audited checks the journal.
func (b *bank) audited() {
	b.t.Helper()
	a := ledger.NewAudit("treasury", ledger.MaxLevel)
	for i := range b.frames {
		a.Frame(b.frames[i].Seq, 1, ledger.AppendFrame(nil, &b.frames[i]))
	}
	if r := a.Finish(); r.Count > 0 {
		b.t.Errorf("the audit finds %v", r.Findings)
	}
}

// What the client whose money it is lacks follows in the same period, and is looked for at hubs; nothing of
// it follows in another.
func TestABudgetOfAClientWithoutMoney(t *testing.T) {
	b := newBank(t)
	b.at("2027-02-01T10:00:00Z")
	deposit := func(id string, amount int) {
		b.put(bus.OpDeposit, bus.FundsRequest{ID: id, Client: "ann", Amount: credits(amount)})
	}
	deposit("d1", 30)
	b.allowance("ann", "ann-k", ledger.EveryWeek, 100)
	b.allowance("ann", "ann-l", ledger.EveryWeek, 5)
	b.has(map[string]int{"ann": 0, "ann-k": 30, "ann-l": 0})
	deposit("d2", 20)
	b.has(map[string]int{"ann": 0, "ann-k": 50, "ann-l": 0})
	b.again()
	b.pass(time.Minute)
	deposit("d3", 60)
	b.has(map[string]int{"ann": 5, "ann-k": 100, "ann-l": 5})

	// In the next week 95 of ann's money are at a hub, which gives 60 back.
	b.at("2027-02-05T00:00:00Z")
	deposit("d4", 90)
	b.put(bus.OpPayout, bus.FundsRequest{ID: "p", Client: "ann-k", Amount: 80})
	b.alive("h")
	b.put(bus.OpAllot, bus.FundsRequest{ID: "a", Client: "ann", Hub: "h", Domain: "of-h", Amount: 95,
		Least: 95})
	b.has(map[string]int{"ann": 0, "ann-k": 20, "ann-l": 5})
	b.at("2027-02-07T23:59:59Z")
	b.alive("h")
	b.asked = nil
	b.at("2027-02-08T00:00:00Z")
	if len(b.asked) == 0 || b.asked[0].Ask.Look || b.asked[0].Ask.Client != "ann" {
		t.Fatalf("the hub was asked %+v", b.asked)
	}
	b.put(bus.OpReturn, bus.FundsRequest{ID: bus.ReturnID("h", 1), Client: "ann", Hub: "h", Amount: 60})
	b.has(map[string]int{"ann": 0, "ann-k": 80, "ann-l": 5})

	b.at("2027-02-15T00:00:01Z")
	deposit("d5", 25)
	b.has(map[string]int{"ann": 5, "ann-k": 100})
	b.audited()
}

// A budget that has ended gives back what the treasury has of it, and what hubs return; nothing more comes to
// it, and nothing brings it back.
func TestTheEndOfABudget(t *testing.T) {
	b := newBank(t)
	b.aBudget()
	b.lend()
	for range 2 {
		b.allowance("ann", "ann-k", "", 0)
		if got := b.last("b-ann-k"); got != "done" {
			t.Fatalf("the end: %q", got)
		}
	}
	b.has(map[string]int{"ann": 930, "ann-k": 0})
	if len(b.asked) != 1 || b.asked[0].Ask.Look || b.asked[0].Ask.Client != "ann-k" {
		t.Fatalf("the hub was asked %+v", b.asked)
	}
	b.put(bus.OpReturn, bus.FundsRequest{ID: bus.ReturnID("h", 1), Client: "ann-k", Hub: "h", Amount: 40})
	b.has(map[string]int{"ann": 970, "ann-k": 0})
	b.replies("h", 0, 20) // for a task that runs
	b.alive("h")
	b.pass(restAgain)
	if len(b.asked) == 0 {
		t.Fatal("the hub is not asked for what its task leaves")
	}
	b.put(bus.OpReturn, bus.FundsRequest{ID: bus.ReturnID("h", 2), Client: "ann-k", Hub: "h", Amount: 15})
	b.replies("h", 0, 0)
	b.has(map[string]int{"ann": 985, "ann-k": 0})
	b.alive("h")
	b.pass(time.Minute)
	b.asked = nil
	b.pass(time.Hour)
	if len(b.asked) > 0 {
		t.Errorf("the hub is asked for a rest that it has not: %+v", b.asked)
	}
	b.allowance("ann", "ann-k", ledger.EveryDay, 100)
	if got := b.last("b-ann-k"); got != string(bus.CodeBadRequest) {
		t.Errorf("a budget after its end: %q", got)
	}
	for id, q := range map[string]bus.FundsRequest{"x": {Client: "ann-k", Amount: 1},
		"y": {Client: "ann", To: "ann-k", Amount: 1}} {
		op := bus.OpDeposit
		if q.ID = id; q.To != "" {
			op = bus.OpMove
		}
		b.put(op, q)
		if got := b.last(id); got != string(bus.CodeBadRequest) {
			t.Errorf("%s to a client with a budget: %q", op, got)
		}
	}
	b.at("2027-02-03T00:00:00Z")
	b.again()
	b.alive("h")
	b.replies("h", 0, 0)
	b.has(map[string]int{"ann": 985, "ann-k": 0})
	b.audited()
}

// Whoever asks for what a budget cannot do is told why, and what can be done, in words of its own.
func TestWhatIsSaidOfBudgets(t *testing.T) {
	b := newBank(t)
	b.aBudget()
	b.put(bus.OpDeposit, bus.FundsRequest{ID: "e", Client: "eve", Amount: 1})
	b.alive("h")
	for i, c := range []struct {
		op   string
		req  bus.FundsRequest
		want string
	}{
		{bus.OpDeposit, bus.FundsRequest{Client: "ann-k", Amount: 1}, "given nothing else: pay in for ann"},
		{bus.OpMove, bus.FundsRequest{Client: "ann", To: "ann-k", Amount: 1},
			"given nothing else: pay in for ann"},
		{bus.OpBudget, bus.FundsRequest{Client: "ann", To: "ann-l", Every: "year", Amount: 1},
			`every: "year" is no period: say day, week or month`},
		{bus.OpBudget, bus.FundsRequest{Client: "ann", To: "eve", Amount: 1}, "has had money of its own"},
		{bus.OpBudget, bus.FundsRequest{Client: "ann-k", To: "ann-l", Amount: 1}, "make one of ann's"},
		{bus.OpAllot, bus.FundsRequest{Client: "ann-k", Hub: "h", Domain: "of-h", Amount: 101, Least: 101},
			"a budget of ann's money, filled up again on 2027-02-02; hub h needs"},
	} {
		c.req.ID = "q" + string(rune('0'+i))
		b.put(c.op, c.req)
		all := b.heard[c.req.ID]
		if len(all) != 1 || !strings.Contains(all[0].Message, c.want) ||
			strings.Contains(all[0].Message, "(I") {
			t.Errorf("%s: %+v, want %q", c.op, all, c.want)
		}
	}
	b.has(map[string]int{"ann": 900, "ann-k": 100, "eve": 1})
	b.audited()
}

// While a hub does not say what it has of a budget nothing is filled up; then what it last said counts.
func TestASilentHubAndABudget(t *testing.T) {
	b := newBank(t)
	b.aBudget()
	b.lend()
	b.at("2027-02-02T00:00:00Z")
	b.pass(hubPatience - time.Second)
	b.has(map[string]int{"ann": 900, "ann-k": 30})
	b.replies("h", 10, 0) // at last: 60 were spent
	b.has(map[string]int{"ann": 840, "ann-k": 90})
	b.at("2027-02-03T00:10:00Z") // it has gone
	b.has(map[string]int{"ann": 840, "ann-k": 90})
	b.put(bus.OpPayout, bus.FundsRequest{ID: "p", Client: "ann-k", Amount: 50})
	b.at("2027-02-04T00:10:00Z")
	b.has(map[string]int{"ann": 790, "ann-k": 90})
	b.again()
	b.put(bus.OpPayout, bus.FundsRequest{ID: "p2", Client: "ann-k", Amount: 50})
	b.at("2027-02-05T00:10:00Z") // whatever it said is forgotten: it may have all 70
	b.has(map[string]int{"ann": 790, "ann-k": 40})
	b.audited()
}

// A clock that is years ahead fills no budget before it has been so for an hour: until it is set right
// nothing is marked as filled that is not due yet.
func TestAClockThatIsFarAheadFillsNothing(t *testing.T) {
	for name, ahead := range map[string]func(b *bank){
		"while the treasury runs": func(b *bank) { b.now = b.now.AddDate(9, 0, 0) },
		"at its start": func(b *bank) {
			b.now = b.now.AddDate(9, 0, 0)
			b.again()
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t)
			b.at("2027-02-01T10:00:00Z")
			b.put(bus.OpDeposit, bus.FundsRequest{ID: "d", Client: "ann", Amount: 1000})
			b.allowance("ann", "ann-k", ledger.EveryDay, 100)
			spend := func(id string) {
				b.put(bus.OpPayout, bus.FundsRequest{ID: id, Client: "ann-k", Amount: 100})
			}
			spend("p1")
			right := b.now
			ahead(b)
			for range 10 {
				b.pass(5 * time.Minute)
			}
			b.has(map[string]int{"ann": 900, "ann-k": 0})
			b.now = right.Add(time.Hour) // set right
			b.pass(time.Second)
			b.has(map[string]int{"ann": 900, "ann-k": 0})
			b.at("2027-02-02T00:00:01Z")
			b.has(map[string]int{"ann": 800, "ann-k": 100})

			// one that stays is right
			spend("p2")
			b.now = b.now.AddDate(1, 0, 0)
			b.pass(time.Minute)
			b.has(map[string]int{"ann": 800, "ann-k": 0})
			for range 13 {
				b.pass(5 * time.Minute)
			}
			b.has(map[string]int{"ann": 700, "ann-k": 100})
			b.audited()
		})
	}
}

// A clock that is days ahead is believed: it fills the period that it has come to, once. Set right again it
// fills none before that, so nobody has more than the amount beyond what is due.
func TestAClockThatIsDaysAheadFillsOnce(t *testing.T) {
	b := newBank(t)
	b.at("2027-02-01T10:00:00Z")
	b.put(bus.OpDeposit, bus.FundsRequest{ID: "d", Client: "ann", Amount: 1000})
	b.allowance("ann", "ann-k", ledger.EveryDay, 100)
	spend := func(id string) {
		b.put(bus.OpPayout, bus.FundsRequest{ID: id, Client: "ann-k", Amount: 100})
	}
	spend("p1")
	b.at("2027-02-06T10:00:00Z")
	b.has(map[string]int{"ann": 800, "ann-k": 100})
	spend("p2")
	for _, right := range []string{"2027-02-01T10:05:00Z", "2027-02-02T10:00:00Z", "2027-02-05T10:00:00Z",
		"2027-02-06T10:00:00Z"} {
		b.at(right)
		b.has(map[string]int{"ann": 800, "ann-k": 0})
	}
	b.at("2027-02-07T00:00:01Z")
	b.has(map[string]int{"ann": 700, "ann-k": 100})
	b.audited()
}
