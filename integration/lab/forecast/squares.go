package forecast

import "math"

// squares are decayed least squares with coefficients at or above 0.
type squares struct {
	xx   [][]float64
	xy   []float64
	coef []float64
	keep float64
	n    int
}

// newSquares forgets so that an observation counts a third after so many. It begins at a line that counts as
// two tasks, of terms as large as usual says.
func newSquares(memory float64, assumed, usual []float64) *squares {
	s := &squares{xy: make([]float64, len(assumed)), coef: append([]float64(nil), assumed...),
		keep: 1 - 1/memory}
	for i, c := range assumed {
		row := make([]float64, len(assumed))
		row[i] = 2 * usual[i] * usual[i]
		s.xx, s.xy[i] = append(s.xx, row), row[i]*c
	}
	return s
}

func (s *squares) learn(x []float64, y float64) {
	for i := range s.xx {
		for j := range s.xx {
			s.xx[i][j] = s.xx[i][j]*s.keep + x[i]*x[j]
		}
		s.xy[i] = s.xy[i]*s.keep + x[i]*y
	}
	if s.n++; s.n < 64 || s.n%8 == 0 {
		s.fit()
	}
}

// fit goes down one coefficient after the other.
func (s *squares) fit() {
	for range 50 {
		moved := 0.0
		for i, row := range s.xx {
			if row[i] <= 0 {
				continue
			}
			sum := s.xy[i]
			for j, c := range s.coef {
				if j != i {
					sum -= row[j] * c
				}
			}
			next := max(0, sum/row[i])
			moved = max(moved, math.Abs(next-s.coef[i])*math.Sqrt(row[i]))
			s.coef[i] = next
		}
		if moved < 1e-6 {
			return
		}
	}
}

func (s *squares) value(x []float64) (y float64) {
	for i, c := range s.coef {
		y += c * x[i]
	}
	return y
}

// outputs expect how long answers are: by the mean of the session, drawn to that of its role, drawn to that
// of all, each by four answers that it is assumed to have had.
type outputs struct {
	all      average
	roles    map[int]*average
	sessions map[int]*average
}

type average struct{ n, sum float64 }

func (a *average) drawn(to float64) float64 {
	if a == nil {
		return to
	}
	return (a.sum + 4*to) / (a.n + 4)
}

func newOutputs() *outputs { return &outputs{average{}, map[int]*average{}, map[int]*average{}} }

func (o *outputs) expect(t *Task) float64 {
	x := o.all.drawn(0.1 * mostTokens)
	return min(o.sessions[t.Session].drawn(o.roles[t.Role].drawn(x)), mostTokens)
}

func (o *outputs) learn(t *Task) {
	of := func(m map[int]*average, key int) *average {
		if m[key] == nil {
			m[key] = &average{}
		}
		return m[key]
	}
	all := []*average{&o.all, of(o.sessions, t.Session)}
	if t.Role >= 0 {
		all = append(all, of(o.roles, t.Role))
	}
	for _, a := range all {
		a.n, a.sum = a.n+1, a.sum+float64(t.Output)
	}
}
