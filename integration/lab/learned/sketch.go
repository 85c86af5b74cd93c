package learned

import (
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"sync"

	"souk/classifier/model"
)

// Of sketches: how many numbers one has, and into how many buckets n-grams are hashed before.
const (
	Size    = 64
	Buckets = 4096
)

// Folds is the number of parts that questions fall into.
const Folds = 5

// Question holds all that a router knows of a question.
type Question struct {
	Fold   int        // its part: weights learned from the others answer it
	Sketch [Size]int8 // of its text; all 0 where that is unknown
}

// FoldOf is the part of a text.
func FoldOf(id uint64) int { return int(mix(id) % Folds) }

// ID is a hash of a question's text.
func ID(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(strings.TrimSpace(text)))
	return h.Sum64()
}

// mix hashes a number to 64 bits (splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// scratches are large, and texts are many.
var scratches = sync.Pool{New: func() any { return new(model.Scratch) }}

// Encoder turns texts into sketches: sums of a row for each distinct n-gram, of length one.
type Encoder struct{ rows *tensor }

// Read returns all that a router knows of a text.
func (e *Encoder) Read(text string) Question {
	s := scratches.Get().(*model.Scratch)
	defer scratches.Put(s)
	var sums [Size]int32
	for _, b := range buckets(s, text) {
		for d, x := range e.rows.bytes[Size*b : Size*(b+1)] {
			sums[d] += int32(x)
		}
	}
	q := Question{Fold: FoldOf(ID(text))}
	length := 0.0
	for _, x := range sums {
		length += float64(x) * float64(x)
	}
	if length == 0 {
		return q
	}
	for d, x := range sums { // a number of a sketch is an eighth, on the mean
		q.Sketch[d] = int8(max(-127, min(127, math.RoundToEven(float64(x)/math.Sqrt(length)*254))))
	}
	return q
}

// Named returns all that a router knows of a question of which only a name is there: numbers drawn by the
// name and by what stands before its first _, so that names which begin alike are alike.
func Named(name string) (q Question) {
	family, _, _ := strings.Cut(name, "_")
	for d := range q.Sketch {
		for _, of := range []string{family, name} {
			q.Sketch[d] += int8(mix(ID(of)+uint64(d))>>63)*46 - 23
		}
	}
	return q
}

// vector is a sketch as numbers of about one, and a one behind them.
func (q *Question) vector(to []float64) {
	for d, x := range q.Sketch {
		to[d] = float64(x) * 8 / 254
	}
	to[Size] = 1
}

// buckets returns the numbers of a text's distinct n-grams, in order.
func buckets(s *model.Scratch, text string) []int {
	var out []int
	for _, f := range s.Extract("", text) {
		out = append(out, int(mix(uint64(f))%Buckets))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// FitEncoder finds the directions in which texts differ most: latent semantic analysis (Deerwester et al.
// 1990) of n-grams, each counted the more the fewer texts have it, by iteration on a subspace. Of how
// questions were answered it knows nothing.
func FitEncoder(texts []string) *Encoder {
	var s model.Scratch
	sets, weight := make([][]int, len(texts)), make([]float64, Buckets)
	for i, text := range texts {
		sets[i] = buckets(&s, text)
		for _, b := range sets[i] {
			weight[b]++
		}
	}
	for b, n := range weight {
		weight[b] = math.Log(float64(len(texts)+1) / (1 + n))
	}
	share := make([]float64, len(texts)) // of a text in what counts: each has length one
	for i, set := range sets {
		sum := 0.0
		for _, b := range set {
			sum += weight[b] * weight[b]
		}
		share[i] = 1 / (sum + 1e-9)
	}
	// the first direction is what all texts have in common, and is left out
	space := newMatrix(Buckets, 1+Size)
	for i := range space.V {
		space.V[i] = float64(int64(mix(uint64(i))))
	}
	orthonormal(space)
	sum := make([]float64, space.C)
	for range 6 {
		next := newMatrix(Buckets, space.C)
		for i, set := range sets {
			clear(sum)
			for _, b := range set {
				axpy(weight[b]*share[i], space.row(b), sum)
			}
			for _, b := range set {
				axpy(weight[b], sum, next.row(b))
			}
		}
		orthonormal(next)
		space = next
	}
	rest := newMatrix(Buckets, Size)
	for b := range Buckets {
		axpy(weight[b], space.row(b)[1:], rest.row(b))
	}
	return &Encoder{asBytes("encoder", rest)}
}

// orthonormal makes columns of a matrix perpendicular to those before and of length one; or nothing, where
// texts are too few for so many.
func orthonormal(m *matrix) {
	columns := make([][]float64, m.C)
	for d := range columns {
		c := make([]float64, m.R)
		for i := range c {
			c[i] = m.V[i*m.C+d]
		}
		for _, before := range columns[:d] {
			axpy(-dot(before, c), before, c)
		}
		length := math.Sqrt(dot(c, c))
		for i := range c {
			if c[i] /= length; length < 1e-9 {
				c[i] = 0
			}
			m.V[i*m.C+d] = c[i]
		}
		columns[d] = c
	}
}
