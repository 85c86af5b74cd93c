package admission_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"souk/hub/admission"
	"souk/market"
)

// A second of waiting costs every task that declares nothing the same, whatever its tokens, to the last
// nano-credit: else of two that are alike the later might go first. It lasts 45 s and more.
func TestASecondCostsEveryUndeclaredTaskTheSame(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 5))
	d := admission.DefaultTerms()
	for range 20_000 {
		usual := 1 + market.Credits(rng.Int64N(1<<rng.IntN(34)))
		card := market.Credits(rng.Int64N(1 << rng.IntN(36)))
		terms := d.Of(card, usual)
		if err := terms.Validate(); err != nil {
			t.Fatalf("%s where %s is usual: %v", card, usual, err)
		}
		if want := usual.Times(d.Second); terms.Second() != want && terms.Patience < market.MaxPatience {
			t.Fatalf("%s where %s is usual: a second costs %s, want %s", card, usual, terms.Second(), want)
		}
		if want := 12 * max(card, usual); terms.Worth != want || terms.Cap() != want {
			t.Fatalf("%s where %s is usual: worth %s, want %s", card, usual, terms.Worth, want)
		}
		left := terms.Value(market.Quote{Quality: 0.6, TTFT: 45 * time.Second}) - card
		if usual > 1000 && left < 0 {
			t.Fatalf("%s where %s is usual: after 45 s it is worth %s less than it costs", card, usual, -left)
		}
	}
}

// Whatever an operator may configure, and whatever a task costs, its terms are valid.
func FuzzTerms(f *testing.F) {
	f.Add(12.0, 0.8, 0.06, int64(500_000), int64(400_000))
	f.Add(999_999.0, 0.999999, 999_999.0, int64(market.MaxCredits), int64(1))
	f.Add(1e-9, 1e-9, 1e-9, int64(1), int64(market.MaxCredits))
	f.Add(1.0, 0.5, 1.0, int64(0), int64(0))
	f.Fuzz(func(t *testing.T, multiple, delta, second float64, card, usual int64) {
		terms := admission.Terms{Multiple: multiple, Delta: delta, Second: second}
		if terms.Validate() != nil || min(card, usual) < 0 || max(card, usual) > int64(market.MaxCredits) {
			t.Skip()
		}
		if of := terms.Of(market.Credits(card), market.Credits(usual)); of.Validate() != nil {
			t.Errorf("%+v of %d where %d is usual: %+v", terms, card, usual, of)
		}
		if p := terms.Patience(); p <= 0 {
			t.Errorf("%+v: a patience of %v", terms, p)
		}
	})
}
