package exact

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestNearThoseOfPackageMath(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 6))
	for range 100_000 {
		x := math.Ldexp(rng.Float64()+math.SmallestNonzeroFloat64, rng.IntN(60)-54)
		if got, want := Ln(x), math.Log(x); math.Abs(got-want) > 4e-16*math.Abs(want) {
			t.Fatalf("ln %v = %v, want %v", x, got, want)
		}
		x = 1400*rng.Float64() - 700
		if got, want := Exp(x), math.Exp(x); math.Abs(got-want) > 1e-10*want {
			t.Fatalf("e^%v = %v, want %v", x, got, want)
		}
	}
	if far, least := Exp(math.Inf(1)), Exp(math.Inf(-1)); far != math.Inf(1) || least != 0 {
		t.Errorf("beyond all numbers it is %v and %v", far, least)
	}
	if Ln(1) != 0 || Exp(0) != 1 {
		t.Errorf("ln 1 is %v, e^0 is %v", Ln(1), Exp(0))
	}
}

// Of any positive matrix the solution is the one that makes the right side; of one that is singular it is
// finite.
func TestSolve(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 6))
	for range 1000 {
		d := 1 + rng.IntN(6)
		root, want := make([][]float64, d), make([]float64, d)
		for i := range d {
			want[i] = 2*rng.Float64() - 1
			for range d {
				root[i] = append(root[i], 2*rng.Float64()-1)
			}
			root[i][i] += 3
		}
		var a []float64
		b := make([]float64, d)
		for i := range d {
			for j := range d {
				v := 0.0
				for k := range d {
					v += root[i][k] * root[j][k]
				}
				if b[i] += v * want[j]; j <= i {
					a = append(a, v)
				}
			}
		}
		Solve(a, b)
		for i, x := range b {
			if math.Abs(x-want[i]) > 1e-9 {
				t.Fatalf("%v is solved as %v", want, b)
			}
		}
	}
	b := []float64{1, 1}
	if Solve([]float64{1, 1, 1}, b); math.IsNaN(b[0]+b[1]) || math.IsInf(b[0]+b[1], 0) {
		t.Errorf("a singular matrix is solved as %v", b)
	}
}
