package hub

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// A second of waiting costs every task that declares nothing the same, whatever its tokens, and so does each
// part of its patience; its worth pays for its tokens at any ordinary card.
func TestASecondCostsEveryUndeclaredTaskTheSame(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 5))
	d := Default().Terms
	// at 100 credits for a million of 2048 tokens, of which 0.3 are lost in 10 s
	const second = 100e-6 * 2048 * 0.3 / 10
	dear := market.Price{Miss: d.Worth / 4, Out: d.Worth / 4}
	for range 20000 {
		prompt, output := rng.IntN(1<<rng.IntN(24)), rng.IntN(1<<rng.IntN(24))
		terms := d.Of(prompt, output)
		if err := terms.Validate(); err != nil {
			t.Fatalf("%d+%d tokens: %v", prompt, output, err)
		}
		if terms.Patience < d.Patience/4 || terms.Cap() != terms.Worth {
			t.Fatalf("%d+%d tokens: %+v", prompt, output, terms)
		}
		if cost := dear.Cost(market.Usage{Prompt: prompt, Output: output}); terms.Worth/4 < cost-1 {
			t.Fatalf("%d+%d tokens: worth %s, of which a quarter is not the dear %s", prompt, output,
				terms.Worth,
				cost)
		}
		if terms.Patience == market.MaxPatience {
			continue // of two prompts of the most tokens there are
		}
		wait := time.Duration(rng.Int64N(int64(terms.Patience)))
		lost := terms.Value(market.Quote{Quality: 0.8}) - terms.Value(market.Quote{Quality: 0.8, TTFT: wait})
		want := second * wait.Seconds() * float64(market.Credit)
		if math.Abs(float64(lost)-want) > 2+want*1e-6 {
			t.Fatalf("%d+%d tokens: %v cost %s, want %.0f nano-credits", prompt, output, wait, lost, want)
		}
	}
}

// The hub gives the terms that the configuration says, up to the longest answer that an agent here has
// context for. What a client declares stands; who says what a task is worth has the configured patience.
func TestTermsOfATask(t *testing.T) {
	worth, delta, ms := market.Credits(7), 0.5, int64(300)
	d := Default().Terms
	for _, c := range []struct {
		name string
		said bus.Terms
		want market.Terms
	}{
		{"nothing", bus.Terms{}, d.Of(100, 8192)},
		{"worth", bus.Terms{Worth: &worth}, market.Terms{Worth: 7, Delta: d.Delta, Patience: d.Patience}},
		{"delta", bus.Terms{Delta: &delta},
			market.Terms{Worth: d.Of(100, 8192).Worth, Delta: 0.5, Patience: d.Of(100, 8192).Patience}},
		{"patience", bus.Terms{PatienceMS: &ms}, market.Terms{Worth: d.Of(100, 8192).Worth, Delta: d.Delta,
			Patience: 300 * time.Millisecond}},
	} {
		h := newHouse(t, nil)
		h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
		m := h.task("ann", "t1", func(m *bus.Task) { m.MaxTokens, m.Terms = 1_000_000, c.said })
		task := &task{msg: m}
		h.must(h.n.setTerms(task))
		if task.terms != c.want {
			t.Errorf("%s: terms %+v, want %+v", c.name, task.terms, c.want)
		}
	}
}

// Without a number of tokens every task is as patient: files that say so keep their meaning.
func TestTermsThatAreAsPatient(t *testing.T) {
	d := Default().Terms
	d.Tokens = 0
	for _, n := range []int{0, 1, 1000, 1 << 24} {
		want := market.Terms{Worth: market.Credits(n) * 100_000, Delta: 0.7, Patience: 10 * time.Second}
		if got := d.Of(n, 0); got != want {
			t.Errorf("%d tokens: %+v, want %+v", n, got, want)
		}
	}
}

// Whatever an operator may configure, the terms of a task are valid.
func FuzzTerms(f *testing.F) {
	f.Add(int64(100_000_000_000), int64(10*time.Second), 2048, 500, 1024)
	f.Add(int64(1), int64(1), 1, 0, 0)
	f.Add(int64(market.MaxPrice), int64(market.MaxPatience), bus.MaxTokens, bus.MaxTokens, bus.MaxTokens)
	f.Fuzz(func(t *testing.T, worth, patience int64, tokens, prompt, output int) {
		terms := Terms{Worth: market.Credits(worth), Delta: 0.7, Patience: time.Duration(patience),
			Tokens: tokens}
		if terms.validate() != nil || min(prompt, output) < 0 || max(prompt, output) > bus.MaxTokens {
			t.Skip()
		}
		if of := terms.Of(prompt, output); of.Validate() != nil || of.Worth < 0 {
			t.Errorf("%+v of %d+%d tokens: %+v", terms, prompt, output, of)
		}
	})
}
