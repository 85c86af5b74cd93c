package ledger

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"souk/market"
)

// A grant says what stood behind it, and the book takes none that says more than doors vouched for and the
// hub gave back. What it knows of that is the same after a snapshot; an audit of the frames finds nothing.
func TestAGrantIsCovered(t *testing.T) {
	d := newDesk(t, Treasury, RoleTreasury)
	d.must(NewDeposit("d", "ann", 1000, nil, d.nextSalt()))
	n := uint64(0)
	grant := func(amount, left market.Credits, doors ...DoorTotal) Record {
		r := NewGrant("h", n+1, "ann", amount, "", d.nextSalt())
		r.Transfer.Vouched = &Vouched{Doors: doors, Left: left}
		return r
	}
	one, two := DoorTotal{"a", 1, 30}, DoorTotal{"b", 7, 20}
	for _, step := range []struct {
		what string
		r    func() Record
		says string // of the refusal; "": it is taken
	}{
		{"more than was vouched for", func() Record { return grant(31, 0, one) },
			"at most 0.00000003, what doors"},
		{"left that is not", func() Record { return grant(10, 21, one) }, "0.00000002 left of what came " +
			"back"},
		{"no door", func() Record { return grant(10, 0) }, "1 to 256 lines"},
		{"doors out of order", func() Record { return grant(50, 0, two, one) }, "in order"},
		{"a door twice", func() Record { return grant(10, 20, one, one) }, "in order"},
		{"a door without an id", func() Record { return grant(10, 20, DoorTotal{"a.b", 1, 30}) }, "in order"},
		{"a total below 0", func() Record { return grant(10, 20, DoorTotal{"a", 1, -30}) }, "above 0"},
		{"a total beyond an amount",
			func() Record { return grant(10, 20, DoorTotal{"a", 1, market.MaxCredits + 1}) }, "above 0"},
		{"what one door vouched for", func() Record { return grant(10, 20, one) }, ""},
		{"a return that is vouched for", func() Record {
			r := NewReclaim("h", 1, "ann", 1, d.nextSalt())
			r.Transfer.Vouched = &Vouched{Doors: []DoorTotal{one}}
			return r
		}, "in grants alone"},
		{"less than it had vouched for", func() Record { return grant(1, 18, DoorTotal{"a", 1, 29}) },
			"at least"},
		{"the same again", func() Record { return grant(21, 0, one) }, "at most 0.00000002"},
		{"another door", func() Record { return grant(35, 5, one, two) }, ""},
		{"what it gave back", func() Record { return NewReclaim("h", 1, "ann", 40, d.nextSalt()) }, ""},
		{"and has again, where one door is gone", func() Record { return grant(45, 0, two) }, ""},
		{"the hub's own client", func() Record {
			return NewGrant("h", n+1, "ann", 100, "", d.nextSalt())
		}, ""},
		{"which covers nothing", func() Record { return grant(1, 0, two) }, "at most 0"},
	} {
		before := d.book.Vouched("ann", "h")
		r := step.r()
		err := d.try(r)
		var v *Violation
		switch {
		case step.says == "" && err != nil:
			t.Fatalf("%s: %v", step.what, err)
		case step.says == "":
			if r.Kind == KindGrant {
				n++
			}
		case !errors.As(err, &v) || v.Invariant != "I20" || !strings.Contains(err.Error(), step.says):
			t.Errorf("%s: %v", step.what, err)
		case !reflect.DeepEqual(d.book.Vouched("ann", "h"), before):
			t.Errorf("%s changed what is known", step.what)
		}
	}
	want := Vouched{Doors: []DoorTotal{two}}
	for snapshot := range 3 {
		h := historyOf(t, HistoryLimits{Grants: 9}, store(d.frames), snapshot)
		if got := h.Book.Vouched("ann", "h"); !reflect.DeepEqual(got, want) {
			t.Errorf("by way of snapshot %d: %+v", snapshot, got)
		}
	}
	if r := audit(d.name, LevelAcross, store(d.frames)).Finish(); r.Count > 0 {
		t.Errorf("%+v", r)
	}
}

// What stands behind a grant comes back as it went, and there is one encoding of nothing: none.
func TestTheBytesOfWhatIsVouched(t *testing.T) {
	for _, v := range []*Vouched{nil, {Doors: []DoorTotal{{"a", 0, 1}}},
		{Doors: []DoorTotal{{"a", 1 << 60, 1}, {"b", 0, market.MaxCredits}}, Left: 9}} {
		r := NewGrant("h", 1, "ann", 5, "x", [16]byte{1})
		r.Transfer.Vouched = v
		f := Frame{Version: FrameVersion, Epoch: 1, Seq: 1, Time: 1, Records: []Record{r}}
		data := AppendFrame(nil, &f)
		back, err := DecodeFrame(data)
		if err != nil || !reflect.DeepEqual(back.Records[0].Transfer, r.Transfer) {
			t.Errorf("%+v, %v", back.Records, err)
		}
	}
	r := NewGrant("h", 1, "ann", 5, "x", [16]byte{1})
	r.Transfer.Vouched = &Vouched{}
	f := Frame{Version: FrameVersion, Epoch: 1, Seq: 1, Time: 1, Records: []Record{r}}
	_, err := DecodeFrame(AppendFrame(nil, &f))
	if err == nil || !strings.Contains(err.Error(), "bytes after the end") {
		t.Errorf("a second encoding: %v", err)
	}
}
