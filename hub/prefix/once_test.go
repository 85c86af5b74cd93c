package prefix

import "testing"

// Where an agent's word rules, it answers for what it says of a text that it served long ago, too: an agent
// whose engine never finds it is not heard for long.
func TestWhatWasServedLongAgoIsAsserted(t *testing.T) {
	x, b, _, s := heard()
	p := chat(text(0, 400), text(1, 400))
	next := chat(text(0, 400), text(1, 400), text(2, 100))
	s.whole(0.95, p.Prefixes)
	serve(b, 1, &p, 800, 300, 0)
	if got := b.Asserted(&p, 800); got != 0 {
		t.Errorf("%d tokens are asserted of what was served just now", got)
	}
	misses := 0
	for range 20 {
		x.Advance(x.now + 10*second)
		s.whole(0.95, p.Prefixes)
		if !b.Speaks() {
			break
		}
		misses++
		asserted := b.Asserted(&p, 800)
		if asserted < 800-3*16 || asserted > 800 {
			t.Fatalf("%d tokens are asserted of 800 that it alone says are there", asserted)
		}
		if got := b.Asserted(&next, 900); got > 800 {
			t.Fatalf("%d tokens are asserted, where it said that it holds 800: of an answer it said nothing", got)
		}
		b.Judge(asserted, 0)
		serve(b, 1, &p, 800, 300, 0)
	}
	if misses != 3 {
		t.Errorf("%d lies are believed, want 3", misses)
	}
}
