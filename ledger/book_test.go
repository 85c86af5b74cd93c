package ledger

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"testing"

	"souk/market"
)

// desk writes a journal frame by frame, as a hub or the treasury would.
type desk struct {
	t       testing.TB
	name    string
	book    *Book
	frames  []Frame
	stored  []stored // their bytes, instead of frames, where keep is set
	keep    bool
	records int
	salt    byte
}

func newDesk(t testing.TB, name, role string) *desk {
	d := &desk{t: t, name: name, book: NewBook()}
	d.must(NewOpen(name, role, "maths", d.nextSalt()))
	return d
}

func (d *desk) nextSalt() (s [16]byte) { d.salt++; s[0] = d.salt; return s }

// must writes the records as one frame.
func (d *desk) must(records ...Record) {
	d.t.Helper()
	if err := d.try(records...); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) try(records ...Record) error {
	seq, epoch, time := d.book.Last()
	f := Frame{Version: FrameVersion, Epoch: max(epoch, 1), Seq: seq + 1, Time: time + 1000, Records: records}
	err := d.book.ApplyFrame(f)
	if !d.keep { // a walk at each frame of a long one takes too long
		summed(d.t, d.book)
	}
	if err != nil {
		return err
	}
	if d.keep {
		d.stored = append(d.stored, stored{f.Seq, f.Epoch, AppendFrame(nil, &f)})
		d.records += len(records)
		return nil
	}
	d.frames = append(d.frames, f)
	return nil
}

// oneRound clears a round in which each bid is a task of that client at that value, on one agent a with
// that many slots, and returns its record and holds.
func (d *desk) oneRound(slots int, bids ...market.Task) []Record {
	d.t.Helper()
	n, prev := d.book.LastRound()
	r := market.Round{Domain: "maths", Number: n + 1, Prev: prev, Rule: market.DefaultRule, Fee: 5,
		Tasks:  bids,
		Agents: []market.Supply{{Agent: "a", Seats: []market.Seat{{Slots: slots}}}}}
	for i := range bids {
		r.Edges = append(r.Edges, market.Edge{Task: i, Value: market.Credits(1000 * (i + 2)), Cost: 600})
	}
	r.Sort()
	o := clearRound(d.t, r)
	records := []Record{unwanted(NewRound(d.name, r, o, d.nextSalt()))}
	for slot, a := range o.Awards {
		records = append(records, newHold(d.name, holdFor(r, a, slot), d.nextSalt()))
	}
	return records
}

// OpenHolds returns all open holds, by round and slot.
func (b *Book) OpenHolds() []Hold {
	holds := make([]Hold, 0, len(b.open))
	for _, h := range b.open {
		holds = append(holds, *h)
	}
	slices.SortFunc(holds, func(x, y Hold) int {
		return cmp.Or(cmp.Compare(x.Round, y.Round), cmp.Compare(x.Slot, y.Slot))
	})
	return holds
}

// newHold is a hold by itself.
func newHold(journal string, h Hold, salt [16]byte) Record {
	return NewBook().NewHold(HoldID(journal, h.Round, h.Slot), &h, salt)
}

var card = market.Price{Miss: 2_000_000, Hit: 500_000, Out: 8_000_000}

func holdFor(r market.Round, a market.Award, slot int) Hold {
	client, task := splitTask(a.Task)
	tariff := tariffOf(&r, a.Agent)
	// two cached tokens a nano-credit: any quote is its card on some tokens
	predicted := 2 * int(a.Cost-tariff)
	return Hold{Client: client, Task: task, Agent: string(a.Agent), Model: "m/7b", Round: r.Number,
		Slot: slot, Kind: "task",
		Amount: a.Premium + market.WorstCase(card, 400, 200) + tariff, Tariff: tariff, Premium: a.Premium,
		Fee: r.Fee, Quoted: a.Cost, Settle: r.Rule.Settle,
		Price: card, Prompt: predicted, Cached: predicted, MaxTokens: 200, Expires: 1 << 60}
}

func TestALifeInTheLedger(t *testing.T) {
	d := newDesk(t, "hub-maths", RoleHub)
	d.must(NewAccept(d.name, 1, "ann", 10_000, d.nextSalt()))
	d.must(d.oneRound(1, market.Task{ID: "ann/t1", Client: "ann"})...)

	holds := d.book.OpenHolds()
	if len(holds) != 1 {
		t.Fatalf("%d open holds, want 1", len(holds))
	}
	h := holds[0]
	if got := d.book.Held("ann"); got != h.Amount {
		t.Errorf("held %d, want %d", got, h.Amount)
	}
	use := market.Usage{Prompt: 400, Cached: 100, Output: 50}
	c := Capture{Outcome: "done", Usage: use,
		Cost: market.Settle(h.Settle, h.Price, 0, h.Quoted, use, h.Amount-h.Premium)}
	capture := NewCapture(d.name, h, c, d.nextSalt())
	d.must(capture)

	want := []Balance{
		{"agent:a:payable", 600 + 50 + 400},
		{"clearing:treasury", -10_000},
		{"client:ann:avail", 10_000 - 1050 - 5},
		{"client:ann:held", 0},
		{"fee", 5},
	}
	if got := d.book.Balances("*"); !reflect.DeepEqual(got, want) {
		t.Errorf("balances\n got %v\nwant %v", got, want)
	}

	again := capture
	again.Salt = d.nextSalt()
	if err := d.book.Apply(&again); err != ErrRepeat {
		t.Errorf("the same capture again: %v, want ErrRepeat", err)
	}
	c.Cost--
	other := NewCapture(d.name, h, c, d.nextSalt())
	if err := d.book.Apply(&other); !errors.Is(err, ErrConflict) {
		t.Errorf("another capture: %v, want ErrConflict", err)
	}
	void := NewVoid(d.name, h, "timeout", d.nextSalt())
	if err := d.book.Apply(&void); !errors.Is(err, ErrEnded) {
		t.Errorf("a void after the capture: %v, want ErrEnded", err)
	}
	if got := d.book.Balances("*"); !reflect.DeepEqual(got, want) {
		t.Errorf("refusals changed the balances\n got %v\nwant %v", got, want)
	}
}

func TestEncodingKeepsEveryRecord(t *testing.T) {
	d := newDesk(t, "hub-maths", RoleHub)
	d.must(NewAccept(d.name, 1, "ann", 100_000, d.nextSalt()),
		NewAccept(d.name, 2, "bob", 100_000, d.nextSalt()))
	d.must(d.oneRound(2, market.Task{ID: "ann/t1", Client: "ann"},
		market.Task{ID: "bob/t1", Client: "bob"})...)
	holds := d.book.OpenHolds()
	d.must(NewCapture(d.name, holds[0],
		Capture{Outcome: "cancelled", Cost: 7, Unmetered: true, Finish: "stop", TTFTUS: 12,
			Said: &market.Usage{Prompt: 45, Cached: 3, Output: 50}}, d.nextSalt()),
		NewVoid(d.name, holds[1], "agent_failed", d.nextSalt()))
	d.must(NewReturn(d.name, 1, "bob", 100, d.nextSalt()))
	for _, f := range d.frames {
		b := AppendFrame(nil, &f)
		got, err := DecodeFrame(b)
		if err != nil {
			t.Fatalf("frame %d: %v", f.Seq, err)
		}
		if !reflect.DeepEqual(got, f) {
			t.Errorf("frame %d came back as\n%+v\nwant\n%+v", f.Seq, got, f)
		}
	}
}
