package treasury

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/tip"
	"souk/ledger"
	"souk/market"
)

// Whatever is asked and whatever hubs say, with numbers at their limits and names of anybody: the treasury
// does not panic, every answer can be sent, what it keeps is bounded, no money is made, and a new
// treasury reads the same out of the journal.
func TestNothingThatIsSaidMakesMoney(t *testing.T) {
	kinds := []ledger.Kind{ledger.KindGrant, ledger.KindReclaim, ledger.KindDistribute, ledger.KindRemit,
		ledger.KindClose, ledger.KindMove, ledger.KindBudget, ledger.KindMark, ledger.KindWriteOff,
		ledger.KindMonth}
	made := map[ledger.Kind]int{}
	missing := func() int { return slices.IndexFunc(kinds, func(k ledger.Kind) bool { return made[k] == 0 }) }
	// Twelve storms make every kind of record nineteen times of twenty; the storms go on until they have.
	for n := 0; n < 12 || missing() >= 0; n++ {
		if n == 400 {
			t.Fatalf("no %s in %d storms", kinds[missing()], n)
		}
		seed := rand.Uint64()
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			storm(t, rand.New(rand.NewPCG(seed, 1)), made)
		}) {
			return
		}
	}
}

func storm(t *testing.T, r *rand.Rand, made map[ledger.Kind]int) {
	cfg := Default()
	cfg.MaxHubs, cfg.Grants = 4, 8
	cfg.SecondAbove = market.Credits(r.IntN(2) * 60)
	salts := func() (s [16]byte) {
		s[0] = byte(r.Uint32())
		return s
	}
	tr := doors(New(cfg, salts))
	if err := tr.Restore(); err != nil {
		t.Fatal(err)
	}
	if err := tr.Begin(); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_800_000_000, 0)
	var frames []ledger.Frame
	var asked []Recall
	waiting, ids, times := map[int]string{}, map[int]string{}, map[string]int{}
	take := func() {
		d := tr.Ready()
		if len(d.Records) > 0 {
			f, err := tr.Book.Seal(1, now.UnixNano(), d.Records)
			if err != nil {
				t.Fatal(err)
			}
			frames = append(frames, f)
			for _, rec := range f.Records {
				made[rec.Kind]++
			}
		}
		for _, a := range d.Answers {
			if err := a.Reply.Validate(); err != nil {
				t.Fatalf("%+v: %v", a.Reply, err)
			}
			if a.To != nil && waiting[a.To.(int)] == "" {
				t.Fatalf("request %d is answered twice, or was never asked", a.To)
			}
			delete(waiting, a.To.(int))
		}
		for _, q := range d.Recalls {
			if err := q.Ask.Validate(); err != nil {
				t.Fatalf("%+v: %v", q.Ask, err)
			}
			asked = append(asked, q)
		}
		asked = asked[max(0, len(asked)-32):]
	}
	take()
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	number := func(near uint64) uint64 {
		return [...]uint64{0, near, near + 1, near + 2, near - 1, 1, math.MaxInt64, math.MaxUint64}[r.IntN(8)]
	}
	credits := func() market.Credits {
		return [...]market.Credits{0, 1, 5, 50, 100, 1000, market.MaxCredits, -1, market.MaxCredits + 1,
			math.MaxInt64, math.MinInt64}[r.IntN(6)+5*(r.IntN(5)/4)]
	}
	client := func() string { return pick("ann", "ann", "bob", "h", "", "zoe", "k-1", "k-2") }
	deposited := market.Credits(0)
	for i := range 3000 {
		hub := pick("h", "h", "g", "k", "treasury", "l", "x y")
		book := tr.Book
		last := book.LastOrder(hub).Number
		q := bus.FundsRequest{ID: fmt.Sprint("id-", r.IntN(1000)), Client: client(), Hub: hub,
			Epoch: int64(r.IntN(2)), Amount: credits(), Least: credits(),
			To:     pick("bob", "k-1", "k-1", "k-2", "zoe", ""),
			Every:  pick("", "day", "day", "week", "month", "year"),
			Domain: pick("of-"+hub[:1], "of-"+hub[:1], ""), Ahead: r.IntN(4) == 0, Hubs: r.IntN(2) == 0,
			After: book.LastGrant(hub), Returned: book.LastReturn(hub), Ordered: last}
		if r.IntN(6) == 0 {
			q.After, q.Returned, q.Ordered = number(q.After), number(q.Returned), number(last)
		}
		if r.IntN(2) == 0 {
			q.Least = 0
		}
		if r.IntN(2) == 0 { // of one journal mostly, going on, or of any frame
			seq := [...]uint64{uint64(i), uint64(i), uint64(i), 1, 1 << 53, 1 << 63}[r.IntN(6)]
			q.Mark = &tip.Mark{Journal: tip.Sum{1 + byte(r.IntN(20)/19)}, Seq: seq,
				Sum: tip.Sum{byte(1 + i)}}
			for range r.IntN(4) {
				q.Spent = append(q.Spent, tip.Spent{Client: pick("ann", "bob", "zoe", "k-1"),
					Amount: market.Credits(r.IntN(80))})
			}
		}
		if q.Sure = r.IntN(2) == 0; r.IntN(2) == 0 {
			q.Leads = []string{"maths"}
		}
		months := func() string {
			return pick("", "2026-11", "2026-12", "2026-12", "2027-01", "2027-02", "2027-00", "9999-12")
		}
		if r.IntN(2) == 0 {
			q.Order = &tip.Order{By: pick("op", "two"), Ref: fmt.Sprint(r.IntN(40)), Month: months(),
				Note: pick("", "n", "a\nb"), Agent: pick("a-1", "a-1", "a b"),
				From:    pick("agent", "surplus", "x"),
				Receipt: pick("h/1/0", "h/2/1", "g/1/0", "h"), Closed: months()}
			if r.IntN(4) == 0 {
				q.Order.Second, q.Order.Key, q.Order.Signature = pick("two", "op"), "UABC", "c2ln"
			}
		}
		op := pick(bus.OpRemit, bus.OpRemit, bus.OpRefund, bus.OpMonth, bus.OpDeposit,
			bus.OpPayout, bus.OpAllot, bus.OpAllot, bus.OpReturn, bus.OpReturn,
			bus.OpMove, bus.OpBudget, bus.OpBudget, bus.OpAllotted, bus.OpBalance, bus.OpDistribute,
			bus.OpDistribute, bus.OpClose, bus.OpWriteOff, "none",
			"lie", "lie", "lie")
		switch {
		case op == bus.OpClose && r.IntN(200) > 0:
			op = bus.OpAllotted
		case op == bus.OpReturn:
			q.ID = bus.ReturnID(hub, number(book.LastReturn(hub)))
		case op == bus.OpDistribute && r.IntN(4) > 0:
			q.ID = bus.DistributeID(hub, number(last))
		}
		if op == "lie" {
			var say *tip.Order
			if r.IntN(2) == 0 {
				say = &tip.Order{Agent: pick("a-1", "a b"), Ref: fmt.Sprint(r.IntN(99)), Month: months(),
					Closed: months()}
			}
			m := bus.RecallReply{ID: fmt.Sprint(r.IntN(9)), Hub: hub, Client: client(),
				Next: number(last + 1), There: credits(),
				Last: &tip.Ordered{Kind: pick("distribute", "distribute", "remit", "refund", ""),
					Number: number(last + 1),
					Client: pick("", client()), Amount: credits(), Order: say},
				Accepted: number(book.LastGrant(hub)), Returned: number(book.LastReturn(hub))}
			if r.IntN(4) == 0 {
				m.Avail, m.Held, m.Reserved = credits(), credits(), credits()
			}
			if len(asked) > 0 && r.IntN(8) > 0 {
				a := asked[max(0, len(asked)-1-r.IntN(4))].Ask
				m.ID, m.Hub, m.Client = a.ID, a.Hub, a.Client
				if a.Order != nil && a.Order.Number > 0 {
					m.Next, m.Last.Number = a.Order.Number+1, a.Order.Number
				}
			}
			if m.Validate() == nil {
				tr.Said(&m)
			}
		} else if q.Validate() == nil {
			tr.Tick(now)
			before := tr.Book.Balance(ledger.External("deposits"))
			waiting[i], ids[i] = op, op+q.ID
			times[op+q.ID]++
			tr.Handle(op, vouched(op, &q), i, r.IntN(20) > 0)
			deposited += before - tr.Book.Balance(ledger.External("deposits"))
		}
		take()
		now = now.Add(time.Duration(r.IntN(200)) * time.Millisecond)
		if r.IntN(100) == 0 {
			now = now.Add(time.Duration(r.IntN(30)) * time.Hour)
		}
		tr.Tick(now)
		take()

		there := market.Credits(0)
		for _, b := range tr.Book.Balances("*") {
			switch {
			case b.Account == ledger.External("deposits"):
			case b.Amount < 0:
				t.Fatalf("%s is %d", b.Account, b.Amount)
			default:
				there += b.Amount
			}
		}
		if there != deposited {
			t.Fatalf("%s are there of %s that were deposited", there, deposited)
		}
		if len(tr.looks) > maxLooks || len(tr.waitlists) > maxClients || len(tr.heard) > 2*cfg.MaxHubs+8 ||
			len(tr.polls) > len(tr.looks)+len(tr.waitlists)+len(tr.budgets.jobs) {
			t.Fatalf("kept: %d looks, %d claims, %d rounds, %d heard", len(tr.looks), len(tr.waitlists),
				len(tr.polls), len(tr.heard))
		}
	}
	tr.Tick(now)
	tr.Tick(now.Add(time.Minute))
	take()
	tr.Stop()
	take()
	for i, op := range waiting {
		// a return may wait for one before it that never comes; who asks again gave up waiting before
		if op != bus.OpReturn && times[ids[i]] == 1 {
			t.Errorf("request %d, %s, was never answered", i, op)
		}
	}
	again := doors(New(cfg, salts))
	for _, f := range frames {
		if err := again.Past.Apply(f.Seq, f.Epoch, ledger.AppendFrame(nil, &f)); err != nil {
			t.Fatal(err)
		}
	}
	if err := again.Restore(); err != nil {
		t.Fatal(err)
	}
	if err := again.Begin(); err != nil || len(again.Ready().Records) > 0 {
		t.Errorf("a second beginning: %v", err)
	}
	if a, b := fmt.Sprint(again.Book.Balances("*")), fmt.Sprint(tr.Book.Balances("*")); a != b {
		t.Errorf("after a start %s, was %s", a, b)
	}
	audit := ledger.NewAudit("treasury", ledger.LevelMetering)
	for _, f := range frames {
		audit.Frame(f.Seq, f.Epoch, ledger.AppendFrame(nil, &f))
	}
	if report := audit.Finish(); report.Count > 0 {
		t.Errorf("the audit finds %v", report.Findings)
	}
}
