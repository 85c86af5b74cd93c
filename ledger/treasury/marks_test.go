package treasury

import (
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/tip"
	"souk/market"
)

// What a hub said that clients had spent there counts until it says otherwise of a later frame: no older copy
// lowers it that has not heard yet that it is one, also where the treasury was started anew. Else a write-off
// would give back what was spent.
func TestAnOlderWordLowersNothing(t *testing.T) {
	o := open(t)
	told := func(seq uint64, spent int64) {
		t.Helper()
		o.ask(bus.OpAllotted, bus.FundsRequest{ID: "w", Hub: "maths", Epoch: 1, After: 1,
			Mark:  &tip.Mark{Journal: tip.Sum{1}, Seq: seq, Sum: tip.Sum{byte(seq)}},
			Spent: []tip.Spent{{Client: "ann", Amount: market.Credits(spent)}}})
	}
	o.ask(bus.OpDeposit, bus.FundsRequest{ID: "d", Client: "ann", Amount: 100})
	if r := o.ask(bus.OpAllot, bus.FundsRequest{ID: "a", Client: "ann", Hub: "maths", Amount: 50,
		Least: 50}); r.Code != "" {
		t.Fatal(r.Message)
	}
	want := func(when string, want market.Credits) {
		t.Helper()
		if got := o.tr.Book.Spent("ann", "maths"); got != want {
			t.Errorf("%s: ann has spent %d, want %d", when, got, want)
		}
	}
	told(10, 40)
	want("first", 40)
	told(20, 30) // a refund
	want("later", 30)
	told(10, 5)
	want("by a word that was overtaken", 30)
	o.reopen()
	told(10, 5)
	want("by a word that was overtaken by a start of the treasury", 30)
	told(21, 31)
	want("at last", 31)
}

// Two hubs that were put back together with the treasury confirm its older journal, as each is a copy of the
// same moment. A third one that was not put back is believed all the same, where it speaks within ten seconds
// of the first: before them or after them, and whatever they say later, or an older copy of that hub does in
// its place. A treasury that was not moved, or has run for longer, goes by the greater number, so that one
// hub that lies does not stop it.
func TestOneOfTheFirstThatContradictsIsEnough(t *testing.T) {
	for _, test := range []struct {
		name          string
		moved, before bool
		after         time.Duration
		closed        bool
	}{
		{"at once, before them", true, true, 0, true},
		{"at once", true, false, 0, true},
		{"after a round of words", true, false, 2*bus.FundsEvery - 1, true},
		{"later", true, false, 2 * bus.FundsEvery, false},
		{"not moved, before them", false, true, 0, false},
		{"not moved", false, false, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBank(t)
			b.put(bus.OpDeposit, bus.FundsRequest{ID: "d", Client: "ann", Amount: 100})
			b.take()
			sum := func(seq uint64) tip.Sum { return tip.Sum{byte(seq)} }
			word := func(hub string, seq uint64) {
				m := &tip.Mark{Journal: b.tr.Book.ID(), Seq: seq, Sum: sum(seq)}
				b.put(bus.OpAllotted, bus.FundsRequest{ID: "w-" + hub, Hub: hub, Epoch: 1, Known: m,
					Here: sum(seq)})
			}
			if test.moved {
				b.tr.Await()
				b.tr.Named(nil)
			}
			last, _, _ := b.tr.Book.Last()
			if test.before {
				word("new", last+1)
			}
			word("old-1", last)
			word("old-2", last)
			b.now = b.now.Add(test.after)
			if !test.before {
				word("new", last+1)
			}
			for range 3 {
				b.now = b.now.Add(bus.FundsEvery)
				word("old-1", last)
				word("old-2", last)
				word("new", last+1)
			}
			if why := b.tr.Closed(); (why != "") != test.closed || test.closed &&
				!strings.Contains(why, "hub new says: this journal ends with frame") {
				t.Errorf("closed: %q, want %v", why, test.closed)
			}
			word("new", last) // an older copy of it speaks, which knows less
			if why := b.tr.Closed(); (why != "") != test.closed {
				t.Errorf("once an older copy of the hub has spoken it is closed: %q", why)
			}
		})
	}
}

// A hub that is not sure of its own journal confirms the treasury's, unless that one has kept that the hub's
// was further, or another. Its own mark is not kept.
func TestWhoIsBehindConfirmsNothing(t *testing.T) {
	was := tip.Mark{Journal: tip.Sum{1}, Seq: 10, Sum: tip.Sum{10}}
	for _, test := range []struct {
		name   string
		mark   *tip.Mark
		unsure bool
		closed string
	}{
		{"as far", &was, true, ""},
		{"further", &tip.Mark{Journal: was.Journal, Seq: 11, Sum: tip.Sum{11}}, true, ""},
		{"less far", &tip.Mark{Journal: was.Journal, Seq: 9, Sum: tip.Sum{9}}, true,
			"bring back the one that has frame 10"},
		{"another history", &tip.Mark{Journal: was.Journal, Seq: 10, Sum: tip.Sum{11}}, true,
			"whose frame 10 has"},
		{"another journal", &tip.Mark{Journal: tip.Sum{2}, Seq: 12, Sum: tip.Sum{12}}, true,
			"with at least frame 10"},
		{"empty", nil, true, "with at least frame 10"},
		{"overtaken by its next word", &tip.Mark{Journal: was.Journal, Seq: 9, Sum: tip.Sum{9}}, false, ""},
	} {
		b := newBank(t)
		b.put(bus.OpDeposit, bus.FundsRequest{ID: "d", Client: "ann", Amount: 100})
		b.put(bus.OpAllot, bus.FundsRequest{ID: "a", Client: "ann", Hub: "maths", Amount: 50, Least: 50})
		b.put(bus.OpAllotted, bus.FundsRequest{ID: "w", Hub: "maths", Epoch: 1, Mark: &was})
		b.take()
		b.tr.Await()
		b.tr.Named([]string{"maths"})
		last, _, _ := b.tr.Book.Last()
		known := tip.Mark{Journal: b.tr.Book.ID(), Seq: last, Sum: tip.Sum{byte(last)}}
		b.put(bus.OpAllotted, bus.FundsRequest{ID: "w", Hub: "maths", Epoch: 1, Mark: test.mark,
			Unsure: test.unsure, Known: &known, Here: known.Sum})
		why := b.tr.Closed()
		if (why == "") != (test.closed == "") || !strings.Contains(why, test.closed) {
			t.Errorf("%s: closed for %q, want %q", test.name, why, test.closed)
		}
		if test.closed != "" && !strings.Contains(why, "hub maths (whose own journal is not the newest: ") {
			t.Errorf("%s: closed for %q", test.name, why)
		}
		if kept, _ := b.tr.Book.Marked("maths"); kept != was {
			t.Errorf("%s: %s is kept", test.name, kept)
		}
	}
}

// A hub contradicts the treasury's journal, and a copy of that hub, which dealt with this journal for longer,
// does not: what was said against it stays, and the copy is told that what it was told counts no more.
func TestACopyOfAHubTakesNothingBack(t *testing.T) {
	b := newBank(t)
	for _, id := range []string{"d1", "d2", "d3"} {
		b.put(bus.OpDeposit, bus.FundsRequest{ID: id, Client: "ann", Amount: 100})
	}
	last, _, _ := b.tr.Book.Last()
	say := func(seq uint64, sum byte) bus.FundsReply {
		m := tip.Mark{Journal: b.tr.Book.ID(), Seq: seq, Sum: tip.Sum{sum}}
		b.put(bus.OpAllotted, bus.FundsRequest{ID: "w", Hub: "maths", Epoch: 1, Known: &m,
			Here: tip.Sum{byte(seq)}})
		said := b.heard["w"]
		return said[len(said)-1]
	}
	agrees := byte(last)
	for i, c := range []struct {
		seq          uint64
		sum          byte
		closed, told bool
	}{{last, agrees, false, false}, {last - 1, 99, true, false}, {last, agrees, true, true},
		{last - 1, 99, true, false}} {
		r := say(c.seq, c.sum)
		if closed := b.tr.Closed() != ""; closed != c.closed || r.Contradicted != c.told {
			t.Errorf("word %d: closed %v, and it is told so %v; want %v, %v", i, closed, r.Contradicted, c.closed,
				c.told)
		}
	}
}
