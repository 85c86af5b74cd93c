package regime

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestLogarithm(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 6))
	for range 100_000 {
		x := math.Ldexp(rng.Float64()+math.SmallestNonzeroFloat64, rng.IntN(60)-54)
		if got, want := Ln(x), math.Log(x); math.Abs(got-want) > 4e-16*math.Abs(want) {
			t.Fatalf("ln %v = %v, want %v", x, got, want)
		}
	}
	if Ln(1) != 0 {
		t.Error("ln 1 is not 0")
	}
}

func TestBadParams(t *testing.T) {
	for _, p := range []Params{{-1, 1}, {math.NaN(), 1}, {MaxTemperature + 1, 1}, {0, 1.5}, {0, -0.1},
		{0, math.NaN()}} {
		if p.Validate() == nil {
			t.Errorf("%+v is taken", p)
		}
	}
	if err := Default().Validate(); err != nil || !Default().Idle() {
		t.Error(err)
	}
}
