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
		{"later than patience", terms, Quote{Quality: 1, TTFT: time.Hour}, 500},
		{"bad and late", terms, Quote{TTFT: time.Hour}, -250},
		{"rounded down", Terms{Worth: 1000, Delta: 1, Patience: 1}, Quote{Quality: 0.9999}, 999},
		{"below zero, rounded down", Terms{Worth: 3, Delta: 0.5, Patience: 1}, Quote{TTFT: 1}, -2},
		{"at most max_price", Terms{Worth: 1000, Delta: 1, Patience: 1, MaxPrice: 300}, Quote{Quality: 1},
			300},
		{"quality is no number", terms, Quote{Quality: math.NaN()}, -1000},
		{"delta is no number", Terms{Worth: 1000, Delta: math.NaN(), Patience: 1}, Quote{}, -1000},
	} {
		if got := c.terms.Value(c.quote); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}

// Every refusal names the field.
func TestBadPricesTermsQuotes(t *testing.T) {
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
		{Quote{TTFT: -1}.Validate(), "ttft is"},
		{Quote{Cost: -1}.Validate(), "cost is"},
		{Quote{Cost: MaxCredits + 1}.Validate(), "cost is"},
		{Quote{Quality: 2}.Validate(), "quality is"},
		{Quote{Quality: math.NaN()}.Validate(), "quality is"},
		{fine.Validate(), ""},
		{Price{}.Validate(), ""},
		{Quote{}.Validate(), ""},
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
