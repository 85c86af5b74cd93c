package ledger

import (
	"errors"
	"strings"
	"testing"

	"souk/market"
)

// briefOf is a brief of a hold, its capture, another hold, its void, and a transfer.
func briefOf(t testing.TB) []byte {
	h := &Hold{Client: "ann", Agent: "a1", Model: "m", Key: "k1", Tags: "user=ann", Settle: "metered",
		Amount: 90, Premium: 20, Fee: 3, Quoted: 40}
	v := &Hold{Client: "ann", Amount: 7}
	c := &Capture{Outcome: "done", Cost: 40, Usage: market.Usage{Prompt: 9, Cached: 5, Output: 3}}
	hold := func(h *Hold) *Record {
		return &Record{Kind: KindHold, Hold: h, Legs: holdLegs(nil, Avail("ann"), Held("ann"), h)}
	}
	var x Brief
	for i, f := range []*Fact{
		{Record: hold(h)},
		{Record: &Record{Kind: KindCapture, Capture: c,
			Legs: captureLegs(nil, Avail("ann"), Held("ann"), Payable("a1"), h, c)}, Hold: h},
		{Record: &Record{Kind: KindSeal}}, // of which it says nothing
		{Record: hold(v)},
		{Record: &Record{Kind: KindVoid, Void: &Void{},
			Legs: voidLegs(nil, Avail("ann"), Held("ann"), v)}, Hold: v},
		{Record: ptr(NewAccept("hub", 1, "ann", 5, [16]byte{1}))},
	} {
		f.Time, f.Hub = int64(1000+i), true
		x.Add(f)
	}
	b := x.Bytes()
	if b == nil {
		t.Fatal("no brief")
	}
	return b
}

// What a brief says is what was added, and it has none of what breaks the rules that its reader goes by.
func TestABriefSaysWhatMoves(t *testing.T) {
	var got []string
	err := ReadBrief(briefOf(t), func(f *Fact) error {
		client, agent, use, ok := f.Use()
		if ok {
			got = append(got, client+" "+agent+" "+use.Model+" "+use.Key+" "+use.Tags+" "+use.Paid.String())
		}
		got = append(got, FormatLegs(f.Record.Legs))
		if !f.Hub {
			t.Error("it is a hub's")
		}
		return nil
	})
	want := []string{
		"client:ann:avail -0.00000009, client:ann:held 0.00000009",
		"ann a1 m k1 user=ann 0.00000006",
		"client:ann:held -0.00000009, agent:a1:payable 0.00000004, surplus 0.000000017, fee 0.000000003, " +
			"client:ann:avail 0.00000003",
		"client:ann:avail -0.000000007, client:ann:held 0.000000007",
		"client:ann:held -0.000000007, client:ann:avail 0.000000007",
		"clearing:treasury -0.000000005, client:ann:avail 0.000000005", "none"}
	if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%v: got\n%s\nwant\n%s", err, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	h := &Hold{Client: "ann", Amount: 90}
	for what, legs := range map[string][]Leg{
		"more than it holds": holdLegs(nil, Avail("ann"), Held("ann"), &Hold{Amount: 91}),
		"another's":          holdLegs(nil, Avail("bob"), Held("bob"), h),
		"nothing":            nil,
	} {
		var x Brief
		x.Add(&Fact{Record: &Record{Kind: KindHold, Hold: h, Legs: legs}})
		if x.Bytes() != nil {
			t.Errorf("a hold that moves %s has a brief", what)
		}
	}
	var x Brief
	x.Add(&Fact{Time: 2, Record: &Record{}})
	x.Add(&Fact{Time: 1, Record: &Record{Kind: KindHold, Hold: &Hold{}}})
	if x.Add(&Fact{Time: 0, Record: &Record{Kind: KindHold, Hold: &Hold{}}}); x.Bytes() != nil {
		t.Error("a time that falls has a brief")
	}
}

func FuzzReadBrief(f *testing.F) {
	f.Add(briefOf(f))
	f.Add([]byte{1, byte(KindHold), 1, 0, 0xff, 0xff, 0xff, 0xff, 0xf})
	f.Add([]byte{0, briefWhole, 1, 0xff, 0xff, 0xff, 0xff, 0xf})
	f.Fuzz(func(t *testing.T, data []byte) {
		err := ReadBrief(data, func(f *Fact) error {
			if f.Time < 0 {
				t.Errorf("time %d", f.Time)
			}
			f.Use()
			return nil
		})
		if err != nil && !errors.Is(err, ErrEncoding) {
			t.Error(err)
		}
	})
}
