package ledger

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"souk/market"
)

// plain is the book's rules once more, as simply as can be: the oracle.
type plain struct {
	avail, held map[string]market.Credits
	payable     map[string]market.Credits
	surplus     market.Credits
	fee         market.Credits
	open        map[string]Hold
	ended       map[string]Kind
}

func newPlain() *plain {
	return &plain{avail: map[string]market.Credits{}, held: map[string]market.Credits{},
		payable: map[string]market.Credits{}, open: map[string]Hold{}, ended: map[string]Kind{}}
}

func (p *plain) same(t *rapid.T, b *Book) {
	for _, c := range []string{"ann", "bob"} {
		if b.Avail(c) != p.avail[c] || b.Held(c) != p.held[c] {
			t.Fatalf("%s: avail %d, held %d; want %d, %d", c, b.Avail(c), b.Held(c), p.avail[c], p.held[c])
		}
	}
	if b.Balance(Payable("a")) != p.payable["a"] || b.Balance(Surplus) != p.surplus ||
		b.Balance(Fee) != p.fee {
		t.Fatalf("payable %d, surplus %d, fee %d; want %d, %d, %d", b.Balance(Payable("a")),
			b.Balance(Surplus), b.Balance(Fee), p.payable["a"], p.surplus, p.fee)
	}
	holds := b.OpenHolds()
	if len(holds) != len(p.open) || b.OpenCount() != len(p.open) {
		t.Fatalf("%d open holds, want %d", len(holds), len(p.open))
	}
	for i, h := range holds {
		if h != p.open[HoldID("h", h.Round, h.Slot)] {
			t.Fatalf("hold %+v, want %+v", h, p.open[HoldID("h", h.Round, h.Slot)])
		}
		if i > 0 && (h.Round < holds[i-1].Round || h.Round == holds[i-1].Round && h.Slot <= holds[i-1].Slot) {
			t.Fatalf("open holds out of order at %d", i)
		}
	}
	var sum market.Credits
	for _, x := range b.Balances("*") {
		sum += x.Amount
	}
	if sum != 0 {
		t.Fatalf("all accounts sum to %d (I1)", sum)
	}
	if got, want := b.Totals(), walked(b); got != want {
		t.Fatalf("totals are %+v, want %+v", got, want)
	}
}

// state is everything that can be seen of a book.
func state(b *Book) any {
	seq, epoch, time := b.Last()
	round, hash := b.LastRound()
	var ends []any
	for _, k := range b.kept.Ended.Order {
		ends = append(ends, k, b.kept.Ended.Of[k])
	}
	return []any{seq, epoch, time, round, hash, b.Totals(), b.Balances("*"), b.OpenHolds(), b.LastGrant("h"),
		b.LastReturn("h"), ends, len(b.Ops.Of), len(b.Ops.Order)}
}

// Random frames, good and bad, against the oracle. A refused frame changes nothing at all; the frames that
// were taken, replayed from their bytes, give the same book (I14).
func TestBookAgainstTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, p := NewBook(), newPlain()
		var frames []Frame
		salt := [16]byte{}
		seq := uint64(0)
		submit := func(records ...Record) error {
			before := state(b)
			_, _, at := b.Last()
			f := Frame{Version: FrameVersion, Epoch: 1, Seq: seq + 1, Time: at + 1, Records: records}
			err := b.ApplyFrame(f)
			if err == nil {
				seq++
				frames = append(frames, f)
			} else if after := state(b); !reflect.DeepEqual(before, after) {
				t.Fatalf("a refused frame (%v) changed the book\nfrom %v\n  to %v", err, before, after)
			}
			return err
		}
		if err := submit(NewOpen("h", RoleHub, "maths", salt)); err != nil {
			t.Fatal(err)
		}
		client := rapid.SampledFrom([]string{"ann", "bob"})
		amount := rapid.Int64Range(-5, 200)
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { p.same(t, b) },
			"accept": func(t *rapid.T) {
				next := b.LastGrant("h") + 1
				n, c, x := next+uint64(rapid.IntRange(0, 1).Draw(t, "gap")), client.Draw(t, "client"),
					market.Credits(amount.Draw(t, "amount"))
				err := submit(NewAccept("h", n, c, x, salt))
				if ok := n == next && x > 0; ok != (err == nil) {
					t.Fatalf("accept %d of %d, where %d is next: %v", n, x, next, err)
				} else if ok {
					p.avail[c] += x
				}
			},
			"return": func(t *rapid.T) {
				c, x := client.Draw(t, "client"), market.Credits(amount.Draw(t, "amount"))
				err := submit(NewReturn("h", b.LastReturn("h")+1, c, x, salt))
				if ok := x > 0 && x <= p.avail[c]; ok != (err == nil) {
					t.Fatalf("return of %d of %d: %v", x, p.avail[c], err)
				} else if ok {
					p.avail[c] -= x
				}
			},
			"round": func(t *rapid.T) {
				n, prev := b.LastRound()
				r := market.Round{Domain: "maths", Number: n + 1, Prev: prev, Rule: market.DefaultRule}
				o := market.Outcome{}
				need := map[string]market.Credits{}
				records := []Record{{}}
				holds := map[string]Hold{}
				for slot := range rapid.IntRange(0, 3).Draw(t, "awards") {
					c := client.Draw(t, "client")
					o.Awards = append(o.Awards, market.Award{})
					premium := market.Credits(rapid.Int64Range(0, 20).Draw(t, "premium"))
					h := Hold{Client: c, Task: fmt.Sprint("t", n, "-", slot), Agent: "a", Round: n + 1,
						Slot: slot, Kind: "task",
						Amount:  premium + market.Credits(rapid.Int64Range(0, 60).Draw(t, "worst")),
						Premium: premium, Fee: premium / 3,
						Quoted: market.Credits(rapid.Int64Range(0, 60).Draw(t, "quoted")),
						Settle: rapid.SampledFrom([]string{market.SettleMetered,
							market.SettleQuoted}).Draw(t, "settle")}
					need[c] += h.Amount
					records = append(records, newHold("h", h, salt))
					holds[HoldID("h", h.Round, h.Slot)] = h
				}
				records[0] = NewRound("h", r, o, salt)
				drop := rapid.IntRange(0, 9).Draw(t, "drop") == 0 && len(records) > 1
				if drop {
					records = records[:len(records)-1]
				}
				err := submit(records...)
				ok := !drop && need["ann"] <= p.avail["ann"] && need["bob"] <= p.avail["bob"]
				if ok != (err == nil) {
					t.Fatalf("round needing %v of %v, dropped %v: %v", need, p.avail, drop, err)
				}
				if !ok && !drop && !errors.Is(err, ErrFunds) {
					t.Fatalf("%v, want ErrFunds", err)
				}
				if ok {
					for id, h := range holds {
						p.open[id] = h
						p.avail[h.Client] -= h.Amount
						p.held[h.Client] += h.Amount
					}
				}
			},
			"end": func(t *rapid.T) {
				if n, _ := b.LastRound(); n == 0 {
					return
				}
				id := HoldID("h", uint64(rapid.IntRange(1, int(b.head.Round)).Draw(t, "round")),
					rapid.IntRange(0, 2).Draw(t, "slot"))
				h, open := p.open[id]
				if !open {
					_, round, slot, _ := ParseHoldID(id)
					h = Hold{Client: "ann", Agent: "a", Round: round, Slot: slot, Amount: 10}
				}
				cost := market.Credits(rapid.Int64Range(-1, 70).Draw(t, "cost"))
				outcome := rapid.SampledFrom([]string{"done", "cancelled"}).Draw(t, "outcome")
				r := NewCapture("h", h, Capture{Outcome: outcome, Cost: cost}, salt)
				if rapid.Bool().Draw(t, "void") {
					r = NewVoid("h", h, "timeout", salt)
				}
				err := submit(r)
				ok := open && (r.Kind == KindVoid || cost >= 0 && cost <= h.Amount-h.Premium)
				if ok != (err == nil) {
					t.Fatalf("%s of %s (open %v), cost %d of hold %d with premium %d: %v", r.Kind, id, open,
						cost, h.Amount, h.Premium, err)
				}
				if _, was := p.ended[id]; was && !errors.Is(err, ErrEnded) && !errors.Is(err, ErrConflict) {
					t.Fatalf("a second end of %s: %v", id, err)
				}
				if !ok {
					return
				}
				delete(p.open, id)
				p.ended[id] = r.Kind
				p.held[h.Client] -= h.Amount
				if r.Kind == KindVoid {
					p.avail[h.Client] += h.Amount
				} else {
					due := h.Premium
					follows := outcome == "done" || cost > h.Quoted
					if h.Settle == market.SettleMetered && h.Quoted > 0 && follows {
						due = min(h.Fee+(h.Premium-h.Fee)*cost/h.Quoted, h.Amount-cost)
					}
					p.avail[h.Client] += h.Amount - cost - due
					p.payable["a"] += cost
					p.surplus += due - h.Fee
					p.fee += h.Fee
				}
			},
			"two ends in one frame": func(t *rapid.T) {
				holds := b.OpenHolds()
				if len(holds) == 0 {
					return
				}
				h := rapid.SampledFrom(holds).Draw(t, "hold")
				if err := submit(NewVoid("h", h, "timeout", salt),
					NewCapture("h", h, Capture{}, salt)); !errors.Is(err, ErrEnded) {
					t.Fatalf("%v, want ErrEnded", err)
				}
			},
			"an old frame": func(t *rapid.T) {
				f := rapid.SampledFrom(frames).Draw(t, "frame")
				if err := submit(f.Records...); err == nil {
					t.Fatal("a frame's records were taken twice")
				}
			},
		})
		again := NewBook()
		a := NewAudit("h", LevelConservation)
		for _, f := range frames {
			data := AppendFrame(nil, &f)
			back, err := DecodeFrame(data)
			if err == nil {
				err = again.ApplyFrame(back)
			}
			if err != nil {
				t.Fatal(err)
			}
			a.Frame(f.Seq, f.Epoch, data)
		}
		if !reflect.DeepEqual(state(b), state(again)) {
			t.Fatalf("replayed %v\nlive     %v", state(again), state(b))
		}
		if r := a.Finish(); r.Count != 0 {
			t.Fatalf("audit: %s", r.Findings[0])
		}
	})
}

func TestWhatIsForgottenIsRefused(t *testing.T) {
	d := newDesk(t, "h", RoleHub)
	d.must(NewAccept("h", 1, "ann", 1000*market.Credit, d.nextSalt()))
	var first Record
	for i := range RememberEnded + 10 {
		d.frames = nil
		d.must(d.oneRound(1, market.Task{ID: market.TaskID(fmt.Sprint("ann/t", i)), Client: "ann"})...)
		h := d.book.OpenHolds()[0]
		r := NewCapture("h", h, Capture{Outcome: "done", Cost: 1}, d.nextSalt())
		if i == 0 {
			first = r
		}
		d.must(r)
	}
	if err := d.book.Apply(&first); !errors.Is(err, ErrEnded) {
		t.Errorf("a capture repeated %d holds later: %v, want ErrEnded", RememberEnded, err)
	}
	m := &d.book.kept.Ended
	if n := len(m.Of); n != RememberEnded || len(m.Order) != n || cap(m.Order) > 2*RememberEnded {
		t.Errorf("%d ended holds are remembered in %d places, want %d", n, cap(m.Order), RememberEnded)
	}
}

func TestIDs(t *testing.T) {
	for id, ok := range map[string]bool{
		"h/1/0": true, "h/18446744073709551615/7": true, "h/01/0": false, "h/1/00": false, "h/+1/0": false,
		"h/1/-0": false, "h/1": false, "h/1/0/0": false, "/1/0": false, "a b/1/0": false, "": false,
	} {
		journal, round, slot, got := ParseHoldID(id)
		if got != ok || ok && HoldID(journal, round, slot) != id {
			t.Errorf("ParseHoldID(%q) = %q, %d, %d, %v", id, journal, round, slot, got)
		}
	}
}

func FuzzDecodeFrame(f *testing.F) {
	hub, treasury := trade(f, 1, 40)
	for _, s := range append(store(hub.frames)[:30], store(treasury.frames)[:4]...) {
		f.Add(s.data)
	}
	for _, fr := range hub.frames {
		if r := fr.Records[0]; r.Kind == KindCapture {
			c := *r.Capture
			c.Claim = &Claim{Usage: market.Usage{Prompt: 9, Cached: 3, Output: 1 << 20}, Relayed: 7, Most: 8,
				Cost: 12}
			c.Said = &market.Usage{Prompt: 45, Cached: 3, Output: 50}
			r.Capture = &c
			f.Add(AppendFrame(nil,
				&Frame{Version: FrameVersion, Epoch: fr.Epoch, Seq: fr.Seq, Time: fr.Time,
					Records: []Record{r}}))
			break
		}
	}
	f.Add(AppendFrame(nil, &Frame{Version: FrameVersion, Epoch: 1, Seq: 2, Time: 3, Records: []Record{
		NewBudget(Budget{Client: "ann-k", Of: "ann", Every: EveryDay, Number: 1, Amount: 9}, [16]byte{1}),
		NewAllowance("ann", "ann-k", 20780, 1, 9, 0, [16]byte{2}), NewRest("ann-k", "ann", 1, 9, [16]byte{3}),
		NewMove("m", "ann", "bob", 9, nil, [16]byte{4})}}))
	f.Add(AppendFrame(nil, &Frame{Version: FrameVersion, Epoch: 1, Seq: 1, Time: 1, Records: []Record{
		{Kind: KindHold, ID: "x",
			Hold: &Hold{Client: "ann", Task: "t", Agent: "a", Reader: "g1", Token: "k1"}}}}))
	grant := NewGrant("h", 1, "ann", 9, "", [16]byte{6})
	grant.Transfer.Vouched = &Vouched{Doors: []DoorTotal{{"a", 1, 5}, {"b", 7, 4}}, Left: 3}
	f.Add(AppendFrame(nil,
		&Frame{Version: FrameVersion, Epoch: 1, Seq: 1, Time: 1, Records: []Record{grant}}))
	f.Add([]byte{1, 1, 1, 1, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, err := DecodeFrame(data)
		if err != nil {
			if !errors.Is(err, ErrEncoding) {
				t.Fatalf("%v is no ErrEncoding", err)
			}
		} else if got := AppendFrame(nil, &frame); string(got) != string(data) {
			t.Fatalf("decoded and encoded again:\n%x\nwant\n%x", got, data)
		}
		// Memory that was used before changes nothing of it.
		d := &decoder{room: &room{}}
		d.Strings = &market.Strings{Pieces: true}
		for _, s := range store(hub.frames)[:8] {
			d.Data, d.At = s.data, 0
			d.frame(nil)
		}
		d.Data, d.At = data, 0
		again := d.frame(nil)
		fault := d.end()
		if (fault == nil) != (err == nil) || err == nil && !reflect.DeepEqual(again, frame) {
			t.Fatalf("in used memory: %v\n%+v\nwant %v\n%+v", fault, again, err, frame)
		}
		// Whatever it is, a book and an audit judge it without panicking.
		b := NewBook()
		_ = b.ApplyFrame(frame)
		a := NewAudit("x", MaxLevel)
		for _, s := range store(hub.frames)[:16] {
			a.Frame(s.seq, s.epoch, s.data)
		}
		a.Frame(17, 1, data)
		a.Finish()
	})
}
