package likeness

import (
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Sketch is what is said of an answer's words, where these are to be compared and not to be told: the least
// of their hashes under a key. Of an answer of few words it has all.
type Sketch []uint32

// SketchWords is how many words a sketch has at most.
const SketchWords = 128

// NewSketch sketches a text.
func NewSketch(text string, key uint64) Sketch {
	var s Sketch
	var d xxhash.Digest
	for _, w := range Words(text) {
		d.ResetWithSeed(key)
		_, _ = d.WriteString(w)
		s = append(s, uint32(d.Sum64()>>32))
	}
	slices.Sort(s)
	s = slices.Compact(s)
	return s[:min(len(s), SketchWords)]
}

// Valid reports whether it may be one.
func (s Sketch) Valid() bool {
	for i := 1; i < len(s); i++ {
		if s[i] <= s[i-1] {
			return false
		}
	}
	return len(s) <= SketchWords
}

// Of reports whether it may be of an answer of so many tokens. Of many words the least hashes are so much the
// closer together; a sketch that has them closer yet was made up, so that nothing can be told by it.
func (s Sketch) Of(tokens int) bool {
	if !s.Valid() {
		return false
	}
	words := float64(len(s))
	if !s.whole() {
		words = float64(len(s)) * (1 << 32) / (float64(s[len(s)-1]) + 1)
	}
	return words <= wordsMost*float64(tokens+wordsMost)
}

// wordsMost is how many different words a token may have: one, and a few by chance of the hashes.
const wordsMost = 4

// whole reports whether it has all words.
func (s Sketch) whole() bool { return len(s) < SketchWords }

// Agree says how far two answers have the same words, from 0 to 1 (the F1 score of their sets, estimated
// where they have many).
func Agree(a, b Sketch) float64 {
	// of the least hashes of both, those that are in both
	all, same := 0, 0
	most := SketchWords
	if a.whole() && b.whole() {
		most = len(a) + len(b)
	}
	i, j := 0, 0
	for ; all < most && (i < len(a) || j < len(b)); all++ {
		switch {
		case j == len(b) || i < len(a) && a[i] < b[j]:
			i++
		case i == len(a) || b[j] < a[i]:
			j++
		default:
			same++
			i, j = i+1, j+1
		}
	}
	if same == 0 {
		return 0
	}
	share := float64(same) / float64(all)
	return 2 * share / (1 + share)
}

// Has reports whether an answer has all words of another. ok is false where that cannot be told.
func (s Sketch) Has(known Sketch) (has, ok bool) {
	for _, w := range known {
		if _, found := slices.BinarySearch(s, w); !found {
			if !s.whole() && len(s) > 0 && w > s[len(s)-1] {
				return false, false
			}
			return false, true
		}
	}
	return len(known) > 0, len(known) > 0
}

// agreed is from which agreement on two answers say the same.
const agreed = 0.5

// Votes are what three answers to one task say of each other: 1 of the two that agree most, and of the third
// how far it agrees with one of them, as a part of that. ok is false where no two say the same. So no answer
// alone makes another look worse.
func Votes(s [3]Sketch) (votes [3]float64, ok bool) {
	// without the first, without the second, without the third
	pairs := [3]float64{Agree(s[1], s[2]), Agree(s[0], s[2]), Agree(s[0], s[1])}
	odd := 0
	for i := range pairs {
		if pairs[i] > pairs[odd] {
			odd = i
		}
	}
	best := pairs[odd]
	if best < agreed {
		return votes, false
	}
	second := max(pairs[(odd+1)%3], pairs[(odd+2)%3])
	votes = [3]float64{1, 1, 1}
	votes[odd] = second / best
	return votes, true
}
