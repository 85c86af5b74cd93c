package regime

import (
	"math"
	"testing"
)

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
