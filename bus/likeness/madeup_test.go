package likeness

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// A sketch that its agent made up of the least numbers there are agrees with no honest one, and would hide
// what the answer says. It is seen to be of more words than the answer has tokens; an honest one never is.
func TestASketchOfTheLeastNumbersIsMadeUp(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		words := make([]int, 1+r.IntN(3000))
		for i := range words {
			words[i] = r.IntN(1 << 30)
		}
		s := NewSketch(phrase(words), r.Uint64())
		if len(words) > mostWords {
			words = words[:mostWords]
		}
		if !s.Of(len(words)) {
			t.Fatalf("an answer of %d words, a token each, is taken to be made up", len(words))
		}
		if len(words) > 8*SketchWords && s.Of(len(words)/16) {
			t.Fatalf("%d words are believed to be of %d tokens", len(words), len(words)/16)
		}
	}
	var least Sketch
	for i := range SketchWords {
		least = append(least, uint32(i))
	}
	for tokens := range 10_000 {
		if least.Of(tokens) {
			t.Fatalf("the least numbers are believed to be of an answer of %d tokens", tokens)
		}
	}
	for _, c := range []struct {
		name   string
		s      Sketch
		tokens int
		may    bool
	}{
		{"no words of no tokens", nil, 0, true},
		{"as many words as may come by chance", least[:wordsMost*wordsMost], 0, true},
		{"one more", least[:wordsMost*wordsMost+1], 0, false},
		{"one more, and a token", least[:wordsMost*wordsMost+1], 1, true},
		{"not in order", Sketch{2, 1}, 100, false},
		{"twice the same", Sketch{1, 1}, 100, false},
		{"more than a sketch has", append(least[:SketchWords:SketchWords], 1<<31), 1 << 40, false},
	} {
		if may := c.s.Of(c.tokens); may != c.may {
			t.Errorf("%s: %v", c.name, may)
		}
	}
}

// Of three answers it is the odd one that is judged, whichever it is, by how far it agrees with that of the
// two which it is more like.
func TestTheOddAnswerIsJudgedByWhomItIsMoreLike(t *testing.T) {
	const said = "one two three four five six seven eight nine ten"
	nearly := strings.Replace(said, "nine", "nein", 1) // all but one
	odd := "eleven nein three four five six seven eight zero twelve"
	sketch := func(text string) Sketch { return NewSketch(text, 7) }
	near, far := Agree(sketch(odd), sketch(nearly)), Agree(sketch(odd), sketch(said))
	best := Agree(sketch(said), sketch(nearly))
	if !(near > far && best > near) {
		t.Fatalf("%v, %v and %v: the test sees nothing", best, near, far)
	}
	for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		var three [3]Sketch
		for i, text := range []string{said, nearly, odd} {
			three[order[i]] = sketch(text)
		}
		votes, ok := Votes(three)
		if !ok || votes[order[0]] != 1 || votes[order[1]] != 1 || votes[order[2]] != near/best {
			t.Errorf("in the order %v: %v, %v; want %v of the odd one", order, votes, ok, near/best)
		}
	}
}
