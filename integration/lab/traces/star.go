package traces

import (
	"math"
	"math/rand/v2"
)

// Star is a supervisor who chooses among five others, each of whom answers to it. Whom it chooses depends on
// who was last, by chances that are drawn once.
type Star struct {
	weights [6][5]float64 // by who was last; 5: nobody
	last    int
}

// NewStar draws the chances. Nobody was chosen yet.
func NewStar(draw *rand.Rand) *Star {
	s := &Star{last: 5}
	for i := range s.weights {
		for j := range s.weights[i] {
			s.weights[i][j] = math.Pow(draw.Float64(), 4)
		}
	}
	return s
}

// Next draws the next role, 0 to 4.
func (s *Star) Next(lots *rand.Rand) (to int) {
	w, sum := &s.weights[s.last], 0.0
	for _, x := range w {
		sum += x
	}
	for x := lots.Float64() * sum; to < 4 && x > w[to]; to++ {
		x -= w[to]
	}
	s.last = to
	return to
}

// Again forgets who was last, and keeps the chances.
func (s *Star) Again() { s.last = 5 }
