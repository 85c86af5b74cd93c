package prefix

import "testing"

// Two agents hold what prompts begin with, and only one has learned of its engine how many tokens that has.
// The other guessed more, and takes over the lesser number; what was counted of its own it keeps.
func TestAGuessIsNoMoreThanAnotherCounted(t *testing.T) {
	x := NewIndex(DefaultLimits())
	guesses, knows := x.New(16, 4096), x.New(16, 4096)
	system := text(0, 96)
	own, others, next := chat(system, text(1, 32)), chat(system, text(2, 32)), chat(system, text(3, 32))
	serve(guesses, 0, &own, 160, 1, 0) // 120 of them by bytes
	serve(knows, 0, &others, 128, 1, 0)
	serve(knows, 0, &next, 128, 1, 80)
	of := func(b *Cache, prompt string) int {
		p := chat(system, prompt)
		tokens, _ := b.Expect(&p, p.Tokens)
		return tokens
	}
	before, want := of(guesses, text(4, 32)), of(knows, text(4, 32))
	knows.Recount(&next, guesses)
	if of(knows, text(4, 32)) != want || before <= want {
		t.Fatalf("%d tokens, want %d as before, and fewer than %d", of(knows, text(4, 32)), want, before)
	}
	guesses.Recount(&next, knows)
	if n := of(guesses, text(4, 32)); n != want {
		t.Errorf("%d tokens, and %d where they were counted", n, want)
	}
	whole, _ := guesses.Expect(&own, own.Tokens)
	if guesses.Recount(&own, knows); whole != 160 {
		t.Errorf("a prompt that was counted has %d tokens, want 160", whole)
	}
	if again, _ := guesses.Expect(&own, own.Tokens); again != whole {
		t.Errorf("a prompt that was counted has %d tokens, want %d", again, whole)
	}
}
