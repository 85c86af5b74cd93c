package ledger

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"souk/market"
)

// bazaar is a hub's journal under pricing tariff: six owners with an agent each, epochs of one class, rounds
// at their tariffs.
type bazaar struct {
	*desk
	rng   *rand.Rand
	asks  []market.Ask
	tasks int
}

func newBazaar(t testing.TB, seed uint64) *bazaar {
	b := &bazaar{desk: newDesk(t, "hub-maths", RoleHub), rng: rand.New(rand.NewPCG(seed, 9))}
	b.must(NewAccept(b.name, 1, "ann", 100_000*market.Credit, b.nextSalt()))
	return b
}

func (b *bazaar) epoch() {
	use := market.ClassUse{Peak: 2}
	for range 6 {
		use.Slots = append(use.Slots, 1)
	}
	e := b.book.NextEpoch("h200", use)
	e.Ceiling = 90_000
	b.asks = nil
	for i := range 6 {
		a := market.Ask{Owner: fmt.Sprint("owner-", i), Amount: market.Credits(10_000 + b.rng.IntN(60_000)),
			Nonce: [16]byte{byte(i), byte(e.Number)}}
		b.asks = append(b.asks, a)
		e.Seals = append(e.Seals, market.Sealed{Owner: a.Owner, Seal: a.Seal(e.Class, e.Number)})
	}
	b.must(NewSeal(b.name, e, use, b.nextSalt()))
	e.Opened = b.asks
	b.tariff(e)
}

func (b *bazaar) tariff(e market.Epoch) {
	t, err := e.Clear()
	if err != nil {
		panic(err)
	}
	b.must(NewTariff(b.name, e, t, b.nextSalt()))
}

// lose takes a winner's last agent away.
func (b *bazaar) lose() {
	e, t, _ := b.book.Epoch("h200")
	b.tariff(e.Without(t.Winners[0]))
}

func (b *bazaar) round() {
	number, prev := b.book.LastRound()
	r := market.Round{Domain: "maths", Number: number + 1, Prev: prev, Fee: 1000,
		Rule: market.Rule{Pricing: market.PricingTariff, Settle: market.SettleMetered,
			Clarke: market.ClarkeClient}}
	if b.rng.IntN(4) == 0 {
		r.Rule.Pricing, r.Rule.Instead = market.PricingPosted, market.PricingTariff
	}
	_, t, _ := b.book.Epoch("h200")
	for i := range 6 {
		owner := fmt.Sprint("owner-", i)
		if slices.Contains(t.Winners, owner) {
			r.Agents = append(r.Agents,
				market.Supply{Agent: market.AgentID(fmt.Sprint("agent-", i)),
					Seats: []market.Seat{{Slots: 1}}})
			r.Sellers = append(r.Sellers, market.Seller{Owner: owner, Class: "h200", Tariff: t.Amount})
		}
	}
	for range 1 + b.rng.IntN(5) {
		b.tasks++
		j := len(r.Tasks)
		r.Tasks = append(r.Tasks,
			market.Task{ID: market.TaskID(fmt.Sprintf("ann/t%06d", b.tasks)), Client: "ann"})
		for a := range r.Agents {
			r.Edges = append(r.Edges,
				market.Edge{Task: j, Agent: a, Value: market.Credits(2_000_000 + b.rng.IntN(5_000_000)),
					Cost: t.Amount + market.Credits(b.rng.IntN(900_000))})
		}
	}
	o := clearRound(b.t, r)
	frame, ends := []Record{unwanted(NewRound(b.name, r, o, b.nextSalt()))}, []Record(nil)
	for slot, a := range o.Awards {
		h := holdFor(r, a, slot)
		frame = append(frame, newHold(b.name, h, b.nextSalt()))
		use := market.Usage{Prompt: 400, Cached: b.rng.IntN(400), Output: 1 + b.rng.IntN(200)}
		cost := market.Settle(h.Settle, h.Price, h.Tariff, h.Quoted, use, h.Amount-h.Premium)
		ends = append(ends, NewCapture(b.name, h, Capture{Outcome: "done", Cost: cost, Usage: use},
			b.nextSalt()))
	}
	b.must(frame...)
	b.must(ends...)
}

func (b *bazaar) trade(epochs int) []Frame {
	for n := range epochs {
		b.epoch()
		for range 4 {
			b.round()
		}
		if n%2 == 1 {
			b.lose()
			b.round()
		}
	}
	return b.frames
}

func TestTariffsAreHonest(t *testing.T) {
	for seed := range uint64(5) {
		b := newBazaar(t, seed)
		frames := b.trade(8)
		r := audit("h", MaxLevel, store(frames)).Finish()
		for _, f := range r.Findings {
			t.Errorf("seed %d: %s", seed, f)
		}
		_, tariff, ok := b.book.Epoch("h200")
		if !ok || r.Rounds < 30 || len(tariff.Winners) == 6 || len(tariff.Standby) == 0 ||
			tariff.Amount == 90_000 {
			t.Errorf("seed %d: %d rounds, %+v: the test sees nothing", seed, r.Rounds, tariff)
		}
		again := NewBook()
		for _, s := range store(frames) {
			f, err := DecodeFrame(s.data)
			if err == nil {
				err = again.ApplyFrame(f)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		_, replayed, _ := again.Epoch("h200")
		if string(replayed.AppendCanonical(nil)) != string(tariff.AppendCanonical(nil)) ||
			len(again.Tariffs()) != 1 {
			t.Errorf("replayed (I14): %+v, want %+v", replayed, tariff)
		}
	}
}

// Each mutation is found at its level under its invariant, and no level below sees it.
func TestFraudWithTariffs(t *testing.T) {
	find := func(frames []Frame, k Kind, after int, fits func(*Record) bool) *Record {
		for i := after; i < len(frames); i++ {
			for j := range frames[i].Records {
				if r := &frames[i].Records[j]; r.Kind == k && (fits == nil || fits(r)) {
					return r
				}
			}
		}
		panic("no " + k.String())
	}
	// rehold writes the hold of a round's first award again, with its end.
	rehold := func(f []Frame, change func(*Hold)) {
		r := find(f, KindHold, 8, nil)
		h := *r.Hold
		change(&h)
		*r = newHold("hub-maths", h, r.Salt)
		fixCapture(f, h)
	}
	round := func(change func(*market.Round)) func([]Frame) {
		return func(f []Frame) {
			r := find(f, KindRound, 8, func(r *Record) bool {
				return r.Round.Round.Rule.Pricing == market.PricingTariff && len(r.Round.Outcome.Prices) > 0
			})
			change(&r.Round.Round)
		}
	}
	for _, fraud := range []struct {
		name      string
		level     int
		invariant string
		commit    func([]Frame)
	}{
		{"a seal of another epoch", 2, "I10",
			func(f []Frame) { find(f, KindSeal, 5, nil).Epoch.Epoch.Number++ }},
		{"a tie-break of the hub's own", 2, "I12",
			func(f []Frame) { find(f, KindSeal, 5, nil).Epoch.Epoch.Prev[3] ^= 1 }},
		{"one winner more", 2, "I6", func(f []Frame) { find(f, KindSeal, 5, nil).Epoch.Epoch.Winners++ }},
		{"another use than counted", 2, "I6",
			func(f []Frame) { find(f, KindSeal, 30, nil).Epoch.Use.Slots = nil }},
		{"a seal that comes after the asks are read", 2, "I6", func(f []Frame) {
			e := &find(f, KindTariff, 5, nil).Epoch.Epoch
			a := market.Ask{Owner: "owner-0", Amount: 1}
			e.Seals = slices.Clone(e.Seals)
			e.Seals[0], e.Opened = market.Sealed{Owner: a.Owner, Seal: a.Seal(e.Class, e.Number)},
				append([]market.Ask{a}, e.Opened[1:]...)
		}},
		{"a ceiling lowered after the asks are read", 2, "I6",
			func(f []Frame) { find(f, KindTariff, 5, nil).Epoch.Epoch.Ceiling-- }},
		{"an ask that fits no seal", 2, "I15",
			func(f []Frame) { find(f, KindTariff, 5, nil).Epoch.Epoch.Opened[1].Amount-- }},
		{"a winner thrown out without being lost", 2, "I6", func(f []Frame) {
			r := find(f, KindTariff, 5, func(r *Record) bool { return len(r.Epoch.Epoch.Lost) == 1 })
			r.Epoch.Epoch.Opened = r.Epoch.Epoch.Opened[1:]
		}},
		{"a tariff above the first loser's ask", 4, "I6",
			func(f []Frame) { find(f, KindTariff, 5, nil).Epoch.Tariff.Amount++ }},
		{"a friend among the winners", 4, "I6", func(f []Frame) {
			t := &find(f, KindTariff, 5, nil).Epoch.Tariff
			t.Winners[0], t.Standby[0] = t.Standby[0], t.Winners[0]
		}},
		{"an agent that did not win", 4, "I6",
			round(func(r *market.Round) { r.Sellers[0].Owner = "friend" })},
		{"another tariff than the epoch's", 4, "I6", round(func(r *market.Round) {
			for i := range r.Sellers {
				r.Sellers[i].Tariff--
			}
		})},
		{"a class without an epoch", 4, "I6", round(func(r *market.Round) {
			for i := range r.Sellers {
				r.Sellers[i].Class = "b300"
			}
		})},
		{"posted, and nothing was stopped: prices are claimed", 4, "I6", round(func(r *market.Round) {
			r.Rule.Pricing, r.Rule.Instead = market.PricingPosted, market.PricingTariff
		})},
		{"a hold with another tariff", 4, "I6",
			func(f []Frame) { rehold(f, func(h *Hold) { h.Tariff = 0 }) }},
		{"a tariff above the quote", 2, "I4",
			func(f []Frame) { rehold(f, func(h *Hold) { h.Tariff = h.Quoted + 1 }) }},
		{"a tariff that is not paid", 6, "I5", func(f []Frame) {
			r := find(f, KindCapture, 8, func(r *Record) bool { return r.Capture.Cost > 71_000 })
			h := find(f, KindHold, 0, func(x *Record) bool { return x.ID == r.Capture.Hold }).Hold
			c := *r.Capture
			c.Cost -= h.Tariff
			*r = NewCapture("hub-maths", *h, c, r.Salt)
		}},
	} {
		t.Run(fraud.name, func(t *testing.T) {
			frames := newBazaar(t, 4).trade(4)
			// Rounds are chained by their hashes: what changes one changes all behind it, which is a finding
			// of its own.
			fraud.commit(frames)
			rechain(frames)
			data := store(frames)
			if fraud.level != LevelState {
				if below := audit("h", fraud.level-1, data).Finish(); below.Count != 0 {
					t.Errorf("level %d found %v", fraud.level-1, below.Findings[0])
				}
			}
			r := audit("h", fraud.level, data).Finish()
			if r.Count == 0 {
				t.Fatalf("level %d found nothing", fraud.level)
			}
			if f := r.Findings[0]; f.Level != fraud.level || f.Invariant != fraud.invariant ||
				!strings.HasPrefix(f.Show, "ledger ") {
				t.Errorf("found level %d: %s", f.Level, f)
			}
		})
	}
}

// rechain gives every round and epoch the hash of the round before it again, where it had the true one.
func rechain(frames []Frame) {
	old, now := [32]byte{}, [32]byte{}
	was, is := map[string][32]byte{}, map[string][32]byte{} // at the last record of a class
	for i := range frames {
		for j := range frames[i].Records {
			switch r := &frames[i].Records[j]; {
			case r.Kind == KindRound:
				before := r.Round.Round.Prev
				if before == old {
					r.Round.Round.Prev = now
				}
				// What the hash was before the fraud is what the next one names.
				now = (&roundHead{hash: sha256.Sum256(r.Round.Round.AppendCanonical(nil))}).next(r.Salt)
				old = next(frames[i:], j+1)
			case r.Epoch != nil:
				e := &r.Epoch.Epoch
				if r.Kind == KindSeal {
					if e.Prev == was[e.Class] {
						e.Prev = is[e.Class]
					}
					was[e.Class+"/sealed"], is[e.Class+"/sealed"] = was[e.Class], is[e.Class]
				} else if e.Prev == was[e.Class+"/sealed"] {
					e.Prev = is[e.Class+"/sealed"]
				}
				was[e.Class], is[e.Class] = old, now
			}
		}
	}
}

// next is the Prev of the next round, in frames from a record on.
func next(frames []Frame, from int) [32]byte {
	for i := range frames {
		for _, r := range frames[i].Records[from:] {
			if r.Kind == KindRound {
				return r.Round.Round.Prev
			}
		}
		from = 0
	}
	return [32]byte{}
}
