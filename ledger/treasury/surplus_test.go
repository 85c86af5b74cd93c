package treasury

import (
	"fmt"
	"strings"
	"testing"

	"souk/bus"
	"souk/bus/tip"
	"souk/ledger"
	"souk/market"
)

// says is a hub's answer to the last question for a distribution: the number that comes next, what it made
// last, and what is left.
func (b *bank) says(hub string, next uint64, payee string, amount, left market.Credits) {
	b.t.Helper()
	q := b.asked[len(b.asked)-1].Ask
	if q.Hub != hub || q.Order == nil || !q.Look || q.Client != hub {
		b.t.Fatalf("asked %+v", q)
	}
	m := &bus.RecallReply{ID: q.ID, Hub: hub, Client: q.Client, Next: next, There: left}
	if next > 1 {
		m.Last = &tip.Ordered{Kind: bus.OpDistribute, Number: next - 1, Client: payee, Amount: amount}
	}
	b.tr.Said(m)
	b.take()
}

// why is the message of the last answer to a request.
func (b *bank) why(id string) string { return b.heard[id][len(b.heard[id])-1].Message }

// distribute asks for distribution n of hub h.
func (b *bank) distribute(n uint64, client string, amount market.Credits) (id string) {
	id = bus.DistributeID("h", n)
	b.put(bus.OpDistribute, bus.FundsRequest{ID: id, Hub: "h", Client: client, Amount: amount})
	return id
}

// The hub records a distribution first and the treasury then, each once, however often it is asked for and
// whatever was lost between.
func TestSurplusLeavesOnce(t *testing.T) {
	b := newBank(t)
	spread(b, 50, "h")
	b.put(bus.OpDistribute, bus.FundsRequest{ID: "look", Hub: "h"})
	b.says("h", 1, "", 0, 30)
	if r := b.heard["look"][0]; r.Code != "" || r.Number != 1 || r.Surplus != 30 {
		t.Fatalf("there is %+v", r)
	}
	prepaid, _ := b.tr.Book.Prepaid("ann")

	id := b.distribute(1, "ann", 20)
	b.want(id, "")
	b.says("h", 2, "ann", 20, 10)
	b.want(id, "done")
	if r := b.heard[id][0]; r.Number != 1 || r.Surplus != 10 || r.Prepaid != prepaid+20 {
		t.Errorf("answered %+v", r)
	}
	asked := len(b.asked)
	b.distribute(1, "ann", 20) // again, as its answer was lost
	b.want(id, "done")
	b.distribute(1, "ann", 21)
	b.want(id, "id_conflict")
	if now, _ := b.tr.Book.Prepaid("ann"); now != prepaid+20 || len(b.asked) != asked {
		t.Errorf("ann has %d, want %d; the hub was asked %d times more", now, prepaid+20, len(b.asked)-asked)
	}

	// the hub has recorded the next, and we died before we heard of it
	id = b.distribute(2, "", 4)
	b.reopen()
	b.alive("h")
	b.distribute(2, "", 4)
	b.says("h", 3, "", 4, 6)
	b.want(id, "done")
	// and of the third whoever asked has forgotten how much it was
	id = b.distribute(3, "ann", 1)
	b.says("h", 4, "", 2, 4)
	b.want(id, "id_conflict")
	if why := b.why(id); !strings.Contains(why, "order 3 of hub h is a distribute of 0.000000002 of the "+
		"surplus of hub h to") {
		t.Error(why)
	}
	if got := b.tr.Book.Balance(ledger.External("distributed")); got != 6 {
		t.Errorf("%d is outside, want 6", got)
	}
	// a look finds it, too
	b.put(bus.OpDistribute, bus.FundsRequest{ID: "look again", Hub: "h"})
	b.says("h", 5, "ann", 3, 1)
	if r := b.heard["look again"][0]; r.Number != 5 || r.Surplus != 1 {
		t.Errorf("there is %+v", r)
	}
	if now, _ := b.tr.Book.Prepaid("ann"); now != prepaid+23 {
		t.Errorf("ann has %d, want %d", now, prepaid+23)
	}
	b.reopen()
}

// Each refusal says why, and nothing has moved.
func TestSurplusThatDoesNotLeave(t *testing.T) {
	b := newBank(t)
	spread(b, 50, "h")
	first := bus.DistributeID("h", 1)
	for _, test := range []struct {
		name string
		req  bus.FundsRequest
		says func()
		code bus.Code
		why  string
	}{
		{"no such hub", bus.FundsRequest{ID: first, Hub: "x", Amount: 1}, nil, bus.CodeBadRequest,
			"never dealt with"},
		{"no such client", bus.FundsRequest{ID: first, Hub: "h", Client: "zoe", Amount: 1}, nil,
			bus.CodeUnknownClient, "zoe"},
		{"a number too high", bus.FundsRequest{ID: bus.DistributeID("h", 2), Hub: "h", Amount: 1}, nil,
			bus.CodeBadRequest, "want h-distribute-1"},
		{"no number", bus.FundsRequest{ID: "mine", Hub: "h", Amount: 1}, nil, bus.CodeBadRequest,
			"want h-dist"},
		{"another hub's", bus.FundsRequest{ID: bus.DistributeID("g", 1), Hub: "h", Amount: 1}, nil,
			bus.CodeBadRequest, "want h-dist"},
		{"below zero", bus.FundsRequest{ID: first, Hub: "h", Amount: -1}, nil, bus.CodeBadRequest, "amount"},
		{"too much", bus.FundsRequest{ID: first, Hub: "h", Amount: 1 + market.MaxCredits}, nil,
			bus.CodeBadRequest, "amount"},
		{"more than the surplus", bus.FundsRequest{ID: first, Hub: "h", Amount: 9},
			func() { b.says("h", 1, "", 0, 8) }, bus.CodeInsufficientFunds, "a surplus of 0.000000008"},
		{"an older journal", bus.FundsRequest{ID: first, Hub: "h", Amount: 9},
			func() { b.says("h", 7, "", 0, 0) },
			bus.CodeBadRequest, "lacks its end"},
		{"a hub that may not", bus.FundsRequest{ID: first, Hub: "h", Amount: 9},
			func() { b.says("h", 1, "", 0, 9) },
			bus.CodeUnavailable, "records nothing"},
		{"a hub that is silent", bus.FundsRequest{ID: first, Hub: "h", Amount: 9},
			func() { b.pass(answerWithin) },
			bus.CodeUnavailable, "does not answer"},
		{"a hub that is gone", bus.FundsRequest{ID: first, Hub: "h", Amount: 9}, nil, bus.CodeUnavailable,
			"does not answer"},
	} {
		if strings.HasSuffix(test.name, "gone") {
			b.now = b.now.Add(lively)
		}
		b.heard, b.asked = map[string][]bus.FundsReply{}, nil
		frames := len(b.frames)
		b.put(bus.OpDistribute, test.req)
		if test.says != nil {
			if len(b.heard[test.req.ID]) > 0 || len(b.asked) == 0 {
				t.Fatalf("%s: answered %+v before the hub was", test.name, b.heard)
			}
			test.says()
		}
		if len(b.heard[test.req.ID]) != 1 || b.last(test.req.ID) != string(test.code) ||
			!strings.Contains(b.why(test.req.ID), test.why) || len(b.frames) != frames ||
			len(b.tr.polls) > 0 || len(b.tr.looks) > 0 {
			t.Errorf("%s: %+v", test.name, b.heard)
		}
	}
}

// A hub ends when both journals say the same of it. Nothing is granted to it then, nobody waits for it, what
// was spent there is still told, and its place is free.
func TestAHubEnds(t *testing.T) {
	b := newBank(t)
	b.tr.cfg.MaxHubs = 2
	spread(b, 50, "g", "h")
	last := bus.FundsRequest{ID: "h-close", Hub: "h", Domain: "of-h", After: 1, Returned: 1, Ordered: 1}
	refused := func(why string) {
		t.Helper()
		b.put(bus.OpClose, last)
		if b.last("h-close") != "bad_request" || !strings.Contains(b.why("h-close"), why) {
			t.Fatalf("%+v", b.heard["h-close"])
		}
	}
	refused("the last return of hub h is number 1 in its journal and 0")
	b.giveBack("h", 20)
	refused("the last order of hub h is number 1 in its journal and 0")
	b.distribute(1, "", 7)
	b.says("h", 2, "", 7, 0)
	last.After = 0
	refused("the last grant of hub h is number 0 in its journal and 1")
	last.After = 1
	for range 2 { // its answer was lost
		b.put(bus.OpClose, last)
		b.want("h-close", "done")
	}
	if b.tr.Book.EndedHubs() != 1 {
		t.Fatal("it is not counted as ended")
	}
	for range 2 {
		b.put(bus.OpAllot, bus.FundsRequest{ID: "more", Client: "ann", Hub: "h", Amount: 5, Least: 5})
		b.put(bus.OpDistribute, bus.FundsRequest{ID: bus.DistributeID("h", 2), Hub: "h", Amount: 1})
		for _, id := range []string{"more", bus.DistributeID("h", 2)} {
			if b.last(id) != "bad_request" || !strings.Contains(b.why(id), "ended") {
				t.Errorf("%s: %+v", id, b.heard[id])
			}
		}
		b.distribute(1, "", 7) // was made
		b.want(bus.DistributeID("h", 1), "done")
		b.asked, b.heard = nil, map[string][]bus.FundsReply{}
		b.alive("g")
		b.put(bus.OpPayout, bus.FundsRequest{ID: "all", Client: "ann", Amount: 60})
		if len(b.asked) != 1 || b.asked[0].Ask.Hub != "g" {
			t.Errorf("asked %+v", b.asked)
		}
		b.answer("g", 50)
		b.want("all", "insufficient_funds")
		b.asked = nil
		b.put(bus.OpBalance, bus.FundsRequest{ID: "balance", Client: "ann", Hubs: true})
		b.answer("g", 50)
		if r := b.heard["balance"]; len(r) != 1 || len(r[0].Hubs) != 2 || r[0].Hubs[1].Hub != "h" ||
			r[0].Hubs[1].Allotted != 30 || r[0].Hubs[1].AtMS == 0 || r[0].Hubs[1].Avail != 0 {
			t.Errorf("ann has %+v", r)
		}
		b.reopen() // and after a start nothing is different
		b.tr.cfg.MaxHubs = 2
		b.now = b.now.Add(lively)
	}
	b.alive("k")
	b.put(bus.OpAllot, bus.FundsRequest{ID: "k1", Client: "ann", Hub: "k", Amount: 5, Least: 5})
	b.want("k1", fmt.Sprint("granted ", 5))
}
