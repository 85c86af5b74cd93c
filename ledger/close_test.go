package ledger

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"souk/market"
)

// tradeToTheEnd plays a market whose hub's surplus leaves, half of it to a client, and which then ends.
func tradeToTheEnd(t *testing.T) (hub, treasury *desk) {
	hub, treasury = trade(t, 1, 100)
	both := func(n uint64, client string) {
		t.Helper()
		amount := hub.book.Balance(Surplus)
		if client != "" {
			amount /= 2
		}
		for _, d := range []*desk{hub, treasury} {
			d.must(d.book.NewOrder(hub.name, distribution(n, client, amount), d.nextSalt()))
		}
	}
	both(1, "client-0")
	both(2, "")
	for i := range 12 {
		client := fmt.Sprint("client-", i)
		if left := hub.book.Avail(client); left > 0 {
			n := hub.book.LastReturn(hub.name) + 1
			hub.must(NewReturn(hub.name, n, client, left, hub.nextSalt()))
			treasury.must(NewReclaim(hub.name, n, client, left, treasury.nextSalt()))
		}
	}
	treasury.must(NewClose(hub.name, treasury.nextSalt()))
	hub.must(NewClose(hub.name, hub.nextSalt()))
	return hub, treasury
}

// Surplus leaves a hub and the hub ends: to the last unit the money is with the treasury, with agents, in the
// flat fee or outside, and every level of the audit finds that so.
func TestAHubThatEnds(t *testing.T) {
	hub, treasury := tradeToTheEnd(t)
	for _, b := range hub.book.Balances("client:*") {
		if b.Amount != 0 {
			t.Errorf("%s of %s is left", b.Amount, b.Account)
		}
	}
	if s := hub.book.Balance(Surplus); s != 0 {
		t.Errorf("a surplus of %s is left", s)
	}
	if a, b := hub.book.Balance(Clearing(Treasury)), treasury.book.Balance(Clearing(hub.name)); a != -b {
		t.Errorf("%s went to the hub, and %s came", b, -a)
	}
	last := hub.book.LastOrder(hub.name)
	n, client, amount := last.Number, last.Client, last.Amount
	if out := treasury.book.Balance(External("distributed")); n != 2 || client != "" || out <= 0 ||
		amount != out {
		t.Errorf("distribution %d of %s to %q, and %s is outside", n, amount, client, out)
	}
	for level := range MaxLevel + 1 {
		h, tr := audit("h", level, store(hub.frames)), audit("t", level, store(treasury.frames))
		if r, q := h.Finish(), tr.Finish(); r.Count+q.Count > 0 || level >= LevelState && !r.Closed ||
			q.Closed {
			t.Errorf("level %d: %v %v, hub closed: %v, treasury: %v", level, r.Findings, q.Findings, r.Closed,
				q.Closed)
		}
		if level >= LevelAcross {
			for _, f := range Across(tr, []*Audit{h}) {
				t.Error(f)
			}
		}
	}
	for _, f := range append(hub.frames, treasury.frames...) {
		if got, err := DecodeFrame(AppendFrame(nil, &f)); err != nil || !reflect.DeepEqual(got, f) {
			t.Fatalf("frame %d comes back as %+v, %v", f.Seq, got, err)
		}
	}
}

// Of what has ended nothing more is taken; the rest of the treasury goes on.
func TestNothingFollowsAnEnd(t *testing.T) {
	hub, treasury := tradeToTheEnd(t)
	last := NewClose(hub.name, hub.nextSalt())
	returns := hub.book.LastReturn(hub.name)
	for _, test := range []struct {
		d    *desk
		r    Record
		want error
	}{
		{hub, NewAccept(hub.name, hub.book.LastGrant(hub.name)+1, "client-0", 5, hub.nextSalt()), ErrOrder},
		{hub, last, ErrOrder},
		{treasury, last, ErrRepeat},
		{treasury, NewClose("nobody", treasury.nextSalt()), ErrIllegal},
		{treasury, NewGrant(hub.name, treasury.book.LastGrant(hub.name)+1, "client-0", 5, "", last.Salt),
			ErrOrder},
		{treasury, NewReclaim(hub.name, returns+2, "client-0", 5, last.Salt), ErrOrder},
		{treasury, treasury.book.NewOrder(hub.name, distribution(3, "", 5), last.Salt), ErrOrder},
		{newDesk(t, "other", RoleHub), last, ErrIllegal},
	} {
		before := tellBook(test.d.book)
		if err := test.d.book.Apply(&test.r); !errors.Is(err, test.want) {
			t.Errorf("%s %s at %s: %v, want %v", test.r.Kind, test.r.ID, test.d.name, err, test.want)
		}
		if !reflect.DeepEqual(before, tellBook(test.d.book)) {
			t.Errorf("%s %s was refused and changed the book of %s", test.r.Kind, test.r.ID, test.d.name)
		}
	}
	treasury.must(NewGrant("other", 1, "client-0", 5, "", last.Salt))
	if b := treasury.book; !b.Closed(hub.name) || b.Closed("other") || b.Closed(treasury.name) ||
		b.EndedHubs() != 1 || !hub.book.Closed(hub.name) {
		t.Error("not the hub alone has ended")
	}
}

// Somebody ended a hub in its name, at the treasury, while it had money of clients. What it returns is taken
// in, within what was granted, each return once and in its turn; then both journals are whole.
func TestAHubEndedInItsNameGivesBack(t *testing.T) {
	hub, treasury := trade(t, 1, 100)
	treasury.must(NewClose(hub.name, treasury.nextSalt()))
	n, client := hub.book.LastReturn(hub.name)+1, "client-0"
	left := hub.book.Avail(client)
	prepaid, _ := treasury.book.Prepaid(client)
	reclaim := func(n uint64, amount market.Credits) Record {
		return NewReclaim(hub.name, n, client, amount, treasury.nextSalt())
	}
	for _, test := range []struct {
		r    Record
		want error
	}{
		{reclaim(n, treasury.book.Allotted(client, hub.name)+1), ErrFunds},
		{reclaim(n+1, left), ErrOrder},
	} {
		if err := treasury.try(test.r); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.r.ID, err, test.want)
		}
	}
	hub.must(NewReturn(hub.name, n, client, left, hub.nextSalt()))
	first := reclaim(n, left)
	treasury.must(first)
	if err := treasury.book.Apply(&first); err != ErrRepeat {
		t.Errorf("the same return again: %v", err)
	}
	if now, _ := treasury.book.Prepaid(client); left <= 0 || now != prepaid+left {
		t.Errorf("%s has %s with the treasury, want %s more than %s", client, now, left, prepaid)
	}
	hub.must(NewClose(hub.name, hub.nextSalt()))
	for level := range MaxLevel + 1 {
		h, tr := audit("h", level, store(hub.frames)), audit("t", level, store(treasury.frames))
		if r, q := h.Finish(), tr.Finish(); r.Count+q.Count > 0 {
			t.Errorf("level %d: %v %v", level, r.Findings, q.Findings)
		}
		if level >= LevelAcross {
			for _, f := range Across(tr, []*Audit{h}) {
				t.Error(f)
			}
		}
	}
}

// A snapshot keeps who has ended and what was distributed last.
func TestASnapshotKeepsAnEnd(t *testing.T) {
	hub, treasury := tradeToTheEnd(t)
	for _, d := range []*desk{hub, treasury} {
		b := historyOf(t, allOfIt, store(d.frames), len(d.frames)).Book
		got, want := b.LastOrder(hub.name), d.book.LastOrder(hub.name)
		if !b.Closed(hub.name) || got != want ||
			!reflect.DeepEqual(tellBook(b), tellBook(d.book)) {
			t.Errorf("%s: closed %v, last order %+v", d.name, b.Closed(hub.name), got)
		}
	}
}

// A treasury that ends a hub while money is on its way there is found.
func TestAnEndWithMoneyInFlightIsFound(t *testing.T) {
	hub, treasury := trade(t, 1, 100)
	treasury.must(NewGrant(hub.name, treasury.book.LastGrant(hub.name)+1, "client-0", 5, "",
		treasury.nextSalt()),
		NewClose(hub.name, treasury.nextSalt()))
	hub.must(NewClose(hub.name, hub.nextSalt()))
	h, tr := audit("h", MaxLevel, store(hub.frames)), audit("t", MaxLevel, store(treasury.frames))
	if found := Across(tr, []*Audit{h}); len(found) != 1 || found[0].Record != hub.name+"/close" {
		t.Errorf("found %v", found)
	}
}
