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
