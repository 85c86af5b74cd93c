package likeness

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func phrase(words []int) string {
	var b strings.Builder
	for _, w := range words {
		fmt.Fprintf(&b, "w%d ", w)
	}
	return b.String()
}

// Sketches agree as the sets of words do: exactly where these are small, else nearly.
func TestSketchesAgreeAsWordsDo(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	worst := 0.0
	for range 300 {
		size, same := 1+r.IntN(600), r.Float64()
		var a, b []int
		both := 0
		for w := range size {
			switch {
			case r.Float64() < same:
				a, b = append(a, w), append(b, w)
				both++
			case r.IntN(2) == 0:
				a = append(a, w)
			default:
				b = append(b, w)
			}
		}
		if len(a) == 0 || len(b) == 0 {
			continue
		}
		want := 2 * float64(both) / float64(len(a)+len(b))
		key := r.Uint64()
		p, q := NewSketch(phrase(a), key), NewSketch(phrase(b), key)
		if !p.Valid() || !q.Valid() {
			t.Fatal("a sketch is none")
		}
		got := Agree(p, q)
		if got != Agree(q, p) {
			t.Fatalf("%v one way and %v the other", got, Agree(q, p))
		}
		d := math.Abs(got - want)
		if len(a) < SketchWords && len(b) < SketchWords && d > 1e-12 {
			t.Fatalf("%d and %d words, %d in both: %v, want %v", len(a), len(b), both, got, want)
		}
		worst = max(worst, d)
		if got := Agree(p, NewSketch(phrase(b), key+1)); want > 0.3 && got > 0.2 && len(b) > 20 {
			t.Fatalf("under another key %v", got)
		}
	}
	if worst > 0.25 {
		t.Errorf("off by %v", worst)
	}
}

func TestHas(t *testing.T) {
	const key = 7
	long := NewSketch(phrase(rand.Perm(1000)), key)
	for _, c := range []struct {
		answer  Sketch
		known   string
		has, ok bool
	}{
		{NewSketch("It is Paris, of course.", key), "paris", true, true},
		{NewSketch("It is Lyon.", key), "paris", false, true},
		{NewSketch("The seventh of 12 towns", key), "twelve towns", true, true},
		{NewSketch("paris", key), "", false, false},
		{nil, "paris", false, true},
		{long, "w1 w2 w3 w4 w5 w6 w7 w8 w9", false, false},
	} {
		if has, ok := c.answer.Has(NewSketch(c.known, key)); has != c.has || ok != c.ok {
			t.Errorf("%q in %d words: %v %v, want %v %v", c.known, len(c.answer), has, ok, c.has, c.ok)
		}
	}
}

// Of three answers the one that two others contradict is voted down; one alone cannot make another look
// worse.
func TestVotes(t *testing.T) {
	sketch := func(texts ...string) (s [3]Sketch) {
		for i, x := range texts {
			s[i] = NewSketch(x, 3)
		}
		return s
	}
	const right, same, wrong = "the capital is paris in france", "paris in france, it is", "forty two sheep"
	for _, c := range []struct {
		texts []string
		want  [3]float64
		ok    bool
	}{
		{[]string{right, same, wrong}, [3]float64{1, 1, 0}, true},
		{[]string{wrong, right, same}, [3]float64{0, 1, 1}, true},
		{[]string{right, wrong, right}, [3]float64{1, 0, 1}, true},
		{[]string{right, right, right}, [3]float64{1, 1, 1}, true},
		{[]string{right, wrong, "none of these"}, [3]float64{}, false},
		{[]string{"", "", ""}, [3]float64{}, false},
	} {
		if got, ok := Votes(sketch(c.texts...)); got != c.want || ok != c.ok {
			t.Errorf("%q: %v %v, want %v %v", c.texts, got, ok, c.want, c.ok)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 4))
	lied := 0
	for range 3000 {
		// two honest agents say the same by other words, a third says anything
		base, lie := r.Perm(40), r.Perm(80)[:1+r.IntN(79)]
		var says [2][]int
		for i := range says {
			for _, w := range base {
				if r.IntN(10) > 0 {
					says[i] = append(says[i], w)
				}
			}
		}
		got, ok := Votes(sketch(phrase(says[0]), phrase(lie), phrase(says[1])))
		if Agree(NewSketch(phrase(lie), 3), NewSketch(phrase(says[0]), 3)) > 0.7 ||
			Agree(NewSketch(phrase(lie), 3), NewSketch(phrase(says[1]), 3)) > 0.7 {
			continue // it says what they say
		}
		lied++
		if ok && (got[0] != 1 || got[2] != 1) {
			t.Fatalf("%v: a liar makes one of two that agree look worse", got)
		}
	}
	if lied < 1000 {
		t.Errorf("%d lies: the test sees little", lied)
	}
}
