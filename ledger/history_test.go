package ledger

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"souk/market"
)

var allOfIt = HistoryLimits{Ends: 1 << 16, Keep: 10 * time.Minute, Returns: 1 << 16, Grants: 1 << 16}

// historyOf is the history of stored frames, by way of a snapshot behind each of the cuts.
func historyOf(t testing.TB, limits HistoryLimits, frames []stored, cuts ...int) *History {
	t.Helper()
	h := NewHistory(limits)
	for i, f := range frames {
		if err := h.Apply(f.seq, f.epoch, f.data); err != nil {
			t.Fatal(err)
		}
		for _, cut := range cuts {
			if i+1 == cut {
				data := snapshotOf(t, h)
				h = NewHistory(limits)
				if err := h.Load(data); err != nil {
					t.Fatalf("a snapshot behind frame %d: %v", f.seq, err)
				}
				summed(t, h.Book)
			}
		}
	}
	return h
}

func snapshotOf(t testing.TB, h *History) []byte {
	t.Helper()
	data, err := h.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// tellAll is everything that a history says.
func tellAll(t testing.TB, h *History) []any {
	t.Helper()
	open, err := h.Open()
	if err != nil {
		t.Fatal(err)
	}
	all := []any{open, h.Returns, h.Grants}
	for p, known := range h.Ended() {
		all = append(all, *p, known)
	}
	return all
}

// A snapshot and the frames behind it make the history and the book that all frames make, and that the writer
// had (I14): of random markets, with snapshots behind any of their frames.
func TestASnapshotIsTheHistory(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		t.Logf("seed %d", seed)
		live, treasury := trade(t, seed, 200+rng.IntN(400))
		switch rng.IntN(3) {
		case 0:
			live = treasury
		case 1:
			b := newBazaar(t, seed)
			b.trade(3)
			live = b.desk
			end(live, rng)
		case 2:
			end(live, rng)
		}
		frames := store(live.frames)
		limits := allOfIt
		if rng.IntN(2) == 0 { // frames are a microsecond apart
			limits = HistoryLimits{Ends: 1 + rng.IntN(40),
				Keep: time.Duration(rng.IntN(40)) * time.Microsecond, Returns: 1 + rng.IntN(3),
				Grants: 1 + rng.IntN(3)}
		}
		want := historyOf(t, limits, frames)
		if !reflect.DeepEqual(tellBook(want.Book), tellBook(live.book)) ||
			!reflect.DeepEqual(state(want.Book), state(live.book)) {
			t.Fatalf("replayed %v\nlive     %v", state(want.Book), state(live.book))
		}
		for i := range 5 {
			cuts := []int{1 + rng.IntN(len(frames)), len(frames) - i*rng.IntN(len(frames)/5)}
			got := historyOf(t, limits, frames, cuts...)
			if !reflect.DeepEqual(tellBook(got.Book), tellBook(want.Book)) ||
				!reflect.DeepEqual(tellAll(t, got), tellAll(t, want)) ||
				!reflect.DeepEqual(state(got.Book), state(want.Book)) ||
				!reflect.DeepEqual(got.Book.Tariffs(), want.Book.Tariffs()) {
				t.Fatalf("snapshots behind %v of %d frames make another history", cuts, len(frames))
			}
		}
	}
}

// end leaves some holds open, and hands money back.
func end(d *desk, rng *rand.Rand) {
	client := "client-0"
	if d.book.Avail(client) == 0 {
		client = "ann"
	}
	records := d.oneRound(3)
	records[0].Round.Round.Fee = 0
	d.must(records...) // without a bid
	for range rng.IntN(4) {
		d.must(NewReturn(d.name, d.book.LastReturn(d.name)+1, client, 5, d.nextSalt()))
	}
}

// Two rounds of one frame, which no hub makes and a book allows: every hold is of its own.
func TestTwoRoundsOfOneFrame(t *testing.T) {
	d := newDesk(t, "h", RoleHub)
	d.must(NewAccept("h", 1, "ann", market.Credit, d.nextSalt()))
	first := d.oneRound(1, market.Task{ID: "ann/t1", Client: "ann"})
	r := first[0].Round.Round
	head := roundHead{hash: sha256.Sum256(r.AppendCanonical(nil))}
	r.Number, r.Prev = r.Number+1, head.next(first[0].Salt)
	r.Tasks = []market.Task{{ID: "ann/t2", Client: "ann"}}
	o := clearRound(t, r)
	d.must(append(first, NewRound("h", r, o, d.nextSalt()),
		newHold("h", holdFor(r, o.Awards[0], 0), d.nextSalt()))...)
	open, err := historyOf(t, allOfIt, store(d.frames), len(d.frames)).Open()
	if err != nil || len(open) != 2 || open[0].Award.Task != "ann/t1" || open[1].Award.Task != "ann/t2" {
		t.Errorf("%+v, %v", open, err)
	}
}

// What was forgotten under one setting is not remembered under a wider one; a narrower one forgets more.
func TestASnapshotUnderOtherLimits(t *testing.T) {
	live, _ := trade(t, 3, 300)
	frames := store(live.frames)
	few := HistoryLimits{Ends: 10, Keep: 5 * time.Microsecond, Returns: 2, Grants: 2}
	data := snapshotOf(t, historyOf(t, allOfIt, frames))
	h := NewHistory(few)
	if err := h.Load(data); err != nil {
		t.Fatal(err)
	}
	if want := historyOf(t, few, frames); !reflect.DeepEqual(tellAll(t, h)[3:], tellAll(t, want)[3:]) ||
		len(h.ends) != 10 {
		t.Errorf("%d ends, want what these limits leave", len(h.ends))
	}
}

// Bytes that are no snapshot are refused, whatever they are, and leave nothing behind.
func TestASnapshotThatIsNone(t *testing.T) {
	hub, _ := trade(t, 1, 60)
	frames := store(hub.frames)
	good := snapshotOf(t, historyOf(t, allOfIt, frames))
	fresh := NewHistory(allOfIt)
	refused := func(name string, data []byte) {
		t.Helper()
		h := NewHistory(allOfIt)
		if err := h.Load(data); !errors.Is(err, ErrEncoding) {
			t.Fatalf("%s: %v, want ErrEncoding", name, err)
		}
		if !reflect.DeepEqual(state(h.Book), state(fresh.Book)) ||
			len(h.last)+len(h.open)+len(h.ends)+len(h.Returns) > 0 {
			t.Fatalf("%s left something behind", name)
		}
		if err := h.Apply(frames[0].seq, frames[0].epoch, frames[0].data); err != nil {
			t.Fatalf("%s: the first frame after it: %v", name, err)
		}
	}
	for n := 0; n < len(good); n += 1 + n/200 {
		refused("a part of one", good[:n:n])
	}
	refused("one byte more", append(bytes.Clone(good), 0))
	later := bytes.Clone(good)
	later[0]++
	refused("of another build", later)
	rich := NewHistory(allOfIt)
	if err := rich.Load(good); err != nil {
		t.Fatal(err)
	}
	*rich.Book.Accounts[Avail("client-1")]++
	refused("money from nowhere", snapshotOf(t, rich))
	*rich.Book.Accounts[Surplus]--
	*rich.Book.Accounts[Held("client-1")]++
	*rich.Book.Accounts[Avail("client-1")]--
	refused("money held for nothing", snapshotOf(t, rich))
}

func FuzzHistory(f *testing.F) {
	hub, treasury := trade(f, 1, 60)
	f.Add(snapshotOf(f, historyOf(f, allOfIt, store(treasury.frames))))
	treasury.must(NewBudget(Budget{Client: "k", Of: "client-1", Every: EveryDay, Number: 1, Amount: 9},
		[16]byte{1}))
	treasury.must(NewAllowance("client-1", "k", 20780, 1, 4, 0, [16]byte{2}))
	f.Add(snapshotOf(f, historyOf(f, allOfIt, store(treasury.frames))))
	treasury.must(NewMark(hub.name, 1, hub.mark(), hub.charges(), [16]byte{3}))
	f.Add(snapshotOf(f, historyOf(f, allOfIt, store(treasury.frames))))
	treasury.must(treasury.book.NewWriteOff(hub.name, [16]byte{4}))
	f.Add(snapshotOf(f, historyOf(f, allOfIt, store(treasury.frames))))
	covered := newDesk(f, Treasury, RoleTreasury)
	covered.must(NewDeposit("d", "ann", 100, nil, [16]byte{5}))
	grant := NewGrant("h", 1, "ann", 9, "", [16]byte{6})
	grant.Transfer.Vouched = &Vouched{Doors: []DoorTotal{{"a", 1, 5}, {"b", 7, 4}}}
	covered.must(grant)
	covered.must(NewReclaim("h", 1, "ann", 3, [16]byte{7}))
	f.Add(snapshotOf(f, historyOf(f, allOfIt, store(covered.frames))))
	b := newBazaar(f, 2)
	frames := store(hub.frames)
	for _, n := range []int{1, 20, len(frames)} {
		f.Add(snapshotOf(f, historyOf(f, allOfIt, frames[:n])))
	}
	f.Add(snapshotOf(f, historyOf(f, allOfIt, store(b.trade(1)))))
	f.Fuzz(func(t *testing.T, data []byte) {
		h := NewHistory(allOfIt)
		if err := h.Load(data); err != nil {
			if !errors.Is(err, ErrEncoding) {
				t.Fatalf("%v is no ErrEncoding", err)
			}
			return
		}
		again := NewHistory(allOfIt)
		if err := again.Load(snapshotOf(t, h)); err != nil ||
			!reflect.DeepEqual(tellAll(t, again), tellAll(t, h)) {
			t.Fatalf("written and loaded again it differs: %v", err)
		}
		seq, epoch, _ := h.Book.Last()
		for _, s := range frames[:min(len(frames), 12)] { // whatever follows is judged without panicking
			_ = h.Apply(seq+1, epoch, s.data)
		}
	})
}

// A history knows which record of the journal each hold is, whether it comes from a snapshot or not.
func TestAHoldKnowsItsRecord(t *testing.T) {
	live, _ := trade(t, 7, 200)
	at := map[string]int64{}
	for _, f := range live.frames {
		for i := range f.Records {
			at[f.Records[i].ID] = int64(len(at))
		}
	}
	h := historyOf(t, allOfIt, store(live.frames), 31, 150)
	all, err := h.Open()
	if err != nil {
		t.Fatal(err)
	}
	for p := range h.Ended() {
		all = append(all, *p)
	}
	if len(all) < 20 || h.Book.Size != int64(len(at)) {
		t.Fatalf("%d holds of %d records, and the book counts %d", len(all), len(at), h.Book.Size)
	}
	for _, p := range all {
		if id := p.id(h.Book.head.Journal); p.Index != at[id] {
			t.Errorf("hold %s is record %d, want %d", id, p.Index, at[id])
		}
	}
}
