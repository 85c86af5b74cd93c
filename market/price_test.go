package market

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestCost(t *testing.T) {
	card := Price{Miss: 3 * Credit, Hit: 3 * Credit / 10, Out: 15 * Credit}
	for _, c := range []struct {
		what string
		u    Usage
		want Credits
	}{
		{"nothing", Usage{}, 0},
		{"1000 in, 400 of them cached, 200 out", Usage{1000, 400, 200}, 600*3000 + 400*300 + 200*15000},
		{"more cached than there is", Usage{10, 99, 0}, 10 * 300},
		{"counts below zero", Usage{-1, -1, -1}, 0},
		{"beyond all money", Usage{math.MaxInt, 0, math.MaxInt}, MaxCredits},
	} {
		if got := card.Cost(c.u); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
	if got := (Price{Miss: 1}).Cost(Usage{Prompt: 1}); got != 1 {
		t.Errorf("a millionth of a nano-credit costs %d, want 1: rounded up", got)
	}
	if got := (Price{Miss: 400_000, Out: 600_000}).Cost(Usage{Prompt: 1, Output: 1}); got != 1 {
		t.Errorf("0.4 and 0.6 cost %d, want 1: rounded once", got)
	}
}

func TestCostAgainstBigIntegers(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 30))
	for range 2000 {
		p := Price{Credits(rng.Int64N(int64(MaxPrice))), 0, Credits(rng.Int64N(int64(MaxPrice)))}
		p.Hit = Credits(rng.Int64N(int64(p.Miss) + 1))
		u := Usage{Prompt: rng.IntN(1 << rng.IntN(40)), Output: rng.IntN(1 << rng.IntN(40))}
		u.Cached = rng.IntN(u.Prompt + 1)
		sum := new(big.Int)
		for _, term := range [][2]int64{{int64(p.Miss), int64(u.Prompt - u.Cached)},
			{int64(p.Hit), int64(u.Cached)}, {int64(p.Out), int64(u.Output)}} {
			sum.Add(sum, new(big.Int).Mul(big.NewInt(term[0]), big.NewInt(term[1])))
		}
		sum.Add(sum, big.NewInt(999_999)).Div(sum, big.NewInt(1_000_000))
		want := MaxCredits
		if sum.IsInt64() {
			want = min(want, Credits(sum.Int64()))
		}
		if got := p.Cost(u); got != want {
			t.Fatalf("seed %d: %+v of %+v costs %d, want %d", seed, u, p, got, want)
		}
		if worst := WorstCase(p, u.Prompt, u.Output); worst < p.Cost(u) {
			t.Fatalf("seed %d: %+v of %+v costs %d, more than the worst case %d", seed, u, p, p.Cost(u),
				worst)
		}
	}
}

func TestSettleReserveHold(t *testing.T) {
	card := Price{Miss: 1_000_000}
	u := Usage{Prompt: 70}
	for _, c := range []struct {
		what      string
		got, want Credits
	}{
		{"metered", Settle(SettleMetered, card, 0, 50, u, 100), 70},
		{"metered, cut at the cap", Settle(SettleMetered, card, 0, 50, u, 60), 60},
		{"quoted", Settle(SettleQuoted, card, 0, 50, u, 100), 50},
		{"quoted, cut at the cap", Settle(SettleQuoted, card, 0, 50, u, 40), 40},
		{"a cap below nothing", Settle(SettleMetered, card, 0, 50, u, -5), 0},
		{"hold", Hold(5, 70, 100), 75},
		{"hold, at most max_price", Hold(5, 70, 60), 60},
		{"hold, beyond all money", Hold(math.MaxInt64, 1, 60), 60},
		{"reserve", Reserve(70, 20, 5, 100), 85},
		{"reserve, worth less than its cost", Reserve(70, 5, 20, 100), 70},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
}

func TestValue(t *testing.T) {
	terms := Terms{Worth: 1000, Delta: 0.75, Patience: 4 * time.Second}
	for _, c := range []struct {
		what  string
		terms Terms
		quote Quote
		want  Credits
	}{
		{"perfect and at once", terms, Quote{Quality: 1}, 750},
		{"late", terms, Quote{Quality: 1, TTFT: 2 * time.Second}, 625},
		{"later than patience", terms, Quote{Quality: 1, TTFT: 8 * time.Second}, 250},
		{"much later", terms, Quote{Quality: 1, TTFT: time.Hour}, 750 - 250*900},
		{"bad and late", terms, Quote{TTFT: 4 * time.Second}, -250},
		{"beyond all money", Terms{Worth: MaxWorth, Patience: 1}, Quote{TTFT: time.Hour}, -MaxCredits},
		{"rounded down", Terms{Worth: 1000, Delta: 1, Patience: 1}, Quote{Quality: 0.9999}, 999},
		{"below zero, rounded down", Terms{Worth: 3, Delta: 0.5, Patience: 1}, Quote{TTFT: 1}, -2},
		{"max_price bounds the worth, not the value", Terms{Worth: 1000, Delta: 1, Patience: 1, MaxPrice: 300},
			Quote{Quality: 1}, 1000},
		{"quality is no number", terms, Quote{Quality: math.NaN()}, -MaxCredits},
		{"delta is no number", Terms{Worth: 1000, Delta: math.NaN(), Patience: 1}, Quote{}, -MaxCredits},
	} {
		if got := c.terms.Value(c.quote); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}

// A second is the fall of the value over a second, rounded up.
func TestSecond(t *testing.T) {
	for _, c := range []struct {
		terms Terms
		want  Credits
	}{
		{Terms{Worth: 1000, Delta: 0.75, Patience: 4 * time.Second}, 63},
		{Terms{Worth: 1000, Delta: 1, Patience: time.Second}, 0},
		{Terms{Worth: MaxWorth, Patience: 1}, MaxCredits},
		{Terms{Worth: 1, Patience: 24 * time.Hour}, 1},
		{Terms{Worth: 1}, 0}, // no terms
	} {
		if got := c.terms.Second(); got != c.want {
			t.Errorf("%+v: a second is %d, want %d", c.terms, got, c.want)
		}
	}
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 31))
	for range 2000 {
		terms := Terms{Worth: Credits(rng.Int64N(int64(Credit))), Delta: rng.Float64(),
			Patience: time.Second + time.Duration(rng.Int64N(int64(time.Hour)))}
		q := Quote{TTFT: time.Duration(rng.Int64N(int64(time.Hour))), Quality: rng.Float64()}
		in := time.Duration(rng.Int64N(int64(time.Minute)))
		now := terms.Value(q)
		q.TTFT += in
		then := terms.Value(q)
		task := Task{Second: terms.Second()}
		seconds := Credits(2 + in/time.Second) // what rounding may come to
		if late := task.Delay(in); then != -MaxCredits && (now-late > then+1 || now-late < then-seconds) {
			t.Fatalf("seed %d: %+v is worth %d, after %v %d, and by its seconds %d", seed, terms, now, in, then,
				now-late)
		}
	}
}

// Where a second costs twice as much after a while, the value falls by what it is said to cost by then, and
// lasts for as long as is said; who does not wait loses nothing by it.
func TestASecondCostsMoreTheLongerOneWaits(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 33))
	for range 2000 {
		terms := Terms{Worth: Credit + Credits(rng.Int64N(int64(Credit))), Delta: rng.Float64() * 0.9,
			Patience: time.Second + time.Duration(rng.Int64N(int64(time.Hour))),
			Doubles:  time.Second + time.Duration(rng.Int64N(int64(10*time.Minute)))}
		flat := terms
		flat.Doubles = 0
		if q := (Quote{Quality: 1}); terms.Value(q) != flat.Value(q) || terms.Second() != flat.Second() {
			t.Fatalf("seed %d: %+v: who does not wait is worth %d", seed, terms, terms.Value(q))
		}
		j := terms.Judge()
		waited := time.Duration(rng.Int64N(int64(20 * time.Minute)))
		value := func(after time.Duration) float64 {
			return float64(terms.Value(Quote{TTFT: after, Quality: 1}))
		}
		const beat = time.Millisecond
		lost := (value(waited) - value(waited+2*beat)) / (2 * beat).Seconds()
		if said := float64(j.Second(waited + beat)); math.Abs(lost-said) > 0.001*said+2/(2*beat).Seconds() {
			t.Fatalf("seed %d: %+v: after %v a second costs %v, and is said to cost %v", seed, terms, waited, lost,
				said)
		}
		c := Credits(rng.Int64N(int64(terms.Worth)))
		if d := j.Lasts(c, waited); d < MaxPatience {
			if lost := value(waited) - value(waited+d); math.Abs(lost-float64(c)) > 0.001*float64(c)+1000 {
				t.Fatalf("seed %d: %+v: after %v, in %v %v is lost, not %d", seed, terms, waited, d, lost, c)
			}
		}
		if j.Second(MaxPatience) < j.Second(waited) || j.Second(1<<62) > MaxCredits {
			t.Fatalf("seed %d: %+v: a second costs %d, and %d", seed, terms, j.Second(MaxPatience), j.Second(1<<62))
		}
	}
}

// A time at so much a second is rounded up once, and never leaves its bounds.
func TestPerSecond(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 32))
	second := big.NewInt(int64(time.Second))
	for range 5000 {
		each, of := Credits(rng.Int64()>>rng.IntN(63)), time.Duration(rng.Int64()>>rng.IntN(63))
		want := new(big.Int).Mul(big.NewInt(int64(each)), big.NewInt(int64(of)))
		want.Add(want, big.NewInt(int64(time.Second)-1)).Div(want, second)
		most := big.NewInt(int64(MaxCredits))
		if want.Cmp(most) > 0 {
			want = most
		}
		if got := PerSecond(each, of); int64(got) != want.Int64() {
			t.Fatalf("seed %d: %v at %d a second is %d, want %v", seed, of, each, got, want)
		}
		if each <= MaxCredits && of <= MaxIn {
			if got := late(each, of); int64(got) != want.Int64() {
				t.Fatalf("seed %d: the check finds %d for %v at %d a second, want %v", seed, got, of, each, want)
			}
		}
	}
	if got := (&Task{Second: 5}).Delay(-time.Second); got != 0 {
		t.Errorf("a time that has passed costs %d", got)
	}
	for _, in := range []time.Duration{time.Second, time.Second + 1} {
		want := map[bool]Credits{false: 5, true: MaxCredits}[in > time.Second]
		if got := (&Task{Second: 5, Within: time.Second}).Delay(in); got != want {
			t.Errorf("within a second %v costs %d, want %d", in, got, want)
		}
	}
}

// By terms that are bounded nothing is worth more than their cap, where no answer is better than best.
func TestBounded(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 33))
	lowered := 0
	for range 5000 {
		terms := Terms{Worth: Credits(rng.Int64N(int64(MaxWorth) >> rng.IntN(50))), Delta: rng.Float64(),
			Patience: time.Second, MaxPrice: Credits(rng.Int64N(int64(MaxWorth) >> rng.IntN(50)))}
		best := rng.Float64()
		got := terms.Bounded(best)
		value := got.Value(Quote{Quality: best})
		if value > terms.Cap() || got.Worth > terms.Worth {
			t.Fatalf("seed %d: %+v is worth %s at most, and bounded %+v %s", seed, terms, terms.Cap(), got, value)
		}
		if got != terms {
			lowered++
			if again := terms; again.Value(Quote{Quality: best}) < terms.Cap() || value < terms.Cap()-1 {
				t.Fatalf("seed %d: %+v was lowered to %+v", seed, terms, got)
			}
		}
	}
	if lowered == 0 {
		t.Error("no worth was lowered: the test sees nothing")
	}
	never := Terms{Worth: 9, Patience: 1, MaxPrice: 1}
	if never.Bounded(1) != never || never.Bounded(0) != never {
		t.Error("terms by which nothing is worth anything were lowered")
	}
}

// Every refusal names the field.
func TestBadPricesAndTerms(t *testing.T) {
	fine := Terms{Worth: 1, Delta: 0.5, Patience: 1}
	for _, c := range []struct {
		err  error
		want string
	}{
		{Price{Miss: 1, Hit: 2}.Validate(), "hit is"},
		{Price{Miss: 1, Hit: -1}.Validate(), "hit is"},
		{Price{Miss: -1}.Validate(), "miss is"},
		{Price{Miss: MaxPrice + 1}.Validate(), "miss is"},
		{Price{Out: -1}.Validate(), "out is"},
		{Price{Out: MaxPrice + 1}.Validate(), "out is"},
		{Terms{Worth: -1, Patience: 1}.Validate(), "worth is"},
		{Terms{Worth: MaxWorth + 1, Patience: 1}.Validate(), "worth is"},
		{Terms{Delta: 1.5, Patience: 1}.Validate(), "delta is"},
		{Terms{Delta: math.NaN(), Patience: 1}.Validate(), "delta is"},
		{Terms{}.Validate(), "patience is"},
		{Terms{Patience: 25 * time.Hour}.Validate(), "patience is"},
		{Terms{Patience: 1, MaxPrice: -1}.Validate(), "max_price is"},
		{fine.Validate(), ""},
		{Price{}.Validate(), ""},
	} {
		if c.want == "" {
			if c.err != nil {
				t.Errorf("refused: %v", c.err)
			}
		} else if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%v, want an error with %q", c.err, c.want)
		}
	}
}
