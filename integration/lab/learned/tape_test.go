package learned

import (
	"math"
	"math/rand/v2"
	"testing"
)

// What a tape says a loss gains by each number is what it gains when that number is a little more.
func TestGradients(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	drawn := func(r, c int) *matrix {
		m := newMatrix(r, c)
		for i := range m.V {
			m.V[i] = random.NormFloat64()
		}
		return m
	}
	for name, c := range map[string]struct {
		of  []*matrix
		out func(t *tape, of []*matrix) *matrix
	}{
		"mul": {[]*matrix{drawn(3, 4), drawn(4, 2)}, func(t *tape,
			of []*matrix) *matrix {
			return t.mul(of[0], of[1])
		}},
		"pair": {[]*matrix{drawn(3, 4), drawn(5, 4)}, func(t *tape,
			of []*matrix) *matrix {
			return t.pair(of[0], of[1])
		}},
		"square": {[]*matrix{drawn(3, 4)}, func(t *tape, of []*matrix) *matrix {
			return t.pair(of[0],
				of[0])
		}},
		"add": {[]*matrix{drawn(3, 4), drawn(1, 4)}, func(t *tape,
			of []*matrix) *matrix {
			return t.add(of[0], of[1])
		}},
		"scale": {[]*matrix{drawn(3, 4), drawn(1, 4)}, func(t *tape,
			of []*matrix) *matrix {
			return t.scale(of[0], of[1])
		}},
		"relu": {[]*matrix{drawn(3, 4)}, func(t *tape, of []*matrix) *matrix { return t.relu(of[0]) }},
		"beside": {[]*matrix{drawn(3, 4), drawn(3, 2)}, func(t *tape,
			of []*matrix) *matrix {
			return t.beside(of[0], of[1])
		}},
		"unit": {[]*matrix{drawn(3, 4)}, func(t *tape, of []*matrix) *matrix { return t.unit(of[0]) }},
		"attend": {[]*matrix{drawn(3, 4), drawn(6, 4), drawn(6, 5)}, func(t *tape, of []*matrix) *matrix {
			return t.attend(of[0], of[1], of[2], []int{2, 0, 2}, 4)
		}},
		"cross": {[]*matrix{drawn(3, 8), drawn(2, 8), drawn(2, 8), drawn(2, 8), drawn(2, 8), drawn(1, 8)},
			func(t *tape, of []*matrix) *matrix { return t.cross(of[0], of[1], of[2], of[3], of[4], of[5]) }},
	} {
		var of tape
		out := c.out(&of, c.of)
		counts := drawn(out.R, out.C)
		loss := func() (sum float64) { return dot(counts.V, c.out(&tape{}, c.of).V) }
		copy(out.G, counts.V)
		of.backward()
		for k, m := range c.of {
			for i, x := range m.V {
				const little = 1e-6
				m.V[i] = x + little
				more := loss()
				m.V[i] = x - little
				gains := (more - loss()) / (2 * little)
				if m.V[i] = x; math.Abs(gains-m.G[i]) > 1e-5*(1+math.Abs(gains)) {
					t.Errorf("%s: by number %d of matrix %d a loss gains %v, the tape says %v", name, i,
						k, gains, m.G[i])
				}
			}
		}
	}
}

// A contrast's gradients are those of its loss.
func TestContrast(t *testing.T) {
	m := newMatrix(1, 4)
	copy(m.V, []float64{0.1, 0.7, -0.2, 0.4})
	columns := []int{2, 0, 3}
	loss := func() float64 {
		var x []float64
		for _, c := range columns {
			x = append(x, m.V[c]/dualTemperature)
		}
		softmax(x)
		return -math.Log(x[0])
	}
	contrasted(m, 0, columns, 1)
	for i, x := range m.V {
		m.V[i] = x + 1e-6
		more := loss()
		m.V[i] = x - 1e-6
		gains := (more - loss()) / 2e-6
		if m.V[i] = x; math.Abs(gains-m.G[i]) > 1e-5 {
			t.Errorf("column %d: %v, want %v", i, m.G[i], gains)
		}
	}
}
