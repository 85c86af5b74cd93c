package ledger

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"souk/market"
)

// tryAt is try at a time of its own.
func (d *desk) tryAt(at time.Time, records ...Record) error {
	seq, epoch, _ := d.book.Last()
	f := Frame{Version: FrameVersion, Epoch: max(epoch, 1), Seq: seq + 1, Time: at.UnixNano(),
		Records: records}
	if err := d.book.ApplyFrame(f); err != nil {
		return err
	}
	d.frames = append(d.frames, f)
	return nil
}

var monday = time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)

func TestPeriods(t *testing.T) {
	for _, c := range []struct {
		every, at, next string
		n               uint64
	}{
		{"", "2026-11-23T00:00:00Z", "", 1},
		{EveryDay, "2026-11-23T23:59:59Z", "2026-11-24T00:00:00Z", 20780},
		{EveryDay, "2026-11-24T00:00:00Z", "2026-11-25T00:00:00Z", 20781},
		{EveryDay, "2026-11-24T00:30:00+01:00", "2026-11-24T00:00:00Z", 20780},
		{EveryWeek, "2026-11-22T23:59:59Z", "2026-11-23T00:00:00Z", 2968},
		{EveryWeek, "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z", 2969},
		{EveryMonth, "2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z", 2026*12 + 11},
		{EveryMonth, "2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z", 2027 * 12},
		{EveryMonth, "1969-01-01T00:00:00Z", "1969-02-01T00:00:00Z", 1969 * 12},
		{EveryDay, "1969-01-01T00:00:00Z", "1969-01-02T00:00:00Z", 1},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		next := ""
		if x := NextPeriod(c.every, at); !x.IsZero() {
			next = x.Format(time.RFC3339)
		}
		if n := PeriodAt(c.every, at); n != c.n || next != c.next {
			t.Errorf("every %q, %s: period %d, the next from %s; want %d, %s", c.every, c.at, n, next, c.n,
				c.next)
		}
	}
}

// A period ends where the next one begins, whose number is one more.
func TestPeriodsFollowOneAnother(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 2000 {
		at := time.Unix(1e9+rng.Int64N(3e9), rng.Int64N(1e9))
		for _, every := range []string{EveryDay, EveryWeek, EveryMonth} {
			next, n := NextPeriod(every, at), PeriodAt(every, at)
			if !next.After(at) || PeriodAt(every, next) != n+1 || PeriodAt(every, next.Add(-1)) != n {
				t.Fatalf("seed %d: %s: every %s: period %d until %s, which is of %d", seed, at, every, n,
					next,
					PeriodAt(every, next))
			}
		}
	}
}

// A move is made once under its id, whole or not at all, and never with money that is not there.
func TestMoves(t *testing.T) {
	d := newDesk(t, "treasury", RoleTreasury)
	d.must(NewDeposit("d", "ann", 100, nil, d.nextSalt()))
	move := func(id, from, to string, amount market.Credits) Record {
		return NewMove(id, from, to, amount, nil, d.nextSalt())
	}
	d.must(move("m1", "ann", "bob", 30))
	if err := d.book.Apply(ptr(move("m1", "ann", "bob", 30))); err != ErrRepeat {
		t.Errorf("the same move again: %v", err)
	}
	bent := move("m9", "ann", "bob", 1)
	bent.Legs[1].Account = Prepaid("eve")
	rest := move("m9", "ann", "bob", 1)
	rest.Move.Rest = 1
	for _, c := range []struct {
		what string
		r    Record
		want error
	}{
		{"another amount under its id", move("m1", "ann", "bob", 31), ErrConflict},
		{"another payee under its id", move("m1", "ann", "eve", 30), ErrConflict},
		{"more than there is", move("m2", "ann", "bob", 71), ErrFunds},
		{"of nobody", move("m2", "eve", "bob", 1), ErrFunds},
		{"to itself", move("m2", "ann", "ann", 1), ErrIllegal},
		{"nothing", move("m2", "ann", "bob", 0), ErrIllegal},
		{"less than nothing", move("m2", "bob", "ann", -1), ErrIllegal},
		{"too much", move("m2", "ann", "bob", market.MaxCredits+1), ErrIllegal},
		{"a name that is none", move("m2", "ann", "a:prepaid", 1), ErrIllegal},
		{"an id that is none", move("a/b", "ann", "bob", 1), ErrIllegal},
		{"legs to another", bent, ErrIllegal},
		{"a rest", rest, ErrIllegal},
		{"an allowance without a budget", NewAllowance("ann", "bob", 1, 1, 5, 30, d.nextSalt()), ErrIllegal},
		{"a rest without a budget", NewRest("bob", "ann", 1, 5, d.nextSalt()), ErrIllegal},
	} {
		before := d.book.Balances("*")
		if err := d.try(c.r); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
		if after := d.book.Balances("*"); fmt.Sprint(before) != fmt.Sprint(after) {
			t.Errorf("%s: %v became %v", c.what, before, after)
		}
	}
	hub := newDesk(t, "h", RoleHub)
	if err := hub.try(NewMove("m", "ann", "bob", 1, nil, hub.nextSalt())); !errors.Is(err, ErrIllegal) {
		t.Errorf("in a hub's journal: %v", err)
	}
	if ann, _ := d.book.Prepaid("ann"); ann != 70 {
		t.Errorf("ann has %s", ann)
	}
	if r := audit("treasury", MaxLevel, store(d.frames)).Finish(); r.Count > 0 {
		t.Errorf("the audit finds %v", r.Findings)
	}
}

func ptr[T any](v T) *T { return &v }

// A budget is filled up once a period, never beyond its amount, and by nothing else; its end gives the rest
// back.
func TestBudgets(t *testing.T) {
	d := newDesk(t, "treasury", RoleTreasury)
	salt := d.nextSalt
	at, period := monday, PeriodAt(EveryDay, monday)
	do := func(want error, what string, r ...Record) {
		t.Helper()
		before := tellBook(d.book)
		err := d.tryAt(at, r...)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		if err != nil && !reflect.DeepEqual(tellBook(d.book), before) {
			t.Errorf("%s: refused, and something changed", what)
		}
	}
	budget := func(client, of, every string, n uint64, amount market.Credits) Record {
		return NewBudget(Budget{Client: client, Of: of, Every: every, Number: n, Amount: amount}, salt())
	}
	fill := func(period, part uint64, amount, rest market.Credits) Record {
		return NewAllowance("ann", "ann-k", period, part, amount, rest, salt())
	}
	do(nil, "deposit", NewDeposit("d", "ann", 1000, nil, salt()))
	do(ErrIllegal, "of nobody", budget("eve-k", "eve", EveryDay, 1, 100))
	do(ErrIllegal, "of a client that has money", budget("ann", "ann", EveryDay, 1, 100))
	do(ErrIllegal, "every year", budget("ann-k", "ann", "year", 1, 100))
	do(ErrIllegal, "of nothing", budget("ann-k", "ann", EveryDay, 1, 0))
	do(ErrOrder, "out of order", budget("ann-k", "ann", EveryDay, 2, 100))
	do(nil, "budget", budget("ann-k", "ann", EveryDay, 1, 100))
	if err := d.book.Apply(ptr(budget("ann-k", "ann", EveryDay, 1, 100))); err != ErrRepeat {
		t.Errorf("the same budget again: %v", err)
	}
	do(ErrConflict, "another of its number", budget("ann-k", "ann", EveryDay, 1, 101))
	do(ErrIllegal, "another client's", budget("ann-k", "bob", EveryDay, 2, 100))
	do(ErrIllegal, "another period", budget("ann-k", "ann", EveryWeek, 2, 100))
	do(ErrIllegal, "a budget of a budget", budget("ann-k-k", "ann-k", EveryDay, 1, 10))
	do(ErrIllegal, "a deposit", NewDeposit("d2", "ann-k", 1, nil, salt()))
	do(ErrIllegal, "an operator's move", NewMove("m", "ann", "ann-k", 1, nil, salt()))
	do(ErrIllegal, "more than the budget", fill(period, 1, 101, 0))
	do(ErrIllegal, "a rest that is not there", fill(period, 1, 90, 10))
	do(ErrOrder, "its second part", fill(period, 2, 10, 0))
	do(nil, "the first part", fill(period, 1, 60, 0))
	do(ErrIllegal, "more than is due", fill(period, 2, 41, 0))
	do(ErrConflict, "the first part again", fill(period, 1, 40, 60))
	do(nil, "what was missing", fill(period, 2, 40, 0))
	do(ErrIllegal, "one part too many", fill(period, 3, 1, 0))
	do(nil, "to a hub", NewGrant("h", 1, "ann-k", 70, "", salt()))

	at, period = at.AddDate(0, 0, 1), period+1
	do(ErrIllegal, "less rest than is there", fill(period, 1, 71, 29))
	do(ErrIllegal, "the rest forgotten", fill(period, 1, 51, 50))
	do(nil, "50 were spent", fill(period, 1, 50, 50))
	do(nil, "a lower budget", budget("ann-k", "ann", EveryDay, 2, 20))
	at, period = at.AddDate(0, 0, 1), period+1
	do(ErrIllegal, "there is more than that", fill(period, 1, 1, 80))
	do(nil, "nothing", fill(period, 1, 0, 80))
	do(nil, "once for all", budget("ann-o", "ann", "", 1, 7))
	do(nil, "filled", NewAllowance("ann", "ann-o", 1, 1, 7, 0, salt()))
	do(ErrOrder, "filled twice", NewAllowance("ann", "ann-o", 2, 1, 0, 7, salt()))
	do(ErrIllegal, "changed", budget("ann-o", "ann", "", 2, 8))

	do(ErrIllegal, "back before its end", NewRest("ann-k", "ann", 1, 80, salt()))
	do(nil, "the end", budget("ann-k", "ann", EveryDay, 3, 0))
	do(ErrIllegal, "an allowance after the end", fill(period+1, 1, 0, 80))
	do(ErrIllegal, "another budget after the end", budget("ann-k", "ann", EveryDay, 4, 5))
	do(ErrIllegal, "a deposit after the end", NewDeposit("d3", "ann-k", 1, nil, salt()))
	do(ErrIllegal, "the rest to another", NewRest("ann-k", "ann-o", 1, 80, salt()))
	do(nil, "the rest", NewRest("ann-k", "ann", 1, 80, salt()))
	do(ErrConflict, "the rest again", NewRest("ann-k", "ann", 1, 1, salt()))
	do(ErrFunds, "more than the rest", NewRest("ann-k", "ann", 2, 1, salt()))
	do(nil, "what a hub returned", NewReclaim("h", 1, "ann-k", 20, salt()),
		NewRest("ann-k", "ann", 2, 20, salt()))

	if r := audit("treasury", MaxLevel, store(d.frames)).Finish(); r.Count > 0 {
		t.Errorf("the audit finds %v", r.Findings)
	}
	h := historyOf(t, allOfIt, store(d.frames))
	again := NewHistory(allOfIt)
	err := again.Load(snapshotOf(t, h))
	if err != nil || !reflect.DeepEqual(tellBook(again.Book), tellBook(d.book)) {
		t.Errorf("from a snapshot it is another book: %v", err)
	}
}

// The audit finds an allowance that was moved before its period, and one that was as large as if more had
// been spent than was charged.
func TestTheAuditOfBudgets(t *testing.T) {
	d := newDesk(t, "treasury", RoleTreasury)
	period := PeriodAt(EveryDay, monday)
	write := func(at time.Time, r ...Record) {
		t.Helper()
		if err := d.tryAt(at, r...); err != nil {
			t.Fatal(err)
		}
	}
	write(monday, NewDeposit("d", "ann", 1000, nil, d.nextSalt()),
		NewBudget(Budget{Client: "ann-k", Of: "ann", Every: EveryDay, Number: 1, Amount: 100}, d.nextSalt()),
		NewAllowance("ann", "ann-k", period, 1, 100, 0, d.nextSalt()),
		NewGrant("h", 1, "ann-k", 60, "", d.nextSalt()))
	write(monday.Add(25*time.Hour), NewAllowance("ann", "ann-k", period+1, 1, 30, 70, d.nextSalt()))
	bank := func() *Audit { return audit("treasury", MaxLevel, store(d.frames)) }
	if r := bank().Finish(); r.Count > 0 {
		t.Errorf("the audit finds %v", r.Findings)
	}
	spent := func(amount market.Credits) *Audit {
		h := newDesk(t, "h", RoleHub)
		h.must(NewAccept("h", 1, "ann-k", 60, h.nextSalt()))
		a := audit("h", MaxLevel, store(h.frames))
		a.paid["ann-k"] = amount
		return a
	}
	for amount, want := range map[market.Credits]int{29: 1, 30: 0, 60: 0, 61: 1} {
		found := Across(bank(), []*Audit{spent(amount)})
		if len(found) != want || want > 0 && found[0].Invariant != "I18" {
			t.Errorf("%d charged where 30 were taken for spent of 60 granted: %v", amount, found)
		}
	}
	if found := Across(bank(), nil); len(found) != 0 {
		t.Errorf("without the hub's journal: %v", found)
	}
	write(monday.Add(26*time.Hour), NewAllowance("ann", "ann-k", period+2, 1, 0, 100, d.nextSalt()))
	if r := bank().Finish(); r.Count != 1 || r.Findings[0].Invariant != "I18" ||
		!strings.Contains(r.Findings[0].Found, fmt.Sprint(period+2)) {
		t.Errorf("an allowance that was moved a day early: %v", r.Findings)
	}
}

// What moves and budgets are on a disk never changes.
func TestMovesOnDisk(t *testing.T) {
	salt := [16]byte{1, 2}
	for _, c := range []struct {
		r    Record
		want string
	}{
		{NewMove("m-1", "ann", "bob", 300, nil, salt),
			"1201020000000000000000000000000000086d6f76652f6d2d310212636c69656e743a616e6e3a70" +
				"726570616964d70412636c69656e743a626f623a70726570616964d80403616e6e03626f620000d8" +
				"040000"},
		{NewAllowance("ann", "ann-k", 20780, 1, 0, 1<<40, salt),
			"120102000000000000000000000000000017616e6e2d6b2f616c6c6f77616e63652f32303738302f" +
				"310003616e6e05616e6e2d6baca2010100808080808040"},
		{NewRest("ann-k", "ann", 2, 5, salt),
			"12010200000000000000000000000000000c616e6e2d6b2f726573742f320214636c69656e743a61" +
				"6e6e2d6b3a707265706169640912636c69656e743a616e6e3a707265706169640a05616e6e2d6b03" +
				"616e6e00020a00"},
		{NewBudget(Budget{Client: "ann-k", Of: "ann", Every: EveryMonth, Number: 3, Amount: 1 << 40}, salt),
			"13010200000000000000000000000000000e616e6e2d6b2f6275646765742f330005616e6e2d6b03" +
				"616e6e056d6f6e746803808080808040"},
	} {
		data := AppendRecord(nil, &c.r)
		if got := fmt.Sprintf("%x", data); got != c.want {
			t.Errorf("%s: %s, want %s", c.r.ID, got, c.want)
		}
	}
}
