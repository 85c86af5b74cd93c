package ledger

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"souk/bus/tip"
)

// A month is closed once, with the balances there are, and in order; the audit finds one that was not over.
func TestAMonthIsClosed(t *testing.T) {
	end := time.Unix(0, EndOf("2026-11")).UTC()
	if want := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC); end != want {
		t.Fatalf("2026-11 ends at %s", end)
	}
	d := newDesk(t, Treasury, RoleTreasury)
	if err := d.tryAt(end.Add(time.Second), NewDeposit("d", "ann", 100, nil, d.nextSalt())); err != nil {
		t.Fatal(err)
	}
	month := func(month string, change func(*Month)) Record {
		r := d.book.NewMonth(month, "op", "agreed", d.nextSalt())
		change(r.Month)
		return r
	}
	same := func(*Month) {}
	refused := func(name, says string, r Record) {
		t.Helper()
		if err := d.try(r); err == nil || !strings.Contains(err.Error(), "I22") ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	refused("a digest", "the balances", month("2026-11", func(m *Month) { m.Digest[0]++ }))
	refused("an account", "the balances", month("2026-11", func(m *Month) { m.Accounts++ }))
	refused("an amount", "the balances", month("2026-11", func(m *Month) { m.Balances[0].Amount++ }))
	refused("a hub", "the last marks", month("2026-11", func(m *Month) { m.Journals = make([]Marked, 1) }))
	refused("no month", "like 2026-11", month("2026-13", same))
	closed := month("2026-11", same)
	if debits, credits := closed.Month.Totals(); debits != 100 || credits != 100 {
		t.Errorf("debits %s, credits %s", debits, credits)
	}
	d.must(closed)
	refused("twice", "closed with all before it", month("2026-11", same))
	refused("an earlier one", "closed with all before it", month("2026-10", same))
	late := tip.Order{By: "op", Month: "2026-11", Closed: "2026-11"}
	if Corrects(&late) != "2026-11" || Corrects(&tip.Order{Month: "2026-12", Closed: "2026-11"}) != "" {
		t.Error("what corrects a closed month is not told")
	}
	d.must(NewDeposit("late", "ann", 1, &late, d.nextSalt()))
	silent := late
	silent.Closed = ""
	refused("a correction that does not say so", "", NewDeposit("e", "ann", 1, &silent, d.nextSalt()))
	last := d.frames[2]
	back, err := DecodeFrame(AppendFrame(nil, &last))
	if err != nil || !reflect.DeepEqual(back.Records[0].Month, closed.Month) {
		t.Errorf("read back: %v, %+v", err, back.Records)
	}
	if found := audit(Treasury, MaxLevel, store(d.frames)).Finish().Findings; len(found) > 0 {
		t.Errorf("the audit: %v", found)
	}
	d.must(month("2026-12", same))
	found := audit(Treasury, MaxLevel, store(d.frames)).Finish().Findings
	if len(found) != 1 || found[0].Invariant != "I22" {
		t.Errorf("a month that was not over: %v", found)
	}
}

// A remittance that a hub has recorded before its month is closed, and the treasury after that, is a
// correction in the treasury's journal, which says so, and the two are one order; asked for again, it is made
// once.
func TestARemittanceWhileItsMonthIsClosed(t *testing.T) {
	hub, treasury := trade(t, 6, 200)
	agent := payment(t, hub, 0).Order.Agent
	o := remit(agent, "late", hub.book.Balance(Payable(agent)))
	o.Number, o.Order.Month = 1, "1970-01"
	record, ok := hub.book.Take(o, nil, hub.nextSalt())
	if !ok {
		t.Fatal("it is not the next order")
	}
	hub.must(record)
	if err := treasury.tryAt(time.Unix(0, EndOf("1970-02")),
		treasury.book.NewMonth("1970-02", "op", "", treasury.nextSalt())); err != nil {
		t.Fatal(err)
	}
	taken := treasury.book.NewOrder(hub.name, hub.book.LastOrder(hub.name), treasury.nextSalt())
	treasury.must(taken)
	if month := Corrects(taken.Transfer.Order); month != "1970-01" || Corrects(record.Transfer.Order) != "" {
		t.Errorf("the treasury's is a correction of %q: %+v", month, taken.Transfer.Order)
	}
	again := treasury.book.NewOrder(hub.name, hub.book.LastOrder(hub.name), treasury.nextSalt())
	if err := treasury.book.Apply(&again); err != ErrRepeat {
		t.Errorf("once more: %v", err)
	}
	clean(t, hub, treasury)
	silent := hub.book.LastOrder(hub.name)
	silent.Number, silent.Order.Ref = 2, "silent"
	r := treasury.book.NewOrder(hub.name, silent, treasury.nextSalt())
	r.Transfer.Order.Closed = ""
	if err := treasury.try(r); err == nil || !strings.Contains(err.Error(), "I22") {
		t.Errorf("one that does not say so: %v", err)
	}
}
