package router

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"souk/hub/regime"
	"souk/market"
)

var r Router

func params(temperature, overlap float64) regime.Params {
	return regime.Params{Temperature: temperature, Overlap: overlap}
}

// Whatever goes in, no toll is above zero, and none is beyond what a round takes.
func TestNoTollIsABonus(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	tolls := 0
	for i := range 20_000 {
		p := params(rng.Float64()*regime.MaxTemperature, rng.Float64())
		switch i % 7 {
		case 0:
			p.Temperature = 0
		case 1:
			p.Overlap = 1
		}
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		scale, saved := market.Credits(rng.Int64()>>rng.IntN(63)), market.Credits(rng.Int64()>>rng.IntN(63))
		draw := r.Draw(regime.Seed([32]byte{byte(i)}, uint64(i)), fmt.Sprint(i), "a")
		if math.IsInf(draw, 0) || math.IsNaN(draw) || draw < -4 || draw > 40 {
			t.Fatalf("draw %v", draw)
		}
		toll := r.Of(p, scale, draw, draw+rng.Float64()*10, saved)
		if toll > 0 || toll < -market.MaxWorth {
			t.Fatalf("%+v: toll %d of scale %d and saved %d", p, toll, scale, saved)
		}
		if toll < 0 {
			tolls++
		}
		if got := r.Of(regime.Default(), scale, draw, draw+1, saved); got != 0 {
			t.Fatalf("the default charges %d", got)
		}
	}
	if tolls < 10_000 {
		t.Errorf("only %d tolls", tolls)
	}
	if got := r.Of(params(1, 0.25), 1000, -1, 2, 400); got != -3300 {
		t.Errorf("toll %d, want 1 * 1000 * -3 - 0.75 * 400", got)
	}
}

// A lone task that takes the best of weight and toll draws its agent from the softmax of the weights at the
// regime's temperature. The seeds are counted, so the outcome is always the same.
func TestALoneTaskDrawsFromTheSoftmax(t *testing.T) {
	weights := []market.Credits{5000, 4000, 3000, 0}
	const scale, n = 1000, 20_000
	for _, p := range []regime.Params{params(0.5, 1), params(2, 1), params(8, 1)} {
		var want, got [4]float64
		sum := 0.0
		for i, w := range weights {
			want[i] = math.Exp(float64(w) / (p.Temperature * scale))
			sum += want[i]
		}
		for round := range n {
			seed := regime.Seed([32]byte{}, uint64(round))
			var draws [4]float64
			most := math.Inf(-1)
			for i := range draws {
				draws[i] = r.Draw(seed, "ann/t", fmt.Sprint("a-", i))
				most = max(most, draws[i])
			}
			best := 0
			for i, w := range weights {
				if w+r.Of(p, scale, draws[i], most, 0) > weights[best]+r.Of(p, scale, draws[best], most, 0) {
					best = i
				}
			}
			got[best]++
		}
		for i := range want {
			share := want[i] / sum
			if sd := math.Sqrt(share * (1 - share) / n); math.Abs(got[i]/n-share) > 4*sd+1e-3 {
				t.Errorf("temperature %v: agent %d drawn %.4f of the time, the softmax says %.4f",
					p.Temperature, i, got[i]/n, share)
			}
		}
	}
}
