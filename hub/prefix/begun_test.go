package prefix

import "testing"

// A prompt whose first token was expected before it was even sent is held at once; one that is expected later
// is held from then on.
func TestAPromptIsHeldFromItsFirstToken(t *testing.T) {
	for _, c := range []struct {
		first  int64
		atOnce bool
	}{{-second, true}, {5 * second, true}, {5*second + 1, false}} {
		x := NewIndex(DefaultLimits())
		x.Advance(5 * second)
		b := x.New(16, 0)
		p := chat(text(0, 400))
		b.Sent(&p, 400, 0, c.first)
		if got := overlap(b, &p); (got > 0) != c.atOnce {
			t.Errorf("first token at %d: %d tokens are believed to be there when it is sent", c.first, got)
		}
		if x.Advance(6 * second); overlap(b, &p) != 384 {
			t.Errorf("first token at %d: %d tokens are believed to be there", c.first, overlap(b, &p))
		}
	}
}

// An engine that began anew holds nothing of a prompt, though the task that it was of still runs: it has not
// begun there. Once it is served, it is held.
func TestAPromptThatRanOnAnEngineThatBeganAnew(t *testing.T) {
	x := NewIndex(DefaultLimits())
	x.Advance(second)
	b := x.New(16, 0)
	old, p := chat(text(1, 400)), chat(text(0, 400))
	serve(b, 1, &old, 400, 0, 0)
	again := b.Sent(&old, 400, 0, second)
	run := b.Sent(&p, 400, 0, second)
	if overlap(b, &p) != 384 || overlap(b, &old) != 384 {
		t.Fatal("they have begun: the test sees nothing")
	}
	b.Forget()
	if overlap(b, &p) != 0 || overlap(b, &old) != 0 {
		t.Errorf("%d and %d tokens are believed to be there", overlap(b, &p), overlap(b, &old))
	}
	if b.Ended(again); overlap(b, &old) != 0 {
		t.Error("nothing is known of what it left")
	}
	if b.Served(run, 2, &p, 400, 0, 0); overlap(b, &p) != 384 {
		t.Error("it was served")
	}
	if err := sound(b); err != nil {
		t.Error(err)
	}
}

// Where an agent's word rules, what it served is believed for as long as it may take to say so and no longer,
// whether the first token came before it was expected or after.
func TestWhatWasServedFadesWheneverItWasExpected(t *testing.T) {
	for _, first := range []int64{1, 4 * second, 5 * second, 6 * second, 60 * second} {
		x, b, _, s := heard()
		s.whole(0.95)
		p := chat(text(0, 400))
		run := b.Sent(&p, 400, 0, first)
		x.Advance(4 * second)
		b.Served(run, 1, &p, 400, 0, 0)
		if x.Advance(5 * second); overlap(b, &p) != 384 {
			t.Errorf("first token at %d s: it was served just now", first/second)
		}
		if x.Advance(7 * second); overlap(b, &p) != 0 || !b.Rules() {
			t.Errorf("first token at %d s: it was served, and the agent does not say that it holds it",
				first/second)
		}
	}
}
