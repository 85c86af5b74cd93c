package market

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// one makes a want of one client alone, which waits beside nobody's free slot.
func one(more Credits, client string) Want { return Want{More: Most{All: more, Client: client}} }

// beside makes the want of a client that waits beside a free slot, which were as good to it at a price.
func beside(more, price Credits, client string) Want {
	return Want{More: Most{All: more, Client: client}, Beside: Most{All: price, Client: client}}
}

// A plan in which one more slot would have added nothing raises no price: what was learned of it is less than
// what is read.
func TestAPlanThatWantsNothingRaisesNoPrice(t *testing.T) {
	for _, idle := range []time.Duration{-time.Minute, time.Second, 3 * time.Second, 30 * time.Second,
		24 * time.Hour} {
		var r Rate
		now := time.Hour.Milliseconds()
		for range 3 {
			now += int64(1000)
			r.learn(now, one(Credit, "ann"))
		}
		now += idle.Milliseconds()
		before := r.PriceAt(now)
		r.learn(now, Want{})
		if after := r.PriceAt(now); after > before {
			t.Errorf("after %v a second costs %s, and %s once a plan wanted nothing", idle, before, after)
		}
	}
}

// Of two clients that want a slot in turn each is to blame for about half of its price.
func TestOneOfTwoInTurn(t *testing.T) {
	var r Rate
	now := int64(1)
	for i := range 400 {
		now += int64(100)
		r.learn(now, one(Credit, string(rune('a'+i%2))))
	}
	for _, client := range []string{"a", "b"} {
		whole, less := r.PriceAt(now), r.Without(now, client)
		if less < whole*2/5 || less > whole*3/5 {
			t.Errorf("a second costs %s, and %s without client %s", whole, less, client)
		}
	}
}

// What a client adds to a price is what the price is more than had the same rounds been held without it, and
// never what others add: rounds of five clients at random, learned beside what each would have left.
func TestWhatAClientAddsToAPrice(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	clients := []string{"a", "b", "c", "d", "e"}
	var all Rate
	var without [5]Rate
	now := int64(1)
	for range 2000 {
		now += rng.Int64N(rng.Int64N(3000) + 1)
		var more, price [5]Credits
		for i := range clients {
			if rng.IntN(3) == 0 {
				more[i] = Credits(rng.Int64N(int64(Credit)))
				if rng.IntN(2) == 0 {
					price[i] = more[i] + Credits(rng.Int64N(int64(5*Credit)))
				}
			}
		}
		want := func(but int) (w Want) {
			for i, c := range clients {
				if i != but {
					w.More.take(more[i], c, i)
					w.Beside.take(price[i], c, i)
				}
			}
			return w
		}
		all.learn(now, want(-1))
		for i, c := range clients {
			without[i].learn(now, want(i))
			// By rounding alone, or where the client's own low worth kept the price down, it is not the same.
			got, most := all.Without(now, c), min(without[i].PriceAt(now), all.PriceAt(now))
			if got > most+2 {
				t.Fatalf("client %s would be charged %s a second, and without it that costs %s", c, got, most)
			}
		}
	}
}

// One plan moves a price no more than half of the way to what it wants, however long there was none before:
// who is there for it, and cancelled before the next, makes nothing dearer than that, for a second.
func TestOnePlanMovesAPriceHalfOfTheWay(t *testing.T) {
	for _, idle := range []int64{1, 100, 1000, 5000, 3_600_000} {
		var r Rate
		now := int64(1)
		r.learn(now, one(Credit, "ann"))
		if p := r.PriceAt(now); p > 0 {
			t.Errorf("a first plan costs %s a second at once", p)
		}
		now += idle
		before := r.PriceAt(now)
		r.learn(now, one(3*Credit, "bob"))
		after := r.PriceAt(now)
		if most := before + (3*Credit-before)/2 + 1; after > most || after <= before {
			t.Errorf("after %d ms one plan moves %s to %s, want more, and at most %s", idle, before, after,
				most)
		}
		if less := r.Without(now, "bob"); less > before {
			t.Errorf("without its only task a second costs %s, and %s before it", less, before)
		}
	}
}

// Where somebody waits beside a free slot a price adds up, to where that slot is as good: by half of what is
// wanted in a second or by half of itself, and by no more in one step, however long there was no plan.
func TestAPriceAddsUpBesideFreeSlots(t *testing.T) {
	for _, idle := range []int64{1, 100, 1000, 5000, 3_600_000} {
		var r Rate
		now := int64(1)
		r.learn(now, one(Credit, "ann"))
		for range 30 {
			before := r.Price
			now += idle
			r.learn(now, beside(3*Credit, 12*Credit, "bob"))
			if r.Price > before+max(3*Credit, before)/2 {
				t.Errorf("after %d ms one plan moves %s to %s", idle, before, r.Price)
			}
			if less := r.Without(now, "bob"); less > before {
				t.Errorf("without its only task a second costs %s, and %s before it", less, before)
			}
		}
		switch p := r.PriceAt(now); {
		case idle == 1000 && p != 12*Credit:
			t.Errorf("after half a minute of wishes a second costs %s, and a free slot is as good at 12", p)
		case idle == 3_600_000 && p > 3*Credit/2:
			t.Errorf("a wish an hour has a second cost %s", p)
		}
		before := r.PriceAt(now + 1000)
		if r.learn(now+1000, one(3*Credit, "bob")); r.Price > before+3*Credit/2 {
			t.Errorf("%s and then %s, once nobody waits beside a free slot", before, r.Price)
		}
	}
}

// No small wish keeps up the price that great ones made: as soon as they are gone it falls, by half with each
// second, to where a free slot is as good to whoever still waits.
func TestASmallWishHoldsNoPrice(t *testing.T) {
	for _, every := range []int64{10, 100, 1000} {
		var r Rate
		now := int64(1)
		wish := func(of time.Duration, more, price Credits, client string) {
			for end := now + of.Milliseconds(); now < end; {
				now += every
				r.learn(now, beside(more, price, client))
			}
		}
		wish(20*time.Second, 30*Credit, 100*Credit, "ann")
		if r.Price < 90*Credit {
			t.Fatalf("each %d ms: a free slot is as good at 100, and a second costs %s", every, r.Price)
		}
		wish(5*time.Second, Credit/1000, Credit/250, "bob")
		if r.Price > 4*Credit {
			t.Errorf("each %d ms: five seconds after a burst a small wish has a second cost %s", every, r.Price)
		}
		wish(20*time.Second, Credit/1000, Credit/250, "bob")
		if r.Price > 4*Credit/1000 {
			t.Errorf("each %d ms: a wish of 0.001 has a second cost %s", every, r.Price)
		}
	}
}

// A greater price before, a greater wish, and a wish beside a free slot never make a price lower, nor do they
// once they are taken away make it higher.
func TestAGreaterWishMakesNoLowerPrice(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	for range 100_000 {
		p, more, dt := Credits(rng.Int64N(1000)), Credits(rng.Int64N(300)), rng.Int64N(5000)
		beside := max(0, more+Credits(rng.Int64N(1000)-500))
		x, by := step(p, more, beside, dt), Credits(rng.Int64N(50))
		if y := step(p+by, more, beside, dt); y < x {
			t.Fatalf("%d, %d, %d ms: from %d to %d, and from %d to %d", more, beside, dt, p, x, p+by, y)
		}
		if y := step(p, more+by, beside, dt); y+1 < x {
			t.Fatalf("from %d in %d ms, beside %d: %d to %d, and %d to %d", p, dt, beside, more, x, more+by, y)
		}
		if y := step(p, more, beside+by, dt); y < x {
			t.Fatalf("from %d in %d ms, %d: beside %d to %d, and %d to %d", p, dt, more, beside, x, beside+by, y)
		}
	}
}

// Nobody is kept out by what he alone would pay for his own slot: whoever keeps slots for longer than others
// makes a second no dearer than it is worth to him, however long he is left.
func TestNobodyOutbidsHimself(t *testing.T) {
	const running = 8
	light, heavy := Stay{Service: time.Second}, Stay{Service: 2 * time.Second, Prefill: time.Second}
	r := Round{
		Rule: taskRule, Tasks: []Task{{ID: "heavy", Client: "ann"}, {ID: "light", Client: "bob"}},
		Agents: []Supply{{Agent: "a", Seats: []Seat{{Slots: 1}}}},
		Edges:  []Edge{{Task: 0, Value: Credit / 10}, {Task: 1, Value: Credit / 5}},
	}
	o, err := Clear(r)
	if err != nil || len(o.Awards) != 1 || o.Awards[0].Task != "light" {
		t.Fatalf("%+v, %v", o, err)
	}
	rates, at := Rates{}, int64(1)
	for range 100 {
		at += 500
		rates.Learn(&r, &o, &Ground{At: at, Stays: []Stay{heavy, light},
			Loads: []Load{{Second: rates.Of("a", at).PriceAt(at), Service: time.Second, Running: running}}})
		toll := heavy.Toll(rates.Of("a", at).PriceAt(at), running, 0)
		if toll > r.Edges[0].Value {
			t.Fatalf("it is worth %s, and would be charged %s", r.Edges[0].Value, toll)
		}
	}
	if toll := heavy.Toll(rates.Of("a", at).PriceAt(at), running, 0); toll < r.Edges[0].Value*9/10 {
		t.Errorf("it is worth %s, would be charged %s, and nobody else makes it cheaper", r.Edges[0].Value, toll)
	}
}

// No times in a record, however far apart, keep a price from being read.
func TestTimesFarApart(t *testing.T) {
	r := Round{Agents: []Supply{{Agent: "a"}}}
	times := []int64{math.MinInt64, -1, 0, 1, 1_800_000_000_000, math.MaxInt64}
	for _, learned := range times {
		for _, at := range times {
			b := (&Ground{At: learned, Loads: make([]Load, 1)}).AppendCanonical(nil)
			d := Decoder{Data: b}
			var g, later Ground
			d.Ground(&r, &g)
			b = (&Ground{At: at, Loads: make([]Load, 1)}).AppendCanonical(nil)
			e := Decoder{Data: b}
			e.Ground(&r, &later)
			if d.Fault != "" || e.Fault != "" {
				continue
			}
			rate := Rate{Price: Credit, At: g.At}
			if p := rate.PriceAt(later.At); p < 0 || p > Credit {
				t.Errorf("learned at %d, a second costs %s at %d", g.At, p, later.At)
			}
		}
	}
}

// Prices and tolls hold at every edge: none is negative, none passes its bound, and they wane by themselves.
func FuzzRate(f *testing.F) {
	f.Add(int64(1), int64(time.Second), int64(1<<62), int64(1<<61), int64(time.Second))
	f.Add(int64(24*time.Hour), int64(0), int64(MaxCredits), int64(0), int64(1<<62))
	f.Fuzz(func(t *testing.T, dt, service, more, others, prefill int64) {
		var r Rate
		now := int64(1)
		for range 4 {
			more := Credits(max(0, min(more, int64(MaxWorth))))
			w := Want{More: Most{All: more, Others: min(more, Credits(max(0, others))), Client: "c"}}
			if service%2 == 0 {
				w.Beside = Most{All: min(more+Credits(max(0, prefill))/2, MaxWorth), Client: "d"}
			}
			r.learn(now, w)
			rates := Rates{Agents: map[AgentID]Rate{"a": r}}
			if err := rates.Validate(); err != nil {
				t.Fatal(err)
			}
			p, less := r.PriceAt(now), r.Without(now, "c")
			if p < 0 || p > MaxWorth || less < 0 || less > p {
				t.Fatalf("a price of %s, without its client %s", p, less)
			}
			stay := Stay{WholeService(time.Duration(service)), WholePrefill(time.Duration(prefill)), 0}
			if x := stay.Toll(p, MaxSlots, 0); x < 0 || x > MaxWorth {
				t.Fatalf("a toll of %s", x)
			}
			now += max(0, min(dt, int64(365*24*time.Hour)))
			if later := r.PriceAt(now); later > p {
				t.Fatalf("%s, and later %s", p, later)
			}
		}
	})
}

// What was wanted long ago costs nothing any more: no nano-credit stays, of a price or of what a client adds
// to it, and of more clients than are remembered those who add most are.
func TestPricesEnd(t *testing.T) {
	var r Rate
	now := int64(1)
	for i := range 2 * mostExcess {
		now += learns
		r.learn(now, one(Credits(1000+1000*i), fmt.Sprint("c", i)))
	}
	last := fmt.Sprint("c", 2*mostExcess-1)
	if r.Without(now, last) == r.PriceAt(now) || len(r.Excess) > mostExcess {
		t.Errorf("%d clients are remembered, and the last is not", len(r.Excess))
	}
	for range 200 {
		now += learns
		r.learn(now, Want{})
	}
	if p := r.PriceAt(now); p != 0 || len(r.Excess) > 0 {
		t.Errorf("after minutes without a wish a second costs %s, and %d clients are to blame", p, len(r.Excess))
	}
}

// A free slot counts as one beside which a task waits if it is worth something to that task by when it comes.
func TestNobodyWaitsBesideASlotOfNoUse(t *testing.T) {
	for name, c := range map[string]struct {
		in, within time.Duration
		counts     bool
	}{
		"at once":                     {counts: true},
		"in a second":                 {in: time.Second, counts: true},
		"beyond the deadline":         {in: 2 * time.Second, within: time.Second},
		"once it is worth too little": {in: 10 * time.Second},
	} {
		r := Round{Rule: taskRule,
			Tasks: []Task{{ID: "a", Client: "ann", Within: c.within, Second: Credit},
				{ID: "b", Client: "bob", Second: 10 * Credit}},
			Agents: []Supply{
				{Agent: "good", Seats: []Seat{{Slots: 1}, {Slots: 1, In: time.Second / 2, Later: true}}},
				{Agent: "other", Seats: []Seat{{Slots: 1, In: c.in}}}},
			Edges: []Edge{{Task: 0, Agent: 0, Value: 9 * Credit}, {Task: 0, Agent: 1, Value: 5 * Credit},
				{Task: 1, Agent: 0, Value: 90 * Credit}}}
		var cut Cutter
		kept, err := cut.Cut(&r, keepsOf(nil, &r), FullShare, nil, 3, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := kept.Wants[0].Beside.All > 0; got != c.counts {
			t.Errorf("%s: %+v", name, kept.Wants[0])
		}
	}
}
