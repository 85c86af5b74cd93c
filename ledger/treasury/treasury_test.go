package treasury

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// office is a treasury in memory; its journal is the frames.
type office struct {
	t      testing.TB
	tr     *Treasury
	frames []ledger.Frame
	time   int64

	reopened int
}

func salts() func() [16]byte {
	n := byte(0)
	return func() [16]byte { n++; return [16]byte{n} }
}

func open(t testing.TB) *office {
	o := &office{t: t, tr: doors(New(Default(), salts()))}
	o.old(o.tr)
	if err := o.tr.Begin(); err != nil {
		t.Fatal(err)
	}
	o.settle()
	return o
}

// old lets so much time pass that a hub that was not heard of is not waited for.
func (o *office) old(tr *Treasury) {
	start := time.Unix(1_800_000_000, 0)
	tr.Tick(start)
	tr.Tick(start.Add(lively))
}

// settle writes what is to be made durable and returns the answers.
func (o *office) settle() []Answer {
	r := o.tr.Ready()
	if len(r.Records) > 0 {
		o.time++
		f, err := o.tr.Book.Seal(1, o.time, r.Records)
		if err != nil {
			o.t.Fatal(err)
		}
		o.frames = append(o.frames, f)
	}
	return r.Answers
}

func (o *office) ask(op string, req bus.FundsRequest) bus.FundsReply {
	o.tr.Handle(op, vouched(op, &req), nil, true)
	a := o.settle()
	if len(a) != 1 {
		o.t.Fatalf("%d answers, want 1", len(a))
	}
	return a[0].Reply
}

// reopen replays the journal into a new treasury, as a restart does, and again by way of a snapshot behind
// some of its frames: both are the same (I14).
func (o *office) reopen() {
	o.t.Helper()
	o.reopened++
	whole, tr := o.replayed(0), o.replayed(1+o.reopened*7919%len(o.frames))
	if !reflect.DeepEqual(tr.asked, whole.asked) || !reflect.DeepEqual(tr.grants, whole.grants) ||
		!reflect.DeepEqual(tr.Book.Balances("*"), whole.Book.Balances("*")) {
		o.t.Fatalf("by way of a snapshot %d grants are known and %d accounts, by all frames %d and %d",
			len(tr.asked), len(tr.Book.Balances("*")), len(whole.asked), len(whole.Book.Balances("*")))
	}
	o.tr = tr
	o.old(tr)
}

func (o *office) replayed(behind int) *Treasury {
	o.t.Helper()
	tr := doors(New(Default(), salts()))
	must := func(err error) {
		o.t.Helper()
		if err != nil {
			o.t.Fatal(err)
		}
	}
	for i, f := range o.frames {
		must(tr.Replay(f))
		if i+1 == behind {
			data, err := tr.Past.Snapshot()
			must(err)
			must(tr.Past.Load(data))
		}
	}
	must(tr.Restore())
	return tr
}

func TestFunds(t *testing.T) {
	o := open(t)
	for _, step := range []struct {
		op      string
		req     bus.FundsRequest
		code    bus.Code
		prepaid market.Credits
		grant   market.Credits
	}{
		{bus.OpBalance, bus.FundsRequest{Client: "ann"}, bus.CodeUnknownClient, 0, 0},
		{bus.OpAllot, bus.FundsRequest{ID: "a0", Client: "ann", Hub: "h", Amount: 10}, bus.CodeUnknownClient,
			0, 0},
		{bus.OpDeposit, bus.FundsRequest{ID: "d1", Client: "ann", Amount: 100}, "", 100, 0},
		{bus.OpDeposit, bus.FundsRequest{ID: "d1", Client: "ann", Amount: 100}, "", 100, 0},
		{bus.OpDeposit, bus.FundsRequest{ID: "d1", Client: "ann", Amount: 101}, bus.CodeIDConflict, 100, 0},
		{bus.OpDeposit, bus.FundsRequest{ID: "d2", Client: "ann", Amount: -1}, bus.CodeBadRequest, 100, 0},
		{bus.OpDeposit, bus.FundsRequest{ID: "a/b", Client: "ann", Amount: 1}, bus.CodeBadRequest, 100, 0},
		{bus.OpDeposit, bus.FundsRequest{ID: "d3", Client: "a.b", Amount: 1}, bus.CodeBadRequest, 0, 0},
		// half of what is left
		{bus.OpAllot, bus.FundsRequest{ID: "a1", Client: "ann", Hub: "h", Amount: 80, Least: 10}, "", 50, 50},
		// the first answer again
		{bus.OpAllot, bus.FundsRequest{ID: "a1", Client: "ann", Hub: "h", Amount: 80, Least: 10}, "", 50, 50},
		{bus.OpAllot, bus.FundsRequest{ID: "a1", Client: "ann", Hub: "g", Amount: 80, Least: 10},
			bus.CodeIDConflict, 50, 0},
		{bus.OpAllot, bus.FundsRequest{ID: "a2", Client: "ann", Hub: "g", Amount: 8}, "", 42, 8},
		// half would be of no use
		{bus.OpAllot, bus.FundsRequest{ID: "a3", Client: "ann", Hub: "g", Amount: 80, Least: 30}, "", 12, 30},
		{bus.OpAllot, bus.FundsRequest{ID: "a4", Client: "ann", Hub: "g", Amount: 80, Least: 30},
			bus.CodeInsufficientFunds, 12, 0},
		{bus.OpReturn, bus.FundsRequest{ID: "h-return-1", Client: "ann", Hub: "h", Amount: 20}, "", 32, 0},
		{bus.OpReturn, bus.FundsRequest{ID: "h-return-1", Client: "ann", Hub: "h", Amount: 20}, "", 32, 0},
		{bus.OpReturn, bus.FundsRequest{ID: "h-return-1", Client: "ann", Hub: "h", Amount: 21},
			bus.CodeIDConflict, 32, 0},
		// it has 30
		{bus.OpReturn, bus.FundsRequest{ID: "h-return-2", Client: "ann", Hub: "h", Amount: 31},
			bus.CodeInsufficientFunds, 32, 0},
		{bus.OpPayout, bus.FundsRequest{ID: "p1", Client: "ann", Amount: 33}, bus.CodeInsufficientFunds, 32,
			0},
		{bus.OpPayout, bus.FundsRequest{ID: "p1", Client: "ann", Amount: 32}, "", 0, 0},
		{"rob", bus.FundsRequest{ID: "x", Client: "ann", Amount: 32}, bus.CodeBadRequest, 0, 0},
		{bus.OpAllot, bus.FundsRequest{ID: "e1", Client: "ann", Hub: "h", Epoch: 9, Amount: 1},
			bus.CodeInsufficientFunds, 0, 0},
		{bus.OpAllot, bus.FundsRequest{ID: "e2", Client: "ann", Hub: "h", Epoch: 8, Amount: 1},
			bus.CodeStaleEpoch, 0, 0},
	} {
		got := o.ask(step.op, step.req)
		if got.Code != step.code || got.Prepaid != step.prepaid || got.ID != step.req.ID {
			t.Errorf("%s %+v: code %q, prepaid %d, id %q; want %q, %d (%s)", step.op, step.req, got.Code,
				got.Prepaid, got.ID, step.code, step.prepaid, got.Message)
		}
		if granted := len(got.Grants) == 1; granted != (step.grant > 0) || granted &&
			got.Grants[0].Amount != step.grant {
			t.Errorf("%s %+v: grants %v, want one of %d", step.op, step.req, got.Grants, step.grant)
		}
		o.reopen()
		if step.req.Epoch == 9 {
			o.tr.Leads("h", "of-h", 9)
		}
	}
}

func TestReturnsAreTakenInOrder(t *testing.T) {
	o := open(t)
	o.ask(bus.OpDeposit, bus.FundsRequest{ID: "d", Client: "ann", Amount: 100})
	o.ask(bus.OpAllot, bus.FundsRequest{ID: "a", Client: "ann", Hub: "h", Amount: 40})
	for _, n := range []uint64{3, 2} {
		o.tr.Handle(bus.OpReturn,
			&bus.FundsRequest{ID: bus.ReturnID("h", n), Client: "ann", Hub: "h", Amount: 10}, n, true)
		if a := o.settle(); len(a) != 0 {
			t.Fatalf("return %d was answered before return 1: %v", n, a)
		}
	}
	o.tr.Handle(bus.OpReturn, &bus.FundsRequest{ID: bus.ReturnID("h", 1), Client: "ann", Hub: "h",
		Amount: 10}, uint64(1), true)
	answers := o.settle()
	told := map[any]bus.Code{}
	for _, a := range answers {
		told[a.To] = a.Reply.Code
	}
	if want := map[any]bus.Code{uint64(1): "", uint64(2): "",
		uint64(3): ""}; fmt.Sprint(told) != fmt.Sprint(want) {
		t.Errorf("answers %v, want %v", told, want)
	}
	if got := o.tr.Book.Allotted("ann", "h"); got != 10 {
		t.Errorf("still allotted %d, want 10", got)
	}
	if got := o.ask(bus.OpAllotted, bus.FundsRequest{ID: "q", Hub: "h", After: 1}); got.Returned != 3 {
		t.Errorf("the hub hears that %d returns were taken in, want 3", got.Returned)
	}
}

// Balances may be above what one operation may move, and can be said all the same.
func TestRiches(t *testing.T) {
	o := open(t)
	for i := range 9 {
		got := o.ask(bus.OpDeposit,
			bus.FundsRequest{ID: fmt.Sprint("d", i), Client: "ann", Amount: market.MaxCredits})
		if want := market.Credits(i+1) * market.MaxCredits; got.Code != "" || got.Prepaid != want {
			t.Fatalf("deposit %d: %q, %s prepaid", i, got.Code, got.Prepaid)
		}
		data, err := bus.Encode(&got)
		if err == nil {
			err = bus.Decode(data, new(bus.FundsReply))
		}
		if err != nil {
			t.Fatalf("%s credits cannot be said: %v", got.Prepaid, err)
		}
	}
	if got := o.ask(bus.OpDeposit,
		bus.FundsRequest{ID: "more", Client: "ann",
			Amount: market.MaxCredits}); got.Code != bus.CodeBadRequest ||
		got.Prepaid != 9*market.MaxCredits {
		t.Errorf("a deposit beyond 64 bits: %q, %s prepaid", got.Code, got.Prepaid)
	}
	if got := o.ask(bus.OpAllot,
		bus.FundsRequest{ID: "a", Client: "ann", Hub: "h", Amount: market.MaxCredits}); got.Code != "" {
		t.Errorf("%s: %s", got.Code, got.Message)
	}
}

func TestAHubFindsTheGrantsItMissed(t *testing.T) {
	o := open(t)
	o.ask(bus.OpDeposit, bus.FundsRequest{ID: "d", Client: "ann", Amount: market.Credit})
	const n = grantsPerReply + 10
	for i := range n {
		o.ask(bus.OpAllot, bus.FundsRequest{ID: fmt.Sprint("a", i), Client: "ann", Hub: "h", Amount: 3})
	}
	o.reopen()
	after, replies := uint64(0), 0
	for {
		got := o.ask(bus.OpAllotted, bus.FundsRequest{ID: "q", Hub: "h", After: after})
		if got.Code != "" {
			t.Fatal(got.Code, got.Message)
		}
		if len(got.Grants) == 0 {
			break
		}
		replies++
		for _, g := range got.Grants {
			if after++; g.Number != after || g.Amount != 3 {
				t.Fatalf("grant %+v, want number %d", g, after)
			}
		}
	}
	if after != n || replies != 2 {
		t.Errorf("%d grants in %d replies, want %d in 2", after, replies, n)
	}
	if got := o.ask(bus.OpAllotted,
		bus.FundsRequest{ID: "q", Hub: "h", After: n + 1}); got.Code != bus.CodeBadRequest {
		t.Errorf("a hub that accepted more than was granted: %q", got.Code)
	}
}

func TestAFullDiskAllotsNothing(t *testing.T) {
	o := open(t)
	o.ask(bus.OpDeposit, bus.FundsRequest{ID: "d", Client: "ann", Amount: 100})
	o.ask(bus.OpAllot, bus.FundsRequest{ID: "a", Client: "ann", Hub: "h", Amount: 40})
	for op, want := range map[string]bus.Code{bus.OpDeposit: bus.CodeUnavailable,
		bus.OpAllot: bus.CodeUnavailable, bus.OpReturn: "", bus.OpBalance: ""} {
		o.tr.Handle(op, &bus.FundsRequest{ID: bus.ReturnID("h", 1), Client: "ann", Hub: "h", Amount: 4}, nil,
			false)
		if got := o.settle()[0].Reply; got.Code != want {
			t.Errorf("%s: %q, want %q (%s)", op, got.Code, want, got.Message)
		}
	}
}

// Random requests against a treasury that restarts at any time and a model of three maps.
func TestAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := open(&fataler{t: t})
		prepaid := map[string]market.Credits{}
		at := map[string]market.Credits{}
		done := map[string]bool{}
		returns := map[string]uint64{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			client := rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "client")
			hub := rapid.SampledFrom([]string{"g", "h"}).Draw(t, "hub")
			amount := market.Credits(rapid.Int64Range(-2, 50).Draw(t, "amount"))
			id := fmt.Sprintf("%s-%d-%d", client, amount, rapid.IntRange(0, 3).Draw(t, "id"))
			key := client + " " + hub
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0:
				code := o.ask(bus.OpDeposit, bus.FundsRequest{ID: id, Client: client, Amount: amount}).Code
				switch {
				case amount <= 0:
					if code != bus.CodeBadRequest {
						t.Fatalf("deposit of %d: %q", amount, code)
					}
				case code != "":
					t.Fatalf("deposit of %d: %q", amount, code)
				case !done[id]:
					done[id] = true
					prepaid[client] += amount
				}
			case 1:
				r := o.ask(bus.OpAllot,
					bus.FundsRequest{ID: fmt.Sprint("allot-", len(o.frames)), Client: client, Hub: hub,
						Amount: amount})
				for _, g := range r.Grants {
					if g.Amount > amount || g.Amount > prepaid[client]/2 {
						t.Fatalf("granted %d of %d prepaid, %d asked", g.Amount, prepaid[client], amount)
					}
					prepaid[client] -= g.Amount
					at[key] += g.Amount
				}
			case 2:
				n := returns[hub] + 1
				r := o.ask(bus.OpReturn,
					bus.FundsRequest{ID: bus.ReturnID(hub, n), Client: client, Hub: hub, Amount: amount})
				if ok := amount > 0 && amount <= at[key]; ok != (r.Code == "") {
					t.Fatalf("return of %d by %s, which has %d: %q", amount, hub, at[key], r.Code)
				} else if ok {
					returns[hub] = n
					at[key] -= amount
					prepaid[client] += amount
				}
			case 3:
				o.reopen()
			}
			total := market.Credits(0)
			for _, b := range o.tr.Book.Balances("*") {
				total += b.Amount
			}
			if total != 0 {
				t.Fatalf("all accounts sum to %d", total)
			}
			for _, c := range []string{"ann", "bob"} {
				if got, _ := o.tr.Book.Prepaid(c); got != prepaid[c] {
					t.Fatalf("prepaid of %s is %d, want %d", c, got, prepaid[c])
				}
				for _, h := range []string{"g", "h"} {
					if got := o.tr.Book.Allotted(c, h); got != at[c+" "+h] {
						t.Fatalf("%s has %d of %s, want %d", h, got, c, at[c+" "+h])
					}
				}
			}
		}
	})
}

// fataler lets helpers written for testing.TB fail a rapid test.
type fataler struct {
	testing.TB
	t *rapid.T
}

func (f *fataler) Fatal(args ...any)                 { f.t.Fatal(args...) }
func (f *fataler) Fatalf(format string, args ...any) { f.t.Fatalf(format, args...) }
func (f *fataler) Helper()                           {}

func TestAnotherJournalIsRefused(t *testing.T) {
	b := ledger.NewBook()
	r := ledger.NewOpen("hub-x", ledger.RoleHub, "x", [16]byte{})
	if err := b.Apply(&r); err != nil {
		t.Fatal(err)
	}
	f, err := b.Seal(1, 1, []ledger.Record{r})
	if err != nil {
		t.Fatal(err)
	}
	tr := doors(New(Default(), salts()))
	if err := errors.Join(tr.Replay(f), tr.Restore()); err == nil {
		t.Error("a treasury took a hub's journal")
	}
	var v *ledger.Violation
	if err := New(Default(), salts()).Replay(ledger.Frame{Version: ledger.FrameVersion,
		Seq: 2}); !errors.As(err, &v) {
		t.Errorf("a broken frame: %v", err)
	}
}

// What a credit is stands in the first record: a treasury that is told another says so and does not start.
func TestTheCurrencyIsForGood(t *testing.T) {
	cfg := Default()
	cfg.Currency = "EUR"
	first := New(cfg, salts())
	if err := errors.Join(first.Restore(), first.Begin()); err != nil {
		t.Fatal(err)
	}
	f, err := first.Book.Seal(1, 1, first.Ready().Records)
	if err != nil || f.Records[0].Open.Currency != "EUR" {
		t.Fatalf("the first record: %+v, %v", f, err)
	}
	for currency, want := range map[string]string{"EUR": "", "USD": "in EUR for good, and not in USD"} {
		cfg.Currency = currency
		again := New(cfg, salts())
		if err := errors.Join(again.Replay(f), again.Restore()); (err == nil) != (want == "") ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", currency, err)
		}
	}
}

// Replay takes in one stored frame, from the first, before Restore.
func (t *Treasury) Replay(f ledger.Frame) error {
	return t.Past.Apply(f.Seq, f.Epoch, ledger.AppendFrame(nil, &f))
}

// Each domain's hub writes in the registry which journal it has, and one may name another's. That neither
// makes the other stale nor has it doubted, whichever was elected last, and pushes no other out.
func TestNoHubMakesAnotherStale(t *testing.T) {
	o := open(t)
	o.ask(bus.OpDeposit, bus.FundsRequest{ID: "d", Client: "probe-maths", Amount: 1000})
	n := 0
	ask := func(op, domain string, epoch int64) bus.Code {
		n++
		req := bus.FundsRequest{ID: fmt.Sprint("a", n), Client: "probe-maths", Hub: "h", Domain: domain,
			Epoch: epoch, Amount: 1, After: o.tr.Book.LastGrant("h"), Vouchers: []bus.DoorVoucher{}}
		if o.tr.Doubts(op, &req) {
			return "doubted"
		}
		return o.ask(op, req).Code
	}
	epoch := int64(5)
	for i := range int64(20) {
		for _, evil := range []int64{epoch + 1, epoch - 1, epoch + 3*i} {
			for j := range int64(6) {
				o.tr.Leads("h", fmt.Sprint("evil-", j), evil)
			}
			o.tr.Leads("h", "maths", epoch)
			if code := ask(bus.OpAllot, "maths", epoch); code != "" {
				t.Fatalf("it leads in epoch %d, another names it in %d: %q", epoch, evil, code)
			}
			if code := ask(bus.OpAllotted, "", epoch); code != "" { // before its first frame
				t.Fatalf("it begins in epoch %d, another names it in %d: %q", epoch, evil, code)
			}
			if code := ask(bus.OpAllot, "maths", epoch-1); code != bus.CodeStaleEpoch {
				t.Fatalf("it was deposed before epoch %d: %q", epoch, code)
			}
			if code := ask(bus.OpAllot, "maths", epoch+1); code != "doubted" {
				t.Fatalf("it may lead since epoch %d: %q", epoch, code)
			}
		}
		epoch += 4 + i
	}
	for i := range 3 * Default().MaxHubs { // each a name that nobody has
		o.tr.Leads(fmt.Sprint("ghost-", i), "evil-0", int64(i)+epoch)
	}
	o.tr.Leads("new", "law", epoch)
	req := bus.FundsRequest{ID: "new", Client: "ann", Hub: "new", Domain: "law", Epoch: epoch, Amount: 1}
	if o.tr.Doubts(bus.OpAllot, &req) {
		t.Error("a hub is not known for all those that another has named")
	}
}

// An operator who asks for the sums is told what clients have with the treasury and at hubs, and which hubs
// there are; nobody is asked for that, and nothing is written.
func TestSums(t *testing.T) {
	o := open(t)
	o.ask(bus.OpDeposit, bus.FundsRequest{ID: "d1", Client: "ann", Amount: 50})
	o.ask(bus.OpDeposit, bus.FundsRequest{ID: "d2", Client: "bob", Amount: 20})
	o.ask(bus.OpPayout, bus.FundsRequest{ID: "p1", Client: "bob", Amount: 5})
	o.ask(bus.OpAllot, bus.FundsRequest{ID: "a1", Client: "ann", Hub: "h", Domain: "math", Amount: 30})
	frames := len(o.frames)
	r := o.ask(bus.OpSums, bus.FundsRequest{ID: "s"})
	if r.Code != "" || r.Deposits != 70 || r.Prepaid+r.Allotted != 65 || r.Allotted == 0 ||
		len(r.Hubs) != 1 ||
		r.Hubs[0].Hub != "h" || r.Hubs[0].Domain != "math" || r.Hubs[0].Allotted != r.Allotted ||
		r.Hubs[0].HeardMS == 0 {
		t.Errorf("sums are %+v", r)
	}
	if len(o.frames) != frames {
		t.Error("to ask for sums writes something")
	}
}
