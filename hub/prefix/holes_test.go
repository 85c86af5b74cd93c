package prefix

import (
	"testing"

	"souk/bus"
)

// An agent whose word rules answers for no pictures, so that texts with them are believed in for longer than
// others that begin alike. Of what others hold that says nothing.
func TestATextBehindPicturesHidesNobody(t *testing.T) {
	x, b, other, s := heard()
	s.whole(0.95)
	plain, pictured := chat(text(0, 400), text(1, 50)), chat(text(0, 400), text(2, 400))
	pictured.Loose = bus.LooseMedia
	serve(other, 1, &plain, plain.Tokens, 0, 0)
	serve(b, 2, &pictured, pictured.Tokens, 0, 0)
	serve(b, 3, &plain, plain.Tokens, 0, 400)
	was := other.Depth(&pictured)
	if x.Advance(10 * second); !b.Rules() || was == 0 {
		t.Fatal("the test sees nothing")
	}
	if got := other.Depth(&pictured); got != was {
		t.Errorf("the other is believed to hold %d prefixes, and was %d", got, was)
	}
	if got := other.Depth(&plain); int(got) != len(plain.Prefixes) {
		t.Errorf("the other is believed to hold %d of %d prefixes of what it served", got, len(plain.Prefixes))
	}
}

// Where an agent's word rules, a text with pictures is believed until it is evicted, and what it begins with
// as long as it is of such a text; of one without pictures the agent answers for that.
func TestWhatPicturesBeginWith(t *testing.T) {
	x, b, _, s := heard()
	s.whole(0.95)
	begins, plain := chat(text(0, 400)), chat(text(0, 400), text(1, 50))
	pictured := chat(text(0, 400), text(2, 400))
	pictured.Loose = bus.LooseMedia
	serve(b, 2, &pictured, pictured.Tokens, 0, 0)
	serve(b, 3, &plain, plain.Tokens, 0, 400)
	for _, c := range []struct {
		name            string
		says            []bus.PrefixHash
		pictured, plain int
	}{
		{"it does not say that it holds the beginning", nil, 784, 0},
		{"it says so", begins.Prefixes, 784, 400},
		{"it says that it holds the plain text", plain.Prefixes, 784, 448},
	} {
		x.Advance(x.now + 10*second)
		s.whole(0.95, c.says)
		if !b.Rules() || overlap(b, &pictured) != c.pictured || overlap(b, &plain) != c.plain {
			t.Errorf("%s: %d tokens of the text with pictures, %d of the plain one; want %d and %d", c.name,
				overlap(b, &pictured), overlap(b, &plain), c.pictured, c.plain)
		}
	}
	if err := sound(b); err != nil {
		t.Error(err)
	}
}
