package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"souk/bus/learned"
	"souk/bus/tip"
	"souk/market"
)

// at is a mark.
func at(journal tip.Sum, seq uint64, sum tip.Sum) tip.Mark {
	return tip.Mark{Journal: journal, Seq: seq, Sum: sum}
}

// spent is the charge of one client.
func spent(client string, amount market.Credits) []tip.Spent {
	return []tip.Spent{{Client: client, Amount: amount}}
}

// mark returns how far a desk's journal is.
func (d *desk) mark() tip.Mark {
	seq := d.book.Said()
	for i := range d.frames {
		if d.frames[i].Seq == seq {
			return at(d.book.ID(), seq, tip.SumOf(AppendFrame(nil, &d.frames[i])))
		}
	}
	return tip.Mark{}
}

// charges returns the sums that clients were charged at a hub, without zeros.
func (d *desk) charges() (all []tip.Spent) {
	for _, b := range d.book.Balances("client:*:avail") {
		client := strings.TrimSuffix(strings.TrimPrefix(b.Account, "client:"), ":avail")
		if c := d.book.Charged(client); c > 0 {
			all = append(all, tip.Spent{Client: client, Amount: c})
		}
	}
	slices.SortFunc(all, func(x, y tip.Spent) int { return strings.Compare(x.Client, y.Client) })
	return all
}

// What a journal is compared with says in words what to bring back, and nothing of one that is as it was.
func TestDoubt(t *testing.T) {
	hub, _ := trade(t, 1, 60)
	here := hub.mark()
	last, _, _ := hub.book.Last()
	sums := map[uint64]tip.Sum{}
	for i := range hub.frames {
		sums[hub.frames[i].Seq] = tip.SumOf(AppendFrame(nil, &hub.frames[i]))
	}
	for _, c := range []struct {
		name string
		m    tip.Mark
		want string
	}{
		{"nothing is known", tip.Mark{}, ""},
		{"its end", here, ""},
		{"an earlier frame", at(here.Journal, 3, sums[3]), ""},
		{"a later frame", at(here.Journal, last+1, here.Sum), fmt.Sprintf("ends with frame %d", last)},
		{"a frame that never was", at(here.Journal, tip.MaxSeq, here.Sum), "an older copy"},
		{"another frame 3", at(here.Journal, 3, sums[4]), "another history"},
		{"another journal", at(tip.Sum{1}, 3, sums[3]), "another was dealt with under its name"},
	} {
		got := Doubt(here.Journal, last, sums[c.m.Seq], c.m)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Frames that say no more than how far another journal is move no mark: two journals without news would keep
// each other writing for ever.
func TestAMarkIsNoNews(t *testing.T) {
	hub, treasury := trade(t, 1, 20)
	before := hub.mark()
	hub.must(NewMark(Treasury, 1, treasury.mark(), nil, hub.nextSalt()))
	if after := hub.mark(); after != before || !after.Valid() {
		t.Errorf("%s, was %s", after, before)
	}
	hub.must(NewMark(Treasury, 2, at(treasury.book.ID(), treasury.mark().Seq+1, tip.Sum{9}), nil,
		hub.nextSalt()),
		NewAccept(hub.name, 13, "client-0", 1, hub.nextSalt()))
	if last, _, _ := hub.book.Last(); hub.mark().Seq != last {
		t.Errorf("the mark is %s, and frame %d has news", hub.mark(), last)
	}
	if h := historyOf(t, allOfIt, store(hub.frames), 5,
		len(hub.frames)-1); h.Book.Said() != hub.mark().Seq ||
		h.Book.ID() != hub.book.ID() {
		t.Errorf("replayed it is frame %d of %s", h.Book.Said(), h.Book.ID())
	}
}

// What of another journal cannot be is refused, and changes nothing.
func TestMarksThatCannotBe(t *testing.T) {
	hub, treasury := trade(t, 1, 60)
	m := hub.mark()
	treasury.must(NewMark(hub.name, 1, m, nil, treasury.nextSalt()))
	later := func(by uint64) tip.Mark { return at(m.Journal, m.Seq+by, tip.Sum{byte(by)}) }
	all := treasury.book.Allotted("client-1", hub.name)
	var many []tip.Spent
	for i := range tip.MaxSpent + 1 {
		many = append(many, tip.Spent{Client: fmt.Sprint("c", i), Amount: 1})
	}
	ann := spent("client-1", 5)
	for _, c := range []struct {
		name string
		r    Record
		err  error
	}{
		{"of a frame 0", NewMark(hub.name, 2, at(m.Journal, 0, m.Sum), nil, m.Sum), ErrIllegal},
		{"of frame 2^63", NewMark(hub.name, 2, at(m.Journal, 1<<63, m.Sum), nil, m.Sum), ErrIllegal},
		{"of no checksum", NewMark(hub.name, 2, at(m.Journal, m.Seq+1, tip.Sum{}), nil, m.Sum), ErrIllegal},
		{"of this journal", NewMark(hub.name, 2, treasury.mark(), nil, m.Sum), ErrIllegal},
		{"of a stranger", NewMark("nobody", 1, later(1), nil, m.Sum), ErrIllegal},
		{"of an earlier frame", NewMark(hub.name, 2, at(m.Journal, m.Seq-1, m.Sum), nil, m.Sum),
			ErrConflict},
		{"with another checksum", NewMark(hub.name, 2, at(m.Journal, m.Seq, tip.Sum{7}), nil, m.Sum),
			ErrConflict},
		{"of another journal", NewMark(hub.name, 2, at(tip.Sum{8}, m.Seq+1, m.Sum), nil, m.Sum), ErrConflict},
		{"with a gap", NewMark(hub.name, 3, later(1), nil, m.Sum), ErrOrder},
		{"once more", NewMark(hub.name, 1, later(1), nil, m.Sum), ErrConflict},
		{"that is no news", NewMark(hub.name, 2, m, nil, m.Sum), ErrConflict},
		{"of more than went there", NewMark(hub.name, 2, later(1), spent("client-1", all+1), m.Sum),
			ErrIllegal},
		{"of less than nothing", NewMark(hub.name, 2, later(1), spent("client-1", -1), m.Sum),
			ErrIllegal},
		{"of a client that never was", NewMark(hub.name, 2, later(1), spent("zoe", 1), m.Sum),
			ErrIllegal},
		{"of a client twice", NewMark(hub.name, 2, later(1), append(ann, ann...), m.Sum), ErrIllegal},
		{"of a sum that is the same", NewMark(hub.name, 2, later(1), spent("client-1", 0), m.Sum),
			ErrConflict},
		{"of too many", NewMark(hub.name, 2, later(1), many, m.Sum), ErrIllegal},
	} {
		before := tellBook(treasury.book)
		if err := treasury.try(c.r); !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
		}
		if after := tellBook(treasury.book); !reflect.DeepEqual(before, after) {
			t.Errorf("%s changes the book", c.name)
		}
	}
	if err := hub.try(NewMark("hub-law", 1, treasury.mark(), nil, m.Sum)); !errors.Is(err, ErrIllegal) {
		t.Errorf("a hub notes another hub: %v", err)
	}
	if err := hub.try(NewMark(Treasury, 1, treasury.mark(), ann, m.Sum)); !errors.Is(err, ErrIllegal) {
		t.Errorf("a hub notes what was spent: %v", err)
	}
	treasury.must(NewMark(hub.name, 2, later(1), ann, treasury.nextSalt()))
	if got := treasury.book.Spent("client-1", hub.name); got != 5 {
		t.Errorf("%s is noted", got)
	}
}

// tellBook is the whole of a book.
func tellBook(b *Book) (s saved) {
	h := NewHistory(allOfIt)
	h.Book = b
	data, err := h.Snapshot()
	if err == nil {
		err = learned.ReadPart(data, &s)
	}
	if err != nil {
		panic(err)
	}
	return s
}

// However money goes to and fro, is spent, and is told of, crashes in between: a write-off gives each client
// what went to the hub for it and did not come back, less what the last mark had, and not a unit more. The
// rest is lost; nothing is made; a replay and a snapshot say the same; and the audit is clean without the
// journal that is gone.
func TestAWriteOffIsExact(t *testing.T) {
	for n := range 60 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			writeOff(t, rand.New(rand.NewPCG(seed,
				uint64(n))))
		})
	}
}

// Surplus that left a hub is more than what its last mark has of charges: then clients' parts are cut alike,
// so that no more comes back than went.
func TestAWriteOffOfMoreThanThereIs(t *testing.T) {
	hub, treasury := trade(t, 1, 100)
	left := hub.book.Balance(Surplus)
	treasury.must(treasury.book.NewOrder(hub.name, distribution(1, "", left), treasury.nextSalt()))
	had, want := treasury.book.Balance(Clearing(hub.name)), market.Credits(0)
	for i := range 12 {
		want += treasury.book.Allotted(fmt.Sprint("client-", i), hub.name)
	}
	r := treasury.book.NewWriteOff(hub.name, treasury.nextSalt())
	treasury.must(r)
	if left <= 0 || want != had+left || r.WriteOff.Back > had || r.WriteOff.Lost >= 12 ||
		r.WriteOff.Back+r.WriteOff.Lost != had {
		t.Errorf("%s of surplus left, %s are wanted of %s: %s back, %s lost", left, want, had,
			r.WriteOff.Back,
			r.WriteOff.Lost)
	}
	for _, l := range r.Legs[1:13] { // the same of each, which had the same but for what some gave back
		if cut := 100_000*market.Credit - l.Amount; cut < left/12 || cut > left/12+2*market.Credit {
			t.Errorf("%s gets %s", l.Account, l.Amount)
		}
	}
}

func writeOff(t *testing.T, r *rand.Rand) {
	hub, treasury := newDesk(t, "h", RoleHub), newDesk(t, "treasury", RoleTreasury)
	clients := []string{"ann", "bob", "cy"}
	deposits := market.Credits(0)
	grants, noted := uint64(0), map[string]market.Credits{}
	for i, c := range clients {
		treasury.must(NewDeposit(fmt.Sprint(i), c, 1_000_000, nil, treasury.nextSalt()))
		deposits += 1_000_000
	}
	tasks := 0
	for range 60 {
		c := clients[r.IntN(3)]
		switch r.IntN(7) {
		case 0, 1:
			prepaid, _ := treasury.book.Prepaid(c)
			if amount := min(prepaid, market.Credits(1+r.IntN(60_000))); amount > 0 {
				grants++
				treasury.must(NewGrant("h", grants, c, amount, "", treasury.nextSalt()))
				if r.IntN(5) > 0 { // else it is under way for ever
					for n := hub.book.LastGrant("h") + 1; n <= grants; n++ {
						hub.must(NewAccept("h", n, transferOf(treasury, KindGrant, n).Client,
							transferOf(treasury, KindGrant, n).Amount, hub.nextSalt()))
					}
				}
			}
		case 2, 3:
			if other := clients[r.IntN(3)]; hub.book.Avail(c) > 10_000 && hub.book.Avail(other) > 10_000 {
				tasks++
				hub.must(hub.oneRound(1, market.Task{ID: market.TaskID(fmt.Sprint(c, "/t", tasks)),
					Client: c},
					market.Task{ID: market.TaskID(fmt.Sprint(other, "/u", tasks)), Client: other})...)
			}
		case 4:
			if open := hub.book.OpenHolds(); len(open) > 0 {
				h := open[r.IntN(len(open))]
				use := market.Usage{Prompt: 400, Cached: r.IntN(400), Output: 1 + r.IntN(200)}
				cost := market.Settle(h.Settle, h.Price, 0, h.Quoted, use, h.Amount-h.Premium)
				hub.must(NewCapture("h", h, Capture{Outcome: "done", Cost: cost, Usage: use}, hub.nextSalt()))
			}
		case 5:
			if left := hub.book.Avail(c); left > 0 {
				n := hub.book.LastReturn("h") + 1
				hub.must(NewReturn("h", n, c, left, hub.nextSalt()))
				for n := treasury.book.LastReturn("h") + 1; r.IntN(4) > 0 &&
					n <= hub.book.LastReturn("h"); n++ {
					x := transferOf(hub, KindReturn, n)
					treasury.must(NewReclaim("h", n, x.Client, x.Amount, treasury.nextSalt()))
				}
			}
		default:
			m, n := treasury.book.Marked("h")
			var changed []tip.Spent
			for _, s := range hub.charges() {
				if s.Amount != treasury.book.Spent(s.Client, "h") && r.IntN(4) > 0 { // the rest comes later
					changed = append(changed, s)
				}
			}
			if treasury.book.Knows("h") && (hub.mark() != m || len(changed) > 0) {
				treasury.must(NewMark("h", n+1, hub.mark(), changed, treasury.nextSalt()))
				for _, s := range changed {
					noted[s.Client] = s.Amount
				}
			}
		}
		if left := hub.book.Balance(Surplus); left > 0 && r.IntN(8) == 0 {
			n := hub.book.LastOrder("h").Number
			hub.must(hub.book.NewOrder("h", distribution(n+1, "", left), hub.nextSalt()))
			treasury.must(treasury.book.NewOrder("h", distribution(n+1, "", left), treasury.nextSalt()))
		}
	}
	if !treasury.book.Knows("h") {
		return
	}
	had, before := treasury.book.Balance(Clearing("h")), map[string]market.Credits{}
	want := map[string]market.Credits{}
	sum := market.Credits(0)
	for _, c := range clients {
		before[c], _ = treasury.book.Prepaid(c)
		if got := treasury.book.Spent(c, "h"); got != min(noted[c], treasury.book.Allotted(c, "h")) {
			t.Errorf("%s has spent %s, as the book has it, and said was %s", c, got, noted[c])
		}
		want[c] = treasury.book.Allotted(c, "h") - treasury.book.Spent(c, "h")
		sum += want[c]
	}
	treasury.must(treasury.book.NewWriteOff("h", treasury.nextSalt()))
	back := market.Credits(0)
	for _, c := range clients {
		after, _ := treasury.book.Prepaid(c)
		back += after - before[c]
		exact := sum <= had && after-before[c] == want[c]
		cut := sum > had && after-before[c] <= want[c] && want[c]-(after-before[c]) <= sum-had
		if !exact && !cut {
			t.Errorf("%s gets %s of %s; %s are asked for of %s", c, after-before[c], want[c], sum, had)
		}
		if treasury.book.Allotted(c, "h")+treasury.book.Allotted(c, "")+treasury.book.Spent(c, "h") != 0 {
			t.Errorf("hubs have some of %s yet", c)
		}
	}
	lost := treasury.book.Balance(Lost("h"))
	if back+lost != had || lost < 0 || treasury.book.Balance(Clearing("h")) != 0 {
		t.Errorf("%s back and %s lost of %s", back, lost, had)
	}
	for _, r := range []Record{NewGrant("h", grants+1, "ann", 1, "", [16]byte{}),
		NewReclaim("h", treasury.book.LastReturn("h")+1, "ann", 1, [16]byte{}), NewClose("h", [16]byte{}),
		treasury.book.NewWriteOff("h", [16]byte{1})} {
		if treasury.try(r) == nil {
			t.Errorf("a %s of a hub that was written off", r.Kind)
		}
	}
	total := market.Credits(0)
	for _, b := range treasury.book.Balances("*") {
		if total += b.Amount; b.Amount < 0 && !MayOwe(b.Account) {
			t.Errorf("%s is %s", b.Account, b.Amount)
		}
	}
	if total != 0 || treasury.book.Balance(External("deposits")) != -deposits {
		t.Errorf("%s over all accounts", total)
	}
	h := historyOf(t, allOfIt, store(treasury.frames), r.IntN(len(treasury.frames)), len(treasury.frames))
	if !reflect.DeepEqual(tellBook(h.Book), tellBook(treasury.book)) {
		t.Error("a replay says otherwise")
	}
	tr := audit("t", MaxLevel, store(treasury.frames))
	if rep := tr.Finish(); rep.Count > 0 || rep.Lost != 1 {
		t.Errorf("%d lost; the audit finds %v", rep.Lost, rep.Findings)
	}
	if found, absent := Across(tr, nil), Absent(tr, nil); len(found)+len(absent) > 0 {
		t.Errorf("without the journal: %v %v", found, absent)
	}
	if found := Across(tr, []*Audit{audit("h", MaxLevel, store(hub.frames))}); len(found) > 0 {
		t.Errorf("with the journal that came back: %v", found)
	}
	for _, f := range treasury.frames {
		if got, err := DecodeFrame(AppendFrame(nil, &f)); err != nil || !reflect.DeepEqual(got, f) {
			t.Fatalf("frame %d comes back as %+v, %v", f.Seq, got, err)
		}
	}
}

// transferOf is the n-th transfer of a kind in a desk's journal.
func transferOf(d *desk, k Kind, n uint64) Transfer {
	for _, f := range d.frames {
		i := slices.IndexFunc(f.Records, func(r Record) bool { return r.Kind == k && r.Transfer.Number == n })
		if i >= 0 {
			return *f.Records[i].Transfer
		}
	}
	return Transfer{}
}

// A write-off that says anything else than the book is refused.
func TestAWriteOffIsTheBooks(t *testing.T) {
	hub, treasury := trade(t, 1, 60)
	treasury.must(NewMark(hub.name, 1, hub.mark(), hub.charges(), treasury.nextSalt()))
	good := treasury.book.NewWriteOff(hub.name, [16]byte{1})
	for name, change := range map[string]func(*Record){
		"a leg less":       func(r *Record) { r.Legs = r.Legs[:len(r.Legs)-1] },
		"more for one":     func(r *Record) { r.Legs[1].Amount++; r.Legs[2].Amount-- },
		"more back":        func(r *Record) { r.WriteOff.Back++; r.WriteOff.Lost-- },
		"another mark":     func(r *Record) { r.WriteOff.Mark.Seq++ },
		"another hub":      func(r *Record) { r.WriteOff.Hub, r.ID = "x", "x/writeoff" },
		"another id":       func(r *Record) { r.ID = "x/writeoff" },
		"nobody else's id": func(r *Record) { r.ID, r.WriteOff.Hub = "/writeoff", "" },
	} {
		r := good
		w := *good.WriteOff
		r.WriteOff, r.Legs = &w, slices.Clone(good.Legs)
		change(&r)
		before := tellBook(treasury.book)
		if err := treasury.try(r); err == nil || !reflect.DeepEqual(before, tellBook(treasury.book)) {
			t.Errorf("%s: %v, or it changes the book", name, err)
		}
	}
	treasury.must(good)
	if got := maps.Collect(maps.All(treasury.book.kept.Spent)); len(got) > 0 {
		t.Errorf("what was spent is kept: %v", got)
	}
}

// A checksum is text in JSON, and nothing else is one.
func TestASumAsText(t *testing.T) {
	data, err := json.Marshal(at(tip.Sum{1}, 2, tip.Sum{255}))
	var back tip.Mark
	if err == nil {
		err = json.Unmarshal(data, &back)
	}
	if err != nil || back != at(tip.Sum{1}, 2, tip.Sum{255}) ||
		!strings.Contains(string(data), `"sum":"ff00`) {
		t.Errorf("%s: %v, %v", data, back, err)
	}
	for _, bad := range []string{`""`, `"ff"`, `"zz000000000000000000000000000000"`, `7`} {
		if json.Unmarshal([]byte(`{"sum":`+bad+`}`), &back) == nil {
			t.Errorf("%s is a checksum", bad)
		}
	}
}
