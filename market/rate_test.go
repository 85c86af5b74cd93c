package market

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// A plan in which one more slot would have added nothing raises no price: what was learned of it is less than
// what is read.
func TestAPlanThatWantsNothingRaisesNoPrice(t *testing.T) {
	for _, idle := range []time.Duration{-time.Minute, time.Second, 3 * time.Second, 30 * time.Second,
		24 * time.Hour} {
		var r Rate
		now := time.Hour.Milliseconds()
		for range 3 {
			now += int64(1000)
			r.learn(now, Want{Credit, 0, "ann"})
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
		r.learn(now, Want{Credit, 0, string(rune('a' + i%2))})
	}
	for _, client := range []string{"a", "b"} {
		whole, less := r.PriceAt(now), r.Without(now, client)
		if less < whole*2/5 || less > whole*3/5 {
			t.Errorf("a second costs %s, and %s without client %s", whole, less, client)
		}
	}
}

// One plan moves a price no more than half of the way to what it wants, however long there was none before:
// who is there for it, and cancelled before the next, makes nothing dearer than that, for a second.
func TestOnePlanMovesAPriceHalfOfTheWay(t *testing.T) {
	for _, idle := range []int64{1, 100, 1000, 5000, 3_600_000} {
		var r Rate
		now := int64(1)
		r.learn(now, Want{Credit, 0, "ann"})
		if p := r.PriceAt(now); p > 0 {
			t.Errorf("a first plan costs %s a second at once", p)
		}
		now += idle
		before := r.PriceAt(now)
		r.learn(now, Want{3 * Credit, 0, "bob"})
		after := r.PriceAt(now)
		if most := before + (3*Credit-before)/2 + 1; after > most || after <= before {
			t.Errorf("after %d ms one plan moves %s to %s, want more, and at most %s", idle, before, after, most)
		}
		if less := r.Without(now, "bob"); less > before {
			t.Errorf("without its only task a second costs %s, and %s before it", less, before)
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
			r.learn(now, Want{more, max(0, min(more, Credits(others))), "c"})
			rates := Rates{Agents: map[AgentID]Rate{"a": r}}
			if err := rates.Validate(); err != nil {
				t.Fatal(err)
			}
			p, w := r.PriceAt(now), r.Without(now, "c")
			if p < 0 || p > MaxWorth || w < 0 || w > p {
				t.Fatalf("a price of %s, without its client %s", p, w)
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
		r.learn(now, Want{Credits(1000 + 1000*i), 0, fmt.Sprint("c", i)})
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
