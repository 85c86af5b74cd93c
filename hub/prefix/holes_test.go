package prefix

import (
	"math/rand/v2"
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

// What an agent served before it was restarted is believed from its beginning as far as it fits, however long
// it said that its prompts were; and of what another holds that says nothing.
func TestALiarThatIsRestartedHidesNobody(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	var wrong error // which may cost another something in another round
	for range 300 {
		x := NewIndex(DefaultLimits())
		now := second
		x.Advance(now)
		b, other := x.New(16, 0), x.New(16, 0)
		var prompts []bus.Prompt
		for range 12 {
			var messages []string
			for m := range 1 + r.IntN(4) {
				messages = append(messages, text(byte(m*2+r.IntN(2)), 20+r.IntN(2)*150))
			}
			prompts = append(prompts, chat(messages...))
		}
		var was [12]int32
		for i := range prompts {
			p := &prompts[i]
			if i%2 == 0 {
				serve(other, 0, p, p.Tokens, 0, 0)
			}
		}
		for i := range prompts {
			was[i] = other.Depth(&prompts[i])
		}
		for range 30 {
			p := &prompts[r.IntN(len(prompts))]
			serve(b, uint64(r.IntN(5)), p, 1+r.IntN(2*p.Tokens), r.IntN(50), r.IntN(p.Tokens+1))
		}
		b.Again()
		for seq := range uint64(10) {
			n := r.IntN(80)
			b.Reported(&bus.Holdings{Seq: 1 + seq, Base: 1 + seq, Parts: 1, Coverage: 0.5,
				Evidence: bus.EvidenceEvents, Blocks: n, Unnamed: n})
			now += r.Int64N(3 * second)
			x.Advance(now)
			for i := range prompts {
				if got := other.Depth(&prompts[i]); got != was[i] {
					t.Fatalf("the other is believed to hold %d prefixes of prompt %d, and was %d", got, i,
						was[i])
				}
			}
			if err := sound(b); err != nil && wrong == nil {
				wrong = err
			}
		}
	}
	if wrong != nil {
		t.Error(wrong)
	}
}

// An agent that was restarted, and whose word rules, is believed to hold what it held before, while what that
// begins with has been served again and is not believed any longer for itself. Of what others hold that says
// nothing.
func TestAnOldTextHidesNobody(t *testing.T) {
	x, b, other, s := heard()
	begins, before := chat(text(0, 400), text(1, 50)), chat(text(0, 400), text(2, 400))
	serve(other, 1, &begins, begins.Tokens, 0, 0)
	serve(b, 2, &before, before.Tokens, 0, 0)
	b.Again()
	s.seq = 1
	b.Reported(&bus.Holdings{Seq: 1, Base: 1, Parts: 1, Coverage: 0.95, Evidence: bus.EvidenceEvents,
		Blocks: 100, Unnamed: 100})
	serve(b, 3, &begins, begins.Tokens, 0, -1)
	was := other.Depth(&before)
	if !b.Rules() || was == 0 || overlap(b, &before) != 784 {
		t.Fatalf("rules %v, %d and %d are believed: the test sees nothing", b.Rules(), was,
			overlap(b, &before))
	}
	x.Advance(5 * second)
	if got := other.Depth(&before); got != was {
		t.Errorf("the other is believed to hold %d prefixes, and was %d", got, was)
	}
	if overlap(b, &before) != 784 || overlap(b, &begins) != 0 {
		t.Errorf("%d tokens of the old text are believed, and %d of one that the agent does not say",
			overlap(b, &before), overlap(b, &begins))
	}
	if err := sound(b); err != nil {
		t.Error(err)
	}
}
